"""Programs among libraries: what the loader would run of a layer, whatever its mode says.

In a guest everything but libraries and the programs of a profile lies on mounts that execute
nothing.  The loader has to be executable, and runs any program it can map: one below `usr/lib`
would run under every profile.  So none goes into a layer.

SECURITY
    Reads heads of files from packages of the locked digest, bounded.  If this module is wrong,
    a guest has a program that no profile names.
"""

import struct
from pathlib import Path
from typing import BinaryIO, Final

from threegate.host.images.tree import Tree

PLACE: Final = "usr/lib/"
# Python's C library is one, and says its version; everything needs it.
EXCEPT: Final = frozenset(("usr/lib/x86_64-linux-gnu/libc.so.6",))
_MAGIC: Final = b"\x7fELF\x02\x01"
_HEAD_BYTES: Final = 64
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ENTRY: Final = struct.Struct("<QQ")
_EXEC, _DYNAMIC, _INTERPRETER = 2, 2, 3  # a type of file, two of segments
_FLAGS, _PIE = 0x6FFFFFFB, 0x08000000
_MAX_DYNAMIC_BYTES: Final = 64 * 1024
_MAX_OFFSET: Final = 2**40


def drop_programs(tree: Tree) -> list[str]:
    """Take the programs among the libraries out of a layer; return their paths."""
    found = [path for path in sorted(tree.files) if path.startswith(PLACE) and path not in EXCEPT]
    found = [path for path in found if is_program(tree.files[path].path)]
    for path in found:
        tree.drop(path)
    return found


def is_program(path: Path) -> bool:
    """Tell whether a file is a program: one that names a loader, has a fixed place, or says so."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        if len(head) < _HEAD_BYTES or not head.startswith(_MAGIC):
            return False
        (kind,), (at,) = struct.unpack_from("<H", head, 16), struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        if kind == _EXEC:
            return True
        table = _read(file, at, size * count)
        segments = [
            _SEGMENT.unpack_from(table, at)
            for at in range(0, len(table) - _SEGMENT.size + 1, max(size, _SEGMENT.size))
        ]
        return any(
            one[0] == _INTERPRETER or (one[0] == _DYNAMIC and _says_so(file, one[2], one[5]))
            for one in segments
        )


def _says_so(file: BinaryIO, at: int, size: int) -> bool:
    """Tell whether a dynamic section has the mark of a program: one that loads itself has it."""
    data = _read(file, at, min(size, _MAX_DYNAMIC_BYTES))
    whole = len(data) - len(data) % _ENTRY.size
    return any(tag == _FLAGS and value & _PIE for tag, value in _ENTRY.iter_unpack(data[:whole]))


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(min(at, _MAX_OFFSET))  # a file says where, and may say anything
    return file.read(size)
