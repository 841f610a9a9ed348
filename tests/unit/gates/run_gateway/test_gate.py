"""A gateway's side of its port: frames stay whole, whatever is refused of them."""

import json
import os
import socket
from collections.abc import Iterator

import pytest

from threegate.base.errors import ProtocolBroken
from threegate.gates.run_gateway import messages as say
from threegate.gates.run_gateway.gate import Hung, answer_one
from threegate.gates.run_gateway.messages import GuestRequest

ASKED = b'{"headers":{},"line":1,"method":"POST","url":"https://api.example.org/"}'


class Noting:
    """Stands where asks are judged, and keeps what it was given."""

    most = 100

    def __init__(self) -> None:
        self.bodies: list[bytes | None] = []

    def answer(self, _: GuestRequest, body: bytes | None) -> bytes:
        self.bodies.append(body)
        return say.no_frame("up-bytes", "", "")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_body_that_is_too_long_is_dropped_and_the_next_ask_is_whole(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    guest, port = ends
    noting = Noting()
    for body in (b"x" * 100, b"x" * 101, b"y"):
        guest.sendall(say.frame(say.ASK, ASKED) + say.frame(say.BODY, body))
        answer_one(port.fileno(), noting)  # type: ignore[arg-type]
    assert noting.bodies == [b"x" * 100, None, b"y"]
    kind, length = say.HEADER.unpack(guest.recv(say.HEADER.size))
    assert kind == say.NO
    assert json.loads(guest.recv(length))["reason"] == "up-bytes"


@pytest.mark.parametrize(
    "data",
    [
        say.frame(say.BODY, b""),
        say.HEADER.pack(say.ASK, say.MAX_HEAD_BYTES + 1),
        say.frame(say.ASK, ASKED) + say.HEADER.pack(say.BODY, say.MAX_UP_BYTES + 1),
        say.frame(say.ASK, b"{}"),
        os.urandom(4) + b"\xff",
    ],
)
def test_what_is_no_frame_ends_it(ends: tuple[socket.socket, socket.socket], data: bytes) -> None:
    guest, port = ends
    guest.sendall(data)
    guest.shutdown(socket.SHUT_WR)
    with pytest.raises(ProtocolBroken):
        answer_one(port.fileno(), Noting())  # type: ignore[arg-type]


def test_a_guest_that_is_gone_between_two_asks_is_an_end(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    guest, port = ends
    guest.close()
    with pytest.raises(Hung):
        answer_one(port.fileno(), Noting())  # type: ignore[arg-type]
