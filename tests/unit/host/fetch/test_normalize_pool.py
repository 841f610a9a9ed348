"""Which box reads what, and what its end means."""

import errno
import io
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import pytest

from tests.support.normalization import RECORD
from tests.support.policies import policy
from threegate.artifacts import media_types
from threegate.base.errors import GateUnavailable
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import PacketMade, PacketNotMade, RetrievalRecord
from threegate.host.fetch import normalize_pool
from threegate.host.fetch.normalize_pool import (
    Answered,
    Makers,
    Stopped,
    Told,
    job_for,
    read_answer,
)
from threegate.host.open_box import GATES
from threegate.sandbox.session import GateAnswer
from threegate.sandbox.supervise import Ended


def read_as(*types: str) -> RetrievalRecord:
    answers = tuple(
        replace(RECORD.answers[0], role="document", read_as=kind, bytes=1) for kind in types
    )
    return replace(RECORD, answers=(RECORD.answers[1], *answers))


@pytest.mark.parametrize(
    ("types", "profile"),
    [
        ((), "fetch-normalize"),
        (("application/json",), "fetch-normalize"),
        (("application/xml",), "fetch-normalize"),
        (("text/html",), "fetch-html"),
        (("application/xhtml+xml",), "fetch-html"),
        (("application/pdf",), "fetch-pdf"),
        ((media_types.recognised_pdf(["eng"], "0" * 64),), "fetch-ocr"),
        ((media_types.DOCX,), "fetch-office"),
        ((media_types.ODT,), "fetch-office"),
        ((media_types.PPTX,), "fetch-office"),
        ((media_types.EPUB,), "fetch-html"),
        ((media_types.MARKDOWN,), "fetch-normalize"),
    ],
)
def test_a_document_goes_to_the_box_that_can_read_it(types: tuple[str, ...], profile: str) -> None:
    record = read_as(*types)
    job = job_for(7, record, (b"x",) * len(record.answers))
    assert (job.item, job.profile.name) == (7, profile)
    assert profile in GATES


def answer(message: bytes, why: str = "done") -> GateAnswer:
    evidence: Any = None
    ended = Ended(why, 0, True, 1, 1, 1, 1, Untrusted(b""))
    return GateAnswer(io.BytesIO(message), ended, evidence)


def test_a_packet_is_bytes_until_it_is_checked() -> None:
    told = read_answer(3, answer(PacketMade(b"a packet, it says").to_bytes()))
    assert told.packet is not None
    assert (told.item, told.error) == (3, None)
    assert told.packet.open_for_validation() == b"a packet, it says"


def test_a_refusal_of_the_box_keeps_its_code() -> None:
    told = read_answer(3, answer(PacketNotMade("TG-NRM-004", "nothing to read").to_bytes()))
    assert told.error is not None
    assert (told.error.code, told.error.exit_code) == ("TG-NRM-004", 65)


@pytest.mark.parametrize("why", ["deadline", "output", "crashed", "exit", "protocol"])
def test_a_box_that_did_not_end_well_made_nothing(why: str) -> None:
    whole = PacketMade(b"a packet, it says").to_bytes()
    assert read_answer(3, answer(whole)).packet is not None, "control"
    told = read_answer(3, answer(whole, why))
    assert told.packet is None
    assert told.error is not None
    assert told.error.code == "TG-FET-072"


def test_nonsense_is_a_refusal() -> None:
    told = read_answer(3, answer(b"\xff" * 50))
    assert told.error is not None
    assert told.error.code == "TG-FET-072"


class Pool:
    """Boxes that are played: `run` and `start` may fail."""

    run_fails: Exception | None = None
    start_fails: Exception | None = None
    closed = 0

    def __init__(self, *_: object, size: int) -> None:
        assert size == 1
        if self.start_fails is not None:
            raise self.start_fails

    def run(self, _message: bytes, *, refill: bool) -> GateAnswer:
        assert not refill
        if self.run_fails is not None:
            raise self.run_fails
        return answer(PacketMade(b"a packet, it says").to_bytes())

    def fill(self) -> None:
        pass

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Told, int]]:
    def made(**fails: Exception) -> tuple[Told, int]:
        """Return what is told of one job, and how many pools were closed."""
        pool: Any = type("Played", (Pool,), fails)
        monkeypatch.setattr(normalize_pool, "Prestarted", pool)
        told: SimpleQueue[Told] = SimpleQueue()
        machine: Any = None
        makers = Makers(machine, policy().bundle(), tell=told.put, makers=1)
        makers.expect(1)
        makers.submit(job_for(7, RECORD, (b"x",) * len(RECORD.answers)))
        makers.close()
        found = told.get_nowait()
        assert told.empty()
        return found, pool.closed

    return made


@pytest.mark.parametrize("where", ["start_fails", "run_fails"])
@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        GateUnavailable("no box here", code="TG-BOX-001"),
        ZeroDivisionError("a bug of ours"),
    ],
)
def test_where_no_box_can_be_had_the_run_is_told(
    make: Callable[..., tuple[Told, int]], where: str, error: Exception
) -> None:
    found, closed = make()
    assert isinstance(found, Answered), "control"
    assert (found.item, closed) == (7, 1)
    found, closed = make(**{where: error})
    assert isinstance(found, Stopped)
    if isinstance(error, OSError):
        assert isinstance(found.error, GateUnavailable), "a machine that has run out is no bug"
        assert found.error.code == "TG-BOX-041"
    else:
        assert found.error is error, "the run raises it"
    assert closed == (where == "run_fails"), "no box is left waiting"
