"""Monty's own test cases, from its source distribution, in our lane and in stock Monty.

The distribution is fetched by pip, by digest, into a cache outside the tree; its cases are
never part of ours.  pip asks a source distribution's build backend for its name even if it is
only to be downloaded, and this one's would need a Rust toolchain: a stand-in answers instead,
so nothing of the distribution runs.
"""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pydantic_monty
from pydantic_monty import CollectStreams, Monty, MontyError, MontyRuntimeError, MontySyntaxError

from tests.support.lite import MIB, Lane, Program, Ran
from threegate.artifacts.tool_request import RunLimits
from threegate.sandbox.worker import find_worker

NAME: Final = "pydantic_monty_runtime"
VERSION: Final = "1.4.0"
SHA256: Final = "5275beb451201bd23669a253c8be93b90cad018b449fcdd0a1ad57daeed15187"
PLACE: Final = f"{NAME}-{VERSION}/crates/monty/test_cases/"
# The most that policy lets a request ask for: the cases are not about limits.
LIMITS: Final = RunLimits(30_000, 512 * MIB, 1 * MIB, 1000, 1, 1, 0)
_STAND_IN: Final = f"""
from pathlib import Path
def get_requires_for_build_wheel(config_settings=None):
    return []
def prepare_metadata_for_build_wheel(directory, config_settings=None):
    made = Path(directory, "{NAME}-{VERSION}.dist-info")
    made.mkdir()
    made.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\\nName: {NAME}\\nVersion: {VERSION}\\n"
    )
    return made.name
"""


def distribution() -> Path:
    """Return the source distribution, fetched once and checked every time."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    kept = Path(base, "threegate", "monty-cases", SHA256, f"{NAME}-{VERSION}.tar.gz")
    if not kept.exists():
        _fetch(kept)
    found = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert found == SHA256, f"{kept} is not what it was: remove it"
    return kept


def _fetch(kept: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="threegate-cases-") as name:
        directory = Path(name)
        (directory / "maturin.py").write_text(_STAND_IN, encoding="utf-8")
        wanted = f"{NAME.replace('_', '-')}=={VERSION} --hash=sha256:{SHA256}\n"
        (directory / "wanted.txt").write_text(wanted, encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
        options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
        done = subprocess.run(
            [*pip, *options, "-d", name, "-r", str(directory / "wanted.txt")],
            env={**os.environ, "PYTHONPATH": name},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"pip could not fetch the cases: {done.stderr[-2000:]}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        (got,) = directory.glob("*.tar.gz")
        partial = kept.with_suffix(f".{os.getpid()}")  # another checkout may fetch it, too
        partial.write_bytes(got.read_bytes())
        partial.replace(kept)


@cache
def cases() -> dict[str, str]:
    """Return name -> program of every case."""
    found = {}
    with tarfile.open(distribution()) as archive:
        for member in archive:
            if member.name.startswith(PLACE) and member.name.endswith(".py"):
                file = archive.extractfile(member)
                assert file is not None
                found[member.name.removeprefix(PLACE)] = file.read().decode("utf-8")
    assert found, "the distribution holds no cases"
    return found


def needs_its_runner(code: str) -> bool:
    """Tell whether a case calls functions or mounts files that only Monty's own runner has."""
    return "# call-external = true" in code or "# mount-fs = true" in code


@dataclass(frozen=True, slots=True)
class End:
    """How a case ended: `ok` with its value, or an error with its text; and what it printed."""

    state: str
    told: str
    printed: str


def stock(code: str, *, policy: pydantic_monty.OSPolicy | None = None) -> End:
    """Run a case in a worker of its own, without our lane."""
    printed = CollectStreams(max_bytes=LIMITS.output_bytes)
    limits: pydantic_monty.ResourceLimits = {
        "max_memory": LIMITS.memory_bytes,
        "max_feed_duration_secs": LIMITS.wall_ms / 1000,
        "max_recursion_depth": LIMITS.recursion,
    }
    binary = str(find_worker().binary)
    with Monty(binary_path=binary, min_processes=1, max_processes=1) as pool:
        try:
            with pool.checkout(
                limits=limits, os_policy=policy, assert_message_annotations=False
            ) as session:
                value = session.feed_run(code, print_callback=printed)
            state, told = "ok", _spelled(value)
        except (MontyRuntimeError, MontySyntaxError) as exc:
            inner = exc.exception()
            state, told = "error", f"{type(inner).__name__}: {inner}".removesuffix(": ")
        except MontyError as exc:
            state, told = type(exc).__name__, ""
    return End(state, told, "".join(text for _, text in printed.output))


def _spelled(value: Any) -> str:
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        return NOT_JSON
    # `dumps` makes texts of keys that are none; a value with such a key is another one then.
    return text if json.loads(text) == _lists(value) else NOT_JSON


def _lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value


NOT_JSON: Final = "not JSON"
# What our policy forbids, by the exit state of the lane.
FORBIDDEN: Final = {
    "refused:import": "an import that is not on the list",
    "refused:name": "a name that is not available",
    "refused:size": "a source larger than 64 KiB",
    "refused:nesting": "functions nested too deeply",
    "refused:not-python": "a grammar this Python does not have",
    "refused:not-expressible": "refused before it runs, as the interpreter does",
    "refused:artifact": "characters that no request may hold",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A case, and why our lane ended it as it did; `why` is empty if there is no reason."""

    name: str
    why: str
    detail: str = ""


RUNNER: Final = "not run: needs functions or mounts of Monty's own test runner"
SAME: Final = "the same outcome"
FROZEN: Final = "the clock stands still, the seed is fixed"
NO_JSON: Final = "a value without a JSON form"


def compare(lane: Lane, name: str, code: str, still: pydantic_monty.OSPolicy) -> Verdict:
    """Run a case on both sides and say how they differ."""
    ran = lane.run(Program(code, limits=LIMITS))
    ordinary = stock(code)
    found = _judged(ran, ordinary)
    if found is None:
        same = _judged(ran, stock(code, policy=still))
        found = FROZEN if same is not None else ""
    detail = f"{ran.exit} {ran.value} {ran.stderr[-200:]!r}, stock {ordinary}"
    return Verdict(name, found, "" if found == SAME else detail)


def _judged(ran: Ran, ordinary: End) -> str | None:
    if ran.exit == "refused:not-expressible":
        refused = ordinary.told.startswith(("NotImplementedError", "SyntaxError"))
        return FORBIDDEN[ran.exit] if ordinary.state == "error" and refused else None
    if ran.exit in FORBIDDEN:
        return FORBIDDEN[ran.exit]
    if ran.stdout != ordinary.printed:
        return None
    if ordinary.told == NOT_JSON:
        return NO_JSON if ran.exit == "error" and ran.stderr.endswith("not JSON") else None
    if ordinary.state == "ok":
        return SAME if (ran.exit, ran.value) == ("ok", ordinary.told) else None
    if ran.exit == "limit:recursion":
        return SAME if ordinary.told.startswith("RecursionError") else None
    if ran.exit == "limit:memory":
        return SAME if ordinary.told.startswith("MemoryError") else None
    same = ran.exit == ordinary.state and ran.stderr.endswith(ordinary.told[:1500])
    return SAME if same else None


def compare_all(lane: Lane, still: pydantic_monty.OSPolicy) -> list[Verdict]:
    """Return the verdict on every case."""
    return [
        Verdict(name, RUNNER) if needs_its_runner(code) else compare(lane, name, code, still)
        for name, code in sorted(cases().items())
    ]
