"""Key files with which the operator may sign.

SECURITY
    Examines files that the operator names.  Reads public keys and, of a private key, only the ten
    bytes that identify it as one.  Refuses keys that others can read or that are in the workspace,
    which gates may see and backups copy.  If this module is wrong, a key that others have too
    approves.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.base.text import visible

_PRIVATE: Final = b"-----BEGIN"


def key_refused(code: str, path: Path, reason: str, hint: str | None = None) -> GateUnavailable:
    """Return the refusal of one key file."""
    return GateUnavailable(f"key {visible(str(path))} {reason}", code=code, hint=hint)


def accepted_key_file(path: Path, *, workspace: Path) -> Path:
    """Return where the key really is, or raise `GateUnavailable`.

    `path` is a private key, or a public one whose private half an agent or a token holds.
    """
    refuse_inside(path, workspace)
    with _errors_named(path):
        found = path.resolve(strict=True)
    private = private_file(found)
    _refuse_file(found, secret=found == private)
    if private is not None and private != found:
        _refuse_file(private, secret=True)
    return found


def refuse_inside(path: Path, workspace: Path) -> None:
    """Raise `GateUnavailable` if `path` lies in the workspace under any of its names."""
    for name in _names(path):
        for root in _names(workspace):
            if name == root or root in name.parents:
                hint = "keep it outside, for example in ~/.ssh"
                raise key_refused("TG-KEY-010", path, "lies in the workspace", hint)


def _names(path: Path) -> set[Path]:
    """Return a path as it is written and as the links in it lead."""
    with _errors_named(path):
        written = Path(os.path.abspath(path))
        return {written, path.parent.resolve() / written.name, path.resolve()}


def private_file(path: Path) -> Path | None:
    """Return the file `ssh-keygen` would take the private half from, if there is one."""
    if is_private(path):
        return path.absolute()
    sibling = path.absolute().with_suffix("")
    return sibling if path.suffix == ".pub" and sibling.exists() else None


def is_private(path: Path) -> bool:
    """Return whether the file at `path` holds a private key."""
    return head_of(path, len(_PRIVATE)) == _PRIVATE


def head_of(path: Path, count: int) -> bytes:
    """Return the first bytes of a regular file."""
    with _errors_named(path):
        # Not blocking: opening a FIFO somebody put there would wait for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            regular = stat.S_ISREG(os.fstat(handle).st_mode)
            data = os.read(handle, count) if regular else b""
        finally:
            os.close(handle)
    if not regular:
        raise key_refused("TG-KEY-013", path, "is not a file")
    return data


def _refuse_file(path: Path, *, secret: bool) -> None:
    with _errors_named(path):
        found = path.stat()
    if found.st_uid != os.geteuid():
        raise key_refused("TG-KEY-012", path, "belongs to somebody else")
    if secret and found.st_mode & 0o077:
        hint = f"chmod 600 {visible(str(path))}"
        raise key_refused("TG-KEY-011", path, "can be read by others", hint)


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as exc:  # RuntimeError: a loop of links, before Python 3.13
        why = getattr(exc, "strerror", None) or "loop of links"
        raise key_refused("TG-KEY-013", path, f"cannot be read: {why.lower()}") from exc
