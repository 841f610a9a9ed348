"""Answers as they are kept: one line each, as soon as it is there, so that a run can go on."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.evaluation.material import keys_of


@dataclass(frozen=True, slots=True)
class Drafted:
    """A program that came with an answer: whether it could run, and what it came to."""

    code: str
    refused: str | None = None  # why the lane or the format would not have it
    exit: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer took, in seconds and tokens; `model` is the time of the tokens."""

    whole: float = 0.0
    loading: float = 0.0
    model: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system said to one question."""

    text: str = ""
    cited: tuple[str, ...] = ()  # works, in the order they are cited
    quotes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # of the claims
    shown: tuple[str, ...] = ()  # works the system was given
    draft: Drafted | None = None
    fetches: int = 0  # drafts of fetches
    cost: Cost = Cost()
    told: tuple[str, ...] = ()  # what went wrong, in the system's words
    error: str | None = None
    own: "Answer | None" = None  # the part that a model wrote, if there is another


@dataclass(frozen=True, slots=True)
class Key:
    """Which answer it is: of a system with a model to a question as it stood."""

    system: str
    model: str
    question: str
    digest: str


class Kept:
    """The answers of a file, and a way to add to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.answers: dict[Key, Answer] = dict(self._lines())

    def add(self, key: Key, answer: Answer) -> None:
        """Keep an answer; it is on the disk when this returns."""
        self.answers[key] = answer
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"key": asdict(key), "answer": asdict(answer)}, ensure_ascii=False)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _lines(self) -> Iterator[tuple[Key, Answer]]:
        if not self._path.exists():
            return
        for line in self._path.read_text("utf-8").splitlines():
            try:
                found = json.loads(line)
            except ValueError:  # the run was ended in the middle of a line
                continue
            yield Key(**found["key"]), answer_from(found["answer"])


def answer_from(found: dict[str, Any]) -> Answer:
    """Return an answer as it was kept."""
    given: dict[str, Any] = {name: found[name] for name in keys_of(Answer) if name in found}
    given["draft"] = None if given.get("draft") is None else Drafted(**given["draft"])
    given["cost"] = Cost(**given.get("cost", {}))
    given["own"] = None if given.get("own") is None else answer_from(given["own"])
    lists: dict[str, Any] = {k: tuple(v) for k, v in given.items() if isinstance(v, list)}
    return Answer(**{**given, **lists})
