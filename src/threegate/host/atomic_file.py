"""A report in a file: whole or not at all, and over nothing that is there unless told to.

SECURITY
    Writes where the operator says.  The file is readable by its user alone: a report may be
    confidential.
"""

import errno
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.base.errors import StorageFailed, UsageError
from threegate.base.text import quote

# A file system without hard links, such as that of a memory stick.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


def write_together(files: Mapping[Path, bytes], *, over: bool) -> None:
    """Write several files, the last one last; if one cannot be, none of the new ones stays."""
    for path in files:
        if not over and os.path.lexists(path):
            raise _exists(path)
    written: list[Path] = []
    try:
        for path, data in files.items():
            write_report(path, data, over=over)
            written.append(path)
    except BaseException:
        for path in () if over else written:
            path.unlink(missing_ok=True)
        raise


def write_report(path: Path, data: bytes, *, over: bool) -> None:
    """Write a file in one step; raise `UsageError` or `StorageFailed`, and then nothing changed."""
    if not over and os.path.lexists(path):
        raise _exists(path)
    beside = path.with_name(f".threegate-{secrets.token_hex(8)}")
    try:
        try:
            _write(beside, data)
            _place(beside, path, over=over)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(beside)
    except FileExistsError as exc:
        raise _exists(path) from exc
    except (OSError, ValueError) as exc:
        why = (getattr(exc, "strerror", None) or "no such name").lower()
        raise StorageFailed(f"cannot write {quote(str(path))}: {why}") from exc


def _place(beside: Path, path: Path, *, over: bool) -> None:
    if not over:
        try:
            os.link(beside, path, follow_symlinks=False)  # unlike a rename, never over a file
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        else:
            return
    os.replace(beside, path)


def _exists(path: Path) -> UsageError:
    hint = "choose another name, or add --force"
    return UsageError(f"{quote(str(path))} exists already", hint=hint)


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
