"""Files that are written complete or not at all.

SECURITY
    Writes where the operator says, and replaces an existing file only if told to.  Only the user
    can read the files: reports, backups and exports may be confidential.
"""

import errno
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from threegate.base.errors import StorageFailed, UsageError
from threegate.base.text import quote, visible
from threegate.handoff.disk import storage_errors

# Returned by a file system without hard links, such as that of a memory stick.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a new file of any size; raise `UsageError` if the name is taken."""
    _refuse_taken(path)
    temporary = path.with_name(f".{path.name}.new")
    try:
        with storage_errors(f"write {visible(str(path))}"):
            temporary.unlink(missing_ok=True)  # left by a crash
            with os.fdopen(os.open(temporary, _NEW, 0o600), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _refuse_taken(path)  # another program may have created it meanwhile
            _place(temporary, path, over=False)
            sync_directory(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _refuse_taken(path: Path) -> None:
    if os.path.lexists(path):
        raise UsageError(f"{visible(str(path))} is already there")


def write_together(files: Mapping[Path, bytes], *, over: bool) -> None:
    """Write several files in order; if one fails, none of the new ones stays."""
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
    temporary = path.with_name(f".threegate-{secrets.token_hex(8)}")
    try:
        try:
            write_durably(temporary, data)
            _place(temporary, path, over=over)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
    except FileExistsError as exc:
        raise _exists(path) from exc
    except (OSError, ValueError) as exc:
        why = (getattr(exc, "strerror", None) or "no such name").lower()
        raise StorageFailed(f"cannot write {quote(str(path))}: {why}") from exc


def _place(temporary: Path, path: Path, *, over: bool) -> None:
    if not over:
        try:
            os.link(temporary, path, follow_symlinks=False)  # unlike a rename, never over a file
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        else:
            return
    os.replace(temporary, path)


def _exists(path: Path) -> UsageError:
    hint = "choose another name, or add --force"
    return UsageError(f"{quote(str(path))} exists already", hint=hint)


def write_durably(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Create a file and wait until it is on disk; a file left by a crash is replaced."""
    path.unlink(missing_ok=True)
    _write(os.open(path, _NEW, 0o600), data, mode)


def _write(fd: int, data: bytes, mode: int) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_durably(path: Path, data: bytes) -> None:
    """Replace a file in one step and wait until the change is on disk; raises OSError."""
    temporary = path.with_name(f".{path.name}.new")
    write_durably(temporary, data)
    temporary.replace(path)
    sync_directory(path.parent)


def replace_at(directory: int, name: str, data: bytes) -> None:
    """Replace a file by its name in an open directory, durably; raises OSError."""
    temporary = f".{name}.new"
    with suppress(FileNotFoundError):  # left by a crash
        os.unlink(temporary, dir_fd=directory)
    _write(os.open(temporary, _NEW, 0o600, dir_fd=directory), data, 0o600)
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
