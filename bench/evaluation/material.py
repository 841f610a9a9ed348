"""The works and the questions of the evaluation, read strictly and put into packets."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.holdings import paper
from tests.support.samples import box
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import ResearchPacket

HERE: Final = Path(__file__).resolve().parent
KINDS: Final = ("relevance", "value", "compare", "draft", "ranking")
COMPUTED: Final = ("draft", "ranking")
ROLE: Final = "research-assistant"


@dataclass(frozen=True, slots=True)
class Work:
    """An invented work: one packet."""

    key: str
    shelf: str
    title: str
    authors: tuple[str, ...]
    published: str
    texts: tuple[str, ...]
    retraction: str = "none"

    @property
    def names(self) -> tuple[str, ...]:
        """What somebody may call it by: its title, or the first author's family name."""
        return self.title, self.authors[0].split()[-1]


Result = float | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what a right answer to it looks like."""

    key: str
    kind: str
    ask: str
    works: tuple[str, ...] = ()  # named to the system; none: it chooses from all
    role: str = ROLE
    values: tuple[str, ...] = ()
    decoys: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    absent: bool = False  # no source answers it
    retracted: bool = False  # what answers it was retracted
    result: Result | None = None
    also: Result | None = None  # another right result
    program: str = ""

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.key
        assert (self.kind in COMPUTED) == (self.result is not None) == bool(self.program), self.key
        assert self.absent or self.values or self.cites or self.program, self.key


@dataclass(frozen=True, slots=True)
class Material:
    """Everything the evaluation asks about and asks."""

    works: Mapping[str, Work]
    questions: tuple[Question, ...]
    packets: Mapping[str, ResearchPacket] = field(default_factory=dict)

    def digest_of(self, question: Question) -> str:
        """Return a digest that changes with the question or with any work it is asked about."""
        works = question.works or tuple(self.works)
        asked = (question.ask, question.role, *(repr(self.works[key]) for key in works))
        return sha256_hex("\0".join(asked).encode("utf-8"))


@cache
def material() -> Material:
    """Return works and questions; what is spelt wrong there is an error here."""
    works = {key: _work(key, found) for key, found in _read("works.toml").items()}
    questions = [_question(key, found, works) for key, found in _read("questions.toml").items()]
    packets = {key: _packet(number, one) for number, (key, one) in enumerate(works.items(), 1)}
    return Material(works, tuple(questions), packets)


def _read(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((HERE / name).read_text("utf-8"))


def _work(key: str, found: Mapping[str, Any]) -> Work:
    return Work(key=key, **{name: _frozen(value) for name, value in found.items()})


def _question(key: str, found: Mapping[str, Any], works: Mapping[str, Work]) -> Question:
    given = {name: _frozen(value) for name, value in found.items() if name != "about"}
    shelves = found.get("about", ())
    assert set(shelves) <= {work.shelf for work in works.values()}, key
    given["works"] = (*given.get("works", ()), *_on(shelves, works))
    asked = Question(key=key, **given)
    named = {*asked.works, *asked.cites}
    assert named <= set(works), (key, named - set(works))
    return asked


def _on(shelves: Sequence[str], works: Mapping[str, Work]) -> list[str]:
    return [work.key for work in works.values() if work.shelf in shelves]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _packet(number: int, work: Work) -> ResearchPacket:
    return paper(
        9000 + number,
        *work.texts,
        title=work.title,
        authors=tuple(map(box, work.authors)),
        published=work.published,
        retraction=work.retraction,
    )


def keys_of(kind: type) -> list[str]:
    """Return the names of the fields of a dataclass."""
    return [one.name for one in fields(kind)]
