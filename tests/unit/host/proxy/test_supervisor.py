"""The proxy's supervisor: whatever ends a proxy is told, by whom it was started or told to end."""

import errno
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import pytest

from tests.support.policies import policy
from threegate.base.errors import GateUnavailable, ProtocolBroken, StorageFailed, ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.proxy.messages import InForce
from threegate.host.proxy import supervisor
from threegate.host.proxy.supervisor import Proxy, listening
from threegate.sandbox import service
from threegate.sandbox.supervise import Ended

SECONDS = 60.0
BUNDLE = policy().bundle()
DECISION = (
    b'{"address":null,"addresses":[],"detail":"","event":"tunnel","host":null,'
    b'"reason":"not-allowed","rule":null,"verdict":"deny"}'
)


class Line:
    """A proxy that takes the rules and says `last` when it is told to end, `first` before."""

    first, last = b"", b""
    is_ready = is_answered = True
    is_gone = False

    def __init__(self, *_: object, note: Callable[[bytes], None]) -> None:
        self._note, self._first, self._last = note, self.first, b""

    def greet(self, _: float) -> None:
        return None

    def expect(self, answer: IO[bytes]) -> None:
        answer.write(InForce(BUNDLE.generation, BUNDLE.digest).to_bytes())

    def send(self, _: bytes) -> None:
        pass

    def wait_for_answer(self, _: float) -> None:
        return None

    def wait_for_end(self, _: float) -> str | None:
        for said in (self._first, self._last):
            if said:
                self._first = self._last = b""
                self._note(said)
        return None if self.is_gone else "deadline"

    def hang_up(self) -> None:
        self._last, self.is_gone = self.last, True

    def end(self, why: str | None) -> Ended:
        return Ended(why or "done", 0, True, 1, 1, 1, 1, Untrusted(b""))


class Supervised:
    """A proxy that is played, and who it was told to."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gone: SimpleQueue[ThreeGateError] = SimpleQueue()
        self.decided: Callable[[dict[str, Any]], None] = lambda _: None
        self.line = type("Played", (Line,), {})
        self._directory = directory
        monkeypatch.setattr(service, "Line", self.line)
        monkeypatch.setattr(supervisor, "resolver", lambda: "/dev/null")
        monkeypatch.setattr(service, "start_gate", lambda *_: (None, None))

    def run(self, *, until_gone: bool = False) -> ThreeGateError | None:
        """Start and close it; return what was told, if anything."""
        machine: Any = None
        with listening(self._directory) as place:
            proxy = Proxy(machine, place, decided=self.decided, gone=self.gone.put)
            try:
                proxy.start(BUNDLE)
                if until_gone:
                    return self.gone.get(timeout=SECONDS)
            finally:
                proxy.close()
        return None if self.gone.empty() else self.gone.get()


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervised:
    return Supervised(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "TG-BOX-041"),
        (GateUnavailable("no box here", code="TG-BOX-001"), "TG-BOX-001"),
    ],
)
def test_what_keeps_it_from_starting_is_raised_to_who_starts_it(
    supervised: Supervised, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    assert supervised.run() is None, "control: it starts, and ends because it was told to"

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(service, "start_gate", refuse)
    with pytest.raises(GateUnavailable) as refused:
        supervised.run()
    assert refused.value.code == code


def full(_: dict[str, Any]) -> None:
    raise StorageFailed("no room to count what a tunnel carried")


def broken(_: dict[str, Any]) -> None:
    raise ZeroDivisionError("words of ours that nobody thought of")


@pytest.mark.parametrize("when", ["first", "last"])
def test_what_is_no_decision_ends_it_and_is_told(supervised: Supervised, when: str) -> None:
    setattr(supervised.line, when, DECISION)
    heard: list[str] = []
    supervised.decided = lambda line: heard.append(line["reason"])
    assert supervised.run() is None, "control"
    setattr(supervised.line, when, b"no decision")
    told = supervised.run(until_gone=True) if when == "first" else supervised.run()
    assert isinstance(told, ProtocolBroken)
    assert when == "first" or heard == ["not-allowed"], "control: decisions are heard until the end"


@pytest.mark.parametrize("when", ["first", "last"])
@pytest.mark.parametrize(
    ("decided", "code", "words"),
    [
        (full, "TG-DSK-001", "no room to count"),
        (broken, "TG-FET-064", "the proxy ended: ZeroDivisionError"),
    ],
)
def test_a_decision_that_cannot_be_heard_ends_it_and_is_told(
    supervised: Supervised,
    when: str,
    decided: Callable[[dict[str, Any]], None],
    code: str,
    words: str,
) -> None:
    setattr(supervised.line, when, DECISION)
    assert supervised.run() is None, "control"
    supervised.decided = decided
    told = supervised.run(until_gone=True) if when == "first" else supervised.run()
    assert told is not None
    assert told.code == code
    assert told.message.startswith(words)
