"""Messages between the host and a CORE box: one task in, what CORE says about it out.

| message | sent by | answered by |
|---|---|---|
| `Task` | host | `Said`, or `NotSaid` |

Texts travel as raw parts behind the header, so a long excerpt costs no escaping.  Progress
comes as notes, each the name of a `STEP`.

SECURITY
    Either side may be owned.  CORE reads what strangers wrote; what it says is text and
    numbers, and the numbers name what the host itself sent, or the message is refused.
    Nothing here can name an id, a state, an approval or a file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from threegate.base.limits import KIB, MAX_LINE_CHARS, MIB
from threegate.base.texts import need_list, next_text, open_texts, pack_texts
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need, need_number, need_sentence, need_word

PROTOCOL: Final = "core/1"
DRAFTS: Final = ("fetch-request", "tool-request")
METHODS: Final = ("model", "map-reduce")

MAX_TASK_BYTES: Final = 32 * MIB
MAX_SAID_BYTES: Final = 8 * MIB
MAX_SOURCES: Final = 2_000
MAX_EXCERPTS: Final = 10_000  # of all sources
MAX_EXCERPT_CHARS: Final = 1 * MIB  # a captured stream is one text
MAX_QUESTION_CHARS: Final = 4_000
MAX_WORDS: Final = 64  # sentences of policy, or of a role
MAX_DENIED: Final = 64  # proposals of one answer
MAX_CLAIMS: Final = 500
MAX_CITES: Final = 20  # of one claim
MAX_DRAFTS: Final = 64
MAX_NOTES: Final = 500
MAX_TEXT_CHARS: Final = 4_000
MAX_CODE_CHARS: Final = 16 * KIB
MAX_REFERENCES: Final = 8  # of one draft
MAX_TOKENS: Final = 2**31
# What a step of CORE may be called; its notes are shown as progress.
STEP: Final = re.compile(
    r"asking the model (?:for an answer|what is needed next|for a program)"
    r"|reading part [0-9]{1,6} of [0-9]{1,6}"
)
_MARKER: Final = re.compile(r"[0-9a-f]{32,128}")
_MODEL: Final = re.compile(r"[!-\[\]-~]{1,200}")
_CODE: Final = re.compile(r"TG-COR-[0-9]{3}")
_REFERENCE: Final = re.compile(r"[!-~]{1,500}")


@dataclass(frozen=True, slots=True)
class Source:
    """An artifact as CORE may know it: where it came from, in the host's words, and its texts."""

    provenance: str
    excerpts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Budget:
    """What answering may cost."""

    context_tokens: int
    output_tokens: int
    claims: int
    drafts: int
    retries: int
    deadline_ms: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            need_number(getattr(self, name), MAX_TOKENS, name)


@dataclass(frozen=True, slots=True)
class Task:
    """A question, whose words count for it, and everything CORE may read."""

    question: str
    policy: tuple[str, ...]  # sentences about what holds here
    brief: tuple[str, ...]  # the role
    may_draft: tuple[str, ...]
    marker: str  # random, new for every run
    model: str
    budget: Budget
    denied: tuple[str, ...]  # what was proposed before and denied, and why, as data
    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        need(1 <= len(self.question) <= MAX_QUESTION_CHARS, "question is too long or empty")
        for words in (self.policy, self.brief):
            need(len(words) <= MAX_WORDS, "too many sentences")
            for sentence in words:
                need_sentence(sentence, MAX_LINE_CHARS, "a sentence")
        need(all(kind in DRAFTS for kind in self.may_draft), "a draft of no known kind")
        need_word(self.marker, _MARKER, "marker")
        need_word(self.model, _MODEL, "model")
        need(len(self.denied) <= MAX_DENIED, "too many denials")
        need(all(len(text) <= MAX_TEXT_CHARS for text in self.denied), "too long")
        need(len(self.sources) <= MAX_SOURCES, "too many sources")
        need(sum(len(item.excerpts) for item in self.sources) <= MAX_EXCERPTS, "too many excerpts")
        for source in self.sources:
            need_sentence(source.provenance, MAX_LINE_CHARS, "provenance")
            need(all(len(text) <= MAX_EXCERPT_CHARS for text in source.excerpts), "too long")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        budget = {name: getattr(self.budget, name) for name in sorted(self.budget.__slots__)}
        texts = [self.question, *self.denied]
        for source in self.sources:
            texts += [source.provenance, *source.excerpts]
        fields = {
            "brief": list(self.brief),
            "budget": budget,
            "denied": len(self.denied),
            "marker": self.marker,
            "may_draft": list(self.may_draft),
            "model": self.model,
            "policy": list(self.policy),
            "sources": [len(item.excerpts) for item in self.sources],
        }
        return pack_texts(PROTOCOL, "task", fields, texts)


def parse_task(data: Untrusted[bytes]) -> Task:
    """Return the task in `data`, or raise `ProtocolBroken`; used inside the box."""
    _, fields, texts = open_texts(PROTOCOL, data, MAX_TASK_BYTES, "task")
    need(tuple(fields) == _TASK_KEYS, "unexpected fields")
    left = iter(texts)
    question = next_text(left)
    need_number(fields["denied"], MAX_DENIED, "denied")
    denied = tuple(next_text(left) for _ in range(fields["denied"]))
    sources = tuple(_source(item, left) for item in need_list(fields["sources"], MAX_SOURCES))
    need(next(left, None) is None, "more texts than sources")
    budget = fields["budget"]
    need(type(budget) is dict and tuple(budget) == tuple(sorted(Budget.__slots__)), "no budget")
    return Task(
        question=question,
        policy=_words(fields["policy"]),
        brief=_words(fields["brief"]),
        may_draft=_words(fields["may_draft"]),
        marker=fields["marker"],
        model=fields["model"],
        budget=Budget(**budget),
        denied=denied,
        sources=sources,
    )


_TASK_KEYS: Final = (
    "brief",
    "budget",
    "denied",
    "marker",
    "may_draft",
    "model",
    "policy",
    "sources",
)


@dataclass(frozen=True, slots=True, order=True)
class Cited:
    """A sentence of a source, all counted from 1 (`base.sentences` counts them)."""

    source: int
    excerpt: int
    sentence: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            need_number(getattr(self, name), MAX_TOKENS, name, least=1)


@dataclass(frozen=True, slots=True)
class Claimed:
    """What the model says, and which sentences it says it from."""

    text: Untrusted[str]
    cites: tuple[Cited, ...]

    def __post_init__(self) -> None:
        _need_text(self.text, MAX_TEXT_CHARS)
        need(len(self.cites) <= MAX_CITES, "too many sentences cited")


@dataclass(frozen=True, slots=True)
class ToolDraft:
    """A computation somebody may want to approve."""

    purpose: Untrusted[str]
    code: Untrusted[str]
    sources: tuple[int, ...]  # what it reads, by number, as inputs s1, s2 and so on

    def __post_init__(self) -> None:
        _need_text(self.purpose, MAX_TEXT_CHARS)
        _need_text(self.code, MAX_CODE_CHARS)
        need(len(self.sources) <= MAX_REFERENCES, "too many inputs")
        for number in self.sources:
            need_number(number, MAX_SOURCES, "a source", least=1)


@dataclass(frozen=True, slots=True)
class FetchDraft:
    """Sources somebody may want to have."""

    purpose: Untrusted[str]
    references: tuple[Untrusted[str], ...]

    def __post_init__(self) -> None:
        _need_text(self.purpose, MAX_TEXT_CHARS)
        need(1 <= len(self.references) <= MAX_REFERENCES, "no references, or too many")
        for reference in self.references:
            need_word(reference.open_for_validation(), _REFERENCE, "a reference")


Draft = ToolDraft | FetchDraft


@dataclass(frozen=True, slots=True)
class Usage:
    """What it took."""

    calls: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    model_ms: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            need_number(getattr(self, name), MAX_TOKENS, name)


@dataclass(frozen=True, slots=True)
class Said:
    """What CORE says about a task."""

    method: str
    claims: tuple[Claimed, ...]
    drafts: tuple[Draft, ...]
    notes: tuple[Untrusted[str], ...]  # of the map step
    shown: tuple[int, ...]  # the sources the model saw anything of
    left_out: int  # sentences that did not fit
    problems: tuple[str, ...]  # our own words
    usage: Usage

    def __post_init__(self) -> None:
        need(self.method in METHODS, "no known method")
        need(len(self.claims) <= MAX_CLAIMS, "too many claims")
        need(len(self.drafts) <= MAX_DRAFTS, "too many drafts")
        need(len(self.notes) <= MAX_NOTES, "too many notes")
        for note in self.notes:
            _need_text(note, MAX_TEXT_CHARS)
        need(len(self.shown) <= MAX_SOURCES, "too many sources")
        for number in self.shown:
            need_number(number, MAX_SOURCES, "a source", least=1)
        need_number(self.left_out, MAX_TOKENS, "left_out")
        need(len(self.problems) <= MAX_WORDS, "too many problems")
        for problem in self.problems:
            need_sentence(problem, MAX_LINE_CHARS, "a problem")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        claims = [[[c.source, c.excerpt, c.sentence] for c in item.cites] for item in self.claims]
        fields = {
            "claims": claims,
            "drafts": [_draft_head(item) for item in self.drafts],
            "left_out": self.left_out,
            "method": self.method,
            "notes": len(self.notes),
            "problems": list(self.problems),
            "shown": list(self.shown),
            "usage": {name: getattr(self.usage, name) for name in sorted(Usage.__slots__)},
        }
        texts = [item.text for item in self.claims]
        texts += [text for item in self.drafts for text in _draft_texts(item)]
        texts += self.notes
        return pack_texts(PROTOCOL, "said", fields, [text.open_for_validation() for text in texts])


_SAID_KEYS: Final = (
    *("claims", "drafts", "left_out", "method", "notes", "problems", "shown", "usage"),
)


@dataclass(frozen=True, slots=True)
class NotSaid:
    """Why there is no answer."""

    code: str
    message: str

    def __post_init__(self) -> None:
        need_word(self.code, _CODE, "code")
        need_sentence(self.message, MAX_LINE_CHARS, "message")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return pack_texts(PROTOCOL, "not-said", {"code": self.code, "message": self.message}, [])


def parse_said(data: Untrusted[bytes]) -> Said | NotSaid:
    """Return what CORE said, or raise `ProtocolBroken`; used by the host."""
    kind, fields, texts = open_texts(PROTOCOL, data, MAX_SAID_BYTES, "said", "not-said")
    if kind == "not-said":
        need(tuple(fields) == ("code", "message") and not texts, "unexpected fields or texts")
        return NotSaid(fields["code"], fields["message"])
    need(tuple(fields) == _SAID_KEYS, "unexpected fields")
    left = iter(texts)
    claims = tuple(_claim(item, left) for item in need_list(fields["claims"], MAX_CLAIMS))
    drafts = tuple(_draft(item, left) for item in need_list(fields["drafts"], MAX_DRAFTS))
    need_number(fields["notes"], MAX_NOTES, "notes")
    notes = tuple(Untrusted(next_text(left)) for _ in range(fields["notes"]))
    need(next(left, None) is None, "more texts than it names")
    usage = fields["usage"]
    need(type(usage) is dict and tuple(usage) == tuple(sorted(Usage.__slots__)), "no usage")
    return Said(
        method=fields["method"],
        claims=claims,
        drafts=drafts,
        notes=notes,
        shown=tuple(need_list(fields["shown"], MAX_SOURCES)),
        left_out=fields["left_out"],
        problems=_words(fields["problems"]),
        usage=Usage(**usage),
    )


def _claim(value: Any, left: Iterator[str]) -> Claimed:
    cites = tuple(_cited(item) for item in need_list(value, MAX_CITES))
    return Claimed(Untrusted(next_text(left)), cites)


def _cited(value: Any) -> Cited:
    need(type(value) is list and len(value) == 3, "not a cite")
    return Cited(*value)


def _draft_head(draft: Draft) -> list[Any]:
    if isinstance(draft, ToolDraft):
        return ["tool-request", list(draft.sources)]
    return ["fetch-request", len(draft.references)]


def _draft_texts(draft: Draft) -> tuple[Untrusted[str], ...]:
    if isinstance(draft, ToolDraft):
        return draft.purpose, draft.code
    return draft.purpose, *draft.references


def _draft(value: Any, left: Iterator[str]) -> Draft:
    need(type(value) is list and len(value) == 2, "not a draft")
    kind, more = value
    purpose = Untrusted(next_text(left))
    if kind == "tool-request":
        return ToolDraft(
            purpose, Untrusted(next_text(left)), tuple(need_list(more, MAX_REFERENCES))
        )
    need(kind == "fetch-request", "a draft of no known kind")
    need_number(more, MAX_REFERENCES, "references", least=1)
    return FetchDraft(purpose, tuple(Untrusted(next_text(left)) for _ in range(more)))


def _source(count: Any, left: Iterator[str]) -> Source:
    need_number(count, MAX_EXCERPTS, "excerpts")
    return Source(next_text(left), tuple(next_text(left) for _ in range(count)))


def _words(value: Any) -> tuple[str, ...]:
    items = need_list(value, MAX_WORDS)
    need(all(type(item) is str for item in items), "not words")
    return tuple(items)


def _need_text(text: Untrusted[str], most: int) -> None:
    untrusted = text.open_for_validation()
    need(type(untrusted) is str and 1 <= len(untrusted) <= most, "a text is too long or empty")
