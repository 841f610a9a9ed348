"""`threegate proxy`: the proxy of FETCH as a service of its own."""

import argparse
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threegate.base.errors import AuditUnavailable
from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context
from threegate.host.output import say_nowhere

if TYPE_CHECKING:
    from threegate.policy.bundle import Bundle

_ABOUT = """\
Starts the proxy in its sandbox and serves at PATH until it is ended. FETCH uses it when its
policy says `proxy: connect:PATH`. It decides by the bundle in FILE, which `threegate infra write`
makes, else by the policy in force in the workspace; SIGHUP makes it read that again, for new
and for open tunnels. Each decision is one line of JSON on stdout. docs/deployment.md says
how to run it under an account of its own."""


def add(commands: CommandGroup) -> None:
    """Add the command."""
    group = commands.group("proxy", "the proxy of FETCH as a service")
    parser = group.command(
        "serve",
        "serve as the proxy of FETCH until ended",
        run=run,
        about=_ABOUT,
        examples=(
            "proxy serve --socket /run/threegate/proxy.sock --bundle /etc/threegate/bundle.json",
            "proxy serve --socket proxy.sock",
        ),
        json=False,
    )
    parser.add_argument("--socket", metavar="PATH", required=True, help="where to listen")
    parser.add_argument("--bundle", metavar="FILE", help="the policy it decides by")


def run(args: argparse.Namespace, context: Context) -> int:
    """Serve, and tell each decision."""
    from threegate.base.canonical import encode
    from threegate.host.proxy.supervisor import read_bundle, serve_proxy

    def read() -> "Bundle":
        if args.bundle is not None:
            return read_bundle(context.settings.cwd / Path(args.bundle))
        with context.workspace(args) as ws:
            return ws.bundle

    telling = threading.Lock()  # decisions come from the proxy's own thread

    def tell(line: dict[str, Any]) -> None:
        try:
            with telling:
                context.out.line(encode(line).decode("utf-8"))
                context.out.flush()
        except BrokenPipeError as exc:
            say_nowhere()  # a second failed flush would hide the reason
            raise AuditUnavailable("nobody reads the proxy's decisions any more") from exc

    serve_proxy(context.settings.cwd / Path(args.socket), read, tell)
    return 0
