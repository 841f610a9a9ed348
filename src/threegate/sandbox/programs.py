"""The programs of this machine that ThreeGate starts, found at fixed places.

SECURITY
    The caller's PATH names none of them: it may list a directory that somebody else fills, or
    the current one.  A program counts only if no other account can exchange it: the file and
    every directory above it belong to the system or to us, and nobody else may write there.
    If this module is wrong, another account's program signs, or makes the sandboxes.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SEARCH: Final = (
    *("/usr/bin", "/bin", "/usr/sbin", "/sbin"),
    *("/usr/local/bin", "/usr/local/sbin"),
)
PATH: Final = ":".join(SEARCH)  # for programs that start others
_OTHERS_WRITE: Final = 0o022
_MAX_LINKS: Final = 16


def find_program(name: str) -> Path | None:
    """Return the path of a program that no other account can replace, or None."""
    found = (Path(directory, name) for directory in SEARCH)
    return next((path for path in found if is_unexchangeable(path)), None)


def is_unexchangeable(path: Path, *, program: bool = True) -> bool:
    """Tell whether this is a program, or another file, that only the system and we can replace."""
    try:
        real = path.resolve(strict=True)
        if not stat.S_ISREG(real.stat().st_mode) or (program and not os.access(real, os.X_OK)):
            return False
        # An unprivileged user namespace shows root's files as another account's, "/" included.
        owners = {0, os.geteuid(), os.stat("/").st_uid}
        named = [link.parent.resolve(strict=True) for link in _links(path)]
        parts = {part for name in (*named, real) for part in (name, *name.parents)}
        return path.is_absolute() and all(_is_firm(part, owners) for part in parts)
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        return False


def _links(program: Path) -> Iterator[Path]:
    """Yield a path and every link on the way: a changed link leads elsewhere."""
    for _ in range(_MAX_LINKS):
        yield program
        if not program.is_symlink():
            return
        program = program.parent / program.readlink()
    raise OSError(errno.ELOOP, "too many links")


def _is_firm(path: Path, owners: set[int]) -> bool:
    found = path.stat()
    # In a sticky directory only the owner of an entry can rename it, and each entry is checked.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return found.st_uid in owners and (bool(sticky) or not found.st_mode & _OTHERS_WRITE)
