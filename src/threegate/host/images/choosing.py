"""Which lock counts: the one that is named, the operator's own, or the one that is shipped."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.errors import UsageError, disk_errors
from threegate.host.images.lock import MAX_LOCK_BYTES, Lock, Package, parse_lock
from threegate.text import visible

FILE: Final = "image.lock"
SHIPPED: Final = Path(__file__).with_name(FILE)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A lock, and the file it stands in."""

    path: Path
    lock: Lock


def choose(named: Path | None, config_home: Path) -> Chosen:
    """Return the lock that counts."""
    own = config_home / FILE
    path = named or (own if own.exists() else SHIPPED)
    try:
        with path.open("rb") as file:
            return Chosen(path, parse_lock(file.read(MAX_LOCK_BYTES + 1)))
    except OSError as exc:
        raise UsageError(
            f"cannot read {visible(str(path))}: {os.strerror(exc.errno or 0)}"
        ) from exc


def put(lock: Lock, path: Path) -> None:
    """Write a lock whole, or not at all."""
    with disk_errors("write the lock"):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_text(lock.text, "ascii")
        new.replace(path)


def differences(old: Lock, new: Lock) -> list[tuple[str, str, str]]:
    """Return package, old and new version of everything that changed; "-" is none."""
    before, after = _by_name(old), _by_name(new)
    return [
        (name, _version(before.get(name)), _version(after.get(name)))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _by_name(lock: Lock) -> dict[str, Package]:
    return {package.name: package for package in lock.packages}


def _version(package: Package | None) -> str:
    return package.version if package else "-"
