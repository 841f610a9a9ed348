"""The operator's keys for hosts: one file each, in the user's configuration.

Policy names the hosts that take a key and where it goes; the value is stored only here.  It is
handed to the sandbox that asks, for the first hop to that host alone.

SECURITY
    Reads and writes secrets.  A value is used only from a file that only this user can read, in a
    directory that only this user can enter, both without links; it is in no message, log, packet
    or argument.  If this module is wrong, a key reaches the wrong host or another user; it opens
    nothing of ThreeGate.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, PolicyDenied, StorageFailed, UsageError
from threegate.base.text import quote
from threegate.host.atomic_file import replace_at
from threegate.host.settings import Settings
from threegate.policy.bundle import Compiled
from threegate.policy.hosts import check_host, matches

DIRECTORY: Final = "credentials"
BEARER: Final = "bearer"
MIN_VALUE_BYTES, MAX_VALUE_BYTES = 8, 1_024
# The same bounds as in the protocol: a shorter value could occur in any answer by chance, so a
# returned key could not be recognised.
_VALUE: Final = re.compile(rb"[!-~][ -~]{6,1022}[!-~]")
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking: opening a planted FIFO would wait for ever.
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class CredentialLine:
    """One host that takes a key, or one unused key; never the value."""

    host: str
    place: str | None  # `query:NAME`, `header:NAME` or `bearer`; None where policy names none
    stored: int | None  # when, in seconds since 1970; None where none is stored
    problem: str = ""  # why the stored key is not used


def place_for(policy: Compiled, host: str) -> str | None:
    """Return where the key for `host` goes, for FETCH or for a model there; None if nowhere."""
    return model_place(policy, host) or fetch_place(policy, host)


def model_place(policy: Compiled, host: str) -> str | None:
    """Return where the key for a model on `host` goes; None if policy names no such model."""
    if policy.value("core", "model", "remote_host") != host:
        return None
    place = policy.value("core", "model", "remote_credential")
    return place if isinstance(place, str) else None


def fetch_place(policy: Compiled, host: str) -> str | None:
    """Return where FETCH's key for `host` goes, as the rule that covers it says."""
    for pattern in policy.words("fetch", "hosts"):
        if matches(pattern, host):
            place = policy.value("fetch", "hosts", pattern, "credential")
            return place if isinstance(place, str) else None
    return None


def credential_for(settings: Settings, policy: Compiled, host: str) -> str | None:
    """Return the operator's key for `host`; None if policy names none or none is stored.

    Raises `GateUnavailable` for one that others could have read or written.
    """
    # One key per host: if a model there uses it, FETCH must not put it into a URL.
    if fetch_place(policy, host) is None or model_place(policy, host) is not None:
        return None
    return _stored(settings, host)


def model_credential(settings: Settings, policy: Compiled, host: str) -> str | None:
    """Return the key for the model on `host`, in the form of its header.

    Raises `GateUnavailable` for one that others could have read or written.
    """
    place = model_place(policy, host)
    key = None if place is None else _stored(settings, host)
    return f"Bearer {key}" if place == BEARER and key is not None else key


def _stored(settings: Settings, host: str) -> str | None:
    check_host(host)  # a name of a file from here on
    with _directory(settings) as directory:
        return None if directory is None else _read(directory, host)


def store(settings: Settings, policy: Compiled, host: str, value: bytes) -> str:
    """Store `value` as the key for `host` and return where it goes."""
    place = place_or_refuse(policy, host)
    if len(value) > MAX_VALUE_BYTES or _VALUE.fullmatch(value) is None:
        allowed = f"{MIN_VALUE_BYTES} to {MAX_VALUE_BYTES} printable ASCII characters"
        hint = f"{allowed} on one line, without blanks at the ends"
        raise UsageError("this is not a key", code="TG-CRD-003", hint=hint)
    with _failures_named():
        (settings.config_home / DIRECTORY).mkdir(mode=0o700, parents=True, exist_ok=True)
        with _directory(settings) as directory:
            assert directory is not None
            replace_at(directory, host, value)
    return place


def remove(settings: Settings, host: str) -> None:
    """Delete the key for `host`."""
    _check_name(host)
    with _failures_named(), _directory(settings) as directory:
        try:
            if directory is None:
                raise FileNotFoundError
            os.unlink(host, dir_fd=directory)
        except FileNotFoundError as exc:
            hint = "`threegate credential list` shows what is stored"
            raise UsageError(f"no key is stored for {host}", code="TG-CRD-004", hint=hint) from exc


def all_credentials(settings: Settings) -> list[str]:
    """Return every stored key, to recognise them in other data.

    Raises `GateUnavailable` for one that others could have read or written.
    """
    with _directory(settings) as directory:
        if directory is None:
            return []
        names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
        found = [_read(directory, name) for name in names]
    return [value for value in found if value is not None]


def list_credentials(settings: Settings, policy: Compiled) -> list[CredentialLine]:
    """Return the hosts that take a key and the keys that are stored, by host."""
    wanted = {
        pattern: place
        for pattern in policy.words("fetch", "hosts")
        if isinstance(place := policy.value("fetch", "hosts", pattern, "credential"), str)
    }
    remote = policy.value("core", "model", "remote_host")
    if isinstance(remote, str) and (place := model_place(policy, remote)) is not None:
        wanted.setdefault(remote, place)
    lines: list[CredentialLine] = []
    with _directory(settings) as directory:
        if directory is not None:
            names = [name for name in os.listdir(directory) if not name.startswith(".")]
            lines = [_line(directory, name, place_for(policy, name)) for name in names]
    stored = {line.host for line in lines}
    missing = [host for host in wanted if not any(matches(host, name) for name in stored)]
    lines += [CredentialLine(host, wanted[host], None) for host in missing]
    return sorted(lines, key=lambda line: line.host)


def _line(directory: int, name: str, place: str | None) -> CredentialLine:
    stored = int(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime)
    problem = "" if place is not None else "policy names no key for this host"
    try:
        _read(directory, name)
    except GateUnavailable as exc:
        problem = exc.message
    return CredentialLine(name, place, stored, problem)


def place_or_refuse(policy: Compiled, host: str) -> str:
    """Return where the key for `host` goes, or raise `UsageError` or `PolicyDenied`."""
    _check_name(host)
    place = place_for(policy, host)
    if place is None:
        files = "a `credential` in fetch.policy.md (or a `remote_credential` in core.policy.md)"
        hint = f"give {host} {files}, then `threegate policy apply`"
        raise PolicyDenied(f"policy names no key for {host}", code="TG-CRD-002", hint=hint)
    return place


def _check_name(host: str) -> None:
    try:
        check_host(host)
    except ValueError as exc:
        hint = "give the name alone, like api.openalex.org"
        raise UsageError(
            f"{quote(host)} is not a host: {exc}", code="TG-CRD-001", hint=hint
        ) from exc


@contextmanager
def _directory(settings: Settings) -> Iterator[int | None]:
    """Yield the directory of keys, or None; refuse an unsafe one."""
    path = settings.config_home / DIRECTORY
    try:
        handle = os.open(path, _DIRECTORY_FLAGS)
    except FileNotFoundError:
        yield None
        return
    except OSError as exc:
        raise _refused(path, "is not a directory of this user") from exc
    try:
        _refuse_others(os.fstat(handle), path)
        yield handle
    finally:
        os.close(handle)


def _read(directory: int, name: str) -> str | None:
    path = Path(DIRECTORY) / name
    try:
        handle = os.open(name, _FILE_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as exc:  # ELOOP: a link, which may lead anywhere
        raise _refused(path, "is not a file") from exc
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, "is not a file")
        _refuse_others(found, path)
        value = os.read(handle, MAX_VALUE_BYTES + 2).removesuffix(b"\n")
    finally:
        os.close(handle)
    if _VALUE.fullmatch(value) is None:
        raise _refused(path, "does not hold a key")
    return value.decode("ascii")


def _refuse_others(found: os.stat_result, path: Path) -> None:
    if found.st_uid != os.geteuid():
        raise _refused(path, "belongs to another user")
    if found.st_mode & 0o077:
        raise _refused(path, "can be read by others")


def _refused(path: Path, why: str) -> GateUnavailable:
    shown = Path(DIRECTORY, path.name) if path.name != DIRECTORY else Path(DIRECTORY)
    hint = "others may know it: create a new key, then `threegate credential set`, or `remove` it"
    message = f"{quote(str(shown))} {why}, so it is not used"
    return GateUnavailable(message, code="TG-CRD-005", hint=hint)


@contextmanager
def _failures_named() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        why = (exc.strerror or "it failed").lower()
        raise StorageFailed(f"cannot store the key: {why}") from exc
