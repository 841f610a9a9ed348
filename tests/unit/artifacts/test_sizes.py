"""Large hostile inputs cost time in proportion to their size, and only that."""

import time

import pytest

from tests.support.samples import packet
from tests.support.vectors import judge
from threegate.artifacts.limits import MAX_PACKET_BYTES
from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import emit

MOST_SECONDS = 1.0  # the slowest takes a twentieth of it; anything quadratic takes minutes
PACKET = emit(packet())
FIRST_LINE = b'---\nformat: "rp/1"\n'
ROOM = MAX_PACKET_BYTES - len(PACKET) - 1000


def value(key: bytes, spelled: bytes) -> bytes:
    before, found, rest = PACKET.partition(b"\n" + key + b": ")
    assert found
    return before + found + spelled + rest[rest.index(b"\n") :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (value(b"confidentiality", b"x" * ROOM), ArtifactReason.OVERSIZE),
        (value(b"raw_bytes", b"[" * 500_000), ArtifactReason.NOT_CANONICAL),
        (
            value(b"raw_bytes", b"[" + b", ".join([b"9" * 4200] * 110) + b"]"),
            ArtifactReason.WRONG_TYPE,
        ),
        (value(b"authors", b'["a"' + b', "a"' * 90_000 + b"]"), ArtifactReason.OUT_OF_RANGE),
        (value(b"title", b'"' + b"\\\\" * 200_000 + b'"'), ArtifactReason.OUT_OF_RANGE),
        (FIRST_LINE + b"\n" * ROOM, ArtifactReason.FRONT_MATTER),
        (FIRST_LINE + b"a: 1\n" * 100_000 + b"---\n\n", ArtifactReason.DUPLICATE_KEY),
        (FIRST_LINE + b"---\n" * (ROOM // 4), ArtifactReason.FRONT_MATTER),
        (PACKET + b"\n## x" * (ROOM // 5), ArtifactReason.SECTIONS),
        (PACKET + b"\n### 1" * (ROOM // 6), ArtifactReason.SECTIONS),
        (PACKET + b"\n    " * (ROOM // 5), ArtifactReason.BODY_TEXT),
        (PACKET + b"<" * ROOM, ArtifactReason.BODY_TEXT),
        ("\u202e".encode() * (ROOM // 3), ArtifactReason.FORBIDDEN_CHARACTER),
    ],
    ids=lambda given: given.name if isinstance(given, ArtifactReason) else repr(given[-20:]),
)
# claim TG-C-15
def test_large_input_is_rejected_in_linear_time(data: bytes, reason: ArtifactReason) -> None:
    started = time.process_time()
    assert judge(data) is reason
    assert time.process_time() - started < MOST_SECONDS
