"""The gate: one message, one answer; bytes that are not the record's are not read."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.normalization import JSON, ask, crossref_work, got, page_of
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize import gate, packet
from threegate.gates.fetch.normalize.gate import answer
from threegate.gates.fetch.normalize.messages import (
    KeptAnswer,
    Normalize,
    NormalizeMany,
    PacketMade,
    PacketNotMade,
    parse_made,
)
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.gates.fetch.normalize.text import Document
from threegate.sandbox import payload
from threegate.sandbox.channel import END, HEADER, FrameReader, frames

WORK = got("crossref", json.dumps(crossref_work()).encode(), JSON)
_, ASK = ask([WORK])
_START = "import os; os.dup2(1, 3); os.dup2(2, 1)\nimport {0} as gate\n"
_BROKEN = """
def answer(*_):
    raise RuntimeError("what the document says")
gate.answer = answer
"""


def served(data: bytes, before: str = "") -> tuple[int, list[bytes], bytes]:
    """Return how a gate ended that was sent these bytes, its answers, and its stderr."""
    program = f"{_START.format(gate.__name__)}{before}\ngate.serve()"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, input=data, capture_output=True, check=False)
    answers, held = [], b""
    for kind, piece in FrameReader().feed(ended.stdout):
        held += piece
        if kind == END:
            answers.append(held)
            held = b""
    assert not held
    return ended.returncode, answers, ended.stderr


def test_serves_one_message_and_ends() -> None:
    code, answers, err = served(frames(ASK.to_bytes()) * 2)
    assert (code, len(answers), err) == (os.EX_OK, 1, b""), "the second is another box's"
    found = parse_made(Untrusted(answers[0]))
    assert isinstance(found, PacketMade)
    assert found == answer(ASK, PLAIN)
    assert served(b"") == (os.EX_OK, [], b""), "a host that says nothing is told nothing"


@pytest.mark.parametrize("data", [frames(b""), b"\xff" * 100, HEADER.pack(1, 5) + b"abc"])
def test_a_host_that_breaks_the_protocol_is_not_served(data: bytes) -> None:
    assert served(data) == (payload.EX_PROTOCOL, [], b""), "and not a word"


def test_an_error_nobody_thought_of_ends_the_box_without_a_word() -> None:
    code, answers, _ = served(frames(ASK.to_bytes()))
    assert (code, len(answers)) == (os.EX_OK, 1), "control"
    ended = served(frames(ASK.to_bytes()), _BROKEN)
    assert ended == (payload.EX_SOFTWARE, [], b""), "its text is the document's, and stays inside"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Normalize(b"{}", ()), "TG-NRM-001"),
        (Normalize(ASK.record + b"\n", ASK.raws), "TG-NRM-001"),
        (Normalize(ASK.record, ()), "TG-NRM-002"),
        (Normalize(ASK.record, (*ASK.raws, b"")), "TG-NRM-002"),
        (Normalize(ASK.record, (ASK.raws[0][:-1] + b" ",)), "TG-NRM-002"),
        (Normalize(ASK.record, (ASK.raws[0] + b" ",)), "TG-NRM-002"),
    ],
)
# claim TG-C-116
def test_bytes_the_record_does_not_name_are_not_read(message: Normalize, code: str) -> None:
    assert isinstance(answer(ASK, PLAIN), PacketMade), "control"
    found = answer(message, PLAIN)
    assert isinstance(found, PacketNotMade)
    assert found.code == code


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_a_document_beyond_the_box_is_refused(error: type[Exception]) -> None:
    def read(_raw: Untrusted[bytes], _answer: KeptAnswer) -> Document:
        raise error

    message = ask([page_of(b"x")])[1]
    assert isinstance(answer(message, PLAIN), PacketMade), "control"
    found = answer(message, {"text/plain": read})
    assert isinstance(found, PacketNotMade)
    assert found.code == gate.TOO_LARGE


def test_codes_are_not_used_twice() -> None:
    codes = (gate.BROKEN_RECORD, gate.OTHER_BYTES, gate.TOO_LARGE, packet.NOT_FOUND)
    assert len({*codes, packet.UNREADABLE}) == 5


def of_commit(name: str, commit: str = "ab" * 20, source: str = "git") -> tuple[bytes, bytes]:
    """Return the record and the bytes of a file."""
    url = f"git:{commit}/{name}" if source == "git" else f"file:{name}"
    raw = f"text of {name}\n".encode()
    one = got(source, raw, "text/plain", role="document", url=url, media_type="")
    return ask([one])[1].record, raw


def test_files_of_one_commit_are_answered_together_as_if_alone() -> None:
    files = [of_commit(name) for name in ("a", "b", "c")]
    files[1] = (files[1][0], b"other bytes")
    found = gate.answer_many(NormalizeMany(sum(files, ())), PLAIN)
    alone = [answer(Normalize(record, (raw,)), PLAIN) for record, raw in files]
    assert found.answers == tuple(one.to_bytes() for one in alone)
    assert [type(one) for one in alone] == [PacketMade, PacketNotMade, PacketMade]


@pytest.mark.parametrize(
    "other", [of_commit("b", "cd" * 20), of_commit("b", source="file")], ids=["commit", "source"]
)
# claim TG-C-594
def test_files_of_two_origins_do_not_share_a_box(other: tuple[bytes, bytes]) -> None:
    both = gate.answer_many(NormalizeMany(of_commit("a") * 2), PLAIN)
    assert len(both.answers) == 2, "control: one origin"
    with pytest.raises(ProtocolBroken, match=r"several commits|not a file of a commit"):
        gate.answer_many(NormalizeMany((*of_commit("a"), *other)), PLAIN)
