"""The programs of this machine that ThreeGate starts, found at fixed places.

SECURITY
    The caller's PATH names none of them: it may list a directory that somebody else fills, or
    the current one.  A program counts only if no other account can exchange it: the file and
    every directory above it belong to the system or to us, and nobody else may write there.
    If this module is wrong, another account's program signs, or makes the sandboxes.
"""

import os
import stat
from pathlib import Path
from typing import Final

SEARCH: Final = (
    *("/usr/bin", "/bin", "/usr/sbin", "/sbin"),
    *("/usr/local/bin", "/usr/local/sbin"),
)
PATH: Final = ":".join(SEARCH)  # for programs that start others
_OTHERS_WRITE: Final = 0o022


def find_program(name: str) -> Path | None:
    """Return where a program is that no other account can exchange; nothing if there is none."""
    found = (Path(directory, name) for directory in SEARCH)
    return next((path for path in found if is_unexchangeable(path)), None)


def is_unexchangeable(program: Path) -> bool:
    """Tell whether this is a program, and nobody but the system and us can put another there."""
    try:
        named, real = program.parent.resolve(strict=True), program.resolve(strict=True)
        if not stat.S_ISREG(real.stat().st_mode) or not os.access(real, os.X_OK):
            return False
        # An unprivileged user namespace shows root's files as another account's, "/" included.
        owners = {0, os.geteuid(), os.stat("/").st_uid}
        parts = {named, *named.parents, real, *real.parents}
        return program.is_absolute() and all(_is_firm(part, owners) for part in parts)
    except OSError:
        return False


def _is_firm(path: Path, owners: set[int]) -> bool:
    found = path.stat()
    # In a sticky directory only the owner of an entry can rename it, and each entry is checked.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return found.st_uid in owners and (bool(sticky) or not found.st_mode & _OTHERS_WRITE)
