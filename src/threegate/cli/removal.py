"""`threegate withdraw|forget`: removal of artifacts."""

import argparse
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup, Parser, add_yes
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.provenance.headlines import Lookup

_WITHDRAW = """\
Moves it and everything made from it to quarantine; their bytes stay there with the reason. A
withdrawn artifact is not admitted again. The command lists them and asks first."""
_MOST_LISTED = 20
_FORGET = """\
Removes the bytes for good and leaves a tombstone that you sign. The log keeps the digest and
never had the content. What was made from it may quote it: the answer names those, and --derived
forgets them too. Backups and copies elsewhere are out of reach. `blob-DIGEST` forgets raw or
quarantined bytes."""


def add(commands: CommandGroup) -> None:
    """Add the commands."""
    withdraw = commands.command(
        "withdraw",
        "quarantine an artifact and everything made from it",
        run=run_withdraw,
        about=_WITHDRAW,
        examples=(
            "withdraw rp-0123456789ab --reason 'retracted by its authors'",
            "withdraw rp-0123456789ab --yes --reason 'retracted by its authors'",
        ),
    )
    _add_id_and_reason(withdraw)
    add_yes(withdraw)
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
    add_yes(forget)


def _add_id_and_reason(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the id, or its start with 12 digits or more")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, for the record")


def run_withdraw(args: argparse.Namespace, context: Context) -> int:
    """Quarantine an artifact and all derived from it."""
    from threegate.host.provenance.headlines import copies, lookup
    from threegate.host.workspace.places import ArtifactReader, resolve
    from threegate.host.workspace.removal import checked_reason, remaining, withdraw

    with context.workspace(args) as ws, context.index(ws) as index:
        reason, artifact_id = checked_reason(args.reason), resolve(ws.store, args.id)
        if concerned := remaining(ws.store, index, artifact_id):
            _ask_to_withdraw(args, context, concerned, lookup(ArtifactReader(ws.store), index))
        same = copies(ws.store, index, artifact_id)
        done = withdraw(ws, index, artifact_id, reason)
    if args.json:
        context.out.document({"withdrawn": list(done.ids), "same_work": same})
        return 0
    for artifact_id in done.ids:
        context.out.line(f"withdrawn {artifact_id}")
    if not done.ids:
        context.out.line("nothing left to withdraw")
    _tell_copies(context, same)
    return 0


def _named(artifact_id: str, look: "Lookup") -> str:
    """Return an artifact as a line names it: our words, and last its headline."""
    from threegate.host.provenance.headlines import headline_of

    headline = headline_of(artifact_id, look)
    ours = ", ".join((artifact_id, *headline.ours))
    return f'{ours}: "{headline.text}"' if headline.text else ours


def _ask_to_withdraw(
    args: argparse.Namespace, context: Context, ids: list[str], look: "Lookup"
) -> None:
    from threegate.host.output import counted

    if not (args.json or args.yes):
        for artifact_id in ids[:_MOST_LISTED]:
            context.out.line(f"to quarantine: {_named(artifact_id, look)}")
        if len(ids) > _MOST_LISTED:
            context.out.line(f"to quarantine: {len(ids) - _MOST_LISTED} more")
    question = f"withdraw {counted(len(ids), 'artifact')}, to quarantine?"
    context.agree(args, question, undone="not withdrawn")


def run_forget(args: argparse.Namespace, context: Context) -> int:
    """Remove bytes for good."""
    from threegate.artifacts.ids import short
    from threegate.host.provenance.headlines import copies, lookup
    from threegate.host.workspace.places import ArtifactReader, resolve, resolve_blob
    from threegate.host.workspace.removal import BLOB, forget

    with context.workspace(args) as ws, context.index(ws) as index:
        kind, _, digest = args.id.partition("-")
        if kind == BLOB:
            artifact_id = f"{BLOB}-{resolve_blob(ws.store, digest)}"
        else:
            artifact_id = resolve(ws.store, args.id)
            if not (args.json or args.yes):
                look = lookup(ArtifactReader(ws.store), index)
                context.out.line(f"to forget: {_named(artifact_id, look)}")
        also = " and everything made from it" if args.derived else ""
        question = f"forget {short(artifact_id)}{also} for good?"
        context.agree(args, question, undone="not forgotten")
        same = copies(ws.store, index, artifact_id)
        signer = context.signer(args, ws)
        done = forget(ws, index, artifact_id, args.reason, signer, derived=args.derived)
    if args.json:
        document = {"forgotten": list(done.ids), "may_quote": list(done.may_quote)}
        context.out.document({**document, "same_work": same})
        return 0
    for artifact_id in done.ids:
        context.out.line(f"forgotten {artifact_id}")
    if not done.ids:
        context.out.line("nothing left to forget")
    for artifact_id in done.may_quote:
        context.out.line(f"may quote it: {artifact_id}")
    _tell_copies(context, same)
    return 0


def _tell_copies(context: Context, ids: list[str]) -> None:
    for packet_id in ids:
        context.out.line(f"of the same work, still here: {packet_id}")
