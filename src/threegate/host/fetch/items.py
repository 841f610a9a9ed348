"""One reference on its way: which questions are due, what came back, what it comes to.

Pure but for nothing: it opens no file and asks nobody.

SECURITY
    Decides by statuses alone, never by content.  Each answer and each failure ends up in the
    record, so nothing that was asked is silently missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.references import Question, without_contact
from threegate.base.errors import GateUnavailable, PolicyDenied, ThreeGateError
from threegate.base.text import visible
from threegate.gates.fetch.normalize.messages import MAX_RAWS_BYTES, Answer, Miss, RetrievalRecord
from threegate.gates.fetch.retrieve.messages import Got, NotGot
from threegate.host.fetch.advice import advice, is_refusal
from threegate.host.fetch.plan import Wish, host_of

TOO_MUCH: Final = "TG-FET-074"
DETAIL_CHARS: Final = 200


@dataclass(slots=True)
class Item:
    """A wish and what is known of it so far."""

    number: int
    wish: Wish
    statuses: dict[str, int | None] = field(default_factory=dict)  # of each source that ended
    answers: dict[int, tuple[Answer, bytes]] = field(default_factory=dict)
    misses: dict[int, tuple[Miss, NotGot]] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)

    @property
    def ended(self) -> int:
        """Return how many questions came to an end."""
        return len(self.answers) + len(self.misses) + len(self.skipped)

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is left to ask or to wait for."""
        return self.ended == len(self.wish.questions)

    @property
    def size(self) -> int:
        """Return the bytes it holds."""
        return sum(answer.bytes for answer, _ in self.answers.values())

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that were asked."""
        asked = sorted(self.sent - self.skipped)
        return tuple(dict.fromkeys(host_of(self.wish.questions[index]) for index in asked))

    def due(self) -> Iterator[tuple[int, Question]]:
        """Yield the questions to ask now, each once."""
        for index, question in enumerate(self.wish.questions):
            known = question.after is None or question.after in self.statuses
            if index not in self.sent and known:
                self.sent.add(index)
                yield index, question

    def _drop_needless(self) -> None:
        """Drop the questions that what is known by now makes unnecessary."""
        for index, question in enumerate(self.wish.questions):
            known = question.after is None or question.after in self.statuses
            if index not in self.sent and known and not question.is_due(self.statuses):
                self.sent.add(index)
                self.skipped.add(index)

    def answered(self, index: int, got: Got, retrieved: str) -> Answer | None:
        """Take an answer; return it as the record names it, None if there is no room for it.

        Raises `ProtocolBroken` for one that no record can name.
        """
        question = self.wish.questions[index]
        answer = Answer(
            source=question.source,
            role=question.role,
            reference=self.wish.reference,
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

    def unchanged(self, index: int, known: Answer, body: bytes) -> Answer | None:
        """Take the answer of an earlier day, of which the host says that it still holds."""
        question = self.wish.questions[index]
        named = replace(known, reference=self.wish.reference)
        return self.take(index, replace(named, source=question.source, role=question.role), body)

    def take(self, index: int, answer: Answer, body: bytes) -> Answer | None:
        """Keep an answer with its bytes."""
        if self.size + answer.bytes > MAX_RAWS_BYTES:
            words = "all answers together are larger than a box may be given"
            self.missed(index, NotGot(TOO_MUCH, "too-large", words, None, ()))
            return None
        self.answers[index] = (answer, body)
        self._ended(index, 200)
        return answer

    def missed(self, index: int, why: NotGot) -> None:
        """Take a failure."""
        question = self.wish.questions[index]
        detail = visible(f"{why.message} [{why.code}]")[-DETAIL_CHARS:]
        miss = Miss(question.source, self.wish.reference, why.reason, detail)
        self.misses[index] = (miss, why)
        self._ended(index, why.status)

    def _ended(self, index: int, status: int | None) -> None:
        question = self.wish.questions[index]
        if question.role != "document":  # what is asked instead depends on the record of a work
            self.statuses[question.source] = status
            self._drop_needless()

    def record(self) -> RetrievalRecord:
        """Return what the packet is made from."""
        wish = self.wish
        return RetrievalRecord(
            reference=wish.reference,
            scheme=wish.scheme,
            want=wish.want,
            request=wish.request_id,
            confidentiality=wish.confidentiality,
            answers=tuple(self.answers[index][0] for index in sorted(self.answers)),
            misses=tuple(self.misses[index][0] for index in sorted(self.misses)),
        )

    def raws(self) -> tuple[bytes, ...]:
        """Return the raw bytes, in the order of the record."""
        return tuple(self.answers[index][1] for index in sorted(self.answers))

    def failure(self) -> ThreeGateError:
        """Return why there is nothing to make a packet of: what the first source said."""
        index = min(self.misses)
        miss, why = self.misses[index]
        # A page is its own source; its URL stands before this.
        detail = why.message if miss.source == "url" else f"{miss.source}: {why.message}"
        kind = PolicyDenied if is_refusal(why) else GateUnavailable
        return kind(detail, code=why.code, hint=advice(why))
