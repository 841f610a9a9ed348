"""What a bridge-remote box is told first: one spelling, bounds on everything, a key unseen."""

from dataclasses import replace
from typing import Any

import pytest

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.messages import Remote, parse_remote

KEY = "Bearer canary-key-4711"
REMOTE = Remote(
    listen_fd=10,
    name="big",
    host="llm.example.org",
    context_tokens=4096,
    deadline_seconds=60,
    requests=64,
    sent_bytes=2**22,
    anchors=(("system", None), ("ab" * 32, b"PEM")),
    header="Authorization",
    credential=KEY,
)


def test_it_comes_back_as_it_was_sent_and_does_not_show_its_key() -> None:
    assert parse_remote(Untrusted(REMOTE.to_bytes())) == REMOTE
    bare = replace(REMOTE, header=None, credential=None, anchors=(("system", None),))
    assert parse_remote(Untrusted(bare.to_bytes())) == bare
    assert KEY not in repr(REMOTE)


@pytest.mark.parametrize(
    "change",
    [
        {"host": "LLM.example.org"},
        {"host": "a b"},
        {"host": "x\r\ny"},
        {"host": ""},
        {"requests": 0},
        {"requests": 1001},
        {"sent_bytes": 0},
        {"anchors": ()},
        {"anchors": (("system", b"PEM"),)},
        {"anchors": (("ab" * 32, None),)},
        {"anchors": (("other", b"PEM"),)},
        {"header": None},
        {"credential": None},
        {"header": "Host"},
        {"header": "transfer-encoding"},
        {"header": "X:Y"},
        {"credential": "short"},
        {"credential": "with a line break\r\nHost: evil"},
        {"listen_fd": 2},
    ],
)
def test_no_message_breaks_a_rule(change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolBroken):
        replace(REMOTE, **change)


def test_other_files_than_anchors_are_no_message() -> None:
    data = REMOTE.to_bytes()
    more = data.replace(b'"system"', b'"' + b"cd" * 32 + b'"', 1)
    for other in (more, data[:-1], data + b"x", b"", b"{}"):
        with pytest.raises(ProtocolBroken):
            parse_remote(Untrusted(other))
