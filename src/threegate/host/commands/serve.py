"""`threegate serve`: the console, in the operator's browser."""

import argparse
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from threegate.host.context import Context
from threegate.host.grammar import Group

if TYPE_CHECKING:
    from threegate.host.signing import Signer
    from threegate.host.workspace import Workspace
    from threegate.keys.public import PublicKey

PORT = 7433
DEFAULT_WARM = 2
MOST_WARM = 16  # a box that waits takes some forty megabytes
_ABOUT = """\
Serves the console on loopback until it is ended, and prints a link that logs one browser in,
once. Only your own account can connect. Approving is signing with your key, as in `threegate
review`: if it has a passphrase, it is asked for on this terminal. What is approved, here or
elsewhere, runs as it comes, and approved fetch requests are carried out. Boxes for it wait,
proved and under the policy in force; `threegate policy status` shows them. Ctrl-C lets what is
claimed come to its end; a second one stops at once."""
_TOLD = {
    "approved": "approved {request}",
    "denied": "denied {request}",
    "ran": "{request}: {outcome}",
    "not-run": "approved requests do not run: {reason} [{code}]",
    "settled": "{words}",
    "login": "a browser was let in",
    "bug": "unexpected {kind} at {where}",
    "executor": "{executor}: {state}, generation {generation} {reason}",
    "bad-policy": "a policy that does not count: {reason} [{code}]",
    "turned-away": "turned away a connection: {reason}",
    "refused": "refused a request [{code}]",
}


def add(commands: Group) -> None:
    """Add the command."""
    parser = commands.command(
        "serve",
        "serve the console in your browser",
        run=run,
        about=_ABOUT,
        examples=("serve", "serve --port 8080 --key agent"),
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
        help=f"boxes that wait for approved requests, 0 to {MOST_WARM}, else {DEFAULT_WARM}",
    )
    parser.add_argument("--json", action="store_true", help="print every event as a line of JSON")


def run(args: argparse.Namespace, context: Context) -> int:
    """Serve until ended."""
    from threegate.audit.entry import time_of
    from threegate.canonical import encode
    from threegate.host.console.running import Plan, serve
    from threegate.host.settings import unix_now
    from threegate.host.signing import public_key_of

    telling = threading.Lock()

    def signing(ws: "Workspace") -> "tuple[Signer, PublicKey]":
        signer = context.signer(args, ws)
        return signer, public_key_of(signer.key, context.tools())

    def sink(line: Mapping[str, object]) -> None:
        with telling:
            if args.json:
                context.out.line(encode(dict(line)).decode("utf-8"))
                context.out.flush()
            elif str(line["event"]) in _TOLD:
                context.out.note(_TOLD[str(line["event"])].format_map(line))

    def link(address: str) -> None:
        with telling:
            if args.json:
                context.out.line(encode({"event": "link", "link": address}).decode("utf-8"))
            else:
                context.out.line(f"open this link in your browser; it works once: {address}")
            context.out.flush()

    def now() -> str:
        return time_of(unix_now())

    runs = not args.no_run
    serve(Plan(context.root(args), args.port, runs, args.warm, context, signing, now, sink, link))
    return 0
