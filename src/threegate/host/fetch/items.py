"""One target during a run: due questions, answers, the retrieval record, hints on failures.

Pure: no I/O.  A hint says "run it again" only where that may help; otherwise it names what has to
change first: the policy, the reference or the server.

SECURITY
    Decides by statuses alone, never by content.  Each answer and each failure is listed in the
    record, so no question is missing without notice.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.references import SEARCH_PREFIX, Question, without_contact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import GateUnavailable, PolicyDenied, ThreeGateError
from threegate.base.text import visible
from threegate.gates.fetch.normalize.messages import (
    MAX_RAWS_BYTES,
    KeptAnswer,
    Miss,
    RetrievalRecord,
)
from threegate.gates.fetch.retrieve.messages import Got, NotGot
from threegate.host.fetch.budgets import OVER_BYTES, OVER_RATE
from threegate.host.fetch.host_rules import NO_NETWORK
from threegate.host.fetch.targets import SEARCH, FetchTarget, host_of

AGAIN: Final = "run the command again"
_LATER: Final = f"{AGAIN} later"
_SPELLING: Final = "check the spelling"
_THEIRS: Final = "the server has to fix this; asking again will hardly help"
_FILE: Final = "policy/fetch.policy.md"
_APPLY: Final = "then `threegate policy apply`"
_KEY: Final = "`threegate credential list` shows your keys for hosts"

FORBIDDEN: Final = "TG-FET-021"  # the only denial by the server, not by us
_BY_CODE: Final = {
    "TG-FET-001": _SPELLING,
    "TG-FET-002": f"hosts are listed in {_FILE}; {_APPLY}",
    "TG-FET-004": f"`content_types` of the host in {_FILE} lists the accepted types; {_APPLY}",
    "TG-FET-005": _THEIRS,
    "TG-FET-006": f"`response_bytes` of the host in {_FILE} is the bound; {_APPLY}",
    "TG-FET-007": f"{AGAIN}; `deadline_seconds` in {_FILE} is the bound",
    "TG-FET-008": f"`redirects` in {_FILE} is the bound; {_APPLY}",
    "TG-FET-009": _THEIRS,
    "TG-FET-010": f"redirects lead to hosts that {_FILE} lists; `threegate policy explain URL`",
    "TG-FET-011": "`threegate audit show` has the proxy's decision and its reason",
    "TG-FET-012": f"check that this machine is online and the name is right, then {AGAIN}",
    "TG-FET-013": f"`proxy` in {_FILE} names the proxy; {AGAIN}",
    "TG-FET-014": f"`trust_anchors` in {_FILE} lists the accepted certificate authorities",
    "TG-FET-015": _THEIRS,
    "TG-FET-017": _THEIRS,
    "TG-FET-018": _SPELLING,
    "TG-FET-019": _LATER,
    "TG-FET-020": _LATER,
    FORBIDDEN: f"the server restricts access to it; {_KEY}",
    "TG-FET-022": _THEIRS,
    "TG-FET-023": _KEY,
    "TG-FET-024": f"the server repeats your key; {_KEY}",
    "TG-FET-031": (
        "check the spelling of the host; a network without internet access, such as one "
        f"that requires a login, answers like this too. Then {AGAIN}"
    ),
    "TG-FET-068": f"the server repeats your key; {_KEY}",
    "TG-FET-069": f"hosts are listed in {_FILE}; {_APPLY}",
    "TG-FET-074": "`--enrich none` asks fewer sources",
    "TG-FET-078": _LATER,
    OVER_BYTES: f"the budget is renewed tomorrow; `bytes_per_day` is set in {_FILE}",
    OVER_RATE: f"`rate_per_minute` of the host is set in {_FILE}; {_LATER}",
}


def is_refusal(why: NotGot) -> bool:
    """Tell whether it was refused on this machine: by policy, budget, sandbox or proxy."""
    return why.reason == "denied" and why.code != FORBIDDEN


def advice(why: NotGot) -> str:
    """Return a hint for the operator."""
    again = f"{AGAIN}: failed questions are tried again"
    return _BY_CODE.get(why.code, again if why.reason in ("failed", "timed-out") else "")


def no_network() -> GateUnavailable:
    """Return the error that no name can be resolved on this machine."""
    hint = f"connect this machine to a network, then {AGAIN}; `--dry-run` needs none"
    return GateUnavailable("no network: no name server answers", code=NO_NETWORK, hint=hint)


def unknown(target: FetchTarget, told: ThreeGateError) -> GateUnavailable:
    """Return the error that every source answered and none knows the work."""
    if target.scheme == SEARCH:
        if target.reference.startswith(SEARCH_PREFIX):
            hint = "try other words, or another --source"
            return GateUnavailable("nothing was found", code=told.code, hint=hint)
        return GateUnavailable("no source lists any", code=told.code)
    return GateUnavailable(told.message, code=told.code, hint=_SPELLING)


TOO_MUCH: Final = "TG-FET-074"
DETAIL_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class FetchMoment:
    """The present activity of an item, for people."""

    number: int
    reference: str
    words: str
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FetchReport:
    """The result of one target."""

    number: int
    target: FetchTarget
    status: str  # made | already | refused | failed
    packet_id: str | None = None
    packet: ResearchPacket | None = None
    hosts: tuple[str, ...] = ()
    error: ThreeGateError | None = None
    kept: str | None = None  # digest of the quarantined bytes
    notes: tuple[str, ...] = ()  # on a full text that is not here


@dataclass(slots=True)
class FetchItem:
    """A target and its answers so far."""

    number: int
    target: FetchTarget
    statuses: dict[str, int | None] = field(default_factory=dict)  # of each source that ended
    answers: dict[int, tuple[KeptAnswer, bytes]] = field(default_factory=dict)
    misses: dict[int, tuple[Miss, NotGot]] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    copies: deque[Question] | None = None  # open copies that are left to ask for, once known
    followed: list[Question] = field(default_factory=list)  # those that were asked for

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return the questions of the target, and those for open copies."""
        return (*self.target.questions, *self.followed)

    def is_followed(self, index: int) -> bool:
        """Tell whether a question is for an address that a source named."""
        return index >= len(self.target.questions)

    @property
    def ended(self) -> int:
        """Return the number of questions that have ended."""
        return len(self.answers) + len(self.misses) + len(self.skipped)

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is left to ask or to wait for."""
        return self.ended == len(self.questions)

    @property
    def size(self) -> int:
        """Return the bytes it holds."""
        return sum(answer.bytes for answer, _ in self.answers.values())

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that were asked."""
        asked = sorted(self.sent - self.skipped)
        return tuple(dict.fromkeys(host_of(self.questions[index]) for index in asked))

    def due(self) -> Iterator[tuple[int, Question]]:
        """Yield the questions to ask now, each once."""
        for index, question in enumerate(self.questions):
            known = question.after is None or question.after in self.statuses
            if index not in self.sent and known:
                self.sent.add(index)
                yield index, question

    def _drop_needless(self) -> None:
        """Skip the questions that earlier answers made unnecessary."""
        for index, question in enumerate(self.questions):
            known = question.after is None or question.after in self.statuses
            if index not in self.sent and known and not question.is_due(self.statuses):
                self.sent.add(index)
                self.skipped.add(index)

    def answered(self, index: int, got: Got, retrieved: str) -> KeptAnswer | None:
        """Add an answer; return its entry in the record, None if there is no room for it.

        Raises `ProtocolBroken` for an answer that does not fit into a record.
        """
        question = self.questions[index]
        answer = KeptAnswer(
            source=question.source,
            role=question.role,
            reference=self.target.reference,
            url=without_contact(got.url),
            hops=tuple((without_contact(url), status) for url, status in got.hops),
            status=got.status,
            media_type=got.media_type,
            read_as=got.read_as,
            retrieved=retrieved,
            sha256=sha256_hex(got.body),
            bytes=len(got.body),
            trust_anchor=got.trust_anchor,
        )
        return self.take(index, answer, got.body)

    def unchanged(self, index: int, known: KeptAnswer, body: bytes) -> KeptAnswer | None:
        """Add a stored answer that the host says is unchanged."""
        question = self.questions[index]
        named = replace(known, reference=self.target.reference)
        return self.take(index, replace(named, source=question.source, role=question.role), body)

    def take(self, index: int, answer: KeptAnswer, body: bytes) -> KeptAnswer | None:
        """Add an answer with its bytes."""
        if self.size + answer.bytes > MAX_RAWS_BYTES:
            words = "all answers together are larger than a sandbox accepts"
            self.missed(index, NotGot(TOO_MUCH, "too-large", words, None, ()))
            return None
        self.answers[index] = (answer, body)
        self._ended(index, 200)
        return answer

    def missed(self, index: int, why: NotGot) -> None:
        """Add a failure."""
        question = self.questions[index]
        detail = visible(f"{why.message} [{why.code}]")[-DETAIL_CHARS:]
        miss = Miss(question.source, self.target.reference, why.reason, detail)
        self.misses[index] = (miss, why)
        self._ended(index, why.status)

    def _ended(self, index: int, status: int | None) -> None:
        question = self.questions[index]
        if question.role != "document":  # alternatives depend on the metadata of a work only
            self.statuses[question.source] = status
            self._drop_needless()

    def record(self) -> RetrievalRecord:
        """Return the retrieval record of the packet."""
        target = self.target
        return RetrievalRecord(
            reference=target.reference,
            scheme=target.scheme,
            want=target.want,
            request=target.request_id,
            replaces=None,
            confidentiality=target.confidentiality,
            answers=tuple(self.answers[index][0] for index in sorted(self.answers)),
            misses=tuple(self.misses[index][0] for index in sorted(self.misses)),
        )

    def raws(self) -> tuple[bytes, ...]:
        """Return the raw bytes, in the order of the record."""
        return tuple(self.answers[index][1] for index in sorted(self.answers))

    def failure(self) -> ThreeGateError:
        """Return why there is no packet: the failure of the first source."""
        index = min(self.misses)
        miss, why = self.misses[index]
        # A page is its own source; its URL is printed before this.
        detail = why.message if miss.source == "url" else f"{miss.source}: {why.message}"
        kind = PolicyDenied if is_refusal(why) else GateUnavailable
        return kind(detail, code=why.code, hint=advice(why))
