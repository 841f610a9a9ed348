"""An SSH agent that does what the test says: a soft FIDO2 token, or a confused one.

Speaks the two requests of draft-miller-ssh-agent that signing needs.
"""

import hashlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.sshlab import Key, s

LIST, KEYS, SIGN, SIGNED, FAILURE = 11, 12, 13, 14, 5
Answer = Callable[[Key, bytes], bytes]  # the key, what to sign -> the inner signature


def honest(key: Key, data: bytes, *, flags: int = 1, counter: int = 5) -> bytes:
    """Sign as a file key or, with a touch, as a token does."""
    if not key.on_token:
        return s(key.type_name) + s(key.private.sign(data))
    tail = struct.pack(">BI", flags, counter)
    signed = hashlib.sha256(key.application).digest() + tail + hashlib.sha256(data).digest()
    return s(key.type_name) + s(key.private.sign(signed)) + tail


def _field(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    return data[at + 4 : end], end


def _reply(key: Key, request: bytes, answer: Answer) -> bytes:
    if request[:1] == bytes([LIST]):
        return struct.pack(">BI", KEYS, 1) + s(key.blob) + s(b"soft token")
    if request[:1] == bytes([SIGN]):
        _, at = _field(request, 1)
        data, _ = _field(request, at)
        return bytes([SIGNED]) + s(answer(key, data))
    return bytes([FAILURE])


def _serve(listener: socket.socket, key: Key, answer: Answer) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # closed: the test is over
            return
        with connection, connection.makefile("rwb") as stream:
            while head := stream.read(4):
                stream.write(s(_reply(key, stream.read(int.from_bytes(head, "big")), answer)))
                stream.flush()


@contextmanager
def soft_agent(path: Path, key: Key, answer: Answer = honest) -> Iterator[Path]:
    """Run the agent on the socket `path`."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=_serve, args=(listener, key, answer), daemon=True)
        thread.start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    assert not thread.is_alive()
