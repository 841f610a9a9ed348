"""Which box reads what, and what its end means."""

import io
from dataclasses import replace
from typing import Any

import pytest

from tests.support.records import RECORD
from threegate.host.fetching.making import PAYLOADS, job_for, read_answer
from threegate.protocol.normalize import Made, NotMade, RetrievalRecord
from threegate.sandbox.session import Answer
from threegate.sandbox.supervise import Ended
from threegate.untrusted import Untrusted


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
    ],
)
def test_a_document_goes_to_the_box_that_can_read_it(types: tuple[str, ...], profile: str) -> None:
    record = read_as(*types)
    job = job_for(7, record, (b"x",) * len(record.answers))
    assert (job.item, job.profile.name) == (7, profile)
    assert profile in PAYLOADS


def answer(message: bytes, why: str = "done") -> Answer:
    evidence: Any = None
    ended = Ended(why, 0, True, 1, 1, 1, 1, Untrusted(b""))
    return Answer(io.BytesIO(message), ended, evidence)


def test_a_packet_is_bytes_until_it_is_checked() -> None:
    told = read_answer(3, answer(Made(b"a packet, it says").to_bytes()))
    assert told.packet is not None
    assert (told.item, told.error) == (3, None)
    assert told.packet.open_for_validation() == b"a packet, it says"


def test_a_refusal_of_the_box_keeps_its_code() -> None:
    told = read_answer(3, answer(NotMade("TG-NRM-004", "nothing to read").to_bytes()))
    assert told.error is not None
    assert (told.error.code, told.error.exit_code) == ("TG-NRM-004", 65)


@pytest.mark.parametrize("why", ["deadline", "output", "crashed", "exit", "protocol"])
def test_a_box_that_did_not_end_well_made_nothing(why: str) -> None:
    whole = Made(b"a packet, it says").to_bytes()
    assert read_answer(3, answer(whole)).packet is not None, "control"
    told = read_answer(3, answer(whole, why))
    assert told.packet is None
    assert told.error is not None
    assert told.error.code == "TG-FET-072"


def test_nonsense_is_a_refusal() -> None:
    told = read_answer(3, answer(b"\xff" * 50))
    assert told.error is not None
    assert told.error.code == "TG-FET-072"
