"""External functions: the registry, their digests, and the answers to programs that call them.

The digest of a function covers its name, its signature and the source of every module of ours
that implements it.  Policy pins the digest; if the two differ, the lane does not start.

SECURITY
    Hostile code chooses the arguments.  A function that the request does not list does not exist.
    `call` measures values before and after, and returns a plain value or an error in our own
    words.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, TypeAlias

from pydantic_monty import FunctionSnapshot, FutureSnapshot, MontyComplete, NameLookupSnapshot

from threegate.base import canonical
from threegate.gates.tool_exec.monty import external, plain, regex
from threegate.gates.tool_exec.monty.plain import Bounds, FunctionRefused, measure


@dataclass(frozen=True, slots=True)
class Function:
    """One external function and what it is made of."""

    signature: str
    arguments: int
    run: Callable[..., Any]
    modules: tuple[ModuleType, ...] = (external, plain)


REGISTRY: Final = MappingProxyType(
    {
        "json_dumps": Function("json_dumps(obj: object) -> str", 1, external.json_dumps),
        "json_loads": Function("json_loads(s: str) -> object", 1, external.json_loads),
        "regex_findall": Function(
            "regex_findall(pattern: str, text: str) -> list[str]",
            2,
            external.regex_findall,
            (external, plain, regex),
        ),
        "sha256_hex": Function("sha256_hex(s: str) -> str", 1, external.sha256_hex),
    }
)


def digests() -> dict[str, str]:
    """Return the digest of every function, by name."""
    return {name: digest_of(name, function) for name, function in REGISTRY.items()}


def digest_of(name: str, function: Function) -> str:
    """Return the digest that policy pins for one function."""
    sources = {
        module.__name__.rpartition(".")[2]: hashlib.sha256(_source(module)).hexdigest()
        for module in function.modules
    }
    made_of = {"modules": sources, "name": name, "signature": function.signature}
    return hashlib.sha256(canonical.encode(made_of)).hexdigest()


def _source(module: ModuleType) -> bytes:
    assert module.__file__ is not None, "our own modules are files"
    return Path(module.__file__).read_bytes()


def call(name: str, bounds: Bounds, arguments: Sequence[Any]) -> Any:
    """Return what the function answers, or raise `FunctionRefused`."""
    function = REGISTRY[name]
    if len(arguments) != function.arguments:
        raise FunctionRefused("wrong number of arguments")
    # The arguments of a call are one list, which does not count as a level of nesting.
    measure(
        list(arguments), most_bytes=bounds.input_bytes + plain.PART_BYTES, depth=bounds.depth + 1
    )
    value = function.run(*arguments)
    # The value may be larger than the arguments.
    measure(value, most_bytes=bounds.output_bytes, depth=bounds.depth)
    return value


# Each lookup of a missing name is a round trip, and costs the program no time of its own.
MAX_LOOKUPS: Final = 1_000

Waiting: TypeAlias = FunctionSnapshot | NameLookupSnapshot | FutureSnapshot
Snapshot: TypeAlias = Waiting | MontyComplete


class TooMany(Exception):
    """The program waited for us more often than it may."""


class Calls:
    """Answers and counts the calls of one run."""

    def __init__(self, offered: Mapping[str, Bounds]) -> None:
        self._offered = offered
        self._counts: dict[str, int] = {}
        self._lookups = 0
        self.seconds = 0.0  # spent in functions

    @property
    def counted(self) -> tuple[tuple[str, int], ...]:
        """Return how often each function was called."""
        return tuple(sorted(self._counts.items()))

    @property
    def most(self) -> int:
        """Return how often a run may wait for us: one more than is ever answered."""
        return MAX_LOOKUPS + sum(bounds.calls for bounds in self._offered.values()) + 1

    def answer(self, waiting: Waiting) -> Snapshot:
        """Let the program go on, or raise `TooMany`."""
        if isinstance(waiting, FunctionSnapshot) and not waiting.is_os_function:
            name = str(waiting.function_name)
            if name in self._offered:
                return waiting.resume(self._called(name, waiting))
        self._lookups += 1
        if self._lookups > MAX_LOOKUPS or isinstance(waiting, FutureSnapshot):
            raise TooMany
        if isinstance(waiting, NameLookupSnapshot):
            return self._named(waiting)
        if waiting.is_os_function:
            return waiting.resume_not_handled()
        message = f"name '{str(waiting.function_name)[:64]}' is not defined"
        return waiting.resume({"exc_type": "NameError", "message": message})

    def _named(self, waiting: NameLookupSnapshot) -> Snapshot:
        if waiting.object_id is None and waiting.variable_name in self._offered:
            return waiting.resume(value=_stand_in(waiting.variable_name))
        return waiting.resume()

    def _called(self, name: str, waiting: FunctionSnapshot) -> Any:
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._counts[name] > self._offered[name].calls:
            raise TooMany
        if waiting.kwargs:
            return _error("TypeError", "external functions take no keyword arguments")
        began = time.monotonic()
        try:
            return {"return_value": call(name, self._offered[name], waiting.args)}
        except FunctionRefused as exc:
            return _error("ValueError", str(exc))
        finally:
            self.seconds += time.monotonic() - began


def _error(kind: str, message: str) -> dict[str, str]:
    return {"exc_type": kind, "message": message}


def _stand_in(name: str) -> Any:
    """Return a function that the interpreter treats as one of the host, by its name."""

    def stand_in(*_: Any) -> None:
        raise AssertionError("calls are answered one by one")

    stand_in.__name__ = name
    return stand_in
