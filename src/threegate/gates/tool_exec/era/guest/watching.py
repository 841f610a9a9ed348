"""What the kernel refused a job to execute, by the kernel's own trace.

A command or code that is running may try to start any file.  The kernel refuses what the profile
does not name; here is written down what that was.  Two events do it: a file is opened to be
executed, and the call comes back with an error.  Names of the profile are filtered out in the
kernel, so that what is allowed costs no record.

SECURITY
    Runs as root inside the guest.  Reads names that a hostile program chose, and passes on
    printable ones; a program may add false ones.  Refuses nothing itself: what is missing here
    was refused all the same.  A user-space kernel has no trace, and there nothing is said.
"""

import errno
import os
import re

from threegate.gates.tool_exec.era.guest import kernel
from threegate.gates.tool_exec.era.guest.kernel import LOADER

PLACE = "/run/trace"
BUFFER_KIB = "512"
PIECE_BYTES = 1 << 16
OPENED = "p:ring/opened do_open_execat name=+0(+0($arg2)):string"
# Process, event, and what it says; the name of a process may hold anything but comes first.
_LINE = re.compile(r".*-(\d+) +\[\d+\] \S+ +[\d.]+: (opened|sys_execve(?:at)?)\b(.*)")
_NAME, _RESULT = re.compile(r' name="(.*)"$'), re.compile(r" -> 0x([0-9a-f]{1,16})$")
NAMELESS = "(a descriptor)"
REFUSALS = frozenset((errno.EACCES, errno.EPERM))


class Trace:
    """Lines of the kernel's trace, as they come."""

    def __init__(self) -> None:
        self._opened: dict[str, str] = {}
        self._held = ""

    def take(self, text: str) -> list[str]:
        """Return the names of what these lines say was refused."""
        *lines, self._held = (self._held + text).split("\n")
        found = [self._told(line) for line in lines]
        return [name for name in found if name]

    def _told(self, line: str) -> str:
        matched = _LINE.fullmatch(line)
        if matched is None:
            return ""
        process, event, rest = matched.groups()
        if event == "opened":
            named = _NAME.search(rest)
            self._opened[process] = (named[1] if named else "") or NAMELESS
            return ""
        name, result = self._opened.pop(process, ""), _RESULT.search(rest)
        failed = (1 << 64) - int(result[1], 16) if result else 0
        return name if failed in REFUSALS else ""


class Watch:
    """The kernel's record of refused programs, from now on."""

    def __init__(self, known: list[str]) -> None:
        os.makedirs(PLACE, exist_ok=True)
        kernel.mount("trace", PLACE, "tracefs", kernel.MS_NOSUID | kernel.MS_NODEV)
        _write("buffer_size_kb", BUFFER_KIB)
        _write("kprobe_events", OPENED)
        _leave_out((*known, LOADER))
        for call in ("execve", "execveat"):
            _write(f"events/syscalls/sys_exit_{call}/filter", "ret < 0")
            _write(f"events/syscalls/sys_exit_{call}/enable", "1")
        _write("events/ring/opened/enable", "1")
        self._pipe = os.open(f"{PLACE}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        kernel.let_go(PLACE)  # the open file is enough, and nobody else finds another
        self._trace = Trace()

    def refused(self) -> list[str]:
        """Return the names of what was refused since this was last asked."""
        return self._trace.take(self._read())

    def _read(self) -> str:
        text = bytearray()
        try:
            while piece := os.read(self._pipe, PIECE_BYTES):
                text += piece
        except BlockingIOError:
            pass
        return text.decode("ascii", "backslashreplace")


def _leave_out(names: tuple[str, ...]) -> None:
    """Have no record of these; where they are too many for a filter, of all."""
    try:
        _write("events/ring/opened/filter", " && ".join(f'name != "{name}"' for name in names))
    except OSError:
        _write("events/ring/opened/filter", "0")


def _write(name: str, text: str) -> None:
    with open(f"{PLACE}/{name}", "w", encoding="ascii") as file:
        file.write(text)


def refused_by(watch: Watch | None) -> list[dict[str, object]]:
    """Return what was refused since this was last asked, as the gate hears of it."""
    return [violation(name) for name in watch.refused()] if watch else []


def violation(name: str) -> dict[str, object]:
    """Return a refused program as the gate hears of it."""
    argument = "".join(c if " " <= c <= "~" else "?" for c in name)[:200].strip()
    return {"argument": argument or "?", "line": 0, "rule": "allowed_binaries"}
