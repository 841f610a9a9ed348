"""Run the slow tests to the end, one pytest process per file, and keep the result of every test.

A failing test, or a process that dies, does not stop the rest.  Each result is a line of
dist/slow/results.jsonl; pytest's output is in dist/slow/FILE.log.  One file at a time: emulated
guests use both cores, and tests of load and of bombs measure time.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

import pytest

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "dist" / "slow"
STATE = PLACE / "results.jsonl"  # one line per test that ended
GUESSED_SECONDS = 30.0  # for a test that was never measured


@dataclass(frozen=True, slots=True)
class Result:
    test: str
    outcome: str  # passed, failed, skipped, or died: its process ended before it did
    seconds: float
    revision: str
    load: float
    at: str


class Reporter:
    """The pytest plugin of a child: one line when a test begins, one when it has ended."""

    def __init__(self, to: TextIO) -> None:
        self._to, self._outcomes, self._seconds = to, {"passed"}, 0.0
        self._log = os.fdopen(os.dup(2), "w", encoding="utf-8")  # pytest captures the original

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcomes, self._seconds = {"passed"}, 0.0
        print(json.dumps([nodeid]), file=self._to, flush=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._outcomes.add(report.outcome)
        self._seconds += report.duration
        if report.failed:  # at once: a test that ends the process takes pytest's summary with it
            print(report.nodeid, report.longreprtext, sep="\n", file=self._log, flush=True)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        worst = min(self._outcomes, key=["failed", "skipped", "passed"].index)
        print(json.dumps([nodeid, worst, round(self._seconds, 1)]), file=self._to, flush=True)


def file_of(test: str) -> str:
    return test.partition("::")[0]


def revision() -> str:
    """Return the commit; a changed tree has the digest of its changes as well."""

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout

    commit, changes = git("rev-parse", "--short", "HEAD").decode().strip(), git("diff", "HEAD")
    for name in git("ls-files", "-z", "-o", "--exclude-standard").decode().split("\0")[:-1]:
        changes += name.encode() + (ROOT / name).read_bytes()
    return f"{commit}+{sha256(changes).hexdigest()[:8]}" if changes else commit


def collected(words: list[str]) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-m", "slow", "--collect-only", "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "::" in line]
    tests = [test for test in found if any(word in test for word in words)]
    if done.returncode or not tests:
        sys.exit(f"{done.stdout[-3000:]}\nthreegate: error: no slow tests were collected")
    return tests


def reported(tests: list[str], path: Path, basetemp: str) -> Iterator[list[Any]]:
    """Run `tests` in one pytest process; yield what its reporter writes."""
    reading, writing = os.pipe()
    command = [sys.executable, __file__, "--child", str(writing), f"--basetemp={basetemp}", *tests]
    with path.open("ab") as log, os.fdopen(reading, encoding="utf-8") as lines:
        child = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, pass_fds=[writing])
        os.close(writing)
        try:
            yield from map(json.loads, lines)
        except BaseException:
            child.send_signal(signal.SIGINT)  # pytest then ends what its fixtures started
            raise
        finally:
            child.wait()


def run_file(tests: list[str], log: Path, basetemp: str) -> Iterator[tuple[str, str, float]]:
    """Yield (test, outcome, seconds); continue after a test whose process died."""
    pending = list(tests)
    while pending:
        begun, since = pending[0], time.monotonic()  # in case it dies before the first test
        for test, *end in reported(pending, log, basetemp):
            begun, since = test, time.monotonic()
            if end:
                pending.remove(test)
                begun = pending[0] if pending else ""
                yield test, end[0], end[1]
        if begun:
            pending.remove(begun)
            yield begun, "died", round(time.monotonic() - since, 1)


def run(tests: list[str], now: str, known: dict[str, float]) -> Iterator[Result]:
    """Run the tests file by file; keep, print and yield every result."""
    left, number = sum(known.get(test, GUESSED_SECONDS) for test in tests), 0
    with tempfile.TemporaryDirectory(prefix="tg.", dir="/tmp", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)  # gates have users of their own
        for file, its in groupby(tests, file_of):
            log = PLACE / f"{Path(file).stem}.log"
            log.unlink(missing_ok=True)
            for test, outcome, seconds in run_file(list(its), log, f"{place}/base"):
                number, left = number + 1, left - known.get(test, GUESSED_SECONDS)
                at, load = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), os.getloadavg()[0]
                result = Result(test, outcome, seconds, now, round(load, 1), at)
                with STATE.open("a", encoding="utf-8") as state:
                    state.write(json.dumps(asdict(result)) + "\n")
                line = f"{number}/{len(tests)} {outcome} in {seconds:.0f} s: {test}"
                print(f"threegate: {line} ({max(0.0, left) / 60:.0f} min left)", flush=True)
                yield result


def summary(results: dict[str, Result], now: str, tests: list[str]) -> str:
    """Return the results as a page for docs/evidence."""
    ran = list(results.values())
    days, loads = sorted(one.at[:10] for one in ran), sorted(one.load for one in ran)
    others = ", ".join(sorted({one.revision for one in ran} - {now})) or "none"
    about = f"`make slow` at {now} on {os.cpu_count()} cores, {days[0]} to {days[-1]}. Load"
    about += f" {loads[0]} to {loads[-1]}. Other revisions of results: {others}."
    head = "| file | tests | passed | time (s) |\n|---|---|---|---|"
    page = [f"# Slow tests, {days[-1]}", "", about, "", head]
    for name in [*dict.fromkeys(map(file_of, tests)), "all"]:
        its = [test for test in tests if name in ("all", file_of(test))]
        known = [results[test] for test in its if test in results]
        passed, seconds = sum(r.outcome == "passed" for r in known), sum(r.seconds for r in known)
        page += [f"| {name} | {len(its)} | {passed} | {seconds:.0f} |"]
    bad = [f"- {one.outcome}: `{one.test}`" for one in ran if one.outcome != "passed"]
    bad += [f"- not run: `{test}`" for test in tests if test not in results]
    return "\n".join([*page, "", "## Not passed", "", *(bad or ["Nothing."])]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--resume", action="store_true", help="skip what passed at this revision")
    parser.add_argument("--any-revision", action="store_true", help="... or at any other")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="write a page of Markdown")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only tests whose id contains it")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    args, now = parser.parse_args(), revision()
    tests = collected(args.words or [""])
    PLACE.mkdir(parents=True, exist_ok=True)
    lines = STATE.read_text("utf-8").splitlines() if STATE.exists() else []
    before = [Result(**json.loads(line)) for line in lines]
    # The last one of a test counts below: those of this revision come last.
    good = sorted((r for r in before if r.outcome == "passed"), key=lambda r: r.revision == now)
    kept = [one for one in good if args.any_revision or one.revision == now] if args.resume else []
    results = {one.test: one for one in kept if one.test in tests}
    old = sum(one.revision != now for one in results.values())
    print(f"threegate: {len(tests)} tests; {len(results)} passed before, {old} at other revisions")
    try:
        pending = [test for test in tests if test not in results]
        for one in run(pending, now, {one.test: one.seconds for one in good}):
            results[one.test] = one
    except KeyboardInterrupt:
        print("threegate: interrupted; `make slow SLOW=--resume` continues", file=sys.stderr)
        return 130
    finally:
        page = summary(results, now, tests) if results else ""
        print(page, end="")
        (args.summary or PLACE / "summary.md").write_text(page, "utf-8")
    return int(any(one.outcome in ("failed", "died") for one in results.values()))


def pytest_of_one_file(writing: str, *options: str) -> int:
    os.setpgrp()  # an interruption comes from the parent, once
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
    os.set_inheritable(int(writing), False)  # a process that a test leaves must not hold it open
    with os.fdopen(int(writing), "w", encoding="utf-8") as to:
        return int(pytest.main(["-m", "slow", *options], plugins=[Reporter(to)]))


if __name__ == "__main__":
    sys.exit(pytest_of_one_file(*sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main())
