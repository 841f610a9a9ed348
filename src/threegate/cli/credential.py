"""`threegate credential set|list|remove`: the operator's keys for hosts."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.fetch.credentials import CredentialLine

_MAX_LINE_BYTES = 4096
_ABOUT = """\
The value is typed without being shown, or read from standard input. It is never an argument:
every process on the machine could read that. It is kept in your configuration, readable by you
alone. Policy says which hosts take a key and where it goes."""


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group("credential", "keep your keys for hosts that take one")
    parser = group.command(
        "set",
        "keep the key for a host",
        run=run_set,
        about=_ABOUT,
        examples=(
            "credential set api.openalex.org",
            "credential set api.openalex.org < key.txt",
        ),
        json=False,
    )
    parser.add_argument("host", metavar="HOST", help="the host, as policy spells it")
    group.command(
        "list",
        "list the hosts that take a key, never the keys",
        run=run_list,
        examples=("credential list",),
    )
    parser = group.command(
        "remove",
        "forget the key for a host",
        run=run_remove,
        examples=("credential remove api.openalex.org",),
        json=False,
    )
    parser.add_argument("host", metavar="HOST", help="the host")


def run_set(args: argparse.Namespace, context: Context) -> int:
    """Keep a key."""
    from threegate.host.fetch import credentials

    with context.workspace(args) as ws:
        # Before a secret is typed for nothing.
        credentials.place_or_refuse(ws.bundle, args.host)
        value = _read_value(context, args.host)
        place = credentials.store(context.settings, ws.bundle, args.host, value)
    context.out.line(f"kept the key for {args.host}, which goes into {place}")
    return 0


def _read_value(context: Context, host: str) -> bytes:
    """Return the first line of standard input; typed on a terminal, it is not shown."""
    if not context.stdin.isatty():
        return context.stdin.read(_MAX_LINE_BYTES).removesuffix(b"\n")
    with _no_echo(context.stdin.fileno()):
        context.out.note(f"type the key for {host}, which is not shown, and press enter")
        context.out.flush()
        return context.stdin.readline(_MAX_LINE_BYTES).removesuffix(b"\n")


@contextmanager
def _no_echo(terminal: int) -> Iterator[None]:
    """Keep a terminal from showing what is typed; what was typed before is dropped."""
    import termios

    before = termios.tcgetattr(terminal)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    # TCSAFLUSH drops input typed before: it was echoed.
    termios.tcsetattr(terminal, termios.TCSAFLUSH, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def run_list(args: argparse.Namespace, context: Context) -> int:
    """Print which keys are stored."""
    from threegate.audit.entry import time_of
    from threegate.host.fetch.credentials import list_credentials
    from threegate.host.settings import unix_now

    with context.workspace(args, reading=True) as ws:
        found = list_credentials(context.settings, ws.bundle)
    if args.json:
        items = [
            {
                "host": line.host,
                "place": line.place,
                "stored": None if line.stored is None else time_of(line.stored),
                "problem": line.problem or None,
            }
            for line in found
        ]
        context.out.document({"credentials": items})
        return 0
    if found:
        now = unix_now()
        context.out.table(("PLACE", "AGE", "STATE", "HOST"), [_cells(line, now) for line in found])
    else:
        context.out.line("policy names no host that takes a key, and none is stored")
    return 0


def _cells(line: "CredentialLine", now: int) -> tuple[str, ...]:
    state = "not set" if line.stored is None else line.problem or "set"
    return line.place or "-", _age(line.stored, now), state, line.host


def _age(stored: int | None, now: int) -> str:
    if stored is None:
        return "-"
    for seconds, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if now - stored >= 2 * seconds:
            return f"{(now - stored) // seconds} {unit}"
    return "new"


def run_remove(args: argparse.Namespace, context: Context) -> int:
    """Forget a key."""
    from threegate.host.fetch.credentials import remove

    remove(context.settings, args.host)
    context.out.line(f"removed the key for {args.host}")
    return 0
