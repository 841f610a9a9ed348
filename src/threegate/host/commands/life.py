"""`threegate withdraw|forget`: taking artifacts out again."""

import argparse

from threegate.host.context import Context
from threegate.host.grammar import Group, Parser

_WITHDRAW = """\
Moves it and everything made from it to quarantine; their bytes stay there with the reason. A
withdrawn artifact is not admitted again."""
_FORGET = """\
Removes the bytes for good and leaves a tombstone that you sign. The log keeps the digest and
never had the content. What was made from it may quote it: the answer names those, and --derived
forgets them too. Backups and copies elsewhere are out of reach. `blob-DIGEST` forgets raw or
quarantined bytes."""


def add(commands: Group) -> None:
    """Add the commands."""
    withdraw = commands.command(
        "withdraw",
        "quarantine an artifact and everything made from it",
        run=run_withdraw,
        about=_WITHDRAW,
        examples=("withdraw rp-0123456789ab --reason 'retracted by its authors'",),
    )
    _add_id_and_reason(withdraw)
    forget = commands.command(
        "forget",
        "remove an artifact's bytes and leave a signed tombstone",
        run=run_forget,
        about=_FORGET,
        examples=(
            "forget rp-0123456789ab --reason 'personal data'",
            "forget rp-0123456789ab --derived --yes --reason 'personal data'",
        ),
        key=True,
    )
    _add_id_and_reason(forget)
    forget.add_argument("--derived", action="store_true", help="what was made from it as well")
    forget.add_argument("--yes", action="store_true", help="do not ask")


def _add_id_and_reason(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the id, or its start with 12 digits or more")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, for the record")


def run_withdraw(args: argparse.Namespace, context: Context) -> int:
    """Quarantine an artifact and all derived from it."""
    from threegate.host.places import resolve
    from threegate.host.withdraw import withdraw

    with context.workspace(args) as ws, context.index(ws) as index:
        done = withdraw(ws, index, resolve(ws.store, args.id), args.reason)
    if args.json:
        context.out.document({"withdrawn": list(done.ids)})
        return 0
    for artifact_id in done.ids:
        context.out.line(f"withdrawn {artifact_id}")
    if not done.ids:
        context.out.line("nothing left to withdraw")
    return 0


def run_forget(args: argparse.Namespace, context: Context) -> int:
    """Remove bytes for good."""
    from threegate.errors import PolicyDenied
    from threegate.host.forget import BLOB, forget
    from threegate.host.places import resolve, resolve_blob

    with context.workspace(args) as ws, context.index(ws) as index:
        kind, _, digest = args.id.partition("-")
        if kind == BLOB:
            artifact_id = f"{BLOB}-{resolve_blob(ws.store, digest)}"
        else:
            artifact_id = resolve(ws.store, args.id)
        also = " and everything made from it" if args.derived else ""
        question = f"forget {artifact_id}{also} for good?"
        if not args.yes and not context.out.confirm(question):
            raise PolicyDenied("not forgotten: the operator said no", code="TG-ASK-002", hint="")
        signer = context.signer(args, ws)
        done = forget(ws, index, artifact_id, args.reason, signer, derived=args.derived)
    if args.json:
        document = {"forgotten": list(done.ids), "may_quote": list(done.may_quote)}
        context.out.document(document)
        return 0
    for artifact_id in done.ids:
        context.out.line(f"forgotten {artifact_id}")
    if not done.ids:
        context.out.line("nothing left to forget")
    for artifact_id in done.may_quote:
        context.out.line(f"may quote it: {artifact_id}")
    return 0
