"""The session in the README: run for real, with what differs from run to run masked.

Ids of artifacts are digests of the example files and stay.  Masked, always by the same
word: the home directory, times, the key, and ids that hold a time or a nonce.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARTIFACTS = ROOT / "examples" / "artifacts"
FILES = ("packet-field-strength.md", "packet-hostile-title.md", "request-mean.draft.md")

# Command and expected exit code; the words are shown as they stand here.
STEPS = (
    ("threegate init research", 0),
    ("cd research", 0),
    ("threegate validate ../packet-field-strength.md", 0),
    ("threegate admit ../packet-field-strength.md ../request-mean.draft.md", 0),
    ("threegate admit ../packet-hostile-title.md", 65),
    ("threegate quarantine list", 0),
    ("threegate packet search flexural strength", 0),
    ("threegate audit verify", 0),
)
MASKS = (
    (re.compile(r"(?<=\nid           )[0-9a-f]{32}"), "<id of the workspace>"),
    (re.compile(r"SHA256:[A-Za-z0-9+/]{43}"), "SHA256:<fingerprint of your key>"),
    (re.compile(r"tr-[0-9a-f]{64}"), "tr-<digest of this request>"),
)
NOW = re.compile(r"(?<=  )20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z(?=  [0-9]+ +TG-)")


def run_session() -> str:
    """Return what the steps print, unmasked but for the home directory."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made).resolve()
        for name in FILES:
            (home / name).write_bytes((ARTIFACTS / name).read_bytes())
        return "".join(_steps(home)).replace(str(home), "~")


def _steps(home: Path) -> Iterator[str]:
    place = home
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}
    for command, expected in STEPS:
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
        yield ended.stdout
        if expected:
            yield f"(exit {expected})\n"


def mask(text: str) -> str:
    """Return `text` without what differs from run to run."""
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return NOW.sub("2026-11-15T12:00:00Z", text)


def block(_: str) -> str:
    """Return the session as a fenced block."""
    return f"```console\n{mask(run_session())}```\n"


if __name__ == "__main__":
    print(block(""), end="")
