"""Sessions with fetch-retrieve: one box asks one host, and is believed about no other.

A box that was redirected has read the bytes of two hosts.  The second could own it and lie
about the first from then on, so the box ends with that answer; and after anything that is not
an ordinary answer, and after a number of jobs.

SECURITY
    Reads the answers of a process that speaks with the web.  What is not an answer in the
    protocol, or says what the host knows to be otherwise, is a failure of that question and
    the end of the box.  A credential goes in with a question, and nothing that holds it
    comes out again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from threegate.base.errors import ProtocolBroken
from threegate.base.forms import REDACTED
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.retrieve import messages as retrieve
from threegate.gates.fetch.retrieve.messages import (
    MAX_PART_SECONDS,
    PART,
    FetchQuestion,
    Got,
    NotGot,
    RetrieveOpening,
)
from threegate.host.open_box import in_words, open_session
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_connect
from threegate.policy.decision import Allow
from threegate.policy.hosts import parse_url
from threegate.policy.purposes import PACKETS
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import FETCH_RETRIEVE
from threegate.sandbox.session import Reply, Session

MAX_JOBS: Final = 256
OPENING_SECONDS: Final = 30.0
GRACE_SECONDS: Final = 5.0  # the box keeps the deadline itself; this is for one that does not
BOX_FAILED: Final = "TG-FET-066"
BOX_LIED: Final = "TG-FET-067"
KEY_CAME_BACK: Final = "TG-FET-068"

Answer = Got | NotGot


@dataclass(frozen=True, slots=True)
class RetrieveSettings:
    """What every box of a run is given: rules, anchors, and two files of the host."""

    bundle: Bundle
    anchors: tuple[bytes, ...]
    socket: Path
    certificates: str
    purpose: str = PACKETS


class Asker(Protocol):
    """Something that asks one host."""

    @property
    def usable(self) -> bool:
        """Tell whether it may be given another question."""
        ...

    def ask(self, ask: FetchQuestion) -> Answer:
        """Return the answer; a failure of the sandbox is one too."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class RetrieveBox:
    """One started box; used by the thread that opened it."""

    def __init__(self, session: Session, bundle: Bundle, purpose: str = PACKETS) -> None:
        self._session, self._bundle, self._purpose = session, bundle, purpose
        self._jobs, self._ordinary = 0, True
        seconds = bundle.integer("fetch", "deadline_seconds")
        if purpose != PACKETS:
            seconds = MAX_PART_SECONDS
        self._deadline = seconds + GRACE_SECONDS

    @property
    def evidence(self) -> Evidence:
        """What was in force when the box started."""
        return self._session.evidence

    @property
    def usable(self) -> bool:
        """Tell whether it may be given another question."""
        return self._session.alive and self._ordinary and self._jobs < MAX_JOBS

    @property
    def alive(self) -> bool:
        """Tell whether it can be asked at all; what it says need not be believed."""
        return self._session.alive and self._jobs < MAX_JOBS

    def ask(self, ask: FetchQuestion) -> Answer:
        """Return the answer; a failure of the sandbox is one too."""
        self._jobs += 1
        reply = self._session.ask(ask.to_bytes(), deadline_seconds=self._deadline)
        answer = _parse(reply)
        if isinstance(answer, Got):
            answer = checked(self._bundle, ask, answer, self._purpose)
        answer = without_key(ask, answer)
        if not _is_ordinary(ask, answer):
            self._ordinary = False
        return answer

    def close(self) -> None:
        """End the box."""
        self._session.close()


def open_retrieve(machine: Machine, given: RetrieveSettings) -> RetrieveBox:
    """Start a box that works by the rules in force, or raise `GateUnavailable`."""
    slots = {"proxy": str(given.socket), "certificates": given.certificates}
    opening = RetrieveOpening(given.bundle.bundle_bytes(), given.anchors, given.purpose)
    session, _ = open_session(
        machine,
        given.bundle,
        FETCH_RETRIEVE,
        slots,
        opening=opening.to_bytes(),
        parse=retrieve.GREETING.parse,
        seconds=OPENING_SECONDS,
    )
    return RetrieveBox(session, given.bundle, given.purpose)


def _parse(reply: Reply) -> Answer:
    if reply.why == "deadline":
        return failed(BOX_FAILED, "the box gave no answer in time", reason="timed-out")
    if reply.why != "done":
        return failed(BOX_FAILED, f"the box ended: {in_words(reply.why)}")
    try:
        return retrieve.parse_answer(Untrusted(reply.message))
    except ProtocolBroken:
        return failed(BOX_FAILED, "the box answered what is not an answer")


def failed(code: str, message: str, *, reason: str = "failed") -> NotGot:
    """Return a failure of the host's own finding."""
    return NotGot(code, reason, message, None, ())


def checked(bundle: Bundle, ask: FetchQuestion, got: Got, purpose: str = PACKETS) -> Answer:
    """Return the answer if nothing in it contradicts what the host knows, else a failure."""
    for wrong, what in _contradictions(bundle, ask, got, purpose):
        if wrong:
            return failed(BOX_LIED, f"the box answered {what}")
    return got


def _contradictions(
    bundle: Bundle, ask: FetchQuestion, got: Got, purpose: str
) -> Iterable[tuple[bool, str]]:
    way = [*(url for url, _ in got.hops), got.url]
    yield way[0] not in spellings(bundle, ask), "for another URL than it was asked"
    yield len(got.hops) > bundle.integer("fetch", "redirects"), "with more redirects than allowed"
    yield not all(_allowed(bundle, url, purpose) for url in way), "from a host that no rule names"
    conditional = ask.etag is not None or ask.last_modified is not None
    yield got.status == 304 and not conditional, "that nothing changed, which nobody asked"
    yield got.status == PART and ask.first_byte is None, "with a part, which nobody asked"
    yield len(got.body) > ask.most_bytes, "with more than it may"
    anchors = bundle.words("fetch", "trust_anchors")
    known = got.trust_anchor == "system" or f"sha256:{got.trust_anchor}" in anchors
    yield (
        not known or (got.trust_anchor == "system" and "system" not in anchors),
        ("under a certificate authority that policy does not list"),
    )


def spellings(bundle: Bundle, ask: FetchQuestion) -> tuple[str, ...]:
    """Return how the URL of a question may come back: as it was, or with a key left out."""
    asked = parse_url(ask.url).plain
    if ask.credential is None:
        return (asked,)
    found = [asked]
    for pattern in bundle.words("fetch", "hosts"):
        place = bundle.value("fetch", "hosts", pattern, "credential")
        if isinstance(place, str) and place.startswith("query:"):
            mark = "&" if "?" in asked else "?"
            found.append(f"{asked}{mark}{place.removeprefix('query:')}={REDACTED}")
    return tuple(found)


def _allowed(bundle: Bundle, url: str, purpose: str) -> bool:
    try:
        return isinstance(may_connect(bundle, parse_url(url).host, purpose), Allow)
    except ValueError:
        return False


def without_key(ask: FetchQuestion, answer: Answer) -> Answer:
    """Return the answer unless it holds the credential that went in with the question.

    A host may print the key it was sent, and an owned box may write it anywhere; neither is
    kept, because what is kept is shown, quoted and exported.
    """
    key = ask.credential
    if key is None:
        return answer
    spelled = {key, quote(key), quote(key, safe="")}
    words = [answer.url or "", *(url for url, _ in answer.hops)]
    if isinstance(answer, Got):
        words += [answer.etag or "", answer.media_type, *answer.limits, *answer.limits.values()]
    else:
        words.append(answer.message)
    body = answer.body if isinstance(answer, Got) else b""
    inside = any(text.encode() in body for text in spelled)
    if inside or any(text in word for text in spelled for word in words):
        return failed(KEY_CAME_BACK, "the answer holds the credential; it was not kept")
    return answer


def _is_ordinary(ask: FetchQuestion, answer: Answer) -> bool:
    """Tell whether the box may go on after this answer."""
    if isinstance(answer, NotGot) and answer.status is None:
        return False
    first = parse_url(ask.url).host
    way = [*(url for url, _ in answer.hops), *([answer.url] if answer.url else [])]
    return all(_host(url) == first for url in way)


def _host(url: str) -> str:
    try:
        return parse_url(url).host
    except ValueError:
        return ""
