"""What `threegate serve` prints for a person: the link on stdout, what happens on stderr."""

import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.cli import PYTHON, made
from tests.support.console import SECONDS, Console, fresh, held

CODE = "total = 1 + 2\ntotal\n"


def wait_for(lines: list[str], pattern: str) -> str:
    """Return the first line that says this, once it is there."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for line in list(lines):
            if re.fullmatch(pattern, line):
                return line
        time.sleep(0.02)
    raise TimeoutError(f"{pattern}: {lines}")


def test_a_day_is_told_in_plain_words(tmp_path: Path) -> None:
    cli = made(tmp_path)
    (denied,) = held(cli, fresh("x = 9\nx\n"))
    process = subprocess.Popen(
        [*PYTHON, "serve", "--port", "0", "--warm", "1"],
        cwd=cli.base,
        env=cli.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    notes: list[str] = []
    reading = threading.Thread(
        target=lambda err: notes.extend(line.rstrip("\n") for line in err), args=(process.stderr,)
    )
    reading.start()
    try:
        first = process.stdout.readline().rstrip("\n")
        link = first.removeprefix("open this link in your browser; it works once: ")
        port = int(re.fullmatch(r"http://127\.0\.0\.1:([0-9]+)/login/[\w-]{43}", link)[1])  # type: ignore[index]
        told: list[dict[str, Any]] = [
            {"event": "serving", "port": port},
            {"event": "link", "link": link},
        ]
        served = Console(process, told)
        known = served.login()
        wait_for(notes, "threegate: a browser was let in")
        wait_for(notes, "threegate: monty-1: applied, generation 1")

        assert served.ask("GET", "/inbox", Host="rebound.test")[0] == 421
        wait_for(notes, r"threegate: refused a request \[TG-CON-001\]")
        page = served.ask("GET", "/run", **known)[2].decode()
        (csrf,) = set(re.findall(r'name="csrf" value="([^"]+)"', page))
        fields = {"csrf": csrf, "purpose": "see", "code": CODE, "inputs": ""}
        body, sent = urlencode({**fields, "confidentiality": ""}), {**known, "Origin": served.base}
        status, headers, _ = served.ask("POST", "/run", body, **sent)
        assert status == 303
        wait_for(notes, "threegate: held 1 for review")
        request_id = headers["Location"].removeprefix("/request/")
        assert served.approve(known, request_id)[0] == 303
        wait_for(notes, f"threegate: approved {request_id}")
        wait_for(notes, f"threegate: {request_id}: ok")
        no = urlencode({"csrf": csrf, "reason": "not needed"})
        assert served.ask("POST", f"/request/{denied}/deny", no, **sent)[0] == 303
        wait_for(notes, f"threegate: denied {denied}")
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(SECONDS)
        reading.join(SECONDS)
        rest = process.stdout.read()
        process.stdout.close()
        process.stderr.close()
    assert (code, rest) == (0, ""), "stdout has the link and nothing else"
    assert all(line.startswith("threegate: ") for line in notes), notes
    assert link.rpartition("/")[2] not in "".join(notes)
    assert csrf not in "".join(notes)
