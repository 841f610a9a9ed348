"""Programs that try to take time, memory or the supervisor along: one table, by family.

Most are written down in tests/vectors/lite/bombs; sources and inputs too long to read are made
here.  A bomb says how it may end.  Where an exhausted interpreter may find either limit first,
or a faster machine may even finish, several ends are right; what is never right is no end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.support.lite import LIMITS, MIB, Program
from threegate.artifacts.tool_request import RunLimits

DIRECTORY: Final = Path(__file__).parents[1] / "vectors" / "lite" / "bombs"


@dataclass(frozen=True, slots=True)
class Bomb:
    """One program, what it is given, and how it may end."""

    family: str
    name: str
    code: str
    ends: tuple[str, ...]
    functions: tuple[str, ...] = ()
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    limits: RunLimits = LIMITS

    @property
    def id(self) -> str:
        return f"{self.family}: {self.name}"

    @property
    def program(self) -> Program:
        return Program(self.code, self.functions, self.inputs, self.limits)


def every() -> list[Bomb]:
    """Return all bombs, family by family."""
    from tests.support.lite_bombs_made import made

    files = sorted(DIRECTORY.glob("*.txt"))
    assert files, f"no bombs in {DIRECTORY}"
    bombs = [bomb for path in files for bomb in _written(path.read_text("utf-8"))]
    bombs += made()
    ids = [bomb.id for bomb in bombs]
    assert len(ids) == len(set(ids)), "two bombs of one name"
    return bombs


def _written(text: str) -> Iterator[Bomb]:
    head, *parts = text.split("\n== ")
    keys = dict(line.split(": ", 1) for line in head.split("\n") if line)
    assert parts, "a family without programs"
    for part in parts:
        name, _, code = part.partition("\n")
        ends = keys["ends"]
        if code.startswith("ends: "):
            ends, _, code = code.removeprefix("ends: ").partition("\n")
        functions = tuple(keys.get("functions", "").split())
        yield Bomb(
            keys["family"],
            name,
            code.rstrip("\n") + "\n",
            tuple(ends.split()),
            functions,
            limits=_limits(keys),
        )


def _limits(keys: Mapping[str, str]) -> RunLimits:
    wall_ms = int(keys.get("wall_ms", LIMITS.wall_ms))
    memory = int(keys["memory_mib"]) * MIB if "memory_mib" in keys else LIMITS.memory_bytes
    return replace(LIMITS, wall_ms=wall_ms, memory_bytes=memory)
