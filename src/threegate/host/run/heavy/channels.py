"""The channels of one machine: socket pairs and files that are handed on as descriptors.

Sockets here connect two of our own sandboxes; nothing leaves this machine.
"""

import fcntl
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from threegate.gates.tool_exec.era.guest_messages import hello
from threegate.sandbox.runtime import listen, runtime_directory

FIRST_FD: Final = 10  # below lie the streams of a box, and what its start needs


def handed(stack: ExitStack, fd: int) -> int:
    """Return a copy of a descriptor with a number that a box can keep; the original is closed."""
    try:
        copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
    finally:
        os.close(fd)
    stack.callback(os.close, copy)
    return copy


def pair(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    """Return both ends of a connected stream."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return handed(ours, left.detach()), handed(theirs, right.detach())


def listener(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    """Return a connection, and the socket that will accept it and nobody else's any more."""
    with (
        runtime_directory(None, "wiring") as place,
        listen(place.fd, "s", mode=0o600, backlog=1) as listening,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as calling,
    ):
        calling.connect(str(place.by_descriptor / "s"))
        return handed(ours, calling.detach()), handed(theirs, listening.detach())


def pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """Return both ends of a pipe."""
    read, write = os.pipe()
    return handed(reading, read), handed(writing, write)


def nothing(stack: ExitStack) -> int:
    """Return a descriptor that swallows what is written."""
    return handed(stack, os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC))


def document(stack: ExitStack, directory: Path, data: bytes) -> int:
    """Return a file without a name that holds these bytes and cannot be written any more."""
    with ExitStack() as writing:
        fd = nameless(writing, directory)
        os.write(fd, data)
        return reopened(stack, fd)


def read_only(stack: ExitStack, path: Path) -> int:
    """Open a file that the boxes may read and nobody may write through this."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    return handed(stack, os.open(path, flags))


def nameless(stack: ExitStack, directory: Path) -> int:
    """Return a new file without a name: it is gone when its last descriptor is."""
    flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
    return handed(stack, os.open(directory, flags, 0o600))


def reopened(stack: ExitStack, fd: int) -> int:
    """Return a descriptor of the same file through which nobody can write."""
    return handed(stack, os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC))


def give_engine(monitor: int, *, name: str, fd: int) -> None:
    """Leave a descriptor in the engine's control channel, for when it comes up and looks."""
    said = b'{"execute":"qmp_capabilities"}{"execute":"getfd","arguments":{"fdname":"%b"}}'
    with socket.socket(fileno=os.dup(monitor)) as end:
        socket.send_fds(end, [said % name.encode()], [fd])


def greet_guest(agent: int) -> str:
    """Leave the greeting of a clone in its channel; return the nonce its answer must hold."""
    nonce, frame = hello()
    os.write(agent, frame)
    return nonce


def greet_engine(monitor: int) -> None:
    """Leave the first word of the control channel, which an engine wants to hear."""
    os.write(monitor, b'{"execute":"qmp_capabilities"}')
