"""The memory of a guest, watched from outside.

A user-space kernel keeps the memory of its guest, with every file the guest writes, in one unnamed
file; the kernel's own memory is separate.  Both are read fifty times a second, and a guest above
its limit is ended.  The sandbox bounds the growth between two looks: no file larger than the next
whole GiB.

SECURITY
    Looks at a kernel that its guest may own.  A file hidden in another process still shows as
    resident memory there.  A kernel that cannot be read is ended.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from threegate.sandbox.service import Companion

LOOK_SECONDS: Final = 0.02
HIDDEN_LOOKS: Final = 1500  # half a minute
OWN_BYTES: Final = 512 * 1024 * 1024  # of the kernel itself
_MEMORY_FILE: Final = "/memfd:"
_FIELD: Final = re.compile(rb"^(RssAnon|RssShmem):\s+([0-9]+) kB$", re.MULTILINE)


@dataclass(slots=True)
class MemoryWatch:
    """The memory of one guest, as seen so far."""

    most_bytes: int
    largest_bytes: int = 0
    over: bool = False  # it had more than it may, or could not be looked at
    hidden: int = 0  # looks that saw nothing, before the first that did; then it may not hide

    def look(self, processes: list[int]) -> bool:
        """Look once; return whether the guest may go on."""
        try:
            guest, own = _memory(processes)
        except PermissionError:
            # A sandbox shows nothing, even to its user, until its lock is proved.
            self.hidden += 1
            self.over = self.largest_bytes > 0 or self.hidden > HIDDEN_LOOKS
            return not self.over
        self.largest_bytes = max(self.largest_bytes, guest + own)
        self.over = guest > self.most_bytes or own > OWN_BYTES
        return not self.over


@contextmanager
def watching(watch: MemoryWatch, engine: Companion) -> Iterator[None]:
    """Watch an engine while something else is done, and end it if it takes too much."""
    enough = threading.Event()

    def look() -> None:
        while watch.look(engine.processes()):
            if enough.wait(LOOK_SECONDS):
                return
        engine.kill()

    thread = threading.Thread(target=look, name="memory of a guest")
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def _memory(processes: list[int]) -> tuple[int, int]:
    """Return the bytes of a guest, and of the kernel that runs it."""
    own, shown = 0, 0
    for pid in processes:
        fields = dict(_FIELD.findall(_status(pid)))
        own += int(fields.get(b"RssAnon", 0)) * 1024
        shown = max(shown, int(fields.get(b"RssShmem", 0)) * 1024)
    # The first process is bubblewrap's, the next one the kernel.
    files = _memory_files(processes[1]) if len(processes) > 1 else {}
    return max(shown, sum(files.values())), own


def _status(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            return file.read(65536) or b""
    except (FileNotFoundError, ProcessLookupError):
        return b""  # it ended meanwhile


def _memory_files(pid: int) -> dict[tuple[int, int], int]:
    """Return the files without a name that a process holds, and how much is in each."""
    found = {}
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            try:
                if os.readlink(path).startswith(_MEMORY_FILE):
                    seen = os.stat(path)
                    found[seen.st_dev, seen.st_ino] = seen.st_blocks * 512
            except FileNotFoundError:
                continue  # closed meanwhile
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ended meanwhile
    return found
