"""Every attempt by name."""

from __future__ import annotations

from threegate.sandbox.attacks import (
    bombs,
    code,
    execution,
    files,
    kernel_doors,
    network,
    packages,
    privileges,
    processes,
    sockets,
    workers,
    writing,
)
from threegate.sandbox.attacks.base import Attempt

_MODULES = (
    network,
    sockets,
    execution,
    code,
    files,
    writing,
    processes,
    privileges,
    kernel_doors,
    packages,
    bombs,
    workers,
)


def _by_name() -> dict[str, Attempt]:
    found: dict[str, Attempt] = {}
    for module in _MODULES:
        for item in module.ATTEMPTS:
            assert item.name not in found, item.name
            found[item.name] = item
    return found


ATTEMPTS = _by_name()
