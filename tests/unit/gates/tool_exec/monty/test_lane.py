"""The lite lane on a real Monty worker: outcomes, limits, determinism, nothing of the host."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from threegate.gates.tool_exec.monty import functions as external_functions
from threegate.gates.tool_exec.monty.functions import REGISTRY
from threegate.gates.tool_exec.monty.lane import LiteTask, run
from threegate.gates.tool_exec.monty.messages import LiteOutcome
from threegate.gates.tool_exec.monty.plain import Bounds as FunctionBounds
from threegate.gates.tool_exec.monty.pool import WorkerPool
from threegate.gates.tool_exec.monty.screen import SourceBounds
from threegate.sandbox.worker import find_worker

MODULES = frozenset({"json", "re", "math", "datetime", "collections", "functools"})
BOUNDS = SourceBounds(64 * 1024, 8, MODULES)
FUNCTIONS = dict.fromkeys(REGISTRY, FunctionBounds(2**20, 2**20, 32, 100))
JOB = LiteTask("1", (), {}, 1000, 64 * 2**20, 4096, 200, BOUNDS)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(str(find_worker().binary)) as opened:
        yield opened


def go(pool: WorkerPool, code: str, **changes: Any) -> LiteOutcome:
    return run(pool, replace(JOB, code=code, **changes))


def last(outcome: LiteOutcome) -> str:
    return outcome.stderr.decode().rpartition("\n")[2]


def test_value_and_output(pool: WorkerPool) -> None:
    outcome = go(pool, "print('hello')\n{'b': 2, 'a': [1.5, None, True, 'é']}")
    value = '{"a": [1.5, null, true, "é"], "b": 2}'.encode()
    assert replace(outcome, cpu_ms=0) == LiteOutcome("ok", value, b"hello\n")


def test_inputs_are_values(pool: WorkerPool) -> None:
    inputs = (("name", b'"x"'), ("rows", b'[{"a": 1}, {"a": 2.5}]'))
    outcome = go(pool, "[name, sum([row['a'] for row in rows])]", inputs=inputs)
    assert (outcome.exit, outcome.value) == ("ok", b'["x", 3.5]')


@pytest.mark.parametrize("name", ["json", "text", "loads", "inputs", "list"])
def test_loading_inputs_leaves_nothing_behind(pool: WorkerPool, name: str) -> None:
    inputs = (("rows", b"[1]"),)
    bounds = replace(BOUNDS, imports=frozenset[str]())
    # A name the loader used would be a way to a module that policy does not allow.
    code = f"try:\n    {name}.loads\nexcept NameError:\n    'gone'\nexcept AttributeError:\n    1"
    outcome = go(pool, f"{code}\n{name}", inputs=inputs, bounds=bounds)
    assert outcome.exit == "error"
    assert name == "list" or "NameError" in last(outcome)
    again = go(pool, name, inputs=((name, b"[7]"),), bounds=bounds)
    assert again.value == b"[7]", "control: bound when it is an input"


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((("rows", b"[1,"),), "not JSON"),
        ((("rows", b"\xff"),), "not UTF-8"),
        ((("rows", b"[" * 5000 + b"]" * 5000),), "not JSON"),
        ((("class", b"1"),), "cannot be bound"),
        ((("sha256_hex", b"1"),), "cannot be bound"),
    ],
)
def test_an_input_that_cannot_be_bound_is_refused(
    pool: WorkerPool, inputs: tuple[tuple[str, bytes], ...], words: str
) -> None:
    outcome = go(pool, "print('ran')", inputs=inputs, functions=FUNCTIONS)
    assert (outcome.exit, outcome.stdout) == ("refused:input", b"")
    assert words in last(outcome)
    assert go(pool, "rows", inputs=(("rows", b"[1]"),)).exit == "ok", "control"


def test_time_of_inputs_counts(pool: WorkerPool) -> None:
    document = b"[" + b"[1,2,3]," * 400_000 + b"1]"
    inputs = (("rows", document),)
    outcome = go(pool, "print('ran')", inputs=inputs, wall_ms=20, memory_bytes=2**28)
    assert (outcome.exit, outcome.stdout) == ("limit:time", b"")
    outcome = go(pool, "len(rows)", inputs=inputs, wall_ms=20_000, memory_bytes=2**28)
    assert outcome.value == b"400001", "control"


def test_memory_of_inputs_counts(pool: WorkerPool) -> None:
    document = b"[" + b"[1,2,3]," * 100_000 + b"1]"
    outcome = go(pool, "1", inputs=(("rows", document),), memory_bytes=2**22, wall_ms=20_000)
    assert outcome.exit == "limit:memory"


# claim TG-C-91
def test_functions_only_those_asked_for(pool: WorkerPool) -> None:
    code = "sha256_hex('x')[:8]"
    asked = {"sha256_hex": FUNCTIONS["sha256_hex"]}
    assert go(pool, code, functions=asked).value == b'"2d711642"', "control"
    other = {"json_dumps": FUNCTIONS["json_dumps"]}
    for functions in ({}, other):
        for reach in (code, "f = sha256_hex\nf('x')"):
            without = go(pool, reach, functions=functions)
            assert (without.exit, without.calls) == ("error", ())
            assert last(without) == "NameError: name 'sha256_hex' is not defined"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("json_loads('{')", "ValueError: not JSON"),
        ("json_loads(s='1')", "TypeError: external functions take no keyword arguments"),
        ("json_loads()", "ValueError: wrong number of arguments"),
        ("json_loads({1})", "ValueError: not a JSON value"),
        ("json_dumps([b'x'])", "ValueError: not a JSON value"),
        ("regex_findall('(', 'x')", "ValueError: pattern is not a regular expression"),
        ("json_loads('x' * 2000000)", "ValueError: value is too large or too deep"),
    ],
)
# claim TG-C-91
def test_errors_of_functions_carry_our_words_only(pool: WorkerPool, code: str, words: str) -> None:
    outcome = go(pool, code, functions=FUNCTIONS)
    assert (outcome.exit, last(outcome)) == ("error", words)


def test_calls_are_counted(pool: WorkerPool) -> None:
    code = "[sha256_hex(str(i)) for i in range(7)]\njson_dumps([1])"
    outcome = go(pool, code, functions=FUNCTIONS)
    assert outcome.calls == (("json_dumps", 1), ("sha256_hex", 7))


# claim TG-C-91
def test_one_call_too_many_ends_the_run_whatever_the_program_catches(pool: WorkerPool) -> None:
    loop = "for i in range({}):\n    try:\n        sha256_hex('x')\n    except BaseException:\n"
    code = loop + "        pass\n'end'"
    assert go(pool, code.format(100), functions=FUNCTIONS).value == b'"end"', "control"
    outcome = go(pool, code.format(101), functions=FUNCTIONS)
    assert (outcome.exit, outcome.calls) == ("limit:calls", (("sha256_hex", 101),))
    names = "n = 0\nwhile n < {}:\n    n += 1\n    try:\n        zz\n    except NameError:\n"
    assert go(pool, names.format(900) + "        pass\nn").value == b"900", "control"
    assert go(pool, names.format(2000) + "        pass\nn").exit == "limit:calls"


def test_depth_is_that_of_the_job(pool: WorkerPool) -> None:
    code = "def f(n):\n    return n and f(n - 1)\nf(60)"
    assert go(pool, code, recursion=100).value == b"0", "control"
    assert go(pool, code, recursion=50).exit == "limit:recursion"


# claim TG-C-91
def test_time_in_functions_counts(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    # The interpreter's own clocks stand still while a function of ours works.
    code = "text = '[' + '1,' * 40000 + '1]'\nfor i in range({}): json_loads(text)\n'end'"
    functions = dict.fromkeys(REGISTRY, FunctionBounds(2**20, 2**20, 32, 10_000))
    outcome = go(pool, code.format(5000), functions=functions, wall_ms=300)
    assert outcome.exit == "limit:time"
    assert 0 < outcome.calls[0][1] < 5000
    assert go(pool, code.format(2), functions=functions, wall_ms=20_000).exit == "ok", "control"
    spin = "json_loads('1')\nwhile True: pass"
    assert go(pool, spin, functions=functions, wall_ms=300).exit == "limit:time"
    # Also of a call behind which nothing comes that could be late.
    monkeypatch.setattr(external_functions, "call", lambda *_: time.sleep(0.3))
    assert go(pool, "json_loads('1')", functions=functions, wall_ms=250).exit == "limit:time"
    assert go(pool, "json_loads('1')", functions=functions, wall_ms=20_000).exit == "ok", "control"


@pytest.mark.parametrize(
    ("code", "construct", "line"),
    [
        ("import os", "import", 1),
        ("x = 1\nfrom socket import socket", "import", 2),
        ("from . import x", "import", 1),
        ("eval('1')", "name", 1),
        ("def f(:\n", "not-python", 1),
        (
            "\n".join("    " * n + f"def f{n}():" for n in range(10)) + "\n" + "    " * 10 + "pass",
            "nesting",
            9,
        ),
        ("#" * 70_000, "size", 1),
    ],
)
def test_refused_before_it_runs(pool: WorkerPool, code: str, construct: str, line: int) -> None:
    outcome = go(pool, code)
    assert outcome.exit == f"refused:{construct}"
    assert outcome.refusal is not None
    assert outcome.refusal.line == line


# claim TG-C-92
def test_only_the_interpreter_itself_refuses_a_program(pool: WorkerPool) -> None:
    words = "The monty syntax parser does not yet support yield expressions"
    refused = go(pool, "print('ran')\ndef f():\n    yield 1")
    assert (refused.exit, refused.stdout) == ("refused:not-expressible", b"")
    assert refused.refusal is not None
    assert (refused.refusal.construct, refused.refusal.line) == ("yield expressions", 3)
    # A refusal opens the way to the heavy lane: a program must not be able to forge one.
    for forged in (f"raise NotImplementedError('{words}')", f"raise SyntaxError('{words}')"):
        outcome = go(pool, f"print('ran')\n{forged}")
        assert (outcome.exit, outcome.stdout, outcome.refusal) == ("error", b"ran\n", None)


MEMORY = "memory limit exceeded: 68312893 bytes > 67108864 bytes"
RECURSION = "maximum recursion depth exceeded"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("while True: pass", "limit:time"),
        ("try:\n    while True: pass\nexcept BaseException: pass", "limit:time"),
        ("x = []\nwhile True: x.append('a' * 100000)", "limit:memory"),
        ("try:\n    'a' * 10**9\nexcept MemoryError: pass", "limit:memory"),
        ("try:\n    'a' * 10**9\nexcept (MemoryError, ValueError): pass", "limit:memory"),
        ("def f(n): return f(n + 1)\nf(0)", "limit:recursion"),
        ("'a' * 5000", "limit:output"),
        ("x = ['x']\nfor _ in range(40): x = [x, x]\nx", "limit:output"),
        ("10 ** 4300", "limit:output"),
        ("[10 ** 4000] * 10 ** 5", "limit:output"),
        ("1 / 0", "error"),
        ("{1: 2}", "error"),
        ("float('nan')", "error"),
    ],
)
def test_how_it_ends(pool: WorkerPool, code: str, expected: str) -> None:
    outcome = go(pool, code)
    assert (outcome.exit, outcome.value) == (expected, b"")
    assert go(pool, "1 + 1").value == b"2", "the lane goes on afterwards"


@pytest.mark.parametrize(
    "code",
    [
        "raise TimeoutError('feed time limit exceeded: 1s > 1s')",
        f"raise MemoryError('{MEMORY}')",
        "raise MemoryError",
        f"x = MemoryError('{MEMORY}')\nraise x",
        f"def f():\n    raise MemoryError('{MEMORY}')\nsorted([1, 2], key=lambda x: f())",
        f"try:\n    raise MemoryError('{MEMORY}')\nexcept MemoryError:\n    y = 'a' * 5\n    raise",
        f"try:\n    1\nexcept (x := MemoryError):\n    1\nraise x('{MEMORY}')",
        f"async def f():\n    raise MemoryError('{MEMORY}')\nawait f()",
        f"raise RecursionError('{RECURSION}')",
        "raise RuntimeError('suspension limit 1001 exceeded')",
    ],
)
# claim TG-C-92
def test_a_spoofed_limit_is_an_error(pool: WorkerPool, code: str) -> None:
    real = go(pool, "'a' * 10**9")
    assert real.exit == "limit:memory", "control"
    assert go(pool, code).exit == "error"


# claim TG-C-92
def test_print_flood_ends_the_run_at_the_same_byte_every_time(pool: WorkerPool) -> None:
    endless = "i = 0\nwhile True:\n    i += 1\n    print(i, 'é' * 50)"
    late = "for i in range(200):\n    print('x' * 100)\n    for j in range(300): pass\n1 / 0"
    for code in (endless, late):
        found = {replace(go(pool, code, output_bytes=1001), cpu_ms=0) for _ in range(5)}
        (outcome,) = found
        assert (outcome.exit, outcome.cut.stdout) == ("limit:output", True)
        assert 1000 <= len(outcome.stdout) <= 1001
        outcome.stdout.decode("utf-8")  # cut between two characters
    exact = go(pool, "print('x' * 999)", output_bytes=1004)
    assert (exact.exit, len(exact.stdout), exact.cut.stdout) == ("ok", 1000, False), "control"


def test_value_and_output_share_the_limit(pool: WorkerPool) -> None:
    code = "print('x' * 999)\n'y' * {}"
    assert go(pool, code.format(98), output_bytes=1100).exit == "ok", "control"
    outcome = go(pool, code.format(99), output_bytes=1100)
    assert (outcome.exit, outcome.cut.value) == ("limit:output", True)
    assert (len(outcome.stdout), outcome.cut.stdout) == (1000, False)


def test_error_says_where_and_is_cut(pool: WorkerPool) -> None:
    outcome = go(pool, "def f(x):\n    return 1 / x\n\nf(0)")
    assert outcome.stderr.decode().split("\n") == [
        "Traceback (most recent call last):",
        "  line 4, in <module>",
        "    f(0)",
        "  line 2, in f",
        "    return 1 / x",
        "ZeroDivisionError: division by zero",
    ]
    assert not outcome.cut.stderr
    long = go(pool, "raise ValueError('x' * 10_000_000)")
    assert (long.exit, long.cut.stderr) == ("error", True)
    assert len(long.stderr) < 3000
    deep = go(pool, "def f(n):\n    return f(n - 1) if n else 1 / 0\nf(150)")
    assert "more\n" in deep.stderr.decode()
    assert len(deep.stderr) < 3000


def test_processor_time_is_that_of_this_run(pool: WorkerPool) -> None:
    busy = go(pool, "for i in range(3000000): pass")
    idle = go(pool, "1")
    assert busy.cpu_ms > idle.cpu_ms, (busy.cpu_ms, idle.cpu_ms)


@pytest.mark.parametrize(
    "code",
    [
        "import datetime\nstr(datetime.datetime.now())",
        "import random\nrandom.random()",
        "[hash('a'), list({3, 1, 2}), str(id('a'))]",
        "class A: pass\nstr(A())",
    ],
)
def test_same_program_same_outcome(pool: WorkerPool, code: str) -> None:
    bounds = replace(BOUNDS, imports=BOUNDS.imports | {"random"})
    first, second = go(pool, code, bounds=bounds), go(pool, code, bounds=bounds)
    assert first.exit == "ok"
    assert replace(first, cpu_ms=0) == replace(second, cpu_ms=0)


def test_nothing_survives_from_one_run_to_the_next(pool: WorkerPool) -> None:
    assert go(pool, "marker = 1\nmarker").value == b"1"
    assert "NameError" in last(go(pool, "marker"))
