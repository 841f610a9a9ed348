"""Removing one line of protection at a time from a copy of the package, and attacking it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.boxes import IS_ROOT, open_to_all, repository, starter
from tests.support.mutants import Mutant

SANDBOX = "threegate/sandbox"
# The self-test would refuse to start most mutants; here the attempts have to notice.
NO_PROOFS = ("proofs.py", "    _PROOFS[kind](argument, numbers)\n", "    del kind, argument\n")
RUN_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened without one line of protection."""

    mutant: Mutant
    noticed_by: tuple[str, ...]  # attempts, or what the host saw
    refused: str  # why the box did not start although nothing was proved
    proof: str  # what the self-test said, "" if it noticed nothing

    @property
    def as_told(self) -> bool:
        """Whether the table's claim holds: noticed, or masked and really not noticed."""
        if self.refused:
            return "refuses to start" in self.mutant.masked
        if self.mutant.perhaps:
            return True
        if self.mutant.masked:
            return not self.noticed_by
        return bool(self.noticed_by)


class Copy:
    """A copy of the package that can be changed."""

    def __init__(self, directory: Path) -> None:
        self.top = directory / "src"
        shutil.copytree(
            repository() / "src" / "threegate",
            self.top / "threegate",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        open_to_all(directory)

    @contextmanager
    def changed(self, mutant: Mutant, *, proofs: bool) -> Iterator[None]:
        """Apply a mutant, and undo it."""
        edits = [(edit.file, edit.old, edit.new) for edit in mutant.edits]
        if not proofs:
            edits.append(NO_PROOFS)
        saved: dict[Path, str] = {}
        try:
            for file, old, new in edits:
                path = self.top / SANDBOX / file
                text = path.read_text("utf-8")
                saved.setdefault(path, text)
                assert text.count(old) == 1, f"{mutant.name}: {old!r} is not once in {file}"
                path.write_text(text.replace(old, new), "utf-8")
            self._build(mutant)
            yield
        finally:
            for path, text in saved.items():
                path.write_text(text, "utf-8")
            self._build(mutant)

    def _build(self, mutant: Mutant) -> None:
        if mutant.build:
            script = repository() / "scripts" / "build_native.py"
            env = {**os.environ, "PYTHONPATH": str(self.top), "PYTHONDONTWRITEBYTECODE": "1"}
            subprocess.run([sys.executable, str(script)], check=True, env=env, capture_output=True)


def judge(copy: Copy, mutant: Mutant) -> Verdict:
    """Attack a mutant without the self-test, then see whether the self-test would notice."""
    with copy.changed(mutant, proofs=False):
        noticed, refused = _attacked(copy, mutant)
        if mutant.look:
            noticed += _looked(copy, mutant)
    with copy.changed(mutant, proofs=True):
        _, proof = _attacked(copy, mutant, names=("tree_opened",))
    return Verdict(mutant, tuple(noticed), refused, proof)


def _attacked(copy: Copy, mutant: Mutant, names: tuple[str, ...] = ()) -> tuple[list[str], str]:
    wanted = names or mutant.names or ("together",)
    process = starter(mutant.starter).start(
        "threegate.sandbox.attacks.report:main",
        [",".join(mutant.profiles), ",".join(wanted), "no-control"],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        stderr=subprocess.PIPE,
        paths=(str(copy.top),),
    )
    out, err = process.communicate(timeout=RUN_SECONDS)
    if process.returncode:
        return [], err.decode("utf-8", "replace").strip().rpartition("\n")[2]
    results: list[dict[str, Any]] = json.loads(out)
    refused = [item["detail"] for item in results if item["reason"] == "not started"]
    if refused:
        return [], str(refused[0])
    return [f"{i['name']} ({_short(i)})" for i in results if not i["held"]], ""


def _short(item: dict[str, Any]) -> str:
    return str(item["reason"] or item["outcome"])


def _looked(copy: Copy, mutant: Mutant) -> list[str]:
    """See what only the host can see: whose the processes are, and whether any stays."""
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    host = starter(mutant.starter).start(
        "tests.support.faults:hold",
        [mark],
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        paths=(str(copy.top), str(repository())),
    )
    assert host.stdin and host.stdout
    with host.stdin, host.stdout:
        host.stdout.readline()
        uids = identities(mark) if mutant.look == "uids" else []
        host.send_signal(signal.SIGKILL)
        host.wait()
    found = [f"the gate runs as {item}" for item in uids if "0" in item.split()]
    end = time.monotonic() + 3
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.05)
    left = marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return [*found, *(["a process outlives its host"] if left else [])]


def marked(mark: str) -> list[int]:
    """Return every process whose arguments hold the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def identities(mark: str) -> list[str]:
    """Return uids, gids and groups of each process of a box, but not of its host."""
    found = []
    for pid in marked(mark):
        text = Path(f"/proc/{pid}/status").read_text("ascii")
        lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if lines["NoNewPrivs"] == "1":  # the host itself has given nothing up
            found.append(" ".join((lines["Uid"], lines["Gid"], lines["Groups"])))
    return found


def runnable(mutant: Mutant) -> bool:
    """Whether this user can judge the mutant: what root does only root can undo."""
    return IS_ROOT or mutant.starter != "root"
