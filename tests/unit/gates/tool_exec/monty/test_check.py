"""Can Monty express it?  Ordinary programs pass, what is beyond it is refused with its line."""

import ast
import json
from collections.abc import Iterator

import pytest
from pydantic_monty import MontyRuntimeError

from tests.support.policies import policy
from tests.support.programs import BEYOND, ORDINARY
from threegate.base.limits import MAX_LINE_CHARS
from threegate.base.text import FORBIDDEN
from threegate.gates.tool_exec import gate
from threegate.gates.tool_exec.monty import lane
from threegate.gates.tool_exec.monty.check import Found, check, compiles
from threegate.gates.tool_exec.monty.functions import REGISTRY
from threegate.gates.tool_exec.monty.messages import (
    MAX_CONSTRUCT_CHARS,
    CodeChecked,
    LiteOutcome,
    RefusalFound,
)
from threegate.gates.tool_exec.monty.pool import WorkerPool
from threegate.gates.tool_exec.monty.screen import METHODS_MISSING, METHODS_NOT_CALLED, gaps
from threegate.sandbox.worker import find_worker

RULES = policy().bundle()
BOUNDS = gate.bounds_for(RULES, "pure")
FUNCTIONS = tuple(REGISTRY)
ROW = {"name": "Ada", "id": 1, "tags": ["b", "a"], "x": 1.5, "y": 2.0, "price": 1.25}
MORE = {"hits": 3, "tries": 4, "mail": "a@b", "kind": "k", "type": "circle", "r": 1}
DOCUMENTS = {
    "rows": [ROW | MORE, ROW | MORE | {"x": 4.5, "id": 5, "name": "Bob", "mail": "ab"}],
    "table": {},
    "text": "a;b\nc 2020-01 12; n/a",
}
INPUTS = tuple((name, json.dumps(value).encode()) for name, value in DOCUMENTS.items())


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(str(find_worker().binary)) as opened:
        yield opened


def ask(pool: WorkerPool, code: str) -> Found:
    return check(pool, code, functions=FUNCTIONS, inputs=tuple(DOCUMENTS), bounds=BOUNDS)


def run(pool: WorkerPool, code: str) -> LiteOutcome:
    functions = gate.function_bounds(RULES, FUNCTIONS)
    return lane.run(
        pool, lane.LiteTask(code, INPUTS, functions, 1000, 64 * 2**20, 100_000, 200, BOUNDS)
    )


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_program_passes_and_runs(pool: WorkerPool, name: str) -> None:
    assert ask(pool, ORDINARY[name]).refusal is None
    outcome = run(pool, ORDINARY[name])
    assert outcome.exit == "ok", outcome.stderr


@pytest.mark.parametrize("name", BEYOND)
def test_what_is_beyond_the_interpreter_is_refused_with_its_line(
    pool: WorkerPool, name: str
) -> None:
    code, construct, line = BEYOND[name]
    refusal = ask(pool, code).refusal
    assert refusal is not None
    assert construct in refusal.construct
    assert refusal.line == line
    assert len(refusal.reason) > 10


def test_there_are_enough_of_both() -> None:
    assert len(ORDINARY) >= 30
    assert len(BEYOND) >= 30


# claim TG-C-94
def test_nothing_of_the_program_runs(pool: WorkerPool) -> None:
    endless = "while True:\n    print('ran')"
    assert ask(pool, endless) == Found(None)
    assert run(pool, endless).exit == "limit:output", "control: it does when it is run"
    for code in ("x = []\nwhile True: x.append('a' * 100000)", "probe = 1\nprobe", "1 / 0"):
        assert ask(pool, code).refusal is None
    assert run(pool, "1 / 0").exit == "error", "control"


# claim TG-C-94
def test_a_bug_is_no_refusal(pool: WorkerPool) -> None:
    # A refusal opens the way to the heavy lane; Monty expresses all of these.
    for code, rule in (
        ("x: int = 'a'\nx", "invalid-assignment"),
        ("\nundefined_name", "unresolved-reference"),
        ("sha256_hex(1)", "invalid-argument-type"),
        ("def f(a): return a\nf(1, 2)", "too-many-positional-arguments"),
        ("class A: pass\na = A()\na.b = 1", "unresolved-attribute"),
    ):
        found = ask(pool, code)
        assert found.refusal is None, code
        assert [warning.construct for warning in found.warnings] == [rule]
    assert ask(pool, "\nundefined_name").warnings[0].line == 2


def test_inputs_and_functions_are_known_to_the_type_checker(pool: WorkerPool) -> None:
    code = "json_loads(text)['a'] + rows[0]['x'] + table.anything"
    assert ask(pool, code) == Found(None)
    bare = check(pool, code, functions=(), inputs=(), bounds=BOUNDS)
    assert len(bare.warnings) == 4, "control"


@pytest.mark.parametrize("code", ["dict.fromkeys(['a'])", "bytes.fromhex('61').decode()", "[int]"])
def test_what_belongs_to_a_type_is_no_gap(pool: WorkerPool, code: str) -> None:
    assert ask(pool, code).refusal is None
    assert ask(pool, f"x = str.lower\n{code}").refusal is not None, "control"


@pytest.mark.parametrize(
    "code", ["str.lower('A')", "x = dict.fromkeys", "ValueError(1)", "KeyError('a', 'b')"]
)
def test_what_is_said_to_fail_fails(pool: WorkerPool, code: str) -> None:
    (refusal,) = gaps(ast.parse(code))
    assert refusal.line == 1
    with pool.checkout() as session, pytest.raises(MontyRuntimeError):
        session.feed_run(code)


def test_a_name_the_code_gives_itself_is_there(pool: WorkerPool) -> None:
    assert ask(pool, "def callable(x): return True\ncallable(1)").refusal is None
    assert ask(pool, "input = [1]\ninput[0]").refusal is None
    assert ask(pool, "def f(dir): return dir\nf(1)").refusal is None
    code = "class V:\n    def translate(self, x): return x\nV().translate(1)"
    assert ask(pool, code).refusal is None
    assert ask(pool, "callable(1)").refusal is not None, "control"


@pytest.mark.parametrize(
    "code",
    [
        "x: int = '\\u202e\\n" + "y" * 5000 + "'",
        "ﬁ: int = 'a'",
        "".join(f"x{n}: int = 'a'\n" for n in range(100)),
        "def " + "f" * 3000 + "(x: int): yield x",
    ],
)
def test_the_answer_is_bounded_whatever_the_code_holds(pool: WorkerPool, code: str) -> None:
    found = ask(pool, code)
    every = [*found.warnings, *([found.refusal] if found.refusal else [])]
    assert every
    for item in every:
        assert len(item.construct) <= MAX_CONSTRUCT_CHARS
        assert len(item.reason) <= MAX_LINE_CHARS
        assert FORBIDDEN.search(item.reason) is None
    plain = tuple(RefusalFound(w.construct, w.line, w.reason) for w in found.warnings)
    assert CodeChecked(None, plain).to_bytes()


def test_what_never_compiles_is_refused(pool: WorkerPool) -> None:
    nested = "".join("    " * n + f"def f{n}():\n" for n in range(22)) + "    " * 22 + "pass"
    refusal = compiles(pool, nested)
    assert refusal is not None
    assert "within its limits" in refusal.reason
    assert compiles(pool, "def f(): pass") is None, "control"


CALLS = {
    "translate": "'a'.translate({97: 'b'})",
    "maketrans": "str.maketrans('a', 'b')",
    "format_map": "'{a}'.format_map({'a': 1})",
    "bit_length": "(5).bit_length()",
    "bit_count": "(5).bit_count()",
    "to_bytes": "(5).to_bytes(2, 'big')",
    "from_bytes": "int.from_bytes(b'a', 'big')",
    "is_integer": "(1.0).is_integer()",
}


def test_every_missing_method_is_named() -> None:
    assert set(CALLS) == METHODS_MISSING


@pytest.mark.parametrize("name", CALLS)
def test_a_method_said_to_be_missing_is_missing(pool: WorkerPool, name: str) -> None:
    with pool.checkout() as session, pytest.raises(MontyRuntimeError, match="attribute"):
        session.feed_run(CALLS[name])


USES = {
    "__lt__": "A() < 1",
    "__le__": "A() <= 1",
    "__gt__": "A() > 1",
    "__ge__": "A() >= 1",
    "__iadd__": "a = A()\na += 1",
    "__bool__": "bool(A()) and 1 / 0",
    "__len__": "len(A())",
    "__getattr__": "A().x",
    "__setattr__": "a = A()\na.x = 1\nmarks or 1 / 0",
    "__format__": "f'{A():x}'",
    "__float__": "float(A())",
    "__reversed__": "list(reversed(A()))",
    "__new__": "A()\nmarks or 1 / 0",
    "__del__": "A()\nmarks or 1 / 0",
}


def test_every_method_that_is_not_called_is_named() -> None:
    assert set(USES) == METHODS_NOT_CALLED


@pytest.mark.parametrize("name", USES)
def test_a_method_said_not_to_be_called_is_not_called(pool: WorkerPool, name: str) -> None:
    # The method marks that it was called and answers `False`, which `bool` must believe.
    head = f"marks = []\nclass A:\n    def {name}(self, *rest):\n        marks.append(1)\n"
    code = f"{head}        return False\n"
    with pool.checkout() as session, pytest.raises(MontyRuntimeError):
        session.feed_run(f"{code}{USES[name]}")
    (refusal,) = gaps(ast.parse(code))
    assert refusal.construct == f"method {name}"


@pytest.mark.parametrize(
    "code",
    [
        "def __init__(self): self.x = 1\nA().x",
        "def __repr__(self): return 'A'\nstr(A())",
        "def __eq__(self, other): return True\nA() == 1",
        "def __hash__(self): return 1\n{A(): 1}\n1",
        "def __contains__(self, x): return True\n1 in A()",
        "def __index__(self): return 0\n[7][A()]",
        "def __add__(self, other): return other\nA() + 1",
        "def __getitem__(self, i): return i\nA()[3]",
        "def __call__(self): return 1\nA()()",
    ],
)
def test_methods_that_are_called_are_no_gap(pool: WorkerPool, code: str) -> None:
    code = f"class A:\n    {code}"
    assert ask(pool, code).refusal is None
    assert run(pool, code).exit == "ok"
