"""From the client in a guest over its socket to the port and back, without a guest."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from threegate.gates.run_gateway import messages as say
from threegate.gates.run_gateway.gate import Hung, answer_one
from threegate.gates.run_gateway.messages import GuestRequest
from threegate.gates.tool_exec.era.guest import relay, threegate_gateway


class Echo:
    """Answers like a gateway: what was asked, or one of its reasons."""

    most = 1_000_000

    def answer(self, ask: GuestRequest, body: bytes | None) -> bytes:
        assert body is not None
        if ask.url.endswith("/no"):
            return say.no_frame(say.HOST, "the request does not list it", "policy/x.md:7")
        if ask.url.endswith("/gone"):
            return say.no_frame(say.FAILED, "the connection broke off", "")
        told = f"{ask.method} {ask.url} {ask.line} {len(body)}"
        return say.answer_frames(200, {"content-type": "text/plain"}, told.encode())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve a socket as a guest has it; the port leads to the real loop of a gateway."""
    port, gateway = socket.socketpair()
    path = str(tmp_path / "s")
    monkeypatch.setattr(threegate_gateway, "PLACE", path)
    with socket.socket(socket.AF_UNIX) as listening, port, gateway:
        listening.bind(path)
        listening.listen(8)
        carrying = threading.Thread(target=_carry, args=(port.fileno(), listening), daemon=True)
        answering = threading.Thread(target=_answer, args=(gateway.fileno(),), daemon=True)
        carrying.start()
        answering.start()
        yield path
        port.shutdown(socket.SHUT_RDWR)
        listening.shutdown(socket.SHUT_RDWR)
        answering.join()
        carrying.join()


def _carry(port: int, listening: socket.socket) -> None:
    try:
        relay.serve(port, listening)
    except OSError:
        return


def _answer(fd: int) -> None:
    try:
        while True:
            answer_one(fd, Echo())  # type: ignore[arg-type]
    except Hung:
        return


@pytest.mark.usefixtures("place")
def test_an_ask_arrives_whole_and_names_the_line_it_stands_in() -> None:
    line = test_an_ask_arrives_whole_and_names_the_line_it_stands_in.__code__.co_firstlineno
    first = threegate_gateway.get("https://api.example.org/a")
    second = threegate_gateway.post("https://api.example.org/b", b"x" * 300_000)
    assert first.text() == f"GET https://api.example.org/a {line + 3} 0"
    assert second.text() == f"POST https://api.example.org/b {line + 4} 300000"
    assert (second.status, second.headers["content-type"]) == (200, "text/plain")


@pytest.mark.usefixtures("place")
def test_a_refusal_names_its_rule_and_a_failure_is_none() -> None:
    with pytest.raises(PermissionError, match=r"policy/x\.md:7: host-not-listed"):
        threegate_gateway.get("https://api.example.org/no")
    with pytest.raises(ConnectionError, match="not-reached"):
        threegate_gateway.get("https://api.example.org/gone")


def test_asks_of_many_at_once_do_not_mix(place: str) -> None:
    with socket.socket(socket.AF_UNIX) as rude:  # one that says nothing and goes
        rude.connect(place)
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        body = bytes(number * 1_000)
        found[number] = threegate_gateway.post(f"https://a.example.org/{number}", body).text()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, text in found.items():
        words = text.split(" ")
        assert (words[1], words[3]) == (f"https://a.example.org/{number}", str(number * 1_000))
    assert len(found) == 8
