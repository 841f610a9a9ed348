"""Fetch one DOI, one arXiv id and one page from the real web, in a throw-away workspace.

Each is skipped by name where there is no way to its host; what was fetched is checked.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10.0
PAGE_HOST = "www.iana.org"
PAGE_RULE = f"""
hosts:
  {PAGE_HOST}:
    rate_per_minute: 6
    concurrency: 1
    bytes_per_day: 4MiB
    response_bytes: 1MiB
    content_types: [text/html]
    credential: none

"""


@dataclass(frozen=True)
class Case:
    """A reference, the host that is asked first, and a word that its packet must hold."""

    reference: str
    host: str
    word: str


CASES = (
    Case("doi:10.1038/171737a0", "api.crossref.org", "nucleic"),
    Case("arxiv:1706.03762", "export.arxiv.org", "attention"),
    Case(f"https://{PAGE_HOST}/help/example-domains", PAGE_HOST, "documentation"),
)


def say(text: str) -> None:
    print(f"live-test: {text}", flush=True)


def why_unreachable(host: str) -> str | None:
    """Return why nobody answers at port 443 of `host`; None when somebody does."""
    try:
        socket.create_connection((host, 443), timeout=SECONDS).close()
    except OSError as exc:
        return f"no way to {host}: {exc.strerror or exc}"
    return None


class Session:
    """A workspace that lists the page's host and nothing else of its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._workspace = home / "live"
        self.run("init", str(self._workspace))
        policy = self._workspace / "policy/fetch.policy.md"
        text = policy.read_text("utf-8")
        policy.write_text(text.replace("\nhosts:\n", PAGE_RULE, 1), "utf-8")
        self.run("policy", "apply", "--yes")

    def run(self, *argv: str) -> str:
        keep = ("PATH", "LANG", "LC_ALL", "TERM")
        environment = {name: os.environ[name] for name in keep if name in os.environ}
        environment |= {"HOME": str(self._home), "THREEGATE_WORKSPACE": str(self._workspace)}
        command = [sys.executable, "-m", "threegate", *argv]
        ended = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=300
        )
        if ended.returncode:
            raise SystemExit(f"live-test: threegate {' '.join(argv)}: exit {ended.returncode}")
        return ended.stdout

    def packet_of(self, reference: str) -> str:
        """Fetch a reference and return its packet as it is shown."""
        (item,) = json.loads(self.run("fetch", "--json", reference))["items"]
        return self.run("packet", "show", item["packet"])


def main() -> int:
    """Try every case; a skip is no failure, a packet without its word is one."""
    reasons = {case: why_unreachable(case.host) for case in CASES}
    for case, reason in reasons.items():
        if reason is not None:
            say(f"SKIPPED {case.reference}: {reason}")
    reachable = [case for case, reason in reasons.items() if reason is None]
    if not reachable:
        say("nothing was fetched; run `make live-test` on a machine with a way to the web")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="threegate-live-") as made:
        session = Session(Path(made))
        for case in reachable:
            found = case.word in session.packet_of(case.reference).lower()
            say(f"{'ok' if found else 'FAILED'} {case.reference}")
            failed += not found
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
