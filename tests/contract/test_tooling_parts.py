"""scripts/parts.sh: what runs at once is shown once it ends, and a failure is the exit code."""

import re
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAD = f'set -euo pipefail\nsource "{ROOT}/scripts/parts.sh"\necho "$place"\n'


def ran(script: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", HEAD + script + "\nwait_for_parts\n"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_what_passes_is_one_line_and_what_fails_is_shown_whole() -> None:
    done = ran(
        "part good bash -c 'echo many; echo words; echo 3 passed'\n"
        "part bad bash -c 'sleep 1; echo the reason >&2; exit 3'\n"
        "part late bash -c 'sleep 2; echo in the end'"
    )
    assert done.returncode == 3, "also if another one passes later"
    place, *lines = done.stdout.splitlines()
    assert [re.sub(r"\d+ s", "N s", line) for line in lines] == [
        "threegate: good passed after N s: 3 passed",
        "the reason",
        "threegate: bad failed after N s, exit 3",
        "threegate: late passed after N s: in the end",
    ]
    assert done.stderr == ""
    assert not Path(place).exists()
    assert ran("part good true").returncode == 0, "control"
    assert ran("part killed bash -c 'kill -9 $PPID'").returncode == 137


def test_a_long_part_says_how_far_it_is() -> None:
    done = ran("PROGRESS_SECONDS=1\npart long bash -c 'echo .. [ 50%]; sleep 2; echo [100%]'")
    assert "threegate: 0 min: long 50%\n" in done.stdout
    done = ran("PROGRESS_SECONDS=1\npart mute bash -c 'sleep 2; echo done'")
    assert "threegate: 0 min: mute runs\n" in done.stdout
    assert done.returncode == 0


def test_an_interruption_ends_every_part() -> None:
    script = HEAD + "part one sleep 60\npart two bash -c 'sleep 60; true'\necho ready\n"
    script += "wait_for_parts\n"
    shell = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    place, _ = Path(shell.stdout.readline().strip()), shell.stdout.readline()
    start = time.monotonic()
    shell.send_signal(signal.SIGTERM)
    assert shell.wait() == 130
    assert time.monotonic() - start < 30
    assert shell.stdout.read() == "", "nothing holds the pipe any more"
    shell.stdout.close()
    assert not place.exists()
