"""`threegate serve`: the console, in the operator's browser."""

import argparse
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from pathlib import Path

    from threegate.host.keys.signatures import Signer
    from threegate.host.workspace.workspace import Workspace
    from threegate.keys.public import PublicKey

PORT = 7433
DEFAULT_WARM = 2
MOST_WARM = 16  # a waiting sandbox takes some forty megabytes
_ABOUT = """\
Serves the console on loopback until it is ended, and prints a link that logs in one browser,
once. Only your own account can connect. Approving signs with your key, as in `threegate review`: if
the key has a passphrase, this terminal asks for it. Approved tool and fetch requests run as they
come, also if they were approved elsewhere. Proved sandboxes wait for them under the policy in
force; `threegate policy status` shows these. Ctrl-C lets claimed requests, a question and a search
finish; a second Ctrl-C stops at once.

--link prints a new link to the running console, for another browser or another day. With --socket
the console listens on a file instead of a port; connect your browser, for example by
`ssh -L 7433:FILE`, and name that port with --port. Then every account of the machine that has this
port can connect, and only the login keeps them out. --print-unit prints a unit for your own
systemd, with the other options as you give them."""
_TOLD = {
    "held": "held {requests} for review",
    "approved": "approved {request}",
    "denied": "denied {request}",
    "ran": "{request}: {outcome}",
    "not-run": "approved requests do not run: {reason} [{code}]",
    "not-rated": "waiting requests are not rated: {reason} [{code}]",
    "settled": "{words}",
    "meddled": "{reason} [{code}]",
    "login": "a browser was let in",
    "bug": "unexpected {kind} at {where}",
    "executor": "{executor}: {state}, generation {generation} {reason}",
    "bad-policy": "a policy that is not in force: {reason} [{code}]",
    "turned-away": "turned away a connection: {reason}",
    "refused": "refused a request [{code}]",
}


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "serve",
        "serve the console in your browser",
        run=run,
        about=_ABOUT,
        examples=(
            "serve",
            "serve --port 8080 --key agent",
            "serve --link",
            "serve --socket console.sock --port 7433",
            "serve --print-unit --key agent",
        ),
        json=False,
        key=True,
    )
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help=f"else {PORT}; 0: any")
    parser.add_argument(
        "--no-run", action="store_true", help="run nothing: `threegate run` and `fetch` do"
    )
    parser.add_argument(
        "--warm",
        type=int,
        choices=range(MOST_WARM + 1),
        default=DEFAULT_WARM,
        metavar="N",
        help=f"sandboxes that wait for approved requests, 0 to {MOST_WARM}, else {DEFAULT_WARM}",
    )
    parser.add_argument("--json", action="store_true", help="print every event as a line of JSON")
    parser.add_argument("--socket", metavar="FILE", help="listen on a file, not on a port")
    parser.add_argument("--no-link", action="store_true", help="print no link at the start")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--link", action="store_true", help="print a new link of the one that runs")
    other.add_argument("--print-unit", action="store_true", help="print a unit for systemd --user")


def run(args: argparse.Namespace, context: Context) -> int:
    """Serve until ended, or speak to the one that serves."""
    if args.link:
        return _print_link(args, context)
    if args.print_unit:
        return _print_unit(args, context)
    return _serve(args, context)


def _socket(args: argparse.Namespace, context: Context) -> "Path | None":
    return None if args.socket is None else context.settings.cwd / args.socket


def _print_link(args: argparse.Namespace, context: Context) -> int:
    from threegate.console.service import new_link, place_of

    place = place_of(context.settings.state_home, args.port, _socket(args, context))
    context.out.line(new_link(place))
    return 0


def _print_unit(args: argparse.Namespace, context: Context) -> int:
    from threegate.console.service import unit

    root, place = context.root(args), _socket(args, context)
    words = [sys.executable, "-I", "-m", "threegate", "serve"]
    words += ["-w", str(context.settings.cwd / root), "--port", str(args.port)]
    words += ["--json", "--no-link"]
    words += [] if place is None else ["--socket", str(place)]
    words += ["--no-run"] if args.no_run else ["--warm", str(args.warm)]
    words += [] if args.key is None else ["--key", _key(args.key, context)]
    context.out.text(unit(words))
    return 0


def _key(chosen: str, context: Context) -> str:
    """Return a key as a service finds it, which starts in another directory."""
    from threegate.host.keys.operator import AGENT, named_key

    return chosen if chosen == AGENT else str(named_key(context.settings, chosen))


def _serve(args: argparse.Namespace, context: Context) -> int:
    from threegate.audit.entry import time_of
    from threegate.console.startup import ServePlan, serve
    from threegate.host.keys.signatures import public_key_of
    from threegate.host.settings import unix_now

    def signing(ws: "Workspace") -> "tuple[Signer, PublicKey]":
        signer = context.signer(args, ws)
        return signer, public_key_of(signer.key, context.tools())

    voice = _Voice(context, in_json=args.json)
    serve(
        ServePlan(
            root=context.root(args),
            port=args.port,
            socket=_socket(args, context),
            runs=not args.no_run,
            warm=args.warm,
            context=context,
            signing=signing,
            now=lambda: time_of(unix_now()),
            sink=voice.event,
            link=None if args.no_link else voice.link,
        )
    )
    return 0


class _Voice:
    """Prints events line by line, from any thread."""

    def __init__(self, context: Context, *, in_json: bool) -> None:
        self._out, self._json, self._lock = context.out, in_json, threading.Lock()

    def event(self, line: Mapping[str, object]) -> None:
        """Print an event."""
        kind = str(line["event"])
        with self._lock:
            if self._json:
                self._print(line)
            elif kind in _TOLD:
                self._out.note(_TOLD[kind].format_map(line).rstrip())

    def link(self, address: str) -> None:
        """Print the link."""
        with self._lock:
            if self._json:
                self._print({"event": "link", "link": address})
                return
            self._out.line(f"open this link in your browser; it works once: {address}")
            self._out.flush()

    def _print(self, line: Mapping[str, object]) -> None:
        from threegate.base.canonical import encode

        self._out.line(encode(dict(line)).decode("utf-8"))
        self._out.flush()
