"""How much the console takes: requests, logins, connections and pages that listen, at once."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.test_console_service import heard, listened
from tests.support.cli import Cli, made
from tests.support.console import SECONDS, Console, console
from threegate.console.events import MAX_LISTENERS
from threegate.console.server import MAX_CONNECTIONS

BURST, LOGINS = 240, 8  # as docs and code say; what refills meanwhile comes on top
MANY = 800


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return made(tmp_path_factory.mktemp("console"))


@pytest.fixture(scope="module")
def served(cli: Cli) -> Iterator[Console]:
    with console(cli, "--no-run") as found:
        yield found


@pytest.fixture(scope="module")
def known(served: Console) -> dict[str, str]:
    return served.login()


def connected(served: Console) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS)


def eventually(found: Callable[[], bool]) -> bool:
    """Wait until something is so."""
    until = time.monotonic() + SECONDS
    while not found():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def counted(served: Console, code: str) -> int:
    """Return how often the console says that it refused something for this reason."""
    text = served.ask("GET", "/metrics")[2].decode()
    found = re.search(rf'(?m)^threegate_refused_total{{code="{code}"}} ([0-9]+)$', text)
    return int(found[1]) if found else 0


# claim TG-C-219
def test_a_burst_of_requests_is_refused_and_goes_by(served: Console, known: dict[str, str]) -> None:
    before = counted(served, "TG-CON-008")
    head = f"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
    with connected(served) as stream:
        stream.sendall(f"{head}\r\n".encode() * MANY + f"{head}Connection: close\r\n\r\n".encode())
        answer = b""
        while piece := stream.recv(65536):
            answer += piece
    statuses = re.findall(rb"(?m)^HTTP/1\.1 ([0-9]+) ", answer)
    assert set(statuses) == {b"200", b"429"}
    assert BURST / 2 < statuses.index(b"429") < MANY
    assert b"too many requests at once [TG-CON-008]" in answer
    assert served.refused("TG-CON-008")
    assert eventually(lambda: served.ask("GET", "/inbox", **known)[0] == 200), "control"
    assert counted(served, "TG-CON-008") - before >= statuses.count(b"429")


# claim TG-C-219
def test_links_are_tried_a_few_times_and_then_not_even_looked_at(
    cli: Cli, served: Console, known: dict[str, str]
) -> None:
    links = [cli("serve", "--link", "--port", str(served.port)).out.strip() for _ in range(2)]
    first, second = (one.removeprefix(served.base) for one in links)
    assert served.ask("GET", first)[0] == 303, "control: a good one among the first is taken"
    tried = [served.ask("GET", f"/login/{number:043}") for number in range(LOGINS + 1)]
    statuses = [status for status, _, _ in tried]
    assert statuses[0] == 401, "control: looked at, and none"
    assert statuses[-1] == 429
    status, _, words = served.ask("GET", second)
    assert (status, b"too many logins at once [TG-CON-008]" in words) == (429, True), "a good one"
    assert served.ask("GET", "/inbox", **known)[0] == 200, "control: who is in stays in"


# claim TG-C-219
def test_one_connection_too_many_is_hung_up_on(served: Console) -> None:
    def answers(stream: socket.socket) -> bool:
        host = f"Host: 127.0.0.1:{served.port}\r\n"
        try:
            stream.sendall(f"GET /metrics HTTP/1.1\r\n{host}\r\n".encode())
            return stream.recv(12) == b"HTTP/1.1 200"
        except ConnectionError:
            return False

    with ExitStack() as stack:
        kept = [stack.enter_context(connected(served)) for _ in range(MAX_CONNECTIONS)]
        assert answers(kept[0]), "control"
        assert answers(kept[-1]), "control: as many as there may be are answered"
        with connected(served) as one_more:
            assert not answers(one_more)
        assert served.wait_for("turned-away")["reason"] == "too many"
        kept[0].close()

        def room() -> bool:
            with connected(served) as again:
                return answers(again)

        assert eventually(room), "control: where one left there is room"


# claim TG-C-219
def test_one_page_too_many_that_listens_is_told_so(served: Console, known: dict[str, str]) -> None:
    with ExitStack() as stack:
        kept = [stack.enter_context(listened(served, known)) for _ in range(MAX_LISTENERS)]
        for stream in kept:
            heard(stream, "retry:")
        status, _, words = served.ask("GET", "/events", **known)
        assert (status, b"too many pages listen" in words) == (400, True)
        assert served.ask("GET", "/inbox", **known)[0] == 200, "control: pages are shown"
        kept.pop().close()

        def room() -> bool:
            served.ask("GET", "/inbox")  # refused, which every page hears of: who left is noticed
            with listened(served, known) as stream:
                return stream.recv(12) == b"HTTP/1.1 200"

        assert eventually(room), "control: where one left there is room"
