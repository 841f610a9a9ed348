"""Claim: eight mixed commands at once, killed at random, lose nothing and double nothing."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from tests.support import samples
from tests.support.cli import PYTHON
from tests.support.workspaces import key_file, make_workspace
from threegate.artifacts import registry

ROUNDS = 4
AT_ONCE = 8


def _start(base: Path, root: Path, *words: str) -> subprocess.Popen[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(base),
        "XDG_CONFIG_HOME": str(base),
        "XDG_STATE_HOME": str(base / "state"),
    }
    argv = [*PYTHON, "-w", str(root), *words]
    return subprocess.Popen(
        argv, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _commands(base: Path, number: int) -> list[tuple[str, ...]]:
    files = []
    for index in range(6):
        path = base / f"packet-{number}-{index}.md"
        path.write_bytes(registry.emit(samples.packet_of_size(number * 100 + index, 2200)))
        files.append(str(path))
    junk = base / f"junk-{number}"
    junk.write_bytes(f"junk {number}".encode())
    request = base / f"request-{number}.md"
    request.write_bytes(registry.emit(samples.tool_request(inputs=(), nonce=f"{number:032x}")))
    return [
        ("admit", "--json", *files[:3]),
        ("admit", "--json", *files[3:], str(junk)),
        ("admit", "--json", str(request)),
        ("packet", "list", "--json"),
        ("packet", "search", "ice", "--json"),
        ("status", "--json"),
        ("audit", "verify", "--json"),
        ("admit", "--json", *files),
    ]


def _accepted(text: str) -> set[str]:
    """Return the ids a command reported as taken in; a killed one may have said nothing."""
    found: set[str] = set()
    try:
        value = json.loads(text)
    except ValueError:
        return found
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if item.get("status") in ("accepted", "already") and isinstance(item.get("id"), str):
                found.add(item["id"])
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return found


def test_eight_commands_and_kill_9_lose_and_double_nothing(tmp_path: Path) -> None:
    key_file(tmp_path)
    ws = make_workspace(tmp_path)
    root = ws.root
    ws.close()
    reported: set[str] = set()
    for number in range(ROUNDS):
        kill = number < ROUNDS - 1  # the last round is the control: everybody gets through
        rng = random.Random(number)
        running = [_start(tmp_path, root, *words) for words in _commands(tmp_path, number)]
        assert len(running) == AT_ONCE
        killed = rng.sample(range(AT_ONCE), 3) if kill else []
        for index in killed:
            time.sleep(rng.random() * 0.3)
            running[index].send_signal(signal.SIGKILL)
        for index, process in enumerate(running):
            out, err = process.communicate(timeout=120)
            reported |= _accepted(out)
            if index not in killed:
                assert process.returncode in (0, 65), out + err
                assert "Traceback" not in err
    check = _start(tmp_path, root, "audit", "verify", "--json")
    out, err = check.communicate(timeout=120)
    assert check.returncode == 0, out + err
    listed = _start(tmp_path, root, "packet", "list", "--json", "--limit", "500")
    ids = [item["id"] for item in json.loads(listed.communicate(timeout=120)[0])["items"]]
    packets = {item for item in reported if item.startswith("rp-")}
    assert len(packets) > 12, "control: the commands did their work"
    assert packets <= set(ids), "a packet that was reported as taken in is gone"
    assert len(ids) == len(set(ids))
