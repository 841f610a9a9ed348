"""The user-space kernel through the real command: only where policy names it, and labelled."""

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_heavy_run import CODE, FOREVER, approved, lane
from tests.e2e.test_heavy_run import _alive as alive
from tests.e2e.test_heavy_run import _below as below_of
from tests.e2e.test_heavy_run import _command as command_of
from tests.support.cli import PYTHON, Cli
from tests.support.heavy import backend_for, image, place
from threegate.host.run.heavy.lane import smallest
from threegate.host.run.heavy.qemu import BINARY

BROKEN = 'mount --bind /dev/null /usr/bin/runsc && exec "$@"'


# claim TG-C-207
def test_a_user_space_kernel_runs_where_policy_names_it_and_nothing_else_is_taken(
    tmp_path: Path,
) -> None:
    cli = lane(tmp_path, engines="runsc")
    request_id = approved(cli, CODE)
    assert "a user-space kernel, not a microVM" in cli("review", "show", request_id).out
    words = ["unshare", "-m", "sh", "-c", BROKEN, "sh", *PYTHON, "run", request_id, "--json"]
    broken = subprocess.run(words, capture_output=True, env=cli.env(), timeout=300, check=False)
    assert broken.returncode == os.EX_UNAVAILABLE, broken
    error = json.loads(broken.stdout)["runs"][0]["error"]
    assert error["reason"].startswith(("runsc does not work here: ", "runsc-")), error
    assert request_id in cli("review", "list", "--state", "approved", "--json").out, "none spent"
    (run,) = cli("run", request_id, "--json").json["runs"]
    assert (run["exit"], run["error"]) == ("ok", None), "control: unbroken it runs"
    fields = cli("result", "show", run["result"], "--json").json["fields"]
    assert (fields["backend"], fields["isolation"]) == ("era", "runsc")
    named = {item["name"]: item["version"] for item in fields["versions"]}
    assert named["engine-kind"] == "user-space-kernel-not-a-microVM"
    proved = {item["mechanism"] for item in fields["evidence"]}
    assert {"guest-only-its-image", "engine-landlock", "runsc-files-landlock"} <= proved
    assert [file["name"] for file in fields["files"]] == ["rows.json"]
    assert cli("audit", "verify").code == 0


@pytest.mark.slow
# claim TG-C-323
def test_of_two_engines_that_policy_names_the_stronger_that_works_is_taken(tmp_path: Path) -> None:
    backend_for(image()).prepare(smallest(image().manifest))  # so that the doctor need not boot
    cli = replace(lane(tmp_path, engines="qemu-emulation, runsc"), seconds=900)
    checks = {item["name"]: item for item in cli("doctor", "--json").json["checks"]}
    qemu, runsc = checks["engine qemu-emulation"], checks["engine runsc"]
    assert {qemu["state"], runsc["state"]} == {"in-force"}
    assert runsc["detail"].startswith("user-space kernel, not a microVM; a guest of image ")
    assert qemu["detail"].startswith("a guest of image "), "control: only that is said of the other"
    first, second = approved(cli, CODE), approved(cli, CODE)
    (run,) = cli("run", first, "--json").json["runs"]
    assert isolation_of(cli, run) == "qemu-emulation", "control: both work, as the doctor saw"
    gone = BROKEN.replace("/usr/bin/runsc", str(BINARY))
    words = ["unshare", "-m", "sh", "-c", gone, "sh", *PYTHON, "run", second, "--json"]
    done = subprocess.run(words, capture_output=True, env=cli.env(), timeout=900, check=False)
    assert done.returncode == 0, done
    assert b"qemu-emulation does not work here" in done.stderr, "it says what it did not take"
    assert isolation_of(cli, json.loads(done.stdout)["runs"][0]) == "runsc"


def isolation_of(cli: Cli, run: dict[str, Any]) -> str:
    assert (run["exit"], run["error"]) == ("ok", None), run
    fields = cli("result", "show", run["result"], "--json").json["fields"]
    named = {item["name"]: item["version"] for item in fields["versions"]}
    assert named["engine"] == fields["isolation"]
    return str(fields["isolation"])


@pytest.mark.slow
def test_kill_9_in_the_middle_of_a_run_leaves_nothing(tmp_path: Path) -> None:
    cli = lane(tmp_path, engines="runsc")
    cli("run", approved(cli, CODE))  # the image is unpacked, so what starts now is the run
    request_id = approved(cli, FOREVER, wall_ms="3000s")
    before = (Path("/proc/mounts").read_text(), sorted(map(str, place().rglob("*"))))
    process = subprocess.Popen([*PYTHON, "run", request_id], env=cli.env(), cwd=cli.base)
    try:
        deadline = time.monotonic() + 300
        seen = 0
        below: dict[int, str] = {}
        while seen < 20:  # the probe has ended by then, or runs: both must leave nothing
            assert time.monotonic() < deadline, "the guest never started"
            assert process.poll() is None, "the run ended"
            below = below_of(process.pid)
            seen += any(command_of(pid).startswith(b"/usr/bin/runsc\0") for pid in below)
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(below) >= 3, "control: there were boxes"
    deadline = time.monotonic() + 60
    while any(alive(pid, start) for pid, start in below.items()):
        assert time.monotonic() < deadline, "something outlived the host"
        time.sleep(0.05)
    assert (Path("/proc/mounts").read_text(), sorted(map(str, place().rglob("*")))) == before
    cli("run", "--all")  # the claim of the dead goes back to a human
    assert request_id in cli("review", "list", "--state", "held", "--json").out
