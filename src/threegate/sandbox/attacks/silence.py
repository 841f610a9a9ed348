"""Whether the host's firewall knows the gates: found by speaking as one of them, to ourselves."""

import errno
import os
import socket
from typing import Final

_DISCARD: Final = ("127.0.0.1", 9)
_REFUSED, _SENT = 0, 1


def says_nothing(uid: int) -> bool:
    """Tell whether a datagram of `uid` is refused before it is made; for root only.

    It goes to loopback, where the rules refuse a gate as well: nothing leaves the machine.
    """
    child = os.fork()  # of this package; it makes four system calls
    if child == 0:
        os._exit(_try(uid))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == _REFUSED


def _try(uid: int) -> int:
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError:  # this root may not become others, so nothing was found out
        return _SENT
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", _DISCARD)
    except OSError as exc:
        return _REFUSED if exc.errno == errno.EPERM else _SENT
    return _SENT
