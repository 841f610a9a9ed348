"""Kill -9 at every point where a process touches the disk.

A forked child runs an action with the calls that change files wrapped; at the chosen call
it kills itself before it, after it, or half-way through a write.  The parent looks at what
is left.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from threegate.handoff import sync

WRAPPED = (
    "open",
    "write",
    "fsync",
    "fdatasync",
    "rename",
    "replace",
    "link",
    "unlink",
    "fchmod",
    "chmod",
    "ftruncate",
    "mkdir",
    "posix_fallocate",
)
MODES = ("before", "after", "half")
# Where something becomes true.  Enough for what is built from transactions, each of which is
# killed at every call in tests/escape.
TURNING = ("fdatasync", "rename", "replace", "unlink", "mkdir")


@dataclass(frozen=True, slots=True)
class Death:
    """Where the child died."""

    call: int
    mode: str
    name: str


def deaths(
    action: Callable[[], None], prepare: Callable[[], None], calls: Sequence[str] = WRAPPED
) -> Iterator[Death]:
    """Run `action` again and again, dying one call later each time, until it gets through."""
    for mode in MODES:
        call = 0
        while True:
            prepare()
            name = _run(action, call, mode, calls)
            if name is None:
                break
            yield Death(call, mode, name)
            call += 1
        half_is_possible = mode != "half" or "write" in calls
        assert call > 0 or not half_is_possible, (
            "no call was ever reached: the wrapper is not in the way"
        )


def _run(action: Callable[[], None], call: int, mode: str, calls: Sequence[str]) -> str | None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(action, call, mode, writer, calls)
    os.close(writer)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode("utf-8", "replace")
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"died of signal {os.WTERMSIG(status)}"
        return told
    assert os.WEXITSTATUS(status) == 0, told
    return None


def _child(
    action: Callable[[], None], call: int, mode: str, writer: int, calls: Sequence[str]
) -> None:
    real_write, real_kill = os.write, os.kill
    counter = {"left": call}

    def die(name: str) -> None:
        real_write(writer, name.encode())
        real_kill(os.getpid(), signal.SIGKILL)

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if mode == "half" and name != "write":
                return real(*args, **kwargs)
            counter["left"] -= 1
            if counter["left"] >= 0:
                return real(*args, **kwargs)
            if mode == "half":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            elif mode == "after":
                real(*args, **kwargs)
            die(name)
            raise AssertionError

        return wrapped

    try:
        for name in calls:
            setattr(os, name, wrap(name, getattr(os, name)))
        sync.sync_filesystem = wrap("syncfs", sync.sync_filesystem)
        action()
    except BaseException as exc:  # noqa: BLE001  # the child must not return into pytest
        real_write(writer, f"{type(exc).__name__}: {exc}".encode())
        os._exit(1)
    os._exit(0)
