"""Landlock: which files the process may touch, whatever the file view shows.

A second layer under the namespaces.  Its network rules cover plain TCP only (TCP fast open,
MPTCP and UDP pass), so the empty network namespace and the socket filter carry the network.
"""

import os
import struct

from threegate.sandbox.kernel import PR_SET_NO_NEW_PRIVS, prctl, syscall

_CREATE = 444
_ADD_RULE = 445
_RESTRICT = 446
_ABI_QUESTION = 1
_RULE_PATH = 1
_RULE_PORT = 2

EXECUTE = 1
WRITE_FILE = 2
READ_FILE = 4
READ_DIR = 8
ALL_V1 = (1 << 13) - 1
REFER = 1 << 13  # from ABI 2
TRUNCATE = 1 << 14  # from ABI 3
IOCTL_DEVICE = 1 << 15  # from ABI 5
_MAKE = 0x1FF0 & ~(1 << 6) & ~(1 << 11)  # make and remove files, no device nodes
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE

CONNECT_TCP = 2
BIND_TCP = 1
SCOPE_ALL = 3  # abstract Unix sockets and signals, from ABI 6

RIGHTS = {
    "r": READ_FILE | READ_DIR,
    "d": READ_DIR,
    "w": WRITE_FILE | TRUNCATE | _MAKE,
    "x": EXECUTE,
    "i": IOCTL_DEVICE,
}


def abi() -> int:
    """Return the ABI the kernel offers, 0 for none."""
    try:
        return syscall(_CREATE, 0, 0, _ABI_QUESTION)
    except OSError:
        return 0


def handled(version: int) -> tuple[int, int, int]:
    """Return what a ruleset can govern: file rights, network rights, scopes."""
    files = ALL_V1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEVICE)):
        if version >= since:
            files |= right
    return files, (BIND_TCP | CONNECT_TCP) if version >= 4 else 0, SCOPE_ALL if version >= 6 else 0


def restrict(paths: list[tuple[str, str]], ports: list[int], version: int) -> None:
    """Allow only these paths (with rights out of `rdwxi`) and TCP ports; raise `OSError`."""
    files, network, scopes = handled(version)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("<QQQ", files, network, scopes)[:size]
    ruleset = syscall(_CREATE, attributes, len(attributes), 0)
    try:
        for path, letters in paths:
            _allow_path(ruleset, path, letters, files)
        if network:
            for port in ports:
                rule = struct.pack("<QQ", CONNECT_TCP, port)
                syscall(_ADD_RULE, ruleset, _RULE_PORT, rule, 0)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, letters: str, files: int) -> None:
    rights = 0
    for letter in letters:
        rights |= RIGHTS[letter]
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):
            rights &= ON_FILES
        syscall(_ADD_RULE, ruleset, _RULE_PATH, struct.pack("<Qi", rights & files, fd), 0)
    finally:
        os.close(fd)
