"""Messages to and from whoever serves a model: one spelling each, nothing else is read."""

from collections.abc import Callable

import pytest

from tests.support.messages import BRIDGED, EMBEDDED
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import Served
from threegate.gates.model.messages import (
    GREETING,
    Bridged,
    Embedded,
    ModelProgress,
    parse_bridged,
    parse_embedded,
    ready,
)
from threegate.gates.tool_exec.monty import messages as tool_lite


@pytest.mark.parametrize(
    "endpoint",
    [
        *("192.0.2.1:80", "localhost:11434", "127.0.0.2:80", "127.0.0.1", "127.0.0.1:0"),
        *("127.0.0.1:65536", "127.0.0.1:080", "[::1]:80", "unix:/run/x.sock", "127.0.0.1:80\n"),
    ],
)
def test_a_bridge_leads_to_loopback_only(endpoint: str) -> None:
    assert Bridged(10, "m", "127.0.0.1:65535", 1, 1).port == 65535, "control"
    assert Bridged(10, "m", "unix:/run/server.sock", 1, 1).port is None, "control"
    with pytest.raises(ProtocolBroken):
        Bridged(10, "m", endpoint, 1, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Embedded(3, "m", "a" * 64, 1, 1, 1),  # the channel
        lambda: Embedded(10, "m m", "a" * 64, 1, 1, 1),
        lambda: Embedded(10, "m", "a" * 63, 1, 1, 1),
        lambda: Embedded(10, "m", "a" * 64, 1, 0, 1),
        lambda: Embedded(10, "m", "a" * 64, 1, 1, 0),
        lambda: ready(Served("m", None, 1), {"a b": "1"}),
        lambda: GREETING.refused("TG-X", "y"),
        lambda: GREETING.refused("TG-FET-001", "y"),
        lambda: ModelProgress("thinking", 0, 1),
        lambda: ModelProgress("reply", -1, 1),
    ],
)
def test_nothing_is_built_that_would_not_be_read(make: Callable[[], object]) -> None:
    with pytest.raises(ProtocolBroken):
        make()


def test_an_opening_of_the_other_kind_or_protocol_is_refused() -> None:
    with pytest.raises(ProtocolBroken):
        parse_embedded(Untrusted(BRIDGED.to_bytes()))
    with pytest.raises(ProtocolBroken):
        parse_bridged(Untrusted(EMBEDDED.to_bytes()))
    other = EMBEDDED.to_bytes().replace(b"model/1", tool_lite.PROTOCOL.encode())
    with pytest.raises(ProtocolBroken):
        parse_embedded(Untrusted(other))
