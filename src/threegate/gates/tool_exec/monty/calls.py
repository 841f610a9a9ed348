"""Answers to a program that waits: calls of external functions, names it left undefined.

SECURITY
    The arguments are chosen by hostile code.  A function that the request does not list
    does not exist; what goes back is a plain value or an error in our own words.
"""

import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pydantic_monty import FunctionSnapshot, FutureSnapshot, MontyComplete, NameLookupSnapshot

from threegate.gates.tool_exec.monty.functions import call
from threegate.gates.tool_exec.monty.plain import Bounds, FunctionRefused

# A missing name is a round trip through us and costs the program no time of its own.
MAX_LOOKUPS: Final = 1_000

Waiting: TypeAlias = FunctionSnapshot | NameLookupSnapshot | FutureSnapshot
Snapshot: TypeAlias = Waiting | MontyComplete


class TooMany(Exception):
    """The program waited for us more often than it may."""


class Calls:
    """Counts what one run asks of us."""

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
        """Return how often a run can wait for us at all, one more than ever is answered."""
        return MAX_LOOKUPS + sum(bounds.calls for bounds in self._offered.values()) + 1

    def answer(self, waiting: Waiting) -> Snapshot:
        """Let the program go on; raise `TooMany` if it may not."""
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
    """Return what the interpreter takes for a function of the host, known by its name."""

    def stand_in(*_: Any) -> None:
        raise AssertionError("calls are answered one by one")

    stand_in.__name__ = name
    return stand_in
