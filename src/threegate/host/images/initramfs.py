"""The guest's first file system: our init and the modules it loads, in one archive.

The format is the kernel's own (Documentation/driver-api/early-userspace/buffer-format.rst),
not compressed: unpacking would take an emulated processor longer than reading.
"""

from collections.abc import Iterable
from typing import Final

_DIRECTORIES: Final = ("dev", "joined", "layers", "modules", "proc", "sys")
_MAX_MODULES: Final = 64


def archive(init: bytes, modules: Iterable[bytes]) -> bytes:
    """Return the archive; modules are called 00, 01, ... in the order they are loaded."""
    members = [(name, 0o040755, b"") for name in _DIRECTORIES]
    members.append(("init", 0o100755, init))
    listed = list(modules)
    assert len(listed) <= _MAX_MODULES
    members += [(f"modules/{at:02}", 0o100644, data) for at, data in enumerate(listed)]
    parts = [_member(name, mode, data, at) for at, (name, mode, data) in enumerate(members, 1)]
    return b"".join([*parts, _member("TRAILER!!!", 0, b"", 0)])


def begins_with(archived: bytes, init: bytes) -> bool:
    """Tell whether an archive of ours starts this very init."""
    before_modules = archive(init, ()).removesuffix(_member("TRAILER!!!", 0, b"", 0))
    return archived.startswith(before_modules)


def _member(name: str, mode: int, data: bytes, number: int) -> bytes:
    encoded = name.encode("ascii") + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08x" % value for value in fields) + encoded
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
