"""The session of the interactive review: draw, wait for a key, act, look for changes by others."""

import argparse
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from threegate.artifacts.ids import short
from threegate.base.errors import HandoffTampered, ThreeGateError
from threegate.base.text import visible
from threegate.host.command_context import Context
from threegate.host.keys.signatures import Signer, public_key_of
from threegate.host.output import terminal_encoding
from threegate.host.review.decisions import settle
from threegate.host.review.requests import report_tampered
from threegate.host.review.terminal.cells import spelling
from threegate.host.review.terminal.pager import PagedDocument
from threegate.host.review.terminal.press import (
    ApproveRequest,
    DenyRequest,
    Effect,
    Open,
    OpenRaw,
    Quit,
    Redraw,
    Suspend,
    is_question,
    press,
)
from threegate.host.review.terminal.screen import Key, Screen, refuse_unfit, taken
from threegate.host.review.terminal.state import (
    ConfirmMode,
    ListMode,
    OpenedSheet,
    ReviewQueue,
    SheetMode,
    State,
    TextMode,
    drawn,
    neighbour,
    opened,
    reading,
    refreshed,
    resized,
    say,
    with_sheet,
)
from threegate.host.review.terminal.views import frame
from threegate.host.review.terminal.workspace import WorkspaceReview
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.workspace import Workspace
from threegate.keys.public import PublicKey

LOOK_AGAIN_SECONDS: Final = 2.0


class ReviewPort(Protocol):
    """The workspace, as far as a reviewer needs it."""

    def changed(self) -> bool:
        """Tell whether anything was decided or came in since the list was read."""
        ...

    def waiting(self) -> ReviewQueue:
        """Return the requests that wait."""
        ...

    def state(self, request_id: str) -> str:
        """Return the state of a request that waits no more."""
        ...

    def sheet(self, request_id: str) -> OpenedSheet:
        """Return everything about a request."""
        ...

    def raw(self, request_id: str) -> PagedDocument:
        """Return the bytes of a request, spelled out."""
        ...

    def approve(self, request_id: str, *, uses: int, seconds: int) -> str:
        """Sign and store an approval of what was shown; return what to say about it."""
        ...

    def deny(self, request_id: str, reason: str) -> str:
        """Deny a request; return what to say about it."""
        ...


class ReviewSession:
    """One run of the interactive review."""

    def __init__(self, port: ReviewPort, screen: Screen) -> None:
        self._port, self._screen = port, screen
        self._state = State(*screen.size)
        self._code: int | None = None
        self._is_new = False  # the next frame is a question, or a request nobody chose to see

    def run(self) -> int:
        """Go on until the reviewer leaves; return the exit code."""
        self._state = refreshed(self._state, self._port.waiting(), {})
        while self._code is None:
            self._turn()
        return self._code

    def _turn(self) -> None:
        self._show()
        keys = self._screen.keys(LOOK_AGAIN_SECONDS)
        if not keys:
            self._look_again()
        for key in keys:
            if self._press(key):
                return

    def _press(self, key: Key) -> bool:
        """Act on a key; return whether the keys typed after it must be dropped."""
        asking = is_question(self._state.mode)
        self._state, effect = press(self._state, key)
        if effect is not None:
            self._try(effect)
        if self._code is not None:
            return True
        if is_question(self._state.mode) and not asking:
            self._is_new = True
        drop = self._is_new
        self._show()
        return drop

    def _show(self) -> None:
        size = self._screen.size
        if size != (self._state.columns, self._state.rows):
            self._state = resized(self._state, *size)
            self._screen.redraw()
        self._state = drawn(self._state)
        rows = frame(self._state)
        if self._is_new:
            # Last, right before the frame: no key decides about what was not on the screen.
            self._screen.forget_typed()
            self._is_new = False
        self._screen.draw(rows)

    def _try(self, effect: Effect) -> None:
        # A decision brings up the next request; keys typed meanwhile were not meant for it.
        self._is_new = self._is_new or isinstance(effect, ApproveRequest | DenyRequest)
        try:
            self._do(effect)
        except ThreeGateError as exc:
            self._explain(exc)
            with suppress(ThreeGateError):  # the first error is the one to show
                self._refresh_if_changed()
                if isinstance(effect, ApproveRequest):
                    self._read_again()

    def _do(self, effect: Effect) -> None:
        match effect:
            case Open(id=request_id):
                self._state = opened(self._state, self._port.sheet(request_id))
            case OpenRaw(id=request_id):
                title = f"{short(request_id)}: its bytes"
                self._state = reading(self._state, title, self._port.raw(request_id))
            case DenyRequest(id=request_id, reason=reason):
                self._decided(request_id, self._port.deny(request_id, reason))
            case ApproveRequest(id=request_id, uses=uses, seconds=seconds):
                with self._screen.aside():
                    words = self._port.approve(request_id, uses=uses, seconds=seconds)
                self._decided(request_id, words)
            case Quit(code=code):
                self._code = code
            case Suspend():
                self._screen.suspend()
            case Redraw():
                self._screen.redraw()

    def _decided(self, request_id: str, words: str) -> None:
        """Go to the next request after a decision."""
        was_showing = isinstance(self._state.mode, SheetMode)
        queue = self._port.waiting()
        items = tuple(one for one in queue.items if one.id != request_id)
        after = neighbour(self._state, items)
        state = replace(self._state, items=items, total=queue.total, at=after, mode=ListMode())
        self._state = say(replace(state, tampered=queue.tampered), words)
        if was_showing and after and after not in state.skipped:
            self._state = opened(self._state, self._port.sheet(after))

    def _look_again(self) -> None:
        try:
            self._refresh_if_changed()
        except ThreeGateError as exc:  # for example busy: try again at the next look
            self._explain(exc)

    def _refresh_if_changed(self) -> None:
        if not self._port.changed():
            return
        queue = self._port.waiting()
        here = {item.id for item in queue.items}
        named = {*here, *queue.tampered}
        gone = [item.id for item in self._state.items if item.id not in named]
        states = {one: self._port.state(one) for one in gone}
        before = self._state.at
        self._state = refreshed(self._state, queue, states)
        self._is_new = self._is_new or self._state.at != before
        self._read_again()

    def _read_again(self) -> None:
        """Show the request on the screen again after its rules or similar requests changed."""
        at, mode = self._state.at, self._state.mode
        on_screen = mode.below if isinstance(mode, TextMode) else mode
        if not isinstance(on_screen, SheetMode | ConfirmMode):
            return
        sheet, before = self._port.sheet(at), self._state.sheets[at]
        if sheet.document.lines != before.document.lines or sheet.terms != before.terms:
            words = "this sheet has changed: look at it again"
            self._state = say(opened(self._state, sheet), words)
            self._is_new = True
        else:
            self._state = with_sheet(self._state, sheet)

    def _explain(self, error: ThreeGateError) -> None:
        hint = f": {error.hint}" if error.hint else ""
        self._state = say(self._state, visible(f"{error.message} [{error.code}]{hint}"))


# -- start -----------------------------------------------------------------------------------


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
        with context.index(ws) as index:  # shows its progress before the terminal is taken
            encoding = terminal_encoding(sys.stdout.encoding)
            live, spell = LiveWorkspace(ws, index), spelling(encoding)
            port = WorkspaceReview(live, signing, out.note, spell, aside)
            out.flush()
            with taken(encoding=encoding, colour=out.in_colour(context.environ)) as screen:
                code = ReviewSession(port, screen).run()
    tampered = report_tampered(aside, out.error)
    return code or tampered
