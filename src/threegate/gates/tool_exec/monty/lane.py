"""One program in one fresh Monty worker: no file, network, environment, clock, randomness or sleep.

Same program and inputs, same outcome, on any day and machine: the clock stands still, random
starts from a seed, sleeping takes no time, and what is not reproducible (a time or memory
limit, a crash) is named as such.

SECURITY
    Runs in the tool-lite box and talks to a worker that runs hostile code.  Everything
    the worker says (values, printed text, error text, even the type of an error) is
    chosen by that code: it is bounded, and `outcome.judge` decides which limits are believed.
"""

import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pydantic_monty
from pydantic_monty import MontyComplete, MontyError, MontySession

from threegate.base.limits import MAX_ERROR_BYTES
from threegate.gates.tool_exec.monty import check
from threegate.gates.tool_exec.monty.functions import Calls, Snapshot, TooMany
from threegate.gates.tool_exec.monty.messages import LiteCut, LiteOutcome, RefusalFound
from threegate.gates.tool_exec.monty.outcome import (
    NotJson,
    RunEnd,
    TooLarge,
    judge,
    reached,
    to_json,
)
from threegate.gates.tool_exec.monty.plain import Bounds as FunctionBounds
from threegate.gates.tool_exec.monty.pool import RunWatch, WorkerPool, cut_utf8
from threegate.gates.tool_exec.monty.screen import SourceBounds, SourceRefusal, screen

EPOCH: Final = datetime(2000, 1, 1)  # noqa: DTZ001  # Monty's clock has no zone
STILL: Final[pydantic_monty.OSPolicy] = {
    "datetime": EPOCH,
    "timezone": "utc",
    "sleep": "zero",
    "process_time": "zero",
    "random_start": {"seed": 0},
}
NOT_EXPRESSIBLE: Final = "not-expressible"
# The text of each document is bound to the name of its input.  The function replaces it by the
# value, so no helper and no module is left in the program's names.
LOAD: Final = """\
def {name}(text={name}):
    import json
    return json.loads(text)
{name} = {name}()
"""


@dataclass(frozen=True, slots=True)
class LiteTask:
    """A program to run, already approved and within policy."""

    code: str
    inputs: tuple[tuple[str, bytes], ...]
    functions: Mapping[str, FunctionBounds]
    wall_ms: int
    memory_bytes: int
    output_bytes: int
    recursion: int
    bounds: SourceBounds


def run(pool: WorkerPool, job: LiteTask) -> LiteOutcome:
    """Run a program to its end or to its limit."""
    refusal = screen(job.code, job.bounds)
    if refusal is not None:
        return _refused(refusal, refusal.construct)
    outcome = _run(pool, job)
    if _looks_refused(outcome):
        # Only a check, in which nothing runs, tells the interpreter's refusal from a program
        # that raises the same error.
        refusal = check.compiles(pool, job.code)
        outcome = outcome if refusal is None else _refused(refusal, NOT_EXPRESSIBLE)
    return outcome


def _refused(refusal: SourceRefusal, why: str) -> LiteOutcome:
    found = RefusalFound(refusal.construct, refusal.line, refusal.reason)
    return LiteOutcome(f"refused:{why}", refusal=found)


def _looks_refused(outcome: LiteOutcome) -> bool:
    last = outcome.stderr.rpartition(b"\n")[2]
    return outcome.exit == "error" and last.startswith((b"NotImplementedError", b"SyntaxError"))


def _run(pool: WorkerPool, job: LiteTask) -> LiteOutcome:
    calls = Calls(job.functions)
    watch = RunWatch(pool.alarm, wall_ms=job.wall_ms, output_bytes=job.output_bytes)
    with pool.checkout(
        limits=_limits(job, calls), os_policy=STILL, assert_message_annotations=False
    ) as session:
        watch.start(session.worker_pid)
        try:
            found = _bind(session, job, watch) or _program(session, job, calls, watch)
        finally:
            watch.end()
    return _outcome(found, calls, watch)


def _limits(job: LiteTask, calls: Calls) -> pydantic_monty.ResourceLimits:
    seconds = job.wall_ms / 1000
    return {
        "max_memory": job.memory_bytes,
        "max_feed_duration_secs": seconds,
        "max_turn_duration_secs": seconds,
        "max_recursion_depth": job.recursion,
        "max_suspensions": calls.most,
        "max_total_sleep_secs": 0.0,
    }


def _bind(session: MontySession, job: LiteTask, watch: RunWatch) -> RunEnd | None:
    """Bind each input to the value of its JSON document; return why that failed, if it did."""
    if not job.inputs:
        return None
    names = [name for name, _ in job.inputs]
    if any(keyword.iskeyword(name) or name in job.functions for name in names):
        return RunEnd("refused:input", "the name of an input cannot be bound")
    loader = "".join(LOAD.format(name=name) for name in names)
    try:
        texts = {name: document.decode("utf-8") for name, document in job.inputs}
        session.feed_run(loader, inputs=texts, print_callback=watch.printed)
    except UnicodeDecodeError:
        return RunEnd("refused:input", "an input is not UTF-8")
    except MontyError as exc:
        verdict = judge(exc, watch, loader)
        if verdict.exit not in {"limit:time", "limit:memory", "crashed"}:
            return RunEnd("refused:input", "an input is not JSON that the interpreter reads")
        return verdict
    return None


def _program(session: MontySession, job: LiteTask, calls: Calls, watch: RunWatch) -> RunEnd:
    """Run the program and say how it ended."""
    try:
        snapshot: Snapshot = session.feed_start(job.code, print_callback=watch.printed)
        while not isinstance(snapshot, MontyComplete):
            if watch.late:
                return reached("time")
            snapshot = calls.answer(snapshot)
        watch.end()
    except TooMany:
        return reached(watch.why or "calls")
    except MontyError as exc:
        return judge(exc, watch, job.code)
    if watch.cut is not None:
        return reached("output")
    # The program ended: the time to hand over its value on a slow machine does not count.
    if watch.used(calls.seconds):
        return reached("time")
    return _left(snapshot, watch)


def _left(snapshot: MontyComplete, watch: RunWatch) -> RunEnd:
    try:
        return RunEnd("ok", value=to_json(snapshot.output, most_bytes=watch.room))
    except TooLarge as exc:
        return RunEnd("limit:output", str(exc), value_cut=True)
    except NotJson as exc:
        return RunEnd("error", f"the value is {exc}, not JSON")


def _outcome(found: RunEnd, calls: Calls, watch: RunWatch) -> LiteOutcome:
    text = cut_utf8(found.text.encode("utf-8", "replace"), MAX_ERROR_BYTES)
    return LiteOutcome(
        exit=found.exit,
        value=found.value.encode("utf-8"),
        stdout=bytes(watch.stdout),
        stderr=bytes(watch.stderr) + text,
        cut=LiteCut(
            value=found.value_cut,
            stdout=watch.cut == "stdout",
            stderr=found.text_cut or watch.cut == "stderr",
        ),
        calls=calls.counted,
        cpu_ms=round(watch.cpu_seconds * 1000),
    )
