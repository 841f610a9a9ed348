"""`threegate review` without a command: the interactive session, if there is a terminal for it."""

import argparse
import sys

from threegate.base.errors import HandoffTampered
from threegate.host.command_context import Context
from threegate.host.keys.signatures import Signer, public_key_of
from threegate.host.output import terminal_encoding
from threegate.host.review.notices import settle
from threegate.host.review.requests import name_meddled
from threegate.host.review.terminal.desk import WorkspaceDesk
from threegate.host.review.terminal.loop import ReviewSession
from threegate.host.review.terminal.screen import refuse_unfit, taken
from threegate.host.review.text_lines import spelling
from threegate.host.workspace.workspace import Workspace
from threegate.keys.public import PublicKey


def review_at_terminal(args: argparse.Namespace, context: Context) -> int:
    """Review until the human leaves; return the exit code."""
    refuse_unfit(context.environ)
    out = context.out

    def signing(ws: Workspace) -> tuple[Signer, PublicKey]:
        signer = context.signer(args, ws)
        return signer, public_key_of(signer.key, context.tools())

    aside: dict[str, HandoffTampered] = {}
    with context.workspace(args) as ws:
        settle(ws, out.note, aside)
        with context.index(ws) as index:  # shows its progress while the terminal is nobody's
            encoding = terminal_encoding(sys.stdout.encoding)
            desk = WorkspaceDesk(ws, index, signing, out.note, spelling(encoding), aside)
            out.flush()
            with taken(encoding=encoding, colour=out.in_colour(context.environ)) as screen:
                code = ReviewSession(desk, screen).run()
    meddled = name_meddled(aside, out.error)
    return code or meddled
