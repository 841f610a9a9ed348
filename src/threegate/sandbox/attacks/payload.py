"""All attempts by name, and how they are made: inside a sandbox as its payload, outside as control.

Each attempt is announced before it is made, so that the host knows which one ended the
process.  If the profile may fork, each attempt gets its own process, because one that works may
change everything after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
from dataclasses import replace

from threegate.sandbox.attacks import (
    bombs,
    code,
    execution,
    files,
    kernel_doors,
    network,
    packages,
    privileges,
    processes,
    sockets,
    writing,
)
from threegate.sandbox.attacks.base import Attempt, Facts, reason_of
from threegate.sandbox.channel import HEADER, NOTE, read_message, write_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Result = dict[str, str]

_MODULES = (
    network,
    sockets,
    execution,
    code,
    files,
    writing,
    processes,
    privileges,
    kernel_doors,
    packages,
    bombs,
)


def _by_name() -> dict[str, Attempt]:
    found: dict[str, Attempt] = {}
    for module in _MODULES:
        for item in module.ATTEMPTS:
            assert item.name not in found, item.name
            found[item.name] = item
    return found


ATTEMPTS = _by_name()

MAX_REQUEST_BYTES = 1024 * 1024
MAX_DETAIL_CHARS = 160
CHILD_SECONDS = 20
FRAME_FD = 3
MAX_FD = 4096
LAST = "living_worker_disturbed"


def main() -> None:
    """Be the payload of a gate: note each result as it is made, and answer with all of them."""
    request = json.loads(read_message(0, MAX_REQUEST_BYTES) or b"")
    results = _perform(request, lambda item: _note(json.dumps(item).encode()))
    write_message(FRAME_FD, json.dumps(results).encode())


def control_main() -> None:
    """Be the control: the same attempts without a box, one JSON line each."""

    def say(item: Result) -> None:
        sys.stdout.write(json.dumps(item) + "\n")
        sys.stdout.flush()

    _perform(json.loads(sys.stdin.read()), say)


def _note(data: bytes) -> None:
    os.write(FRAME_FD, HEADER.pack(NOTE, len(data)) + data)


def _perform(request: dict[str, Any], say: Callable[[Result], None]) -> list[Result]:
    facts = Facts(**request["facts"], descriptors=_open_descriptors(), gate=os.getpid())
    if LAST not in request["names"] or facts.control:
        return _each(facts, request, request["names"], say)
    with _living_worker() as compute:
        others = [name for name in request["names"] if name != LAST]
        results = _each(facts, request, others, say)
        say({"begin": LAST})
        alive = compute("6 * 7") == 42
        detail = "it computed" if alive else "it did not answer"
        last = {"name": LAST, "outcome": "blocked", "reason": "alive", "detail": detail}
        last |= {} if alive else {"outcome": "worked", "reason": ""}
        say(last)
        return [*results, last]


@contextlib.contextmanager
def _living_worker() -> Iterator[Callable[[str], object]]:
    """Keep a real Monty worker, started as the gate starts it, while the attempts run."""
    import pydantic_monty

    from threegate.sandbox.payload import LAUNCHER

    with (
        pydantic_monty.Monty(binary_path=LAUNCHER, min_processes=1, max_processes=1) as pool,
        pool.checkout(limits={"max_memory": 64 * 2**20}) as session,
    ):
        assert session.feed_run("1 + 1") == 2
        yield session.feed_run


def _each(
    facts: Facts, request: dict[str, Any], names: list[str], say: Callable[[Result], None]
) -> list[Result]:
    results = []
    for name in names:
        if facts.control:
            _fresh_targets(facts)
        say({"begin": name})
        own = request["fork"]
        result = _in_a_child(facts, name, request["lock"]) if own else _try(facts, name)
        say(result)
        results.append(result)
    return results


def _open_descriptors() -> tuple[int, ...]:
    found = []
    for fd in range(FRAME_FD + 1, MAX_FD):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    return tuple(found)


def _try(facts: Facts, name: str) -> Result:
    facts = replace(facts, token=facts.token + name)
    try:
        said = ATTEMPTS[name].act(facts)
    except BaseException as exc:  # noqa: BLE001  # any error is a result
        detail = f"{type(exc).__name__}: {exc}"[:MAX_DETAIL_CHARS]
        return {"name": name, "outcome": "blocked", "reason": reason_of(exc), "detail": detail}
    return {"name": name, "outcome": "worked", "reason": "", "detail": said[:MAX_DETAIL_CHARS]}


def _in_a_child(facts: Facts, name: str, lock: str) -> Result:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(facts, name, lock, writer)
    os.close(writer)
    data = b""
    while piece := os.read(reader, 65536):
        data += piece
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    if data:
        result: Result = json.loads(data)
        return result
    code = os.waitstatus_to_exitcode(status)
    reason = signal.Signals(-code).name if code < 0 else f"exit {code}"
    return {"name": name, "outcome": "ended", "reason": reason, "detail": "no answer"}


def _child(facts: Facts, name: str, lock: str, writer: int) -> None:
    if not lock:
        signal.alarm(CHILD_SECONDS)
    try:
        if lock:
            ctypes.CDLL(lock)  # its constructor is the worker's lock
        answer = json.dumps(_try(facts, name)).encode()
        os.write(writer, answer)
    finally:
        os._exit(0)


def _fresh_targets(facts: Facts) -> None:
    """Give the control files it may ruin, new for each attempt."""
    for place in facts.places:
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place, 0o700)
    for target in facts.targets:
        with open(target, "wb") as file:
            file.write(b"target\n" * 1024)
