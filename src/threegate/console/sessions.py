"""Who is logged in: a link that works once, a cookie, and tokens for every form.

SECURITY
    All secrets are 256 random bits, made here, and never leave but in the link, the cookie
    and the forms they are for.  They are looked up by their digest, so how long that takes
    says nothing about them.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

LINK_SECONDS: Final = 600
IDLE_SECONDS: Final = 4 * 3600
LONGEST_SECONDS: Final = 24 * 3600
MAX_LINKS: Final = 4
MAX_SESSIONS: Final = 8
MAX_VIEWS: Final = 64  # forms that are open at once; the oldest go first
LEAST_LOOK_SECONDS: Final = 1.0  # nobody has read a request that was sent this moment

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request as it was shown once: what a yes to it means."""

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
    said: str = ""  # told on the next page
    _told: tuple[str, str] = ("", "")  # what the last page told, and its path
    _views: dict[str, ShownRequest] = field(default_factory=dict)

    def is_form_of(self, token: str) -> bool:
        """Tell whether a form was made for this session."""
        return hmac.compare_digest(token.encode("utf-8"), self.csrf.encode("ascii"))

    def show(self, request: str, digest: str, now: float) -> str:
        """Note that a request was shown; return the token that says yes to that, once."""
        while len(self._views) >= MAX_VIEWS:
            del self._views[next(iter(self._views))]
        token = secrets.token_urlsafe(32)
        self._views[_digest(token)] = ShownRequest(request, digest, now)
        return token

    def take(self, token: str) -> ShownRequest | None:
        """Return what was shown with a token; it is worth nothing afterwards."""
        return self._views.pop(_digest(token), None)

    def tell(self, path: str) -> str:
        """Return what the page at `path` tells: it tells it again when it is loaded again."""
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
    """How much may come in a while: so many at once, and so many a second in the long run."""

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
