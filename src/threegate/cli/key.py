"""`threegate key list|add|rotate|revoke`: who may sign."""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup, add_yes
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.policy.keyring import KeyLine
    from threegate.host.workspace.workspace import Workspace
    from threegate.keys.signers import AllowedSigner
    from threegate.policy.bundle import Bundle

_NAMESPACES = (
    "threegate-approval",
    "threegate-policy",
    "threegate-checkpoint",
    "threegate-tombstone",
    "threegate-clock",
    "threegate-packet",
)
_CHANGE = """\
The change is signed by a current signer: your key, or the one that --key names. It ends every
open approval, so their requests wait for review again; the command says how many and asks first."""
_ROTATE = f"""\
Puts a new key in the place of an old one, whose window ends now, in one change. The new key
proves first that it can sign. What the old one signed before stays valid. {_CHANGE}"""
_REVOKE = f"""\
Refuses every signature the key makes from a time on: now, or when it was lost. What it signed
before stays valid. {_CHANGE}"""


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group("key", "list, add, rotate and revoke the keys that may sign")
    group.command("list", "list who may sign, and when", run=run_list, examples=("key list",))
    _add_add(group)
    rotate = group.command(
        "rotate",
        "put a new key in the place of an old one",
        run=run_rotate,
        about=_ROTATE,
        examples=("key rotate --new new", "key rotate SHA256:4+5es9vC --new ~/.ssh/id_ed25519"),
        key=True,
    )
    rotate.add_argument(
        "fingerprint", nargs="?", metavar="FINGERPRINT", help="the old key; else the one that signs"
    )
    rotate.add_argument(
        "--new", required=True, metavar="FILE", help="the new key: a file, `agent`, or `new`"
    )
    revoke = group.command(
        "revoke",
        "refuse a key from a time on",
        run=run_revoke,
        about=_REVOKE,
        examples=("key revoke SHA256:4+5es9vC --since 2026-11-01T00:00:00Z",),
        key=True,
    )
    revoke.add_argument("fingerprint", metavar="FINGERPRINT", help="the key, or its start")
    revoke.add_argument("--since", metavar="TIME", help="like 2026-11-15T12:00:00Z; else now")
    for parser in (rotate, revoke):
        add_yes(parser)


def _add_add(group: CommandGroup) -> None:
    parser = group.command(
        "add",
        "allow one more key",
        run=run_add,
        about=_CHANGE,
        examples=(
            "key add colleague.pub --name ada",
            "key add audit.pub --name auditor --for threegate-checkpoint",
        ),
        key=True,
    )
    parser.add_argument("public", metavar="PUBLIC", help="a .pub file, or its line in quotes")
    parser.add_argument("--name", required=True, metavar="PRINCIPAL", help="whose key it is")
    parser.add_argument("--from", dest="after", metavar="TIME", help="valid from then on")
    parser.add_argument("--until", dest="before", metavar="TIME", help="valid until then")
    parser.add_argument(
        "--for",
        dest="namespaces",
        action="append",
        choices=_NAMESPACES,
        metavar="NAMESPACE",
        help=f"may sign only this, can be repeated: {', '.join(_NAMESPACES)}",
    )
    add_yes(parser)


def run_list(args: argparse.Namespace, context: Context) -> int:
    """Print the signers."""
    from threegate.host.policy.keyring import list_keys

    with context.workspace(args, reading=True) as ws:
        found = list_keys(ws)
    if args.json:
        context.out.document({"keys": [asdict(line) for line in found]})
        return 0
    head = ("STATE", "FINGERPRINT", "FROM", "UNTIL", "MAY SIGN", "PRINCIPAL")
    context.out.table(head, [_cells(line) for line in found])
    return 0


def _cells(line: "KeyLine") -> tuple[str, ...]:
    from threegate.audit.entry import time_of

    after, before = (
        "-" if moment is None else time_of(moment)
        for moment in (line.valid_after, line.valid_before)
    )
    return (
        line.state,
        line.fingerprint,
        after,
        before,
        ", ".join(line.namespaces),
        line.principal,
    )


def run_add(args: argparse.Namespace, context: Context) -> int:
    """Allow one more key."""
    from threegate.host.policy import keyring
    from threegate.keys.signers import ANY_NAMESPACE

    key = keyring.read_public(args.public, cwd=context.settings.cwd)
    named = args.namespaces or ANY_NAMESPACE
    ordered = [name for name in (*_NAMESPACES, *ANY_NAMESPACE) if name in named]
    after, before = _moment(args.after), _moment(args.before)
    with context.workspace(args) as ws:
        keyring.refuse_listed(ws, key)
        may = "anything" if ordered == list(ANY_NAMESPACE) else ", ".join(ordered)
        _agree(args, context, ws, f"let the key {key.fingerprint} sign {may}, as {args.name}")
        bundle = keyring.add(
            ws,
            context.signer(args, ws),
            principal=args.name,
            key=key,
            valid_after=after,
            valid_before=before,
            namespaces=ordered,
        )
    return _changed(args, context, bundle, f"added {key.fingerprint} {args.name}")


def run_rotate(args: argparse.Namespace, context: Context) -> int:
    """Put a new key in the place of an old one."""
    from threegate.host.keys.operator import choose_key
    from threegate.host.keys.signatures import SshKeygenSigner, public_key_of
    from threegate.host.policy import keyring

    tools = context.tools()
    with context.workspace(args) as ws:
        signer = context.signer(args, ws)
        old = args.fingerprint or public_key_of(signer.key, tools).fingerprint
        # Both before a new key is made for nothing.
        entry = keyring.find_key(ws.bundle.signers, old)
        _agree(args, context, ws, f"put a new key in the place of {_called(entry)}")
        new = choose_key(context.settings, tools, chosen=args.new, workspace=ws.root)
        bundle = keyring.rotate(
            ws,
            context.settings,
            signer,
            old=old,
            new=new,
            new_signer=SshKeygenSigner(new.key, ws.root, tools, context.out.note),
        )
    done = f"rotated to {new.public.fingerprint} {new.key}"
    return _changed(args, context, bundle, done)


def run_revoke(args: argparse.Namespace, context: Context) -> int:
    """Refuse a key from a time on."""
    from threegate.host.policy import keyring

    since = _moment(args.since)
    with context.workspace(args) as ws:
        entry = keyring.find_key(ws.bundle.signers, args.fingerprint)
        # An impossible change is refused before the operator is asked.
        keyring.without_key(ws, entry, ws.clock() if since is None else since)
        _agree(args, context, ws, f"revoke the key {_called(entry)}")
        bundle = keyring.revoke(
            ws,
            context.signer(args, ws),
            fingerprint=entry.key.fingerprint,
            # Not the current second: the key may have signed this very change in it.
            since=_next_second(ws.clock) if since is None else since,
        )
    return _changed(args, context, bundle, f"revoked {entry.key.fingerprint}")


def _agree(args: argparse.Namespace, context: Context, ws: "Workspace", what: str) -> None:
    """Ask before the signers change, and say how many open approvals that ends."""
    from threegate.host.output import counted
    from threegate.host.policy.keyring import open_approvals

    count = open_approvals(ws)
    ended = f" {counted(count, 'open approval')} will end." if count else ""
    context.agree(args, f"{what}?{ended}", undone="the signers did not change")


def _called(entry: "AllowedSigner") -> str:
    return f"{entry.key.fingerprint} of {entry.principal}"


def _next_second(clock: Callable[[], int]) -> int:
    """Wait until this second is over: signatures that the key made in it stay valid."""
    import time

    first = clock()
    while (now := clock()) == first:
        time.sleep(0.02)
    return now


def _moment(text: str | None) -> int | None:
    from threegate.audit.entry import unix_of
    from threegate.base.errors import UsageError
    from threegate.base.text import quote

    try:
        return None if text is None else unix_of(text)
    except ValueError as exc:
        detail = f"{quote(text or '')} is not a time like 2026-11-15T12:00:00Z"
        raise UsageError(detail) from exc


def _changed(args: argparse.Namespace, context: Context, bundle: "Bundle", done: str) -> int:
    if args.json:
        context.out.document({"generation": bundle.generation, "digest": bundle.digest})
    else:
        context.out.line(done)
        context.out.line(f"in force: generation {bundle.generation}, {bundle.digest}")
    return 0
