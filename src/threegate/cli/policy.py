"""`threegate policy check|show|explain|diff|apply`; `status` and `push` are in `policy_push`."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from threegate.cli import policy_push
from threegate.cli.grammar import CommandGroup, add_yes
from threegate.host.command_context import Context
from threegate.host.output import counted
from threegate.host.policy.rules import SECTIONS

if TYPE_CHECKING:
    from threegate.base.errors import HandoffTampered
    from threegate.host.run.warm.executors import Row
    from threegate.host.workspace.workspace import Workspace
    from threegate.policy.bundle import Bundle, Compiled
    from threegate.policy.decision import Decision
    from threegate.policy.nodes import Change

_APPLY = """\
Shows what the files in policy/ would change, asks, signs the new policy with your key and puts
it in force. The key must be one that the policy in force allows. Executors that wait under
`threegate serve` take it over, and are waited for. Exit code 69 if one of them is not `applied` by
then: the policy is in force all the same, and `policy status` shows each of them. With --wait 0 the
command does not wait and does not check."""
_EXPLAIN = """\
A URL, the id of a request, or `read KIND` or `draft KIND` for a gate: prints every rule that
was tried, with file and line, and the decision."""


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group("policy", "check, explain, compare and apply the rules")
    check = group.command(
        "check",
        "compile the policy files and say where they are wrong",
        run=run_check,
        examples=("policy check", "policy check ./proposed-policy"),
    )
    check.add_argument("directory", nargs="?", metavar="DIR", help="else policy/ of the workspace")
    show = group.command(
        "show",
        "print the rules in force, with file and line",
        run=run_show,
        examples=("policy show", "policy show fetch", "policy show --source allowed_signers"),
    )
    show.add_argument(
        "section", nargs="?", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS)
    )
    show.add_argument(
        "--source",
        choices=("allowed_signers",),
        metavar="FILE",
        help="print the file `allowed_signers` as it is in force",
    )
    _add_explain(group)
    group.command(
        "diff",
        "say what the edited files would widen or narrow",
        run=run_diff,
        examples=("policy diff", "policy diff --json"),
    )
    _add_apply(group)
    policy_push.add(group)


def _add_apply(group: CommandGroup) -> None:
    apply = group.command(
        "apply",
        "put the edited files in force, signed",
        run=run_apply,
        about=_APPLY,
        examples=("policy apply", "policy apply --yes --key ~/.ssh/id_ed25519"),
        key=True,
    )
    add_yes(apply)
    policy_push.add_wait(apply)


def _add_explain(group: CommandGroup) -> None:
    parser = group.command(
        "explain",
        "show every rule that decides a question",
        run=run_explain,
        about=_EXPLAIN,
        examples=(
            "policy explain https://api.crossref.org/works/10.5555/12345678",
            "policy explain tr-0123456789ab",
            "policy explain read tool-result --gate core",
        ),
    )
    parser.add_argument("question", nargs="+", metavar="QUESTION", help="see above")
    parser.add_argument(
        "--gate",
        choices=("core", "fetch", "tool-exec"),
        default="core",
        metavar="GATE",
        help="core (default), fetch or tool-exec",
    )
    parser.add_argument(
        "--integrity",
        choices=("operator", "external"),
        default="operator",
        metavar="LABEL",
        help="of the request that names a URL: operator (default) or external",
    )


def run_check(args: argparse.Namespace, context: Context) -> int:
    """Compile the files; the error says where they are wrong."""
    from threegate.host.gate_profiles import program_gates
    from threegate.host.workspace.applied import POLICY
    from threegate.policy.compiler import load_policy

    if args.directory is not None:
        directory = context.settings.cwd / args.directory
    else:
        directory = context.root(args) / POLICY
    compiled = load_policy(directory, gates=program_gates())
    digests = {name: compiled.section_digest(name) for name in SECTIONS}
    if args.json:
        context.out.document({"ok": True, "sections": digests})
        return 0
    context.out.table(("SECTION", "SHA256"), digests.items())
    context.out.line("valid")
    return 0


def run_show(args: argparse.Namespace, context: Context) -> int:
    """Print the policy in force."""
    from threegate.host.policy.rules import rules_of
    from threegate.keys.signers import emit
    from threegate.policy.nodes import plain

    with context.workspace(args, reading=True) as ws:
        bundle = ws.bundle
    if args.source is not None:
        context.out.text(emit(bundle.signers).decode("ascii"))
        return 0
    names = [args.section] if args.section else list(SECTIONS)
    if args.json:
        sections = {name: plain(bundle.sections[name]) for name in names}
        place = {"generation": bundle.generation, "digest": bundle.digest}
        context.out.document({**place, "sections": sections})
        return 0
    context.out.line(f"generation {bundle.generation}, {bundle.digest}")
    rows = [row for name in names for row in rules_of(bundle, name)]
    context.out.table(("WHERE", "RULE", "VALUE"), rows)
    return 0


def run_explain(args: argparse.Namespace, context: Context) -> int:
    """Print how a question is decided."""
    from threegate.policy.decision import explain, verdict

    with context.workspace(args, reading=True) as ws:
        answers = list(_answers(args, ws))
    if args.json:
        items = [
            {
                "question": what,
                "verdict": verdict(decision),
                "trace": explain(decision),
            }
            for what, decision in answers
        ]
        context.out.document({"decisions": items})
        return 0
    for what, decision in answers:
        context.out.line(what)
        for line in explain(decision):
            context.out.line(f"  {line}")
    return 0


def _answers(args: argparse.Namespace, ws: "Workspace") -> "Iterator[tuple[str, Decision]]":
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.run.verdicts import decisions
    from threegate.policy.decide import may_draft, may_fetch, may_read

    words: list[str] = args.question
    if len(words) == 2 and words[0] in ("read", "draft"):
        decide = may_read if words[0] == "read" else may_draft
        question = f"{args.gate} {words[0]} {quote(words[1])}"
        yield question, decide(ws.bundle, args.gate, words[1])
    elif len(words) == 1 and "://" in words[0]:
        decision = may_fetch(ws.bundle, words[0], integrity=args.integrity)
        yield f"fetch {quote(words[0], 200)}", decision
    elif len(words) == 1 and "-" in words[0]:
        for answer in decisions(ws.bundle, ws.store.read(ws.store.resolve(words[0]))):
            yield answer.question, answer.decision
    else:
        raise UsageError("a question is a URL, an id, `read KIND` or `draft KIND`")


def run_diff(args: argparse.Namespace, context: Context) -> int:
    """Print what would change."""
    from threegate.host.policy.changes import edited
    from threegate.policy.bundle import diff

    with context.workspace(args, reading=True) as ws:
        compiled = edited(ws)
        found = diff(ws.bundle, compiled)
        if args.json:
            context.out.document({"changes": [_document(change) for change in found]})
        else:
            _tell(context, ws.bundle, compiled, found)
    return 0


def _document(change: "Change") -> dict[str, Any]:
    from threegate.policy.nodes import plain

    values = {"old": plain(change.old), "new": plain(change.new)}
    return {"path": change.path, "effect": change.effect, **values, "sentence": change.sentence}


def _tell(
    context: Context, bundle: "Bundle", compiled: "Compiled", found: "Sequence[Change]"
) -> None:
    from threegate.host.workspace.applied import is_in_force
    from threegate.policy.nodes import change_line

    for change in found:
        context.out.line(change_line(change))
    if not found:
        same = is_in_force(bundle, compiled)
        context.out.line("no difference" if same else "no rule differs, only where rules stand")


def run_apply(args: argparse.Namespace, context: Context) -> int:
    """Show, ask, sign, apply."""
    from threegate.host.policy.changes import apply_policy, edited
    from threegate.host.review.decisions import settle
    from threegate.host.review.requests import report_tampered
    from threegate.host.workspace.applied import is_in_force
    from threegate.policy.bundle import diff

    aside: dict[str, HandoffTampered] = {}  # tampering with a request does not stop the policy
    with context.workspace(args) as ws:
        compiled = edited(ws)
        found = diff(ws.bundle, compiled)
        if is_in_force(ws.bundle, compiled):
            if not args.json:
                context.out.line("no difference")
            _applied(args, context, ws.bundle, found)
            return 0
        if not args.json:
            _tell(context, ws.bundle, compiled, found)
        widening = sum(change.effect == "widens" for change in found)
        question = f"apply {counted(len(found), 'change')}, {widening} wider?"
        context.agree(args, question, undone="not applied")
        bundle = apply_policy(ws, compiled, context.signer(args, ws), op="policy.apply")
        asked = ws.store.journal.log.size  # answers from before the new policy do not count
        settle(replace(ws, bundle=bundle), context.out.note, aside)
        rows = policy_push.wait(ws, asked, bundle, args.wait)
    _applied(args, context, bundle, found, rows)
    tampered = report_tampered(aside, context.out.error)
    return tampered or policy_push.exit_code(rows, asked, bundle, args.wait)


def _applied(
    args: argparse.Namespace,
    context: Context,
    bundle: "Bundle",
    found: "Sequence[Change]",
    rows: "Sequence[Row]" = (),
) -> None:
    if args.json:
        place = {"generation": bundle.generation, "digest": bundle.digest}
        changes = [_document(change) for change in found]
        executors = policy_push.plain(rows)
        context.out.document({**place, "changes": changes, "executors": executors})
        return
    context.out.line(f"in force: generation {bundle.generation}, {bundle.digest}")
    if rows:
        policy_push.show(context, rows)
