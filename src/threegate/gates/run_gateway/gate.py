"""The payload of a run-gateway box: the host opens it, the guest of one run asks through it.

SECURITY
    Listens to a guest that may be owned by its job.  Frames are bounded before they are read;
    what breaks the protocol ends the gateway, and with it all that the run could ask.
"""

import os
from typing import Final

from threegate.base.errors import GateUnavailable, ProtocolBroken
from threegate.base.limits import MAX_RETRIEVE_OPENING_BYTES
from threegate.base.untrusted import Untrusted
from threegate.gates.run_gateway import messages as say
from threegate.gates.run_gateway.exchange import RunGateway
from threegate.gates.run_gateway.messages import Told, opened, parse_ask, parse_opening
from threegate.sandbox import payload
from threegate.sandbox.channel import read_message, write_message, write_note
from threegate.sandbox.payload import ANSWERS_FD, REQUESTS_FD

_PIECE: Final = 64 * 1024


class Hung(Exception):
    """The guest is gone, between two asks."""


def serve() -> None:
    """Answer a guest until it is gone; the payload of a run-gateway box."""
    payload.serve(_serve, GateUnavailable)


def _serve() -> None:
    message = read_message(REQUESTS_FD, MAX_RETRIEVE_OPENING_BYTES)
    if message is None:
        return
    opening = parse_opening(Untrusted(message))
    asking = RunGateway(opening, _tell)
    write_message(ANSWERS_FD, opened())
    try:
        while True:
            answer_one(opening.channel_fd, asking)
    except Hung:
        return


def _tell(told: Told) -> None:
    write_note(ANSWERS_FD, told.to_bytes())


def answer_one(fd: int, asking: RunGateway) -> None:
    """Hear one ask and answer it; raise `Hung`, or `ProtocolBroken`."""
    ask = parse_ask(_frame(fd, say.ASK, say.MAX_HEAD_BYTES, first=True) or b"")
    body = _frame(fd, say.BODY, asking.most)
    _write(fd, asking.answer(ask, body))


def _frame(fd: int, kind: int, most: int, *, first: bool = False) -> bytes | None:
    """Return the body of a frame; None for one that is longer than `most`, which is dropped."""
    head = _read(fd, say.HEADER.size, first=first)
    found, length = say.HEADER.unpack(head)
    if found != kind or length > max(say.MAX_HEAD_BYTES, say.MAX_UP_BYTES * (kind == say.BODY)):
        raise ProtocolBroken("not a frame of this protocol")
    if length <= most:
        return _read(fd, length)
    while length:
        length -= len(_read(fd, min(length, _PIECE)))
    return None


def _read(fd: int, size: int, *, first: bool = False) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            piece = os.read(fd, min(size - len(data), _PIECE))
        except ConnectionError:  # an engine that was ended with bytes of ours unread
            piece = b""
        if not piece:
            raise Hung if first and not data else ProtocolBroken("the guest broke off")
        data += piece
    return bytes(data)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except (BrokenPipeError, ConnectionError) as exc:
            raise Hung from exc
