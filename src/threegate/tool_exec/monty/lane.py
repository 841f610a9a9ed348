"""One program in one fresh Monty worker: no file, network, environment, clock, randomness or sleep.

Same program and inputs, same outcome, on any day and machine: the clock stands still, random
starts from a seed, sleeping takes no time, and what is not reproducible (a time or memory
limit, a crash) is named as such.

SECURITY
    Runs in the tool-lite box and talks to a worker that runs hostile code.  Everything
    the worker says (values, printed text, error text, even the type of an error) is
    chosen by that code: it is bounded, and limits are believed only when our own clock
    agrees.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pydantic_monty
from pydantic_monty import (
    CollectStreams,
    Monty,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
)

from threegate.sandbox.worker_places import LAUNCHER
from threegate.tool_exec.monty.convert import NotJson, TooLarge, to_json
from threegate.tool_exec.monty.functions import REGISTRY, FunctionRefused
from threegate.tool_exec.monty.screen import Bounds, Refusal, screen

MAX_ERROR_CHARS: Final = 4096
GRACE_SECONDS: Final = 0.25
EPOCH: Final = datetime(2000, 1, 1)  # noqa: DTZ001  # Monty's clock has no zone
STILL: Final[pydantic_monty.OSPolicy] = {
    "datetime": EPOCH,
    "timezone": "utc",
    "sleep": "zero",
    "process_time": "zero",
    "random_start": {"seed": 0},
}


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, already approved and within policy."""

    code: str
    inputs: Mapping[str, str]
    functions: tuple[str, ...]
    wall_ms: int
    memory_bytes: int
    output_bytes: int
    recursion: int
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went; all text is the program's own."""

    exit: str
    value: str = ""
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    refusal: Refusal | None = None


def open_pool() -> Monty:
    """Return a pool whose every worker serves one program and is then gone."""
    return Monty(
        binary_path=LAUNCHER,
        min_processes=1,
        max_processes=1,
        max_checkouts_per_worker=1,
        checkout_timeout=10.0,
        feed_duration_limit_grace=GRACE_SECONDS,
        turn_duration_limit_grace=GRACE_SECONDS,
    )


def run(pool: Monty, job: Job) -> Outcome:
    """Run a program to its end or to its limit."""
    refusal = screen(job.code, job.bounds)
    if refusal is not None:
        return Outcome(f"refused:{refusal.construct}", refusal=refusal)
    printed = CollectStreams(max_bytes=job.output_bytes)
    began = time.monotonic()
    try:
        with pool.checkout(
            limits=_limits(job), os_policy=STILL, assert_message_annotations=False
        ) as session:
            value = session.feed_run(
                job.code,
                inputs=dict(job.inputs),
                external_lookup=_lookup(job.functions),
                print_callback=printed,
            )
        return _finished(value, printed, job)
    except MontyError as exc:
        late = time.monotonic() - began >= job.wall_ms / 1000
        exit_state, message = _failed(exc, late=late)
        return _with_output(exit_state, "", printed, job, message)


def _limits(job: Job) -> pydantic_monty.ResourceLimits:
    seconds = job.wall_ms / 1000
    return {
        "max_memory": job.memory_bytes,
        "max_feed_duration_secs": seconds,
        "max_turn_duration_secs": seconds,
        "max_recursion_depth": job.recursion,
        "max_suspensions": 10_000,
        "max_total_sleep_secs": 0.0,
    }


def _lookup(names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    return {name: _guarded(REGISTRY[name]) for name in names}


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let only our own words out of a function's errors."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords:
            raise TypeError("external functions take no keyword arguments")
        try:
            return function(*arguments)
        except FunctionRefused as exc:
            raise ValueError(str(exc)) from None
        except TypeError:
            raise TypeError("wrong number of arguments") from None

    return call


def _finished(value: Any, printed: CollectStreams, job: Job) -> Outcome:
    try:
        text = to_json(value, most_bytes=job.output_bytes)
    except TooLarge as exc:
        return _with_output("limit:output", "", printed, job, str(exc))
    except NotJson as exc:
        return _with_output("error", "", printed, job, f"the value is {exc}, not JSON")
    return _with_output("ok", text, printed, job, "")


def _with_output(
    exit_state: str, value: str, printed: CollectStreams, job: Job, message: str
) -> Outcome:
    out = "".join(text for stream, text in printed.output if stream == "stdout")
    err = "".join(text for stream, text in printed.output if stream != "stdout")
    room = max(0, job.output_bytes - len(value.encode("utf-8")))
    shown_out, cut_out = _cut(out, room)
    shown_err, cut_err = _cut(err + message, max(MAX_ERROR_CHARS, room - len(shown_out)))
    return Outcome(exit_state, value, shown_out, shown_err, truncated=cut_out or cut_err)


def _cut(text: str, most_bytes: int) -> tuple[str, bool]:
    data = text.encode("utf-8", "replace")
    if len(data) <= most_bytes:
        return data.decode("utf-8"), False
    return data[:most_bytes].decode("utf-8", "ignore"), True


def _failed(exc: MontyError, *, late: bool) -> tuple[str, str]:
    if isinstance(exc, MontyCrashedError):
        return ("limit:time" if late or exc.timed_out else "crashed"), ""
    if not isinstance(exc, MontyRuntimeError | MontySyntaxError):
        return "error", "the interpreter refused the program"
    inner = exc.exception()
    text = f"{type(inner).__name__}: {inner}"[:MAX_ERROR_CHARS]
    # A program can raise these itself with any text: our own clock decides about time.
    if isinstance(inner, TimeoutError) and late:
        return "limit:time", text
    if isinstance(inner, MemoryError):
        return "limit:memory", text
    if isinstance(inner, RecursionError):
        return "limit:recursion", text
    return "error", text
