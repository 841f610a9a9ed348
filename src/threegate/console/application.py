"""The console's application: access checks, sessions, and the page for each request.

SECURITY
    Every request comes through here.  Without a session only the login, our own style sheet and
    script, and counts are served.  Every form that a browser posts carries the token of its
    session.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

from threegate.base.errors import (
    GateUnavailable,
    PolicyDenied,
    ThreeGateError,
    UsageError,
)
from threegate.console import access
from threegate.console.access import BrowserSession, RateLimit, Sessions
from threegate.console.ask_page import QuestionRunner
from threegate.console.events import Events, LogWatch, Metrics
from threegate.console.fetch_pages import SearchRunner
from threegate.console.file_pages import Downloads, Pictures
from threegate.console.inbox_page import Inbox
from threegate.console.messages import (
    MAX_BODY_BYTES,
    MAX_UPLOAD_BYTES,
    Malformed,
    Request,
    Response,
    plain,
    redirect,
)
from threegate.console.packet_pages import DrawnPages
from threegate.console.page import PLACE, Call, ConsolePage, PageTemplates
from threegate.console.server import TOO_MANY
from threegate.console.workspace_threads import Dispatcher, WorkspaceThread
from threegate.host.command_context import Context
from threegate.host.request.inputs import largest_input
from threegate.host.review.approval import Signing

_STATIC: Final = {
    "/static/console.css": ("console.css", "text/css; charset=utf-8"),
    "/static/icon.svg": ("icon.svg", "image/svg+xml"),
    "/static/console.js": ("console.js", "text/javascript; charset=utf-8"),
}
_BURST, _PER_SECOND = 240.0, 60.0  # of all requests together; a page is three
_LOGINS, _LOGINS_PER_SECOND = 8.0, 0.1
# A refused client must not be able to fill the journal, or the memory for reconnecting pages.
_TOLD, _TOLD_PER_SECOND = 32.0, 0.5


def _telling() -> RateLimit:
    return RateLimit(_TOLD, _TOLD_PER_SECOND, time.monotonic)


@dataclass(slots=True)
class App:
    """The console: what every page needs."""

    root: Path
    context: Context
    port: int
    hosts: frozenset[str]
    cookie: str
    pages: Sequence[ConsolePage]
    templates: PageTemplates
    events: Events
    sessions: Sessions
    reading: WorkspaceThread
    deciding: WorkspaceThread
    signing: Signing
    asking: QuestionRunner
    searching: SearchRunner
    slow: WorkspaceThread
    watch: LogWatch
    dispatchers: Sequence[Dispatcher] = ()
    clock: Callable[[], float] = time.monotonic
    metrics: Metrics = field(default_factory=Metrics)
    inbox: Inbox = field(default_factory=Inbox)
    pictures: Pictures = field(default_factory=Pictures)
    drawn: DrawnPages = field(default_factory=DrawnPages)
    downloads: Downloads = field(default_factory=Downloads)
    examining: RateLimit = field(default_factory=lambda: RateLimit(2, 0.1, time.monotonic))
    _all: RateLimit = field(default_factory=lambda: RateLimit(_BURST, _PER_SECOND, time.monotonic))
    _logins: RateLimit = field(
        default_factory=lambda: RateLimit(_LOGINS, _LOGINS_PER_SECOND, time.monotonic)
    )
    _strangers: RateLimit = field(default_factory=_telling)
    _refusals: RateLimit = field(default_factory=_telling)

    async def room(self, head: Request) -> int:
        """Return the most bytes of a body; only our own uploads may be larger than a form.

        A request without a session, or from elsewhere, is refused without reading its body.
        """
        known = self.sessions.find(head.cookie(self.cookie), _agent(head))
        if known is None or access.refusal(head, self.hosts) or not access.brings_files(head):
            return MAX_BODY_BYTES
        try:
            largest = await self.reading.do(lambda live: largest_input(live.ws.bundle))
        except ThreeGateError:  # shown on the page
            return MAX_BODY_BYTES
        return MAX_BODY_BYTES + min(largest, MAX_UPLOAD_BYTES)

    async def answer(self, request: Request) -> Response:
        """Return the answer to any request."""
        began = time.perf_counter()
        response = await self._answer(request)
        seconds = time.perf_counter() - began
        # The token of a login link must not reach the log.
        path = "/login" if request.path.startswith(access.LOGIN) else request.path
        self.metrics.answered(response.status, seconds)
        if response.refused and not self._reported(response.refused):
            return response
        self.events.log(
            "http",
            method=request.method[:8],
            path=path[:100],
            status=int(response.status),
            ms=int(seconds * 1000),
        )
        return response

    async def _answer(self, request: Request) -> Response:
        refused = access.refusal(request, self.hosts)
        if refused is None and not self._all.take():
            words = "too many requests at once"
            refused = access.RefusedRequest(HTTPStatus.TOO_MANY_REQUESTS, access.TOO_MANY, words)
        if refused is not None:
            return self.refuse(refused)
        # No session is needed from here to the login: our own files and counts, no artifacts.
        if request.path in _STATIC and request.method == "GET":
            return _static(*_STATIC[request.path])
        if request.path == "/metrics" and request.method == "GET":
            return await self._measured()
        if request.path.startswith(access.LOGIN) and request.method == "GET":
            return self._enter(request)
        session = self.sessions.find(request.cookie(self.cookie), _agent(request))
        if session is None:
            return self._unknown()
        return await self._within(request, session)

    def refuse(self, refused: access.RefusedRequest) -> Response:
        """Return a refusal."""
        found = plain(refused.status, f"refused: {refused.reason} [{refused.code}]")
        return replace(found, refused=refused.code)

    def _unknown(self) -> Response:
        found = self.templates.page("closed", None, HTTPStatus.UNAUTHORIZED)
        return replace(found, refused=access.NO_SESSION)

    def _reported(self, code: str) -> bool:
        """Count a refusal; report it unless too many were reported lately; tell whether it was."""
        self.metrics.refused(code)
        if not self._refusals.take():
            return False
        self.events.tell("refused", code=code)
        return True

    def turned_away(self, reason: str) -> None:
        """Count a refused connection, and report it at the same rate."""
        self.metrics.refused(access.TOO_MANY if reason == TOO_MANY else access.OTHER_USER)
        if self._strangers.take():
            self.events.tell("turned-away", reason=reason)

    def _enter(self, request: Request) -> Response:
        if not self._logins.take():
            words = "too many logins at once"
            return self.refuse(
                access.RefusedRequest(HTTPStatus.TOO_MANY_REQUESTS, access.TOO_MANY, words)
            )
        token = request.path.removeprefix(access.LOGIN)
        cookie = self.sessions.enter(token, _agent(request))
        if cookie is None:
            return self._unknown()
        self.events.tell("login", sessions=len(self.sessions))
        # HttpOnly, SameSite: neither a script nor a page elsewhere can use the cookie.
        kept = f"{self.cookie}={cookie}; Path=/; HttpOnly; SameSite=Strict"
        return redirect("/inbox", ("Set-Cookie", kept))

    async def _within(self, request: Request, session: BrowserSession) -> Response:
        try:
            # CSRF: the token is checked before any handler sees the form.
            if request.method == "POST" and not session.is_form_of(request.form().get("csrf", "")):
                words = "the form is not of this session"
                return self.refuse(
                    access.RefusedRequest(HTTPStatus.FORBIDDEN, access.WRONG_TOKEN, words)
                )
            for page in self.pages:
                subject, handler = page.subject(request.path), page.handler(request.method)
                if subject is not None and handler is not None:
                    answer = await handler(Call(self, request, session, page, subject))
                    if request.method == "POST":
                        self.watch.look()  # so that their next page does not report it as news
                    return answer
        except Malformed as exc:
            return plain(HTTPStatus.BAD_REQUEST, f"not answered: {exc}")
        except ThreeGateError as exc:
            return self._failed(request, session, exc)
        except Exception as exc:  # noqa: BLE001 -- a page that fails must not end the console
            return self._failed(request, session, self._unexpected(exc))
        return self.templates.page("missing", session, HTTPStatus.NOT_FOUND)

    def _failed(self, request: Request, session: BrowserSession, error: ThreeGateError) -> Response:
        """Return the page of an error, with a link back to the form."""
        self.metrics.failed(error.code)
        posted = request.method == "POST"
        back = request.path.removesuffix("/approve").removesuffix("/deny") if posted else ""
        status = _status(error, posted=posted)
        return self.templates.page("failed", session, status, error=error, back=back)

    def _unexpected(self, exc: Exception) -> ThreeGateError:
        # The exception's own words may be foreign, and are not shown.
        frame = traceback.extract_tb(exc.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        self.events.tell("bug", kind=type(exc).__name__, where=where)
        return ThreeGateError(f"unexpected {type(exc).__name__} at {where}")

    async def _measured(self) -> Response:
        waiting = await self.reading.do(self.metrics.states)
        return Response(body=waiting, kind="text/plain; version=0.0.4; charset=utf-8")


def _agent(request: Request) -> str:
    return request.headers.get("user-agent", "")


def _static(name: str, kind: str) -> Response:
    return Response(body=(PLACE / "static" / name).read_bytes(), kind=kind)


def _status(error: ThreeGateError, *, posted: bool) -> int:
    if isinstance(error, UsageError):
        return HTTPStatus.UNPROCESSABLE_ENTITY if posted else HTTPStatus.NOT_FOUND
    if isinstance(error, PolicyDenied):
        return HTTPStatus.CONFLICT
    if isinstance(error, GateUnavailable):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.INTERNAL_SERVER_ERROR
