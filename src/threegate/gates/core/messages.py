"""Messages between the host and a CORE sandbox: one task in, what CORE says about it out.

Texts travel behind the header, so a long excerpt costs no escaping.  Progress comes as notes,
each the name of a `STEP`.

SECURITY
    Either side may be compromised.  CORE reads what strangers wrote; what it says is text and
    numbers, and the numbers name what the host itself sent, or the message is refused.
    Nothing here can name an id, a state, an approval or a file.
"""

import re
from typing import Final

from threegate.base.limits import KIB, MIB
from threegate.base.message_shapes import BoxedText, OpenText, RecordRow, SortedRecord, TextLine
from threegate.base.messages import CheckedRecord, Message, head, message, parser_of, part, record
from threegate.base.schema import Choice, Integer, ListOf, Pattern, Text
from threegate.base.texts import CountedTexts, OneText, TextRecords
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need

PROTOCOL: Final = "core/1"
DRAFTS: Final = ("fetch-request", "tool-request")

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
FIXED_TOKENS: Final = 900  # of every prompt: invariants, and the step's own words
# What a step of CORE may be called; its notes are shown as progress.
STEP: Final = re.compile(
    r"asking the model (?:for an answer|what is needed next|for a program)"
    r"|reading part [0-9]{1,6} of [0-9]{1,6}"
)
_LINES: Final = ListOf(TextLine(), MAX_WORDS)
_TOKENS: Final = Integer(0, MAX_TOKENS)
_NUMBER: Final = Integer(1, MAX_TOKENS)
_SOURCE: Final = Integer(1, MAX_SOURCES)
_TEXT: Final = Text(MAX_TEXT_CHARS)
_REFERENCE: Final = BoxedText(Pattern(r"[!-~]{1,500}", "a reference"))


@record
class TaskSource(CheckedRecord):
    """An artifact as CORE may know it."""

    provenance: str = part(OneText(TextLine()), "where it came from, in the host's words")
    excerpts: tuple[str, ...] = part(
        CountedTexts(OpenText(MAX_EXCERPT_CHARS), MAX_EXCERPTS), "its texts"
    )


@record
class TaskBudget(CheckedRecord):
    """What answering may cost."""

    context_tokens: int = head(_TOKENS, "of the model")
    output_tokens: int = head(_TOKENS, "of one reply")
    claims: int = head(_TOKENS, "at most")
    drafts: int = head(_TOKENS, "at most")
    retries: int = head(_TOKENS, "of a reply without the right form")
    deadline_ms: int = head(_TOKENS, "for everything")


@message(
    PROTOCOL,
    "task",
    sender="host",
    answer="`CoreSaid` or `CoreNotSaid`",
    most_bytes=MAX_TASK_BYTES,
    texts=True,
)
class CoreTask(Message):
    """A question, the instructions that apply to it, and everything CORE may read."""

    question: str = part(OneText(OpenText(MAX_QUESTION_CHARS, least=1)), "the operator's")
    policy: tuple[str, ...] = head(_LINES, "sentences about what holds here")
    brief: tuple[str, ...] = head(_LINES, "the role")
    may_draft: tuple[str, ...] = head(ListOf(Choice(*DRAFTS), MAX_WORDS), "kinds of requests")
    marker: str = head(Pattern(r"[0-9a-f]{32,128}", "random digits"), "new for every run")
    model: str = head(Pattern(r"[!-\[\]-~]{1,200}", "the name of a model"), "who is asked")
    budget: TaskBudget = head(SortedRecord(TaskBudget), "what it may cost")
    denied: tuple[str, ...] = part(
        CountedTexts(OpenText(MAX_TEXT_CHARS), MAX_DENIED),
        "what was proposed before and denied, and why, as data",
    )
    sources: tuple[TaskSource, ...] = part(TextRecords(MAX_SOURCES, TaskSource), "what to read")

    def check(self) -> None:
        excerpts = sum(len(source.excerpts) for source in self.sources)
        need(excerpts <= MAX_EXCERPTS, "too many excerpts")


@record
class Cited(CheckedRecord):
    """A sentence of a source, all counted from 1 (`base.sentences` counts them)."""

    source: int = head(_NUMBER, "which source of the task")
    excerpt: int = head(_NUMBER, "which excerpt of it")
    sentence: int = head(_NUMBER, "which sentence of that")


@record
class ModelClaim(CheckedRecord):
    """What the model says, and which sentences it says it from."""

    text: Untrusted[str] = part(OneText(_TEXT), "the claim")
    cites: tuple[Cited, ...] = head(ListOf(RecordRow(Cited), MAX_CITES), "the sentences")


@record
class ToolDraft(CheckedRecord):
    """A computation that a human may approve."""

    purpose: Untrusted[str] = part(OneText(_TEXT), "what for")
    code: Untrusted[str] = part(OneText(Text(MAX_CODE_CHARS)), "the program")
    sources: tuple[int, ...] = head(
        ListOf(_SOURCE, MAX_REFERENCES), "what it reads, by number, as inputs s1, s2 and so on"
    )


@record
class FetchDraft(CheckedRecord):
    """Sources that a human may have fetched."""

    purpose: Untrusted[str] = part(OneText(_TEXT), "what for")
    references: tuple[Untrusted[str], ...] = part(
        CountedTexts(_REFERENCE, MAX_REFERENCES, least=1), "which"
    )


Draft = ToolDraft | FetchDraft


@record
class ModelUsage(CheckedRecord):
    """What it took."""

    calls: int = head(_TOKENS, "of the model")
    retries: int = head(_TOKENS, "of replies without the right form")
    prompt_tokens: int = head(_TOKENS, "of all questions")
    completion_tokens: int = head(_TOKENS, "of all replies")
    model_ms: int = head(_TOKENS, "time of the model")


@message(PROTOCOL, "said", sender="CORE", most_bytes=MAX_SAID_BYTES, texts=True)
class CoreSaid(Message):
    """What CORE says about a task."""

    method: str = head(Choice("model", "map-reduce"), "how")
    claims: tuple[ModelClaim, ...] = part(TextRecords(MAX_CLAIMS, ModelClaim), "the answer")
    drafts: tuple[Draft, ...] = part(
        TextRecords(MAX_DRAFTS, **{"tool-request": ToolDraft, "fetch-request": FetchDraft}),
        "requests that it proposes",
    )
    notes: tuple[Untrusted[str], ...] = part(CountedTexts(_TEXT, MAX_NOTES), "of the map step")
    shown: tuple[int, ...] = head(
        ListOf(_SOURCE, MAX_SOURCES), "the sources the model saw anything of"
    )
    left_out: int = head(_TOKENS, "sentences that did not fit")
    problems: tuple[str, ...] = head(_LINES, "our own words")
    usage: ModelUsage = head(SortedRecord(ModelUsage), "what it took")


@message(PROTOCOL, "not-said", sender="CORE", most_bytes=MAX_SAID_BYTES, texts=True)
class CoreNotSaid(Message):
    """There is no answer."""

    code: str = head(Pattern(r"TG-COR-[0-9]{3}", "a code of CORE"), "which rule")
    message: str = head(TextLine(), "why, in our own words")


parse_task: Final = parser_of(CoreTask)
parse_said: Final = parser_of(CoreSaid, CoreNotSaid)
