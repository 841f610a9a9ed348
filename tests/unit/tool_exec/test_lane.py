"""The lite lane on a real Monty worker: outcomes, limits, determinism, nothing of the host."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pydantic_monty import Monty

from threegate.sandbox.worker import find_worker
from threegate.tool_exec.monty.lane import Job, Outcome, run
from threegate.tool_exec.monty.screen import Bounds

BOUNDS = Bounds(64 * 1024, 8, frozenset({"json", "re", "math", "datetime", "collections"}))
JOB = Job("1", {}, (), 1000, 64 * 2**20, 4096, 200, BOUNDS)


@pytest.fixture(scope="module")
def pool() -> Iterator[Monty]:
    with Monty(
        binary_path=str(find_worker().binary),
        min_processes=1,
        max_processes=1,
        max_checkouts_per_worker=1,
        feed_duration_limit_grace=0.25,
    ) as opened:
        yield opened


def go(pool: Monty, code: str, **changes: object) -> Outcome:
    return run(pool, replace(JOB, code=code, **changes))  # type: ignore[arg-type]


def test_value_and_output(pool: Monty) -> None:
    outcome = go(pool, "print('hello')\n{'b': 2, 'a': [1.5, None, True, 'é']}")
    assert outcome == Outcome("ok", '{"a": [1.5, null, true, "é"], "b": 2}', "hello\n", "")


def test_inputs_are_texts(pool: Monty) -> None:
    code = "import json\nsum(json.loads(rows))"
    assert go(pool, code, inputs={"rows": "[1, 2, 3]"}).value == "6"


def test_functions_only_those_asked_for(pool: Monty) -> None:
    code = "sha256_hex('x')[:8]"
    assert go(pool, code, functions=("sha256_hex",)).value == '"2d711642"'
    without = go(pool, code)
    assert without.exit == "error"
    assert "NameError" in without.stderr


def test_function_errors_carry_our_words_only(pool: Monty) -> None:
    outcome = go(pool, "json_loads('{')", functions=("json_loads",))
    assert (outcome.exit, outcome.stderr) == ("error", "ValueError: not JSON")


@pytest.mark.parametrize(
    ("code", "construct", "line"),
    [
        ("import os", "import", 1),
        ("x = 1\nfrom socket import socket", "import", 2),
        ("from . import x", "import", 1),
        ("eval('1')", "name", 1),
        ("def f(:\n", "syntax", 1),
        (
            "\n".join("    " * n + f"def f{n}():" for n in range(10)) + "\n" + "    " * 10 + "pass",
            "nesting",
            9,
        ),
        ("#" * 70_000, "size", 1),
    ],
)
def test_refused_before_it_runs(pool: Monty, code: str, construct: str, line: int) -> None:
    outcome = go(pool, code)
    assert outcome.exit == f"refused:{construct}"
    assert outcome.refusal is not None
    assert outcome.refusal.line == line


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("while True: pass", "limit:time"),
        ("x = []\nwhile True: x.append('a' * 100000)", "limit:memory"),
        ("def f(n): return f(n + 1)\nf(0)", "limit:recursion"),
        ("'a' * 5000", "limit:output"),
        ("x = ['x']\nfor _ in range(40): x = [x, x]\nx", "limit:output"),
        ("raise TimeoutError('feed time limit exceeded: 1s > 1s')", "error"),
        ("1 / 0", "error"),
        ("{1: 2}", "error"),
        ("float('nan')", "error"),
    ],
)
def test_how_it_ends(pool: Monty, code: str, expected: str) -> None:
    assert go(pool, code).exit == expected
    assert go(pool, "1 + 1").value == "2", "the lane goes on afterwards"


def test_print_flood_is_cut_and_marked(pool: Monty) -> None:
    outcome = go(pool, "for i in range(100000): print('x' * 50)", output_bytes=1000, wall_ms=3000)
    assert len(outcome.stdout) <= 1000
    assert outcome.truncated or outcome.exit != "ok"


@pytest.mark.parametrize(
    "code",
    [
        "import datetime\nstr(datetime.datetime.now())",
        "import random\nrandom.random()",
        "[hash('a'), list({3, 1, 2}), id]",
    ],
)
def test_same_program_same_outcome(pool: Monty, code: str) -> None:
    bounds = replace(BOUNDS, imports=BOUNDS.imports | {"random"})
    first, second = go(pool, code, bounds=bounds), go(pool, code, bounds=bounds)
    assert first == second


def test_nothing_survives_from_one_run_to_the_next(pool: Monty) -> None:
    assert go(pool, "marker = 1\nmarker").value == "1"
    assert "NameError" in go(pool, "marker").stderr
