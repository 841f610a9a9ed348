"""Who may speak to the console: header checks, login links, sessions, form tokens and rate limits.

A page of another origin can make the operator's browser send requests here.  It cannot forge the
name it was opened under (`Host`) or the origin it comes from (`Origin`, `Sec-Fetch-Site`), and it
cannot read the answers: no answer allows that.

SECURITY
    Reads foreign headers.  If this module is wrong, a page elsewhere reads or acts through the
    operator's browser.  All secrets are 256 random bits, made here; they leave only in the link,
    the cookie and the forms they are for.  They are looked up by their digest, so the time of a
    lookup says nothing about them.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from threegate.console.messages import FORM, Request, boundary_of

LINK_SECONDS: Final = 600
IDLE_SECONDS: Final = 4 * 3600
LONGEST_SECONDS: Final = 24 * 3600
MAX_LINKS: Final = 4
MAX_SESSIONS: Final = 8
MAX_VIEWS: Final = 64  # forms that are open at once; the oldest go first
LEAST_LOOK_SECONDS: Final = 1.0  # a faster approval cannot come from a human who read it

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request as it was shown once; an approval covers exactly this."""

    request: str
    digest: str
    since: float


@dataclass(slots=True)
class BrowserSession:
    """One browser that was let in."""

    agent: str  # digest of the browser's own name for itself
    began: float
    seen: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    said: str = ""  # shown on the next page
    _told: tuple[str, str] = ("", "")  # shown on the last page, and its path
    _views: dict[str, ShownRequest] = field(default_factory=dict)

    def is_form_of(self, token: str) -> bool:
        """Tell whether a form was made for this session."""
        # Constant time: an early exit would leak the token byte by byte.
        return hmac.compare_digest(token.encode("utf-8"), self.csrf.encode("ascii"))

    def show(self, request: str, digest: str, now: float) -> str:
        """Note that a request was shown; return the token that approves it, once."""
        while len(self._views) >= MAX_VIEWS:
            del self._views[next(iter(self._views))]
        token = secrets.token_urlsafe(32)
        self._views[_digest(token)] = ShownRequest(request, digest, now)
        return token

    def take(self, token: str) -> ShownRequest | None:
        """Return the request shown with a token; the token works once."""
        return self._views.pop(_digest(token), None)

    def tell(self, path: str) -> str:
        """Return the message for the page at `path`; a reload shows it again."""
        words = self.said or (self._told[0] if path and path == self._told[1] else "")
        self.said, self._told = "", (words, path)
        return words


class Sessions:
    """Every link that was printed and every browser that was let in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: dict[str, float] = {}
        self._sessions: dict[str, BrowserSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def link(self) -> str:
        """Return a new token for one login."""
        while len(self._links) >= MAX_LINKS:
            del self._links[next(iter(self._links))]
        token = secrets.token_urlsafe(32)
        self._links[_digest(token)] = self._clock() + LINK_SECONDS
        return token

    def enter(self, token: str, agent: str) -> str | None:
        """Return the cookie of a new session for a token that was not used yet."""
        # Popped before any check: a link works once, even if it is refused.
        end = self._links.pop(_digest(token), None)
        now = self._clock()
        if end is None or now > end:
            return None
        self._drop_old(now)
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = BrowserSession(_digest(agent), now, now)
        return cookie

    def find(self, cookie: str, agent: str) -> BrowserSession | None:
        """Return the session of a cookie that this very browser was given."""
        now = self._clock()
        self._drop_old(now)
        found = self._sessions.get(_digest(cookie))
        # Defence in depth: a cookie copied to a browser with another user agent is refused.
        if found is None or found.agent != _digest(agent):
            return None
        found.seen = now
        return found

    def leave(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(cookie), None)

    def _drop_old(self, now: float) -> None:
        over = [
            key
            for key, one in self._sessions.items()
            if now - one.seen > IDLE_SECONDS or now - one.began > LONGEST_SECONDS
        ]
        for key in over:
            del self._sessions[key]


@dataclass(slots=True)
class RateLimit:
    """A token bucket: so many at once, and so many a second in the long run."""

    most: float
    per_second: float
    clock: Clock
    left: float = field(init=False)
    at: float = field(init=False)

    def __post_init__(self) -> None:
        self.left, self.at = self.most, self.clock()

    def take(self) -> bool:
        """Tell whether one more may come now."""
        now = self.clock()
        self.left = min(self.most, self.left + (now - self.at) * self.per_second)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# -- checks of a request -----------------------------------------------------------------


WRONG_HOST: Final = "TG-CON-001"
WRONG_ORIGIN: Final = "TG-CON-002"
NOT_A_FORM: Final = "TG-CON-003"
WRONG_METHOD: Final = "TG-CON-004"
OTHER_USER: Final = "TG-CON-005"
NO_SESSION: Final = "TG-CON-006"
WRONG_TOKEN: Final = "TG-CON-007"  # noqa: S105 -- the name of an error
TOO_MANY: Final = "TG-CON-008"
LOGIN: Final = "/login/"
UPLOADS: Final = ("/run",)  # where a form may bring files

# The content policy: if foreign text ever becomes markup, a page still loads only our one script
# and our one style sheet.
_ALLOWED: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
POLICY: Final = "; ".join(_ALLOWED)
HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Only to ourselves; with `no-referrer` a browser sends `Origin: null` for our own forms.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=()"),
    ("Cache-Control", "no-store"),
)


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Why a request is not answered, in our words."""

    status: int
    code: str
    reason: str


def refusal(request: Request, hosts: frozenset[str]) -> RefusedRequest | None:
    """Return why a request is refused, None if it is accepted."""
    host = request.headers.get("host", "")
    # DNS rebinding: a foreign name that points to this machine is not one of ours.
    if host not in hosts:
        return RefusedRequest(
            HTTPStatus.MISDIRECTED_REQUEST, WRONG_HOST, "it was sent to another name"
        )
    if request.method not in ("GET", "POST"):
        return RefusedRequest(
            HTTPStatus.METHOD_NOT_ALLOWED, WRONG_METHOD, "only GET and POST are known"
        )
    origin = request.headers.get("origin")
    ours = f"http://{host}"
    # CSRF: browsers send `Origin` with every POST, and none with a GET of our own pages.
    if origin != ours and (origin is not None or request.method == "POST"):
        return RefusedRequest(HTTPStatus.FORBIDDEN, WRONG_ORIGIN, "it comes from another page")
    # A link elsewhere is not followed into the console; the link of the terminal has no page.
    site = request.headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none") and not request.path.startswith(LOGIN):
        return RefusedRequest(HTTPStatus.FORBIDDEN, WRONG_ORIGIN, "it comes from another page")
    # A page elsewhere can post `text/plain` without a preflight; only our form types are read.
    if request.method == "POST" and not (
        request.headers.get("content-type") == FORM or brings_files(request)
    ):
        return RefusedRequest(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, NOT_A_FORM, "it is not a form of ours"
        )
    return None


def brings_files(request: Request) -> bool:
    """Tell whether a form may hold files: those of one page, and no other."""
    return (
        request.path in UPLOADS and boundary_of(request.headers.get("content-type", "")) is not None
    )


def names_of(port: int) -> frozenset[str]:
    """Return the names the console answers to on a port of loopback."""
    return frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
