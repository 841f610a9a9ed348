"""Fuzz every parser and count: `python -m tests.fuzz.run --seconds 60 [TARGET...]`.

Seeds come from the vectors; what the fuzzer learns stays in build/fuzz/TARGET/corpus, so that a
later run goes on from there.  A finding is kept in build/fuzz/TARGET/findings and ends in exit 1.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
TIMEOUT_SECONDS = 20  # for one input; the slowest seed takes milliseconds
MAX_INPUT_BYTES = 16_384
MEMORY_MIB = 2048
_EXECUTED = re.compile(r"^stat::number_of_executed_units: *([0-9]+)$", re.MULTILINE)
_COVERED = re.compile(r"\bcov: ([0-9]+)")


@dataclass(frozen=True)
class Report:
    """What became of one target."""

    target: str
    executions: int
    seconds: float
    edges: int
    seeds: int
    findings: list[str]


def write_seeds(name: str, directory: Path) -> int:
    """Write the target's seeds as files, named by number; return how many."""
    from tests.fuzz.targets import PLANTED, TARGETS

    directory.mkdir(parents=True, exist_ok=True)
    seeds = {**TARGETS, **PLANTED}[name].seeds()
    if not seeds:
        raise ValueError(f"target {name} has no seeds")
    for number, seed in enumerate(seeds):
        (directory / f"{number:04}").write_bytes(seed)
    return len(seeds)


def fuzz(name: str, build: Path, *options: str) -> Report:
    """Run one target to its end and return what it did."""
    place = build / name
    corpus, findings = place / "corpus", place / "findings"
    for directory in (corpus, findings):
        directory.mkdir(parents=True, exist_ok=True)
    seeds = write_seeds(name, place / "seeds")
    fixed = (
        f"-artifact_prefix={findings}/",
        f"-timeout={TIMEOUT_SECONDS}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-rss_limit_mb={MEMORY_MIB}",
        "-print_final_stats=1",
    )
    command = [sys.executable, "-m", "tests.fuzz.one", name, *fixed, *options]
    started = time.monotonic()
    run = subprocess.run(
        [*command, str(corpus), str(place / "seeds")],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    taken = time.monotonic() - started
    executed = _EXECUTED.search(run.stderr)
    found = sorted(path.name for path in findings.iterdir())
    if executed is None or (run.returncode != 0 and not found):
        raise RuntimeError(f"target {name} did not run:\n{run.stderr[-2000:]}")
    if found:
        print(run.stderr[-3000:], file=sys.stderr)
    edges = max(map(int, _COVERED.findall(run.stderr)), default=0)
    return Report(name, int(executed.group(1)), round(taken, 1), edges, seeds, found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="fuzz every parser")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    parser.add_argument("--json", type=Path, help="also write the counts to this file")
    parser.add_argument("targets", nargs="*", help="default: all of them")
    return parser.parse_args()


def main() -> int:
    if importlib.util.find_spec("atheris") is None:
        print(
            "threegate: error: atheris is not installed, so nothing can be fuzzed", file=sys.stderr
        )
        print("threegate: hint: it has wheels for Linux on x86-64 only", file=sys.stderr)
        return os.EX_UNAVAILABLE
    from tests.fuzz.targets import TARGETS

    arguments = _arguments()
    reports = []
    for name in arguments.targets or TARGETS:
        report = fuzz(name, BUILD, f"-max_total_time={arguments.seconds}")
        reports.append(report)
        verdict = (
            f"{len(report.findings)} findings in {BUILD / name}" if report.findings else "none"
        )
        print(f"{name:16} {report.executions:>12,} executions  findings: {verdict}", flush=True)
    print(f"{'all':16} {sum(report.executions for report in reports):>12,} executions")
    if arguments.json is not None:
        rows = [asdict(report) for report in reports]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    return 1 if any(report.findings for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
