"""Files that the operator names on the command line.

SECURITY
    The name may lead to a trap: a FIFO that never answers, a device, a file larger than the
    machine.  Opening never waits, only regular files are read, and never more than the caller can
    use.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO, Final

from threegate.artifacts.ids import digest_of, is_id, sha256_hex
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.registry import MAX_ARTIFACT_BYTES, refuse_other_file
from threegate.base.errors import ArtifactRejected, ThreeGateError, UsageError
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.host.workspace.archive import MAX_NAME_BYTES

STDIN: Final = "-"
STATEMENT: Final = "statement.json"  # the first member of a complete export
_ONE_FILE: Final = {"TG-USE-003": "name one file in it", "TG-USE-004": "save it to a file first"}
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class OfferedFile:
    """One file by its given name, with its bytes or the error."""

    name: str
    data: Untrusted[bytes] = Untrusted(b"")
    error: ThreeGateError | None = None


def read_offered(names: Sequence[str], stdin: BinaryIO) -> Iterator[OfferedFile]:
    """Yield every file in order; an unusable one carries its error."""
    for name in names:
        try:
            data = read_standard_input(stdin) if name == STDIN else read_regular(name)
            _check_name(name, data)
        except (ArtifactRejected, UsageError) as exc:
            yield OfferedFile(name, error=exc)
        else:
            yield OfferedFile(name, Untrusted(data))


@contextmanager
def open_regular(name: str) -> Iterator[BinaryIO]:
    """Open a regular file, or raise `UsageError`."""
    try:
        fd = os.open(name, _FLAGS)
    except (OSError, ValueError) as exc:
        raise UsageError(f"cannot open it: {_why(exc)}", code="TG-USE-002") from exc
    try:
        _refuse_special(name, os.fstat(fd).st_mode)
        with os.fdopen(fd, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(fd)


def read_regular(name: str, *, most_bytes: int = MAX_ARTIFACT_BYTES) -> bytes:
    """Return the bytes of a regular file, or raise `UsageError`, `ArtifactRejected` if larger."""
    with open_regular(name) as file:
        return _bounded(file, most_bytes)


def is_complete_export(name: str) -> bool:
    """Tell whether a file begins like a complete export, which may be larger than an artifact."""
    if name == STDIN:
        return False
    try:
        with open_regular(name) as file:
            start = file.read(MAX_NAME_BYTES)
    except (OSError, UsageError):
        return False  # the next reader reports the error
    return start == STATEMENT.encode("ascii").ljust(MAX_NAME_BYTES, b"\0")


@contextmanager
def named(what: str) -> Iterator[None]:
    """Prefix every error with the file it is about, with hints for a single file."""
    try:
        yield
    except (ArtifactRejected, UsageError) as exc:
        hint = _ONE_FILE.get(exc.code, exc.hint)
        raise type(exc)(f"{what}: {exc.message}", code=exc.code, hint=hint) from exc


def _refuse_special(name: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        hint = f"name the files in it: {visible(name.rstrip('/'))}/*.md"
        raise UsageError("it is a directory", code="TG-USE-003", hint=hint)
    if not stat.S_ISREG(mode):
        hint = "send it to `-` through a pipe"
        raise UsageError("it is not a regular file", code="TG-USE-004", hint=hint)


def read_standard_input(stdin: BinaryIO, *, most_bytes: int = MAX_ARTIFACT_BYTES) -> bytes:
    """Return all of standard input, or raise `ArtifactRejected` if it is larger."""
    # The parent may have made it non-blocking: a partial read would pass for the whole.
    with suppress(OSError, ValueError):
        os.set_blocking(stdin.fileno(), True)
    return _bounded(stdin, most_bytes)


def _bounded(file: BinaryIO, most_bytes: int) -> bytes:
    try:
        data = file.read(most_bytes + 1)
    except OSError as exc:
        raise UsageError(f"cannot read it: {_why(exc)}", code="TG-USE-002") from exc
    if len(data) > most_bytes:
        refuse_other_file(data)
        raise reject(ArtifactReason.OVERSIZE, f"more than {most_bytes} bytes, so it was not read")
    return data


def _check_name(name: str, data: bytes) -> None:
    claimed = PurePath(name).name.removesuffix(".md")
    # Only a valid id is compared: any other name makes no promise.
    if is_id(claimed) and digest_of(claimed) != sha256_hex(data):
        raise reject(ArtifactReason.DIGEST_MISMATCH, "its name is the id of other bytes")


def _why(exc: Exception) -> str:
    return (getattr(exc, "strerror", None) or "no such name").lower()
