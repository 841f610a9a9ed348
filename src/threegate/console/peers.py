"""Whose process is at the other end: every account of a machine can reach its loopback.

SECURITY
    The kernel says to whom a socket belongs.  What it does not say counts as somebody else.
"""

import os
import socket
import struct
from pathlib import Path
from typing import Final

_TABLE: Final = Path("/proc/net/tcp")
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9  # columns
_NOBODY: Final = "0"  # the inode of an end that was closed; the kernel then says uid 0 of anybody's


def is_ours(connection: socket.socket) -> bool:
    """Tell whether the other end is a process of the user who runs the console."""
    return uid_of(connection) == os.geteuid()


def uid_of(connection: socket.socket) -> int | None:
    """Return to whom the other end belongs, None if nobody says."""
    if connection.family == socket.AF_UNIX:
        size = struct.calcsize("3i")
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return int(struct.unpack("3i", found)[1])
    try:
        here, there = connection.getsockname(), connection.getpeername()
    except OSError:  # it broke off already
        return None
    return uid_in(_TABLE.read_text("ascii"), near=there, far=here)


def uid_in(table: str, *, near: tuple[str, int], far: tuple[str, int]) -> int | None:
    """Return the owner of the end `near` of a connection in the kernel's table."""
    wanted = (_spelled(near), _spelled(far))
    for line in table.splitlines()[1:]:
        columns = line.split()
        if (columns[_LOCAL], columns[_REMOTE]) == wanted:
            return int(columns[_UID]) if columns[_INODE] != _NOBODY else None
    return None


def _spelled(end: tuple[str, int]) -> str:
    """Return an end as the table spells it: the address as a number of this machine's order."""
    (number,) = struct.unpack("=I", socket.inet_aton(end[0]))
    return f"{number:08X}:{end[1]:04X}"
