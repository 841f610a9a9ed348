"""The console as a process, spoken to by hand: who is let in, what is told, how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.e2e.test_heavy_run import enable
from tests.support.cli import Cli, made
from tests.support.console import Console, console, fresh, held, now, state
from tests.support.samples import box, escalated, fetch_request
from tests.support.workspaces import key_file


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return made(tmp_path_factory.mktemp("console"))


@pytest.fixture(scope="module")
def served(cli: Cli) -> Iterator[Console]:
    with console(cli, "--no-run") as found:
        yield found


@pytest.fixture(scope="module")
def known(served: Console) -> dict[str, str]:
    """Be let in; return what every later request sends."""
    for path in ("/", "/inbox", "/events", "/nothing", f"/request/tr-{'0' * 64}"):
        status, _, body = served.ask("GET", path)
        assert (status, b"Inbox" in body) == (401, False), path
    return served.login()


# claim TG-C-279
def test_the_link_works_once_and_everything_else_needs_the_session(
    cli: Cli, served: Console, known: dict[str, str]
) -> None:
    (request_id,) = held(cli, fresh())
    link = served.link.removeprefix(served.base)
    assert served.ask("GET", link, User_Agent="test")[0] == 401, "it works once"
    assert request_id.encode() in served.ask("GET", "/inbox", **known)[2], "control"
    assert served.ask("GET", "/nothing", **known)[0] == 404
    stolen = {**known, "User_Agent": "another browser"}
    assert served.ask("GET", "/inbox", **stolen)[0] == 401
    forged = {**known, "Origin": served.base}
    path = f"/request/{request_id}/deny"
    assert served.ask("POST", path, "csrf=x&reason=no", **forged)[0] == 403
    assert served.refused("TG-CON-007")
    assert state(cli, request_id) == "held"
    page = served.ask("GET", f"/request/{request_id}", **known)[2].decode()
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)">', page))
    asked = urlencode({**fields, "uses": "1"})
    assert served.ask("POST", path.replace("deny", "approve"), asked, **forged)[0] == 409, "used"
    assert served.ask("POST", path, urlencode({**fields, "reason": "no"}), **forged)[0] == 303
    assert state(cli, request_id) == "denied", "control: with its token the form works"
    served.ask("GET", f"/nothing?csrf={fields['csrf']}&view={fields['view']}", **known)
    paths = [one["path"] for one in served.events if one["event"] == "http"]
    assert {path, "/login", "/nothing"} <= set(paths), "control: each of these was told"
    told = "".join(map(str, [*served.events, *served.noted]))
    secrets = {known["Cookie"].partition("=")[2], link.removeprefix("/login/")}
    secrets |= {fields["csrf"], fields["view"]}
    assert {one for one in secrets if one in told.replace(served.link, "")} == set()


def test_every_answer_is_locked_down(served: Console) -> None:
    for path in ("/inbox", "/static/console.js", "/metrics", "/login/x"):
        _, headers, _ = served.ask("GET", path)
        assert "default-src 'none'" in headers["Content-Security-Policy"], path
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers


def test_metrics_count_and_name_nothing(served: Console) -> None:
    served.ask("GET", "/inbox", Host="rebound.test")
    text = served.ask("GET", "/metrics")[2].decode()
    assert 'threegate_requests{state="expired"} 0' in text
    assert 'threegate_refused_total{code="TG-CON-001"}' in text


_TRY = """
import os, socket, struct, sys
os.setuid(int(sys.argv[2]))
with socket.socket() as found:
    try:
        found.connect(("127.0.0.1", int(sys.argv[1])))
        host = b"Host: 127.0.0.1:" + sys.argv[1].encode()
        path = b"/metrics" if sys.argv[3] == "reads" else b"/login/" + sys.argv[3].encode()
        found.sendall(b"GET " + path + b" HTTP/1.1\\r\\n" + host + b"\\r\\n\\r\\n")
        if sys.argv[3] == "reads":
            print(found.recv(12).decode())
            sys.exit()
        print(found.getsockname()[1])
        if sys.argv[3] == "breaks":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except ConnectionError:
        print("reset")
"""


def owners(port: int, served: Console, *, over: bool) -> list[tuple[str, str]]:
    """Return uid and inode of an end of ours that was closed, once the kernel has let go of it."""
    ends = [f"0100007F:{number:04X}" for number in (port, served.port)]
    until = time.monotonic() + 20
    while time.monotonic() < until:
        table = [line.split() for line in Path("/proc/net/tcp").read_text().split("\n")[1:-1]]
        left = [(one[7], one[9]) for one in table if one[1:3] == ends]
        if over or left == [("0", "0")]:
            break
        time.sleep(0.05)
    return left


# claim TG-C-277
def test_another_account_of_the_machine_is_hung_up_on(served: Console) -> None:
    assert os.getuid() == 0, "needs root, to be somebody else"
    before = len([one for one in served.events if one.get("path") == "/login"])

    def says(uid: int, how: str = "reads") -> str:
        argv = [sys.executable, "-c", _TRY, str(served.port), str(uid), how]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    assert says(0) == "HTTP/1.1 200", "control: the operator's own processes are answered"
    assert says(65534) in ("reset", "")
    assert served.wait_for("turned-away")["reason"] == "another user"
    # Who is gone before the console looks is nobody, though the kernel calls that end root's.
    for count, how in enumerate(("closes", "breaks"), 2):
        served.process.send_signal(signal.SIGSTOP)
        try:
            left = owners(int(says(65534, how)), served, over=how == "breaks")
        finally:
            served.process.send_signal(signal.SIGCONT)
        assert left == [("0", "0")] * (how == "closes"), "control: so it says"
        assert served.wait_for("turned-away", count)["reason"] == "another user"
    served.ask("GET", "/login/later")
    served.wait_for("refused", 1)
    asked = [one for one in served.events if one.get("path") == "/login"]
    assert len(asked) == before + 1, "control: the one that is ours was heard, and no other"


def test_what_is_not_http_or_too_long_is_refused(served: Console) -> None:
    def sent(data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as found:
            found.sendall(data)
            return found.recv(1000).partition(b"\r\n")[0]

    host = f"Host: 127.0.0.1:{served.port}\r\n".encode()
    assert sent(b"GET /metrics HTTP/1.1\r\n" + host + b"\r\n").endswith(b"200 "), "control"
    assert b" 400 " in sent(b"nonsense\r\n\r\n")
    assert b" 400 " in sent(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 20_000)
    head = b"POST /logout HTTP/1.1\r\n" + host
    assert b" 413 " in sent(head + b"Content-Length: 70000\r\n\r\n" + b"a" * 66_000)
    both = b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert b" 400 " in sent(head + b"Content-Length: 4\r\n" + both), "smuggling"


# claim TG-C-278
def test_without_the_operators_key_nothing_is_approved(
    cli: Cli, served: Console, known: dict[str, str]
) -> None:
    key, (request_id,) = key_file(cli.base), held(cli, fresh())
    key.rename(cli.base / "aside")
    status, words = served.approve(known, request_id)
    assert (status, "TG-KEY-013" in words) == (503, True), words
    assert state(cli, request_id) == "held"
    (cli.base / "aside").rename(key)
    assert served.approve(known, request_id)[0] == 303, "control: with the key"
    assert state(cli, request_id) == "approved"


# claim TG-C-436
def test_an_approval_by_the_console_says_so(
    cli: Cli, served: Console, known: dict[str, str]
) -> None:
    (request_id,) = held(cli, fresh())
    assert served.approve(known, request_id)[0] == 303
    (standing,) = cli("review", "show", "--json", request_id).json["approvals"]
    assert "given             console, key: plain-file" in cli("review", "show", standing["id"]).out


# claim TG-C-276
def test_what_leaves_the_machine_is_typed_before_it_is_signed(
    cli: Cli, served: Console, known: dict[str, str]
) -> None:
    request = fetch_request(created=now(), references=(box("10.1000/182"),))
    (request_id,) = held(cli, request)
    digits = request_id.removeprefix("fr-")[:8]
    for typed in ("", "00000000", digits[:7]):
        status, words = served.approve(known, request_id, typed=typed)
        assert (status, "TG-CON-011" in words) == (409, True), words
    assert state(cli, request_id) == "held"
    assert served.approve(known, request_id, typed=digits)[0] == 303, "control"
    assert state(cli, request_id) == "approved"


# claim TG-C-276
def test_what_leaves_the_lite_lane_is_typed_before_it_is_signed(
    cli: Cli, served: Console, known: dict[str, str]
) -> None:
    enable(cli)
    about = {"inputs": (), "profile": "python", "created": now()}
    (request_id,) = held(cli, escalated("files", **about))
    digits = request_id.removeprefix("tr-")[:8]
    for typed in ("", "00000000"):
        status, words = served.approve(known, request_id, typed=typed)
        assert (status, "TG-CON-011" in words) == (409, True), words
    assert state(cli, request_id) == "held"
    assert served.approve(known, request_id, typed=digits)[0] == 303, "control"
    assert state(cli, request_id) == "approved"


def test_a_yes_at_once_is_refused(cli: Cli, served: Console, known: dict[str, str]) -> None:
    (request_id,) = held(cli, fresh())
    status, words = served.approve(known, request_id, look_seconds=0)
    assert (status, "TG-CON-012" in words) == (409, True)
    assert state(cli, request_id) == "held"


def test_it_ends_when_told_and_says_what_is_wrong_at_once(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli) as served:
        taken = str(served.port)
        assert "cannot listen on 127.0.0.1" in cli("serve", "--port", taken, code=69).err
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(60) == 0
    assert "is not a workspace" in cli("serve", "-w", tmp_path / "nowhere", code=69).err
