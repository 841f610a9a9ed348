"""`threegate review [list|show|approve|deny|revoke|export]`: a human decides."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from threegate.cli.grammar import CommandGroup, add_key, add_paging, add_yes
from threegate.host.command_context import Context
from threegate.host.output import counted

if TYPE_CHECKING:
    from threegate.base.errors import HandoffTampered
    from threegate.host.review.approval import GivenApproval, Terms
    from threegate.host.review.sheet import QueueItem, ReviewSheet
    from threegate.host.workspace.workspace import Workspace

_STATES: Final = ("draft", "held", "approved", "claimed", "done", "denied", "expired")
_WAITING: Final = ("draft", "held")
_ID: Final = "the id, or its start with 12 digits or more"
_KEY: Final = "the operator's key: a file, or `agent`; else the one of `init`"
# The next command after an approval: prefix, command, the option for all, what it does.
_NEXT: Final = (("tr-", "run", "--all", "runs"), ("fr-", "fetch", "--approved", "fetches"))
_SESSION: Final = """\
Without a command: an interactive session on the terminal, in which you look at each request
that waits, approve it with your key, or deny it. The commands below do the same in scripts."""
_APPROVE: Final = """\
Shows the request, asks, and signs an approval of exactly these bytes under the rules in force
with your key. It is for one use within an hour unless you say otherwise; policy sets the most.
Several ids are shown and signed one by one: one that is refused is named, and the others go on. A
request whose file was moved or changed by hand is never approved, and is named even if you did not
give its id. The exit code is 0 only if every request was approved and none was tampered with; 76
if one was, else that of the refusals."""
_DENY: Final = """\
The reason is kept beside the request. Its author reads it, CORE included, as data. If one of
several requests cannot be denied, it is named, and the others are denied."""
_EXPORT: Final = """\
Writes approval.md, approval.md.sig and allowed_signers. With these, and without ThreeGate,
`ssh-keygen -Y verify` tells whether the approval was signed, and by whom."""


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group_that_runs(
        "review", "look at requests, approve and deny them", run=run_session, about=_SESSION
    )
    listing = group.command(
        "list",
        "list what waits for you, oldest first",
        run=run_list,
        examples=("review list", "review list --state approved", "review list --json"),
    )
    add_paging(listing)
    words = f"waiting (draft and held, the default), all, or one of {', '.join(_STATES)}"
    listing.add_argument(
        "--state",
        choices=("waiting", "all", *_STATES),
        default="waiting",
        metavar="STATE",
        help=words,
    )
    show = group.command(
        "show",
        "show everything about a request",
        run=run_show,
        examples=("review show tr-0123456789ab", "review show --json fr-0123456789ab"),
    )
    show.add_argument("id", metavar="ID", help=f"a request or an approval: {_ID}")
    _add_approve(group)
    _add_no(group)
    export = group.command(
        "export",
        "write an approval for somebody who has only OpenSSH",
        run=run_export,
        about=_EXPORT,
        examples=("review export ap-0123456789ab /media/usb/approval",),
    )
    export.add_argument("id", metavar="AP", help=f"the approval: {_ID}")
    export.add_argument("directory", metavar="DIR", help="where to; made if it is not there")


def _add_approve(group: CommandGroup) -> None:
    parser = group.command(
        "approve",
        "approve requests, signed with your key",
        run=run_approve,
        about=_APPROVE,
        examples=(
            "review approve tr-0123456789ab",
            "review approve tr-0123456789ab --uses 3 --for 30m",
            "review approve tr-0123456789ab fr-0123456789ab --yes --key agent",
        ),
    )
    add_key(parser, _KEY, below=True)
    parser.add_argument("ids", nargs="+", metavar="ID", help=f"a request: {_ID}")
    parser.add_argument("--uses", type=int, default=1, metavar="N", help="how often; else once")
    parser.add_argument("--for", dest="lifetime", metavar="TIME", help="how long: 30m, 2h, 1d")
    add_yes(parser, "do not show and do not ask")
    parser.add_argument(
        "--accept-rule-of-two",
        action="store_true",
        help="say yes to external input, confidential data and network together",
    )


def _add_no(group: CommandGroup) -> None:
    deny = group.command(
        "deny",
        "deny requests, with a reason",
        run=run_deny,
        about=_DENY,
        examples=("review deny tr-0123456789ab --reason 'asks for more memory than it needs'",),
    )
    deny.add_argument("ids", nargs="+", metavar="ID", help=f"a request: {_ID}")
    deny.add_argument("--reason", required=True, metavar="TEXT", help="why")
    revoke = group.command(
        "revoke",
        "take back approvals that are not spent",
        run=run_revoke,
        examples=("review revoke ap-0123456789ab", "review revoke tr-0123456789ab"),
    )
    revoke.add_argument("id", metavar="ID", help=f"an approval, or a request: {_ID}")


def run_session(args: argparse.Namespace, context: Context) -> int:
    """Review at a terminal until the human leaves."""
    from threegate.host.review.terminal.loop import review_at_terminal

    return review_at_terminal(args, context)


def run_list(args: argparse.Namespace, context: Context) -> int:
    """Print a page of requests."""
    from threegate.host.review.decisions import settle
    from threegate.host.review.requests import report_tampered
    from threegate.host.review.sheet import listed, total

    named = {"waiting": _WAITING, "all": _STATES}
    states: tuple[str, ...] = named.get(args.state, (args.state,))
    aside: dict[str, HandoffTampered] = {}
    with context.workspace(args, reading=True) as ws:
        settle(ws, context.out.note, aside)
        with context.index(ws) as index:
            page = {"limit": args.limit, "skip": (args.page - 1) * args.limit}
            items = list(listed(ws, index, states, **page, aside=aside))
            count = total(index, states)
    if args.json:
        paging = {"page": args.page, "limit": args.limit, "total": count}
        context.out.document({"items": [asdict(item) for item in items], **paging})
    else:
        if items:
            head = ("ID", "STATE", "LANE", "BY", "AGE", "LEFT", "FLAGS", "PURPOSE")
            context.out.table(head, [_cells(item) for item in items])
        context.out.showing(args.page, args.limit, len(items), count)
    return report_tampered(aside, context.out.error)


def _cells(item: "QueueItem") -> tuple[str, ...]:
    from threegate.artifacts.ids import short
    from threegate.host.review.characters import exposed
    from threegate.host.review.render import age

    left = "-" if item.expires_in_seconds is None else age(max(0, item.expires_in_seconds))
    times = (age(item.age_seconds), left)
    purpose = exposed(item.purpose.partition("\n")[0][:200])
    return (short(item.id), item.state, item.lane, item.origin, *times, str(item.flags), purpose)


def run_show(args: argparse.Namespace, context: Context) -> int:
    """Print one request, or one approval."""
    from threegate.artifacts.ids import prefix_of
    from threegate.host.review.decisions import settle
    from threegate.host.review.requests import report_tampered
    from threegate.host.review.sheet import document, read_sheet
    from threegate.host.workspace.places import refuse_absent, resolve

    aside: dict[str, HandoffTampered] = {}
    with context.workspace(args, reading=True) as ws:
        settle(ws, context.out.note, aside)
        request_id = resolve(ws.store, args.id)
        refuse_absent(ws.store, request_id)
        if prefix_of(request_id) == "ap":
            return _show_approval(args, context, ws, request_id)
        with context.index(ws) as index:
            sheet = read_sheet(ws, request_id, index)
    if args.json:
        context.out.document(document(sheet))
    else:
        _print(context, sheet)
    return report_tampered(aside, context.out.error)


def _print(context: Context, sheet: "ReviewSheet") -> None:
    from threegate.host.review.render import lines
    from threegate.host.review.terminal.cells import print_lines

    print_lines(context.out, lines(sheet), colour=context.out.in_colour(context.environ))


def _show_approval(
    args: argparse.Namespace, context: Context, ws: "Workspace", approval_id: str
) -> int:
    from threegate.artifacts.approval import Approval
    from threegate.handoff.approvals import uses_left
    from threegate.handoff.states import state_of
    from threegate.host.workspace.text_form import (
        field_lines,
        how_given,
        section_texts,
        shown,
        spelled_given,
    )

    approval = ws.store.read(approval_id)
    assert isinstance(approval, Approval)
    left, view = uses_left(ws.store, approval, approval_id), shown(approval)
    state, how = (
        state_of(ws.store.locate(approval_id) or ""),
        how_given(ws.store.journal.log, approval_id),
    )
    if args.json:
        parts = {"fields": view.fields, "sections": view.sections}
        standing = {"id": approval_id, "kind": "approval", "state": state, "uses_left": left}
        standing |= {"given": how}
        context.out.document({**standing, **parts})
        return 0
    context.out.line(f"approval {approval_id}")
    own = [("state", state), ("uses left", str(left)), ("given", spelled_given(how))]
    context.out.fields([*own, *field_lines(view.fields)])
    for heading, text in section_texts(view.sections):
        context.out.line()
        context.out.line(heading)
        context.out.foreign(text)
    return 0


def run_approve(args: argparse.Namespace, context: Context) -> int:
    """Show, ask, sign, keep: one request after the other."""
    from threegate.base.errors import UsageError
    from threegate.host.review.approval import refuse_terms
    from threegate.host.review.decisions import settle
    from threegate.host.review.requests import decide_each, report_tampered, worst
    from threegate.host.workspace.places import resolve

    if args.json and not args.yes:
        raise UsageError("--json approves without showing anything", hint="say --yes as well")
    given: list[GivenApproval] = []
    aside: dict[str, HandoffTampered] = {}
    with context.workspace(args) as ws, _telling_approved(args, context, given):
        settle(ws, context.out.note, aside)
        terms = _terms(args)
        refuse_terms(ws.bundle, terms)
        ids = dict.fromkeys(resolve(ws.store, text) for text in args.ids)

        def decide(request_id: str) -> None:
            if request_id in aside:
                raise aside.pop(request_id)
            given.append(_approved(args, context, ws, request_id, terms))
            if not args.json:
                _tell(context, given[-1])

        codes = decide_each(ids, decide, context.out.error)
        return worst([*codes, report_tampered(aside, context.out.error)])


def _approved(
    args: argparse.Namespace, context: Context, ws: "Workspace", request_id: str, terms: "Terms"
) -> "GivenApproval":
    """Show one request, ask, sign and keep; raise if it is not approved."""
    from threegate.artifacts.ids import short
    from threegate.host.keys.signatures import public_key_of
    from threegate.host.review.approval import approve, refuse
    from threegate.host.review.sheet import read_sheet

    with context.index(ws) as index:
        sheet = read_sheet(ws, request_id, index)
    if not args.yes:
        _print(context, sheet)
    refuse(ws, sheet, terms)
    undone = f"{short(request_id)} not approved"
    context.agree(args, _question(ws, sheet, terms), undone=undone)
    signer = context.signer(args, ws)
    key = public_key_of(signer.key, context.tools())
    return approve(ws, sheet, signer, key, terms, given="--yes" if args.yes else "terminal")


@contextmanager
def _telling_approved(
    args: argparse.Namespace, context: Context, given: "list[GivenApproval]"
) -> Iterator[None]:
    """Report at the end what was signed, even if the next request is refused: it is valid."""
    from threegate.artifacts.ids import short

    try:
        yield
    finally:
        if args.json and given:
            context.out.document({"approvals": [_plain(one) for one in given]})
        for prefix, command, rest, does in _NEXT:
            mine = [one.request for one in given if one.request.startswith(prefix)]
            if mine and not args.json:
                which = short(mine[0]) if len(mine) == 1 else rest
                context.out.note(f"`threegate {command} {which}` {does} what is approved")


def _terms(args: argparse.Namespace) -> "Terms":
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.review.approval import Terms
    from threegate.policy.leaves import SECONDS

    try:
        seconds = None if args.lifetime is None else SECONDS.parse(args.lifetime)
    except ValueError as exc:
        detail = f"{quote(args.lifetime)} is not a length of time"
        raise UsageError(detail, hint="like 30m, 2h or 1d") from exc
    return Terms(args.uses, seconds, args.accept_rule_of_two)


def _question(ws: "Workspace", sheet: "ReviewSheet", terms: "Terms") -> str:
    from threegate.artifacts.ids import short
    from threegate.policy.leaves import SECONDS

    usual = ws.bundle.integer("handoff", "approval", "lifetime_seconds")
    lasts = SECONDS.show(usual if terms.seconds is None else terms.seconds)
    flags = f" {counted(len(sheet.flags), 'flag')}." if sheet.flags else ""
    verb = "fetch" if sheet.fetch is not None else "run"
    return f"{verb} {short(sheet.id)}, {counted(terms.uses, 'use')} within {lasts}?{flags}"


def _plain(given: "GivenApproval") -> dict[str, Any]:
    approval = given.approval
    times = {"not_before": approval.not_before, "not_after": approval.not_after}
    who = {"approver": approval.approver, "key": given.fingerprint}
    return {"id": given.id, "request": given.request, "uses": approval.max_uses, **times, **who}


def _tell(context: Context, given: "GivenApproval") -> None:
    approval = given.approval
    uses = counted(approval.max_uses, "use")
    context.out.line(f"approved {given.request} until {approval.not_after}, {uses}")
    context.out.line(f"  {given.id} by {approval.approver} {given.fingerprint}")


def run_deny(args: argparse.Namespace, context: Context) -> int:
    """Deny every request named."""
    from threegate.host.review.decisions import check_reason, deny
    from threegate.host.review.requests import decide_each, worst
    from threegate.host.workspace.places import resolve

    reason = check_reason(args.reason)
    denied: list[str] = []
    try:
        with context.workspace(args) as ws:

            def decide(request_id: str) -> None:
                deny(ws, request_id, reason)
                denied.append(request_id)
                if not args.json:
                    context.out.line(f"denied {request_id}")

            ids = dict.fromkeys(resolve(ws.store, text) for text in args.ids)
            return worst(decide_each(ids, decide, context.out.error))
    finally:  # those before one that stops it are denied
        if args.json and denied:
            context.out.document({"denied": denied})


def run_revoke(args: argparse.Namespace, context: Context) -> int:
    """End approvals."""
    from threegate.host.review.decisions import revoke
    from threegate.host.workspace.places import resolve

    with context.workspace(args) as ws:
        revoked = revoke(ws, resolve(ws.store, args.id))
    if args.json:
        context.out.document({"revoked": revoked})
        return 0
    for approval_id in revoked:
        context.out.line(f"revoked {approval_id}")
    return 0


def run_export(args: argparse.Namespace, context: Context) -> int:
    """Write an approval for somebody else."""
    from threegate.host.review.approval import export
    from threegate.host.workspace.places import resolve

    with context.workspace(args, reading=True) as ws:
        target = context.settings.cwd / args.directory
        done = export(ws, resolve(ws.store, args.id), target)
    if args.json:
        files = [str(done.directory / name) for name in done.names]
        context.out.document({"files": files, "command": done.command})
        return 0
    for name in done.names:
        context.out.line(str(done.directory / name))
    context.out.line(f"check it there: {done.command}")
    return 0
