"""One difference between two policies, and whether it lets more happen."""

from dataclasses import dataclass
from typing import Final, Literal

from threegate.policy.nodes import Path, Value

Effect = Literal["widens", "narrows", "changes"]

OPPOSITE: Final[dict[Effect, Effect]] = {
    "widens": "narrows",
    "narrows": "widens",
    "changes": "changes",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A rule that differs; `path` starts with the section's name."""

    path: str
    old: Value
    new: Value
    effect: Effect
    sentence: str


def change(path: Path, old: Value, new: Value, effect: Effect, sentence: str) -> Change:
    """Return the change at `path`."""
    return Change("/".join(path), old, new, effect, sentence)


def about(path: Path, text: str) -> str:
    """Return a sentence that starts with where the rule stands."""
    return f"{' '.join(path[:-1])}: {text}"


def wider_if(condition: bool) -> Effect:  # noqa: FBT001 -- the condition is the whole sentence
    """Return `widens` when the new side lets more happen, else `narrows`."""
    return "widens" if condition else "narrows"
