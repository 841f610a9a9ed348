"""The workers of one box, and the clock that watches them.

Each worker serves one program and is then gone.  One thread waits for the deadline of the
program that runs; a timer for each would cost more than a small program takes.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from pydantic_monty import Monty, MontySession

from threegate.sandbox.payload import LAUNCHER

# The interpreter stops itself at the limit; a worker that did not is killed this much later.
GRACE_SECONDS: Final = 0.25
CHECKOUT_SECONDS: Final = 10.0


class Pool:
    """Fresh workers, one at a time."""

    def __init__(self, binary: str = LAUNCHER) -> None:
        self._monty = Monty(
            binary_path=binary,
            min_processes=1,
            max_processes=1,
            max_checkouts_per_worker=1,
            checkout_timeout=CHECKOUT_SECONDS,
            feed_duration_limit_grace=GRACE_SECONDS,
            turn_duration_limit_grace=GRACE_SECONDS,
        )
        self.alarm = Alarm()

    def checkout(self, **settings: Any) -> MontySession:
        """Return a session with a worker of its own."""
        return self._monty.checkout(**settings)

    def __enter__(self) -> Self:
        self._monty.__enter__()
        self.alarm.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.alarm.close()
        self._monty.__exit__(kind, error, trace)


class Alarm:
    """Rings once at a time that is set, unless it is put off before."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: float | None = None
        self._wakes: float | None = None  # when the thread looks next; None: when it is told
        self._ring: Callable[[], None] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def start(self) -> None:
        """Begin to watch the time."""
        self._thread.start()

    def set(self, seconds: float, ring: Callable[[], None]) -> None:
        """Ring in so many seconds."""
        with self._changed:
            self._due, self._ring = time.monotonic() + seconds, ring
            # Waking the thread costs more than letting it look once too often.
            if self._wakes is None or self._due < self._wakes:
                self._changed.notify()

    def off(self) -> None:
        """Do not ring; once this returns it does not."""
        with self._changed:
            self._due = self._ring = None

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _wait(self) -> None:
        with self._changed:
            while not self._closed:
                left = None if self._due is None else self._due - time.monotonic()
                if left is not None and left <= 0:
                    assert self._ring is not None
                    self._ring()
                    self._due = self._ring = None
                    continue
                self._wakes = None if left is None else self._due
                self._changed.wait(left)
