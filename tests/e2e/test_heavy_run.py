"""The heavy lane through the real command: asked for, reviewed, approved, run, shown."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.cli import PYTHON, Cli, made, write
from tests.support.heavy import ENABLED, backend_for, image, place
from threegate.handoff import states
from threegate.host.run.heavy.lane import smallest

CODE = b"""\
import csv, json
rows = list(csv.DictReader(open("/in/table")))
print(len(rows), "rows")
json.dump(rows, open("/out/rows.json", "w"))
"""
ENGINE = b"/usr/bin/qemu-system-x86_64\0"  # its own words, and not those of what starts it
# A device that is not KVM, of a group that is not root's, where KVM would be.
BROKEN_KVM = """
set -e
place=$(mktemp -d); mount -t tmpfs none $place
mknod $place/kvm c 1 3; chgrp 4242 $place/kvm; chmod $0 $place/kvm
[ -e /dev/kvm ] || { mount -t tmpfs none /dev; cp -a $place/kvm /dev/kvm; }
mount --bind $place/kvm /dev/kvm
exec "$@"
"""
FOREVER = b"print('begun', flush=True)\nwhile True: pass\n"


def lane(base: Path, *, engines: str = "qemu-emulation") -> Cli:
    """Return a user whose policy names these engines, with an image in the cache."""
    cache = base / "cache"
    cache.mkdir()
    image()
    (cache / "threegate").symlink_to(place())
    cli = made(base)
    cli.environment["XDG_CACHE_HOME"] = str(cache)
    enable(cli, engines)
    return cli


def enable(cli: Cli, engines: str = "qemu-emulation") -> None:
    """Have the policy of a workspace let the heavy lane be used with these engines."""
    assert cli.workspace is not None
    path = cli.workspace / "policy" / "tool-exec.policy.md"
    named = ENABLED[1].replace("qemu-emulation", engines)
    path.write_text(path.read_text("utf-8").replace(ENABLED[0], named), "utf-8")
    cli("policy", "apply", "--yes")


def approved(cli: Cli, code: bytes, **limits: str) -> str:
    """Ask for a run and approve it; return the request's id."""
    found = asked(cli, code, **limits)
    cli("review", "approve", found, "--yes")
    return found


def asked(cli: Cli, code: bytes, **limits: str) -> str:
    """Ask for a run; return the request's id."""
    program = write(cli.base / "program.py", code)
    table = write(cli.base / "table.csv", b"a,b\n1,2\n3,4\n")
    words = ["request", "new", "--purpose", "rows", "--code", str(program), "--backend", "era"]
    words += ["--why", "files", "--output", "rows.json=64KiB", "--input", f"table={table}"]
    for name, value in {"memory_bytes": "192MiB", "wall_ms": "240s", **limits}.items():
        words += ["--limit", f"{name}={value}"]
    found: str = cli(*words, "--json").json["id"]
    return found


def test_a_request_runs_in_a_guest_and_leaves_its_files(tmp_path: Path) -> None:
    cli = lane(tmp_path)
    request_id = approved(cli, CODE)
    (run,) = cli("run", request_id, "--json").json["runs"]
    assert (run["exit"], run["error"]) == ("ok", None)
    shown = cli("result", "show", run["result"], "--json").json
    fields = shown["fields"]
    assert (fields["backend"], fields["isolation"]) == ("era", "qemu-emulation")
    assert (fields["exit"], fields["exit_code"]) == ("ok", 0)
    (file,) = fields["files"]
    assert file["name"] == "rows.json"
    assert cli.workspace is not None
    blob = cli.workspace / states.BLOBS / file["sha256"]
    assert json.loads(blob.read_bytes()) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    proved = {item["mechanism"] for item in fields["evidence"]}
    assert {"guest-no-network", "engine-landlock", "landlock"} <= proved
    named = {item["name"] for item in fields["versions"]}
    assert {"image-sha256", "engine-sha256", "template-sha256", "guest-kernel"} <= named
    again = cli("replay", run["result"], "--json").json["replays"]
    assert again[0]["verdict"] == "not-reproducible"
    assert cli("audit", "verify").code == 0


# claim TG-C-230
def test_an_accelerator_that_does_not_work_is_refused_and_nothing_weaker_is_taken(
    tmp_path: Path,
) -> None:
    cli = lane(tmp_path, engines="qemu-kvm")
    request_id = approved(cli, CODE)
    for mode, opens in (("666", True), ("660", True), ("600", False)):
        # It opens, as on hosts where no ordinary guest starts; nothing about it works.
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", BROKEN_KVM, mode, *PYTHON, "run", request_id, "--json"],
            capture_output=True,
            env=cli.env(),
            timeout=300,
            check=False,
        )
        assert done.returncode == os.EX_UNAVAILABLE, done
        error = json.loads(done.stdout)["runs"][0]["error"]
        assert error["code"] == "TG-ERA-007"
        assert "`qemu-emulation` in lanes.era.engines" in error["hint"]
        assert error["reason"].startswith("qemu-kvm does not work here: ")
        assert ("Permission denied" in error["reason"]) != opens, (mode, error)
    listed = cli("review", "list", "--state", "approved", "--json")
    assert request_id in listed.out, "nothing was spent"
    other = lane_with_emulation(cli)
    (run,) = cli("run", other, "--json").json["runs"]
    assert run["exit"] == "ok", "control: where policy names emulation, it runs"


# claim TG-C-230
def test_the_real_device_counts_only_if_a_guest_answers(tmp_path: Path) -> None:
    """On some hosts it opens, every check of it succeeds, and no ordinary guest ever starts."""
    cli = lane(tmp_path, engines="qemu-kvm")
    request_id = approved(cli, CODE)
    device = BROKEN_KVM.replace("c 1 3", "c 10 232")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", device, "666", *PYTHON, "run", request_id, "--json"],
        capture_output=True,
        env=cli.env(),
        timeout=600,
        check=False,
    )
    (run,) = json.loads(done.stdout)["runs"]
    if run["error"] is None:  # it works here: then this very engine ran it
        fields = cli("result", "show", run["result"], "--json").json["fields"]
        assert (fields["exit"], fields["isolation"]) == ("ok", "qemu-kvm")
        return
    assert done.returncode == os.EX_UNAVAILABLE, done
    assert run["error"]["code"] == "TG-ERA-002"
    assert "Permission denied" not in run["error"]["reason"], "control: the device was opened"
    assert request_id in cli("review", "list", "--state", "approved", "--json").out


def lane_with_emulation(cli: Cli) -> str:
    assert cli.workspace is not None
    path = cli.workspace / "policy" / "tool-exec.policy.md"
    text = path.read_text("utf-8").replace("engines: [qemu-kvm]", "engines: [qemu-emulation]")
    path.write_text(text, "utf-8")
    cli("policy", "apply", "--yes")
    return approved(cli, CODE)


def test_without_an_image_the_lane_says_how_to_make_one(tmp_path: Path) -> None:
    cli = lane(tmp_path)
    request_id = approved(cli, CODE)
    cli.environment["XDG_CACHE_HOME"] = str(tmp_path / "empty")
    done = cli("run", request_id, code=os.EX_UNAVAILABLE)
    assert "the guest image of this program is not on this machine" in done.out
    assert "threegate image build" in done.out


@pytest.mark.slow
def test_the_doctor_starts_a_guest_with_every_engine_that_is_named(tmp_path: Path) -> None:
    backend_for(image()).prepare(smallest(image().manifest))  # so that a minute is enough
    (tmp_path / "off").mkdir()
    off = made(tmp_path / "off")("doctor", "--json").json["checks"]
    found = lane(tmp_path)("doctor", "--json").json["checks"]
    by_name = {check["name"]: (check["state"], check["detail"]) for check in (*off, *found)}
    assert by_name["heavy lane"] == ("not-applicable", "policy does not enable it")
    state, detail = by_name["engine qemu-emulation"]
    assert (state, "12 promises held" in detail) == ("in-force", True), detail


def _below(pid: int) -> dict[int, str]:
    """Return every process below this one, with its start, which tells it from a later one."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = (int(fields[1]), fields[19])
    found: dict[int, str] = {}
    todo = [pid]
    while todo:
        above = todo.pop()
        for child, (parent, start) in parents.items():
            if parent == above:
                found[child] = start
                todo.append(child)
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _alive(pid: int, start: str) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == start and fields[0] != "Z"


# claim TG-C-239
def test_kill_9_in_the_middle_of_a_run_leaves_nothing(tmp_path: Path) -> None:
    cli = lane(tmp_path)
    cli("run", approved(cli, CODE))  # the snapshot is made, so what starts now is the run
    request_id = approved(cli, FOREVER, wall_ms="3000s")
    before = (Path("/proc/mounts").read_text(), sorted(map(str, place().rglob("*"))))
    process = subprocess.Popen([*PYTHON, "run", request_id], env=cli.env(), cwd=cli.base)
    try:
        deadline = time.monotonic() + 300
        below: dict[int, str] = {}
        while not any(_command(pid).startswith(ENGINE) for pid in below):
            assert time.monotonic() < deadline, "the machine never started"
            assert process.poll() is None, "the run ended"
            below = _below(process.pid)
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(below) >= 3, "control: there were boxes"
    deadline = time.monotonic() + 60
    while any(_alive(pid, start) for pid, start in below.items()):
        assert time.monotonic() < deadline, "something outlived the host"
        time.sleep(0.05)
    assert (Path("/proc/mounts").read_text(), sorted(map(str, place().rglob("*")))) == before
    done = cli("run", "--all")  # the claim of the dead goes back to a human
    assert "crashed" not in done.out
    held = cli("review", "list", "--state", "held", "--json")
    assert request_id in held.out
