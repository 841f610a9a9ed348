"""`threegate ring why|learn|import`: the rules for what approved code may import and start.

SECURITY
    Opens the violations that a run reported, which may be any text.  Only names that could be
    modules and paths that could be programs go into the draft, which a human reviews; nothing
    is written or run.
"""

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.artifacts.tool_request import ToolRequest
    from threegate.artifacts.tool_result import ToolResult
    from threegate.host.review.contents import ForeseenAct
    from threegate.host.workspace.workspace import Workspace
    from threegate.policy.ring.proposals import Learned

_WHY = """\
Shows the executor and the profile a request would run under. For each import, program and network
that its code or command shows, it says whether the ring allows it, with file and line of the rule.
Imports by other means than a statement are not visible before the run; the run judges them.
A program of the profile that the guest image lacks, or has only as a link, is `missing`; this is
not checked without an image on this machine. The exit code is 0 if everything is allowed, 77 if
not."""
_LEARN = """\
Takes a result in which the ring refused an import or a program and proposes the narrowest
profile under which it would not have: what the code imports, the programs of its profile, and
the imports and programs that no rule allowed. A name that a rule denies stays denied. What no
profile could allow (a module that Monty lacks, a program that is not in the image, a Python) is
named and left out; if nothing remains, the exit code is 2. Denied patterns and argument rules are
never learned from. The answer is a diff of the policy file to review and edit; nothing
is written, and nothing is in force before `threegate policy apply`."""
_IMPORT = """\
Reads one `interpreter_ring` block, as other systems write it, and prints it as a profile of
this policy. All five rules must be there. `tappass-only` becomes `gateway`, which the default
policy forbids. Nothing is written."""


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group("ring", "what approved code may import, start and reach")
    why = group.command(
        "why",
        "show what the ring would allow and refuse of a request",
        run=run_why,
        about=_WHY,
        examples=("ring why tr-0123456789ab", "ring why tr-0123456789ab --json"),
    )
    why.add_argument("id", metavar="TR", help="a tool request")
    learn = group.command(
        "learn",
        "propose the narrowest profile for a run that was refused something",
        run=run_learn,
        about=_LEARN,
        examples=("ring learn res-0123456789ab --name tables",),
    )
    learn.add_argument("id", metavar="RES", help="a tool result")
    learn.add_argument("--name", metavar="NAME", default="learned", help="of the new profile")
    brought = group.command(
        "import",
        "print a ring of another system as a profile of this policy",
        run=run_import,
        about=_IMPORT,
        examples=("ring import their-policy.yaml --name theirs",),
    )
    brought.add_argument("file", metavar="FILE", help="the file, or - for standard input")
    brought.add_argument("--name", metavar="NAME", default="imported", help="of the profile")


def run_why(args: argparse.Namespace, context: Context) -> int:
    """Show what would be allowed."""
    from threegate.host.review.contents import foresee
    from threegate.host.run.verdicts import missing_here

    with context.workspace(args, reading=True) as ws:
        request = _request(ws, args.id)
        missing = missing_here(ws.bundle, request, context.settings)
        ring, found = foresee(ws.bundle, request, missing)
    if args.json:
        document = {"executor": ring.kind, "profile": ring.plain()}
        context.out.document({**document, "foreseen": [asdict(one) for one in found]})
    else:
        context.out.fields([("executor", ring.kind), ("profile", ring.profile)])
        for one in found:
            _tell(context, one)
    return 0 if all(one.allowed for one in found) else os.EX_NOPERM


def _tell(context: Context, one: "ForeseenAct") -> None:
    from threegate.base.text import quote

    where = f"line {one.line}" if one.line else ""
    verdict = "allowed" if one.allowed else "refused"
    told = f"{verdict}  {one.what:<8} {quote(one.argument, 64):<24} {where:<10}"
    context.out.line(f"{told} {one.rule}, {one.place}")


def run_learn(args: argparse.Namespace, context: Context) -> int:
    """Print a draft."""
    from threegate.base.errors import UsageError

    with context.workspace(args) as ws:
        result = _result(ws, args.id)
        if not result.violations:
            hint = "`ring why` shows what a request would be refused"
            raise UsageError("the ring refused nothing in this run", hint=hint)
        learned = _learned(ws, result, args.name)
        diff = _diff(ws, learned)
    if args.json:
        context.out.document({**asdict(learned), "diff": diff})
        return 0
    context.out.text(diff)
    for name in learned.still_denied:
        context.out.note(f"{name} is denied by name, and stays so")
    for words in learned.beyond:
        context.out.note(words)
    context.out.note("a draft: put it into policy/, `threegate policy diff`, then apply")
    return 0


def _learned(ws: "Workspace", result: "ToolResult", name: str) -> "Learned":
    from threegate.host.review.contents import foresee, imports_in
    from threegate.policy.ring.proposals import LearnedUse, learn

    request = _request(ws, result.request)
    ring, _ = foresee(ws.bundle, request)
    refused = [(one.rule, one.argument.open_for_validation()) for one in result.violations]
    modules = {word.partition(".")[0] for rule, word in refused if rule.endswith("_imports")}
    programs = {word for rule, word in refused if rule == "allowed_binaries"}
    identifiers = {word for word in modules if word.isidentifier()}
    tried = LearnedUse(imports_in(request), identifiers, programs)
    lane = ("tool-exec", "lanes", request.backend)
    known = ws.bundle.words(*lane, "imports") if ws.bundle.has(*lane, "imports") else None
    return learn(ring, tried, lane=request.backend, name=name, known=known)


def _diff(ws: "Workspace", learned: "Learned") -> str:
    import difflib

    from threegate.host.gate_profiles import program_gates
    from threegate.host.policy.changes import edited
    from threegate.policy.compiler import compile_policy
    from threegate.policy.ring.proposals import drafted, refuse_useless
    from threegate.policy.sections import FILES

    compiled = edited(ws)
    place = ws.root / "policy"
    files = {name: (place / name).read_bytes() for name in FILES.values()}
    name = FILES["tool-exec"]
    old = files[name].decode("utf-8")
    new = drafted(old, compiled, learned)
    found = compile_policy({**files, name: new.encode()}, gates=program_gates())
    refuse_useless(found, learned)
    where = f"policy/{name}"
    return "\n".join(
        [*difflib.unified_diff(old.split("\n"), new.split("\n"), where, where, lineterm=""), ""]
    )


def run_import(args: argparse.Namespace, context: Context) -> int:
    """Print a profile."""
    from pathlib import Path

    from threegate.host.request.code import read_code
    from threegate.policy.ring.proposals import import_text

    text = read_code(args.file, context.stdin)
    name = "standard-input" if args.file == "-" else Path(args.file).name
    profile = import_text(name, text.encode("utf-8"), args.name)
    if args.json:
        context.out.document({"name": args.name, "text": profile})
    else:
        context.out.text(profile)
    return 0


def _request(ws: "Workspace", text: str) -> "ToolRequest":
    from threegate.artifacts.tool_request import ToolRequest
    from threegate.base.errors import UsageError
    from threegate.host.workspace.places import resolve

    found = ws.store.read(resolve(ws.store, text))
    if not isinstance(found, ToolRequest):
        raise UsageError("only a tool request runs under a ring", hint="give the id of a tr-")
    return found


def _result(ws: "Workspace", text: str) -> "ToolResult":
    from threegate.artifacts.tool_result import ToolResult
    from threegate.base.errors import UsageError
    from threegate.host.workspace.places import resolve

    found = ws.store.read(resolve(ws.store, text))
    if not isinstance(found, ToolResult):
        raise UsageError("only a tool result has violations", hint="give the id of a res-")
    return found
