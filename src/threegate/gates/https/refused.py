"""Why retrieve has nothing: a stable code each, and the word a packet has for the gap."""

from enum import Enum


class Why(Enum):
    """What happened, as code and as the reason of a gap."""

    URL = ("TG-FET-001", "denied")  # not a URL that may be asked for
    HOST = ("TG-FET-002", "denied")  # no rule for its host
    NOT_ALLOWED = ("TG-FET-003", "denied")  # policy or approval does not cover the question
    TYPE = ("TG-FET-004", "denied")  # a content type the rule does not list
    MISLABELLED = ("TG-FET-005", "unreadable")  # the bytes are not what they are called
    TOO_LARGE = ("TG-FET-006", "too-large")
    DEADLINE = ("TG-FET-007", "timed-out")
    REDIRECTS = ("TG-FET-008", "failed")  # too many
    LOOP = ("TG-FET-009", "failed")
    LOCATION = ("TG-FET-010", "denied")  # a redirect to what may not be asked for
    PROXY_DENIED = ("TG-FET-011", "denied")
    UNREACHABLE = ("TG-FET-012", "failed")  # the proxy found no way
    PROXY = ("TG-FET-013", "failed")  # no proxy, or not one that speaks as it should
    CERTIFICATE = ("TG-FET-014", "failed")
    ANSWER = ("TG-FET-015", "unreadable")  # not HTTP as it should be
    CUT = ("TG-FET-016", "failed")  # less, or more, than was announced
    ENCODED = ("TG-FET-017", "unreadable")  # compressed, though we asked for it as it is
    NOT_FOUND = ("TG-FET-018", "not-found")
    BUSY = ("TG-FET-019", "failed")  # too many requests, says the server
    BROKEN = ("TG-FET-020", "failed")  # the server says it failed
    FORBIDDEN = ("TG-FET-021", "denied")  # the server says we may not
    STATUS = ("TG-FET-022", "failed")  # a status that is no answer to this question
    CREDENTIAL = ("TG-FET-023", "denied")  # one that has no place here
    REPEATED = ("TG-FET-024", "unreadable")  # an answer that repeats the credential
    BUG = ("TG-FET-025", "failed")
    NO_NAME = ("TG-FET-031", "failed")  # a name server says that there is no such name
    NO_NETWORK = ("TG-FET-032", "failed")  # no name server answers anything

    @property
    def code(self) -> str:
        """Return the stable code."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """Return the reason as a packet's gap spells it."""
        return self.value[1]


class NotRetrieved(Exception):
    """There is nothing to hand back; `message` is our own words, foreign parts quoted."""

    def __init__(
        self, why: Why, message: str, *, status: int | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.why, self.message = why, message
        self.status, self.retry_after = status, retry_after


class Stale(Exception):
    """A connection from an earlier question was closed before it answered this one."""
