"""`threegate request new|check`: asking for a run, and whether Monty can express it."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from threegate.base.forms import CONFIDENTIALITY
from threegate.cli.grammar import CommandGroup, Parser
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.gates.tool_exec.monty.messages import RefusalFound
    from threegate.host.request.code import ExpressRefused, LaneUse, Program
    from threegate.host.request.creation import Made, Wanted
    from threegate.host.workspace.workspace import Workspace

_NEW = """\
Makes a tool request that waits for review; nothing runs. Everything is judged first: options
against the policy, inputs, and whether Monty can express the code. If anything is wrong,
nothing is stored, except a refusal by Monty.

A .json file is one JSON document and stays as it is, any other file is one text; code sees
values by their names. An artifact (rp, res, an) is named by its id. Limits take the units of
the policy: wall_ms=10s, memory_bytes=128MiB. The heavy lane, era, is taken only where policy
enables it and you say why: not-expressible (Monty's refusal is attached), files (name them with
--output) or binary (a program in place of code, one --arg for each word). A command that a rule
of its profile refuses is refused here, with file and line of the rule.

A run has no network. Where policy lets profiles of the heavy lane have the gateway, --allow-host
asks for it: the code imports `threegate_gateway`, and reaches the hosts you list, no others."""
_CHECK = """\
Asks the lite lane in its sandbox, without running anything: syntax, imports, names, nesting. If
Monty cannot express the code, the answer names construct, line and reason, and is kept under the
digest shown. Findings of the type checker are warnings: Monty can express code that has a bug.

For a request or draft that is a command, it says whether the interpreter ring would let it start.
If not, it names file and line of the rule that refuses it, and the exit code is 77."""
_UNRESOLVED = "unresolved-reference"  # the type checker's name for a name nobody defines


def add(group: CommandGroup) -> None:
    """Add both commands to the group `request`."""
    _add_new(group)
    _add_check(group)


def _add_new(group: CommandGroup) -> None:
    parser = group.command(
        "new",
        "ask for a run, to be reviewed",
        run=run_new,
        about=_NEW,
        examples=(
            "request new --purpose 'rank the samples' --code rank.py --input rows=rows.json",
            "request new --purpose hashes --code h.py --function all --input p=rp-0123456789ab",
            "request new --purpose 'mean of a column' --code m.py --input data=rp-0123456789ab:raw",
            "request new --purpose longer --code - --limit wall_ms=10s < program.py",
            "request new --purpose hashes --code - --function sha256_hex < hash.py",
            "request new --purpose rates --code r.py --backend era --allow-host api.example.org",
        ),
    )
    parser.add_argument("--purpose", required=True, metavar="TEXT", help="what the result is for")
    parser.add_argument("--code", metavar="FILE", help="the program, or - for standard input")
    _add_repeated(parser, "--input", "NAME=FILE|ID|ID:raw", "data the code sees as NAME")
    _add_lite(parser)
    _add_repeated(parser, "--limit", "KEY=VALUE", "a limit other than the lane's default")
    parser.add_argument(
        "--confidentiality",
        choices=CONFIDENTIALITY,
        metavar="LEVEL",
        help=f"one of {', '.join(CONFIDENTIALITY)}; else internal, or that of the strictest input",
    )
    parser.add_argument("--risks", metavar="TEXT", help="what could go wrong")
    _add_heavy(parser)


def _add_lite(parser: Parser) -> None:
    words = "an external function the code may call, or `all` that policy offers"
    _add_repeated(parser, "--function", "NAME", words)
    parser.add_argument(
        "--ring",
        metavar="NAME",
        help="the profile of the interpreter ring; else the default of the lane",
    )


def _add_heavy(parser: Parser) -> None:
    parser.add_argument(
        "--backend", choices=("monty", "era"), default="monty", help="monty, unless you say era"
    )
    parser.add_argument(
        "--why",
        choices=("not-expressible", "files", "binary"),
        metavar="REASON",
        help="why not Monty: not-expressible, files or binary",
    )
    _add_repeated(parser, "--output", "NAME=MAXBYTES", "a file an era run will leave")
    _add_repeated(parser, "--arg", "WORD", "a word of an era command; --arg=-x for options")
    _add_repeated(parser, "--allow-host", "HOST", "a host an era run may ask through the gateway")
    for option, words in (("--up-bytes", "leave"), ("--down-bytes", "come")):
        about = f"the most that may {words} there; else what policy grants"
        parser.add_argument(option, metavar="BYTES", help=about)


def _add_repeated(parser: Parser, option: str, metavar: str, words: str) -> None:
    parser.add_argument(option, action="append", default=[], metavar=metavar, help=words)


def _add_check(group: CommandGroup) -> None:
    parser = group.command(
        "check",
        "ask whether Monty can express a program",
        run=run_check,
        about=_CHECK,
        examples=(
            "request check rank.py --input rows",
            "request check - --function all < hash.py",
            "request check tr-0123456789ab",
        ),
    )
    parser.add_argument(
        "program", metavar="FILE|ID", help="a program, a draft, a request's id, or -"
    )
    _add_repeated(parser, "--input", "NAME", "the name of an input; NAME=FILE will do")
    _add_lite(parser)


def run_new(args: argparse.Namespace, context: Context) -> int:
    """Make a request."""
    from threegate.host.request.code import NotExpressible, asking
    from threegate.host.request.creation import make_request

    with context.workspace(args) as ws, asking(ws) as ask:
        try:
            made = make_request(ws, _wanted(args, context), ask)
        except NotExpressible as exc:
            _tell_refused(args, context, exc.refused, {"id": None, "state": None})
            raise
    _tell_made(args, context, made)
    return 0


def _wanted(args: argparse.Namespace, context: Context) -> "Wanted":
    from threegate.host.request.code import read_code
    from threegate.host.request.creation import NO_RISKS, Wanted

    return Wanted(
        purpose=args.purpose,
        code="" if args.code is None else read_code(args.code, context.stdin),
        risks=NO_RISKS if args.risks is None else args.risks,
        backend=args.backend,
        why=args.why,
        profile=args.ring,
        confidentiality=args.confidentiality,
        inputs=args.input,
        functions=args.function,
        limits=args.limit,
        outputs=args.output,
        argv=args.arg,
        hosts=args.allow_host,
        up_bytes=args.up_bytes,
        down_bytes=args.down_bytes,
    )


def _tell_made(args: argparse.Namespace, context: Context, made: "Made") -> None:
    from threegate.artifacts.ids import short
    from threegate.host.workspace.text_form import shown

    if args.json:
        refusal = None if made.refused is None else made.refused.plain()
        fields = dict(shown(made.request).fields)
        document = {"id": made.id, "state": "held", "fields": fields, "refusal": refusal}
        context.out.document({**document, "warnings": [asdict(one) for one in made.warnings]})
        return
    context.out.line(f"held {made.id}")
    _warn(context, made.warnings)
    context.out.note(f"`threegate review show {short(made.id)}` shows what would run")


def run_check(args: argparse.Namespace, context: Context) -> int:
    """Ask whether a program can be expressed."""
    from threegate.host.request.code import asking, judge, read_program

    with context.workspace(args) as ws, asking(ws) as ask:
        program = read_program(ws, args.program, context.stdin)
        if not program.code:
            return _check_command(args, context, ws, program)
        answer = judge(ws, ask, *_checked(args, ws, program))
    if answer.refused is not None:
        _tell_refused(args, context, answer.refused, {"expressible": False})
        context.out.note(f"hint: {answer.refused.hint}")
        return os.EX_DATAERR
    if args.json:
        warnings = [asdict(one) for one in answer.warnings]
        context.out.document({"expressible": True, "refusal": None, "warnings": warnings})
    else:
        context.out.line("Monty can express it")
        _warn(context, answer.warnings)
    return 0


def _check_command(
    args: argparse.Namespace, context: Context, ws: "Workspace", program: "Program"
) -> int:
    """Say that no rule refuses a command, or raise with the rule that does."""
    from threegate.host.run.verdicts import refuse_missing_here
    from threegate.policy.approvals import command_of, executor_for
    from threegate.policy.ring.compiler import refuse_command

    request = program.request
    assert request is not None
    refuse_command(ws.bundle, executor_for(request), request.profile, command_of(request))
    refuse_missing_here(ws.bundle, request, context.settings)
    if args.json:
        context.out.document({"profile": request.profile, "starts": True})
    else:
        context.out.line(f"no rule of profile {request.profile} refuses the command")
    return 0


def _warn(context: Context, warnings: "Sequence[RefusalFound]") -> None:
    """Say what the type checker noticed; it may be wrong about a program that runs."""
    from threegate.artifacts.tool_request import FUNCTIONS

    for warning in warnings:
        context.out.note(f"warning: line {warning.line}, {warning.construct}: {warning.reason}")
    # The names are ours, so a reason that quotes anything else gives no hint.
    reasons = "".join(one.reason for one in warnings if one.construct == _UNRESOLVED)
    for name in FUNCTIONS:
        if f"`{name}`" in reasons:
            context.out.note(f"hint: `--function {name}` lets the code call it")


def _checked(
    args: argparse.Namespace, ws: "Workspace", program: "Program"
) -> "tuple[str, LaneUse]":
    """Return the code with its functions and inputs, from its request or from the options."""
    from threegate.base.errors import UsageError
    from threegate.host.request.code import LaneUse, widest
    from threegate.host.request.creation import read_functions
    from threegate.host.request.inputs import check_name

    if program.request is not None:
        if args.input or args.function or args.ring:
            raise UsageError("a request says itself what it may use")
        return program.code, program.use(ws.bundle)
    names = sorted({text.partition("=")[0] for text in args.input})
    for name in names:
        check_name(name)
    functions = read_functions(ws.bundle, "monty", args.function)
    profile = args.ring or widest(ws.bundle, names).profile
    return program.code, LaneUse(functions, names, profile)


def _tell_refused(
    args: argparse.Namespace, context: Context, refused: "ExpressRefused", document: dict[str, Any]
) -> None:
    if args.json:
        context.out.document({**document, "refusal": refused.plain(), "warnings": []})
        return
    context.out.line(f"Monty cannot express line {refused.line}")
    context.out.foreign(refused.source)
    told = [("construct", refused.construct), ("reason", refused.reason)]
    told.append(("record", refused.record if refused.kept else "none: not a limit of Monty"))
    context.out.fields(told)
