"""Watch what the interpreter does: files opened, sockets, processes, code compiled."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ACTS = ("open", "socket.", "subprocess.", "os.", "shutil.", "ctypes.", "exec", "compile", "import")
_watching: list[list[str]] = []
_installed: list[bool] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event.startswith(_ACTS):
        _watching[-1].append(f"{event} {arguments[:1]!r}")


@contextmanager
def watched() -> Iterator[list[str]]:
    """Yield a list that fills with every act while the block runs."""
    if not _installed:
        sys.addaudithook(_hook)  # cannot be taken out again, so it is put in once
        _installed.append(True)
    acts: list[str] = []
    _watching.append(acts)
    try:
        yield acts
    finally:
        _watching.pop()
