"""A file system in which everything that stays behind can be found: one directory can be
written to, and scratch places that begin empty; all the rest is read-only.

Made in a mount namespace of its own, before capabilities are given up.
"""

import os
import re
import sys
from pathlib import Path

from threegate.sandbox import kernel

ROOT = Path(__file__).parents[2]
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
_LEFT = ("/proc", "/sys", "/dev")  # no files of anybody's
_BIND, _REMOUNT, _READ_ONLY = 0x1000, 0x20, 0x1
# In a user namespace the flags of a mount from outside cannot be taken off again.
_KEPT = {"nosuid": 0x2, "nodev": 0x4, "noexec": 0x8, "noatime": 0x400, "nodiratime": 0x800}


def seal(directory: Path) -> None:
    """Leave `directory` and the scratch places as all that can be written to."""
    kernel.mount(str(directory), str(directory), None, _BIND)
    kept = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in _needed(directory)}
    for place, options in _mounts().items():
        if place != str(directory) and not place.startswith(_LEFT):
            kernel.mount("none", place, None, _BIND | _REMOUNT | _READ_ONLY | _flags(options))
    for scratch in SCRATCH:
        kernel.mount("tmpfs", scratch, "tmpfs", 0)
        os.chmod(scratch, 0o1777)  # noqa: S103  # as scratch places are
    for path, fd in kept.items():
        path.mkdir(parents=True)
        kernel.mount(f"/proc/self/fd/{fd}", str(path), None, _BIND)
        os.close(fd)


def _needed(directory: Path) -> list[Path]:
    """Return what would be hidden and must not be: a clone of this project may lie in /tmp."""
    wanted = (directory, ROOT, Path(sys.base_prefix))
    return [path for path in wanted if any(map(path.is_relative_to, SCRATCH))]


def _mounts() -> dict[str, str]:
    """Return place and options of every mount; of several at one place the uppermost."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    found = [line.split(" ") for line in lines]
    return {_unescaped(fields[4]): fields[5] for fields in found}


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _flags(options: str) -> int:
    return sum(_KEPT.get(option, 0) for option in options.split(","))
