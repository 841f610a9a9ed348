"""The sessions in docs/tour.md: run for real, with everything masked that differs between runs.

The second session fetches, so it runs on the test internet of `make demo`.

Ids of example artifacts are digests of the example files and are not masked.  Masked, always by
the same word: the home directory, times, the key, and ids that depend on a time or a nonce.
"""

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
FILES = (
    "artifacts/packet-field-strength.md",
    "artifacts/packet-hostile-title.md",
    "artifacts/request-mean.draft.md",
    "lite/ranking/rank.py",
    "lite/ranking/samples.json",
)

# Command and expected exit code. The command is shown exactly as written here.
STEPS = (
    ("threegate init research", 0),
    ("cd research", 0),
    ("threegate validate ../packet-field-strength.md", 0),
    ("threegate admit ../packet-field-strength.md ../request-mean.draft.md", 0),
    ("threegate admit ../packet-hostile-title.md", 65),
    ("threegate quarantine list", 0),
    ("threegate packet search flexural strength", 0),
    ("threegate ask --extractive 'How strong is sea ice at -10 °C?'", 0),
    ("threegate report {an} --format html --output ice.html", 0),
    (
        "threegate request new --purpose Ranking --code ../rank.py --input samples=../samples.json",
        0,
    ),
    ("threegate review approve {tr} --yes", 0),
    ("threegate run {tr}", 0),
    ("threegate replay {res}", 0),
    ("threegate audit verify", 0),
)
WORLD = "tests.support.origins.scholarly:world"
NOTES_RULE = EXAMPLES / "web" / "notes-host.yaml"
FETCH_STEPS = (
    ("threegate fetch --dry-run doi:10.5555/threegate.ice.2021.7", 0),
    ("threegate fetch doi:10.5555/threegate.ice.2021.7", 0),
    ("threegate fetch arxiv:2610.99901 --want full-text", 0),
    ("threegate fetch https://notes.western-basin.example/field-notes", 0),
    ("threegate fetch https://collect.example.net/", 77),
)
MASKS = (
    (re.compile(r"(?<=\nid           )[0-9a-f]{32}"), "<id of the workspace>"),
    (re.compile(r"SHA256:[A-Za-z0-9+/]{43}"), "SHA256:<fingerprint of your key>"),
    (re.compile(r"tr-[0-9a-f]{64}"), "tr-<digest of this request>"),
    (re.compile(r"tr-[0-9a-f]{12}"), "tr-<digest>"),
    (re.compile(r"ap-[0-9a-f]{64}"), "ap-<digest of this approval>"),
    (re.compile(r"res-[0-9a-f]{12}"), "res-<digest>"),
    (re.compile(r"an-[0-9a-f]{64}"), "an-<digest of this answer>"),
    (re.compile(r"an-[0-9a-f]{12}"), "an-<digest>"),
    (re.compile(r"(?<=until )20[0-9T:Z-]+"), "<in an hour>"),
    (re.compile(r"(?<=> )[0-9]+(?= ms\n)"), "<few>"),
)
SHORT_ID = re.compile(r"\b(tr|res|an)-[0-9a-f]{12}")
NOW = re.compile(r"(?<=  )20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z(?=  [0-9]+ +TG-)")


def run_session() -> str:
    """Return the output of the steps; only the home directory is masked."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made).resolve()
        for name in FILES:
            source = EXAMPLES / name
            (home / source.name).write_bytes(source.read_bytes())
        return "".join(_steps(home, home, STEPS)).replace(str(home), "~")


def run_fetch_session() -> str:
    """Return the output of the fetch steps, run in a process on the test internet."""
    inside = [sys.executable, str(Path(__file__).resolve()), "--on-test-internet"]
    command = [sys.executable, "-m", "tests.support.internet", WORLD, *inside]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def _fetch_session() -> str:
    """Fetch in a workspace whose policy lists the test authority and one extra host."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made).resolve()
        list(_steps(home, home, (("threegate init research", 0),)))
        workspace = home / "research"
        anchor = Path(os.environ["TEST_INTERNET_CA"]).read_bytes()
        (workspace / "policy/anchors").mkdir()
        (workspace / "policy/anchors/test-internet.pem").write_bytes(anchor)
        policy = workspace / "policy/fetch.policy.md"
        listed = f'trust_anchors: [system, "sha256:{hashlib.sha256(anchor).hexdigest()}"]'
        text = policy.read_text("utf-8").replace("trust_anchors: [system]", listed)
        rule = NOTES_RULE.read_text("utf-8")
        policy.write_text(text.replace("\nhosts:\n", f"\nhosts:\n{rule}", 1), "utf-8")
        list(_steps(home, workspace, (("threegate policy apply --yes", 0),)))
        return "".join(_steps(home, workspace, FETCH_STEPS)).replace(str(home), "~")


def _steps(home: Path, place: Path, steps: Sequence[tuple[str, int]]) -> Iterator[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}
    known: dict[str, str] = {}
    for step, expected in steps:
        command = step.format(**known)
        yield f"$ {command}\n"
        words = shlex.split(command)
        if words[0] == "cd":
            place = place / words[1]
            continue
        run = [sys.executable, "-m", *words]
        ended = subprocess.run(
            run,
            cwd=place,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode != expected:
            raise RuntimeError(f"{command}: exit {ended.returncode}\n{ended.stdout}")
        known.update({found[1]: found[0] for found in SHORT_ID.finditer(ended.stdout)})
        yield ended.stdout
        if expected:
            yield f"(exit {expected})\n"


def mask(text: str) -> str:
    """Return `text` with everything masked that differs between runs."""
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return NOW.sub("2026-11-15T12:00:00Z", text)


def mask_fetched(text: str) -> str:
    """Return `text` of the fetch session, masked: its ids depend on the time."""
    text = re.sub(r"rp-[0-9a-f]{12}", "rp-<digest>", text)
    return re.sub(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z", "2026-11-15T12:00:00Z", text)


def block(name: str) -> str:
    """Return a session as a fenced block: `fetch`, or the first one."""
    shown = mask_fetched(run_fetch_session()) if name == "fetch" else mask(run_session())
    return f"```console\n{shown}```\n"


if __name__ == "__main__":
    inside = sys.argv[1:] == ["--on-test-internet"]
    print(_fetch_session() if inside else block("".join(sys.argv[1:])), end="")
