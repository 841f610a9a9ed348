"""No room, no log, no memory of it: what cannot be recorded does not happen."""

import fcntl
import os
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.support.cli import PYTHON, Cli, made, write
from tests.support.samples import packet
from tests.support.workspaces import files_below
from threegate.artifacts import registry
from threegate.audit.entry import time_of
from threegate.handoff.store import Store


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = made(tmp_path)
    write(tmp_path / "packet.md", registry.emit(packet()))
    return cli


def workspace(cli: Cli) -> Path:
    assert cli.workspace is not None
    return cli.workspace


def limited(cli: Cli, *argv: str, file_bytes: int) -> subprocess.CompletedProcess[bytes]:
    """Run a command in which no file can grow beyond a size, as on a disk that is full."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return subprocess.run(
        [*PYTHON, *argv],
        env=cli.env(),
        cwd=cli.base,
        capture_output=True,
        preexec_fn=limit,
        check=False,
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("admit", "packet.md"),
        ("audit", "checkpoint"),
        ("key", "rotate", "--new", "new", "--yes"),
    ],
)
# claim TG-C-23
def test_a_log_that_cannot_be_written_stops_everything(cli: Cli, argv: tuple[str, ...]) -> None:
    before = files_below(workspace(cli))
    size = len(before["audit/segment-00000000.jsonl"])
    ended = limited(cli, *argv, file_bytes=size)
    assert ended.returncode == 74, ended.stderr
    assert b"[TG-AUD-001]" in ended.stderr
    assert ended.stdout == b""
    after = files_below(workspace(cli))
    assert {name: data for name, data in after.items() if name != "index.sqlite"} == before
    cli(*argv)  # control: with room it works, and nothing was spoiled
    assert cli("audit", "verify", "--json").json["ok"]


def test_a_file_that_cannot_be_written_is_undone_and_said(cli: Cli) -> None:
    # The log has room, the artifact has not.
    size = (workspace(cli) / "audit/segment-00000000.jsonl").stat().st_size
    large = registry.emit(packet("x" * 19_000, "y" * 19_000))
    assert len(large) > 2 * size
    write(cli.base / "large.md", large)
    ended = limited(cli, "admit", "large.md", file_bytes=2 * size)
    assert ended.returncode == 74, ended.stderr
    assert b"[TG-DSK-001]" in ended.stderr
    assert cli("packet", "list", "--json").json["total"] == 0
    assert cli("audit", "verify", "--json").json["ok"]
    kinds = [item["kind"] for item in cli("audit", "show", "--json").json["items"]]
    assert kinds[-2:] == ["intent", "recovered"], "the attempt is on record"


def test_a_full_quota_is_exit_74_and_nothing_is_dropped(cli: Cli) -> None:
    path = workspace(cli) / "policy/handoff.policy.md"
    text = path.read_text("utf-8")
    old = "accepted: {files: 1000000, bytes: 16GiB}"
    assert old in text
    path.write_text(text.replace(old, "accepted: {files: 1, bytes: 16GiB}", 1), "utf-8")
    cli("policy", "apply", "--yes")
    cli("admit", "packet.md")  # control
    done = cli("admit", "-", stdin=registry.emit(packet("Another.")), code=74)
    assert "handoff/packets/accepted would hold 2 files" in done.err
    assert "[TG-DSK-002]" in done.err
    assert cli("packet", "list", "--json").json["total"] == 1
    assert cli("quarantine", "list", "--json").json["total"] == 0


def test_a_clock_behind_the_log_signs_nothing(cli: Cli) -> None:
    # A process whose clock went back a day.
    past = cli.patched("import time\nreal = time.time\ntime.time = lambda: real() - 86400\n")
    assert past("status", "--json").json["clock_behind_seconds"] > 80000
    assert "[TG-CLK-001]" in past("audit", "checkpoint", code=77).err
    cli("audit", "checkpoint")  # control


# claim TG-C-431
def test_a_log_in_the_future_is_mended_on_the_command_line(cli: Cli) -> None:
    agrees = cli("audit", "clock", "--yes")
    assert "agrees" in agrees.err, "control: nothing to sign"
    store = Store.open(workspace(cli), clock=lambda: int(time.time()) + 20 * 86_400)
    with store.locked() as journal:
        journal.log.append([("test", {})])
    store.close()
    assert "[TG-CLK-001]" in cli("audit", "checkpoint", code=77).err
    assert "[TG-ASK-001]" in cli("audit", "clock", code=75).err, "nobody was asked"
    done = cli("audit", "clock", "--yes", "--json").json
    assert done["later"] == 1
    assert done["time"] < done["before"]
    cli("audit", "checkpoint")
    assert cli("audit", "verify", "--json").json["ok"]
    last = cli("audit", "show", "--json").json["items"]
    assert [item["kind"] for item in last].count("clock") == 1


# claim TG-C-430
def test_a_clock_far_ahead_is_refused_on_the_command_line(cli: Cli) -> None:
    store = Store.open(workspace(cli), clock=lambda: int(time.time()) - 40 * 86_400)
    log = store.journal.log
    with store.locked() as journal:  # as if nobody had used it for forty days
        past = time_of(int(time.time()) - 40 * 86_400)
        journal.set_clock({"before": log.head.time, "signature": "", "signer": ""}, time=past)
    store.close()
    refused = cli("admit", "packet.md", code=77)
    assert "[TG-CLK-002]" in refused.err
    assert "threegate audit clock" in refused.err
    assert cli("packet", "list", "--json").json["total"] == 0, "what reads goes on"
    cli("review", "list")
    cli("audit", "clock", "--yes")
    cli("admit", "packet.md")


def test_eight_commands_at_once_lose_nothing(cli: Cli) -> None:
    for number in range(8):
        write(cli.base / f"{number}.md", registry.emit(packet(f"Packet {number}.")))
    codes: dict[int, int] = {}

    def one(number: int) -> None:
        admitted = cli("admit", f"{number}.md", "packet.md", code=None).code
        listed = cli("packet", "list", code=None).code
        codes[number] = admitted or listed

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == dict.fromkeys(range(8), 0)
    assert cli("packet", "list", "--json").json["total"] == 9
    assert cli("audit", "verify", "--json").json["ok"]


def test_a_workspace_busy_for_too_long_says_so(cli: Cli) -> None:
    hasty = "import threegate.handoff.disk as lock\n"
    hasty += "lock.held.__wrapped__.__kwdefaults__['wait_seconds'] = 0.2\n"
    fd = os.open(workspace(cli) / "handoff/lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        done = cli.patched(hasty)("status", code=69)
    finally:
        os.close(fd)
    assert "[TG-WS-002]" in done.err
    assert "try again" in done.err
