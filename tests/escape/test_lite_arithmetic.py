"""Claim: a processor's features do not decide how a program of the lite lane ends.

The C library has several versions of sin, exp and others and chooses by the processor; they differ
in the last bit.  A processor with fewer features is imitated by `GLIBC_TUNABLES`, which hides
features of this one from the C library.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from pydantic_monty import Monty

from scripts.build_native import ALONE, SOURCES, compile_to
from tests.support.cli import Cli
from tests.support.lite import Lane, Program
from tests.support.requests import approved_request, live_workspace
from threegate.host.run import lite
from threegate.host.run.lifecycle import run_requests
from threegate.host.run.replay import replay
from threegate.sandbox.syscalls import architecture
from threegate.sandbox.worker import DIGESTS, MATH, WorkerFiles, find_worker, header

PROGRAM = """
import math
from hashlib import sha256

found = []
for function in (math.sin, math.cos, math.tan, math.exp, math.log, math.atan, math.sinh):
    values = [function(i * 0.037 + 0.001) for i in range(1, 4001)]
    found.append(sha256(repr(values).encode()).hexdigest())
values = [math.pow(i * 0.37 + 0.001, 0.7) for i in range(1, 4001)]
found.append(sha256(repr(values).encode()).hexdigest())
found
"""
HIDDEN = {  # processors from Haswell, before it, and of the first generation
    "this one": "",
    "without fma": "glibc.cpu.hwcaps=-AVX2,-FMA",
    "the oldest": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-SSE4_1,-SSE4_2,-SSSE3",
}
x86_only = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the C library has one version of each function there"
)


def in_stock_worker(directory: Path, environment: str) -> list[str]:
    """Run the program in the interpreter as it is installed, without our launcher."""
    wrapper = directory / "worker"
    wrapper.write_text(f'#!/bin/sh\n{environment} exec {find_worker().binary} "$@"\n', "utf-8")
    wrapper.chmod(0o755)
    pool = Monty(binary_path=str(wrapper), min_processes=1, max_processes=1)
    with pool, pool.checkout() as session:
        return list(session.feed_run(PROGRAM))


def in_lane() -> list[str]:
    """Run the program in the lane as it is deployed."""
    with Lane() as lane:
        ran = lane.run(Program(PROGRAM))
    assert ran.exit == "ok", ran.told
    return list(json.loads(ran.value))


def unpinned(directory: Path) -> WorkerFiles:
    """Return the worker's files with a launcher that leaves the choice to the C library."""
    text = header(architecture()).replace(MATH["x86_64"], "NOTHING=")
    assert text != header(architecture())
    (directory / "worker.h").write_text(text, encoding="ascii")
    launcher = directory / "launcher"
    made = compile_to(launcher, SOURCES / "launcher.c", str(directory), *ALONE)
    installed = find_worker()
    compiled = {"launcher": made, "lock": installed.digests()["lock"]}
    (directory / DIGESTS).write_text(json.dumps(compiled))
    return WorkerFiles(launcher, installed.lock, installed.binary)


@x86_only
# claim TG-C-440
def test_numbers_do_not_depend_on_the_features_of_the_processor(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path.parent):
        place.chmod(0o755)  # a gate that root starts has a uid of its own
    stock = {
        name: in_stock_worker(tmp_path, f"GLIBC_TUNABLES={hidden}")
        for name, hidden in HIDDEN.items()
    }
    # Control: the features matter.  It needs a processor that has them, as all of the last decade.
    assert stock["this one"] != stock["the oldest"], "this processor has no feature to hide"
    assert len({tuple(found) for found in stock.values()}) > 1
    assert in_lane() == stock["the oldest"]
    with mock.patch.object(lite, "find_worker", lambda: unpinned(tmp_path)):
        assert in_lane() == stock["this one"], "control: it is the launcher that pins them"


@x86_only
# claim TG-C-440
def test_hiding_more_features_than_the_launcher_does_changes_nothing(tmp_path: Path) -> None:
    pinned = in_stock_worker(tmp_path, MATH["x86_64"])
    assert pinned != in_stock_worker(tmp_path, "GLIBC_TUNABLES="), "control"
    for more in ("-SSE4_1", "-SSSE3,-SSE4_1,-SSE4_2", "-AVX512F,-BMI2,-LZCNT,-MOVBE,-POPCNT"):
        assert in_stock_worker(tmp_path, f"{MATH['x86_64']},{more}") == pinned, more


def said(tunables: str, *argv: str) -> str:
    """Return what Python prints in an environment with these tunables."""
    environment = {"PATH": os.environ["PATH"], "GLIBC_TUNABLES": tunables}
    command = [sys.executable, *argv]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@x86_only
# claim TG-C-440
def test_the_environment_of_the_host_does_not_reach_the_interpreter() -> None:
    told, python = set(), set()
    for hidden in HIDDEN.values():
        told.add(said(hidden, "-m", "tests.escape.test_lite_arithmetic"))
        python.add(said(hidden, "-c", f"{PROGRAM}\nprint(found)"))
    assert len(told) == 1
    assert len(python) > 1, "control: the host's own Python computes otherwise under each of them"


@x86_only
# claim TG-C-441
def test_a_replay_elsewhere_says_not_comparable_and_what_differs(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path.parent):
        place.chmod(0o755)
    ws = live_workspace(tmp_path)
    (here,) = run_requests(ws, [approved_request(ws, PROGRAM)])
    with (
        mock.patch.object(lite, "find_worker", lambda: unpinned(tmp_path)),
        mock.patch.object(lite, "_libm", lambda _: "0" * 64),  # as of another C library
    ):
        (elsewhere,) = run_requests(ws, [approved_request(ws, PROGRAM)])
    (alike,) = run_requests(ws, [approved_request(ws, "6 * 7")])
    assert here.made is not None
    assert elsewhere.made is not None
    assert alike.made is not None
    assert replay(ws, here.made.id).verdict == "same", "control: its numbers are repeated here"
    found = replay(ws, elsewhere.made.id)
    assert found.verdict == "not-comparable"
    assert found.why == "it ran with another libm-sha256, on which the outcome depends"
    with mock.patch.object(lite, "find_worker", lambda: unpinned(tmp_path)):
        assert replay(ws, here.made.id).verdict == "different", "control: the same libm and class"
    with mock.patch.object(lite, "_libm", lambda _: "0" * 64):
        assert replay(ws, alike.made.id).verdict == "same", "control: what is equal is equal"
    cli = Cli(tmp_path, ws.root)
    told = cli("replay", elsewhere.made.id, code=65).out
    assert told.startswith(f"not-comparable {elsewhere.made.id[:16]}: it ran with another libm")


def test_a_result_says_with_which_libm_and_which_kind_of_processor_it_was_computed() -> None:
    with Lane() as lane:
        versions = {item.name: item.version for item in lane.box.box.versions}
    assert len(versions["libm-sha256"]) == 64
    assert versions["processor"].split(",")[0] == platform.machine()


if __name__ == "__main__":
    print(in_lane())
