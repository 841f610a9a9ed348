"""Each of the three levels stops a direct connection by itself, the other two removed.

An owned FETCH dials an address that no rule allows. Without a level it gets there. Judged by
its own word, by the reason it is given, and by what arrived on the far side.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.internet import played
from tests.support.origin import ORIGIN, OTHER

Told = dict[str, Any]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with played("tests.support.level_scenes:scenes") as found:
        yield found


def assert_open_without(told: Told) -> None:
    """Control: the very same attempt, by the same accounts, with no level at all."""
    for title in ("none", "none, owner"):
        assert told[title] == {"found": "connected", "arrived": [OTHER]}


# claim TG-C-136
def test_the_container_alone_stops_it(told: Told) -> None:
    assert_open_without(told)
    # No interface but its own loopback, so no way there.
    assert told["container"] == {"found": "ENETUNREACH", "arrived": []}


@pytest.mark.parametrize("variant", ["laptop", "strict"])
# claim TG-C-136
def test_the_firewall_alone_stops_it(told: Told, variant: str) -> None:
    assert_open_without(told)
    scene = told[f"{variant} firewall"]
    # Administratively prohibited, and counted as such.
    assert scene["found"]["fetch-retrieve"] == scene["found"]["owner"] == "EHOSTUNREACH"
    assert scene["found"]["counted"] >= 2
    assert scene["found"]["proxy"] == "connected", "control: whoever may dial still does"
    assert scene["arrived"] == [OTHER], "the proxy's, and no other"


# claim TG-C-136
def test_the_proxy_alone_stops_it(told: Told) -> None:
    assert_open_without(told)
    scene = told["proxy"]
    reached = scene["found"]["reached"]
    assert reached["direct"] == "EACCES", "FETCH's box opens no such socket"
    assert reached["api.crossref.org"] == "HTTP/1.1 200 Connection established", "control"
    assert reached["evil.example"] == reached[OTHER] == "HTTP/1.1 403 Forbidden"
    decided = {line["host"]: line for line in scene["found"]["decided"]}
    assert decided["api.crossref.org"]["rule"].startswith("policy/fetch.policy.md:")
    assert decided["evil.example"]["reason"] == decided[OTHER]["reason"] == "not-allowed"
    assert scene["arrived"] == [ORIGIN], "the listed one, and no other"
