"""The external functions against the plain references: equal, or refused; through the lane too."""

import hashlib
import json
import math
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.gates.tool_exec.monty.functions import REGISTRY, call
from threegate.gates.tool_exec.monty.lane import LiteTask, run
from threegate.gates.tool_exec.monty.plain import Bounds, FunctionRefused
from threegate.gates.tool_exec.monty.pool import WorkerPool
from threegate.gates.tool_exec.monty.screen import SourceBounds as Screen
from threegate.sandbox.worker import find_worker

BOUNDS = Bounds(2**20, 2**20, 32, 10_000)
References = Callable[..., Any]
REFERENCES: dict[str, References] = {
    "json_dumps": lambda obj: json.dumps(obj, sort_keys=True),
    "json_loads": json.loads,
    "regex_findall": re.findall,
    "sha256_hex": lambda s: hashlib.sha256(s.encode("utf-8")).hexdigest(),
}

plain_text = st.text(st.characters(codec="utf-8"), max_size=30)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain_text
)
plain_json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
    max_leaves=20,
)
# What Python's encoder takes and we do not: tuples, other keys, NaN, lone surrogates, sets.
odd = st.sampled_from(
    [float("nan"), math.inf, "\ud800", (1, 2), {1: 2}, {None: 1}, {1, 2}, b"x", 2**5000, object()]
)
any_value = st.recursive(
    scalars | odd, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner), max_leaves=8
)
json_noise = st.text(alphabet='{}[]":,0123456789eE+-.truefalsnNI \\/u"abdé\ud800\n', max_size=40)


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to the last bit: 1 is not 1.0, 0.0 is not -0.0."""
    return repr(one) == repr(other) and type(one) is type(other)


def agree(name: str, *arguments: Any) -> bool:
    """Tell whether the function answered, after comparing its answer with the reference."""
    try:
        found = call(name, BOUNDS, arguments)
    except FunctionRefused:
        return False
    assert same(found, REFERENCES[name](*arguments)), arguments
    return True


@settings(max_examples=300)
@given(plain_json)
def test_plain_values_are_never_refused_and_always_the_same(value: Any) -> None:
    assert agree("json_dumps", value)
    assert agree("json_loads", json.dumps(value))
    assert agree("json_loads", json.dumps(value, ensure_ascii=False, indent=1))


@settings(max_examples=300)
@given(any_value)
def test_other_values_are_the_same_or_refused(value: Any) -> None:
    agree("json_dumps", value)


@settings(max_examples=500)
@given(json_noise)
def test_texts_that_may_be_json_are_the_same_or_refused(text: str) -> None:
    agree("json_loads", text)


@given(plain_text)
def test_every_text_has_its_digest(text: str) -> None:
    assert agree("sha256_hex", text)


@settings(max_examples=300)
@given(
    st.text(alphabet="ab|()[]*+?{}.^$\\dwsbBAZ12,-i:", max_size=12), st.text("ab1 \n", max_size=9)
)
def test_patterns_are_answered_alike_or_refused(pattern: str, text: str) -> None:
    agree("regex_findall", pattern, text)


def _spelled(rng: random.Random, depth: int = 0) -> str:
    """Return JSON as nobody would write it, or nearly JSON."""
    space = rng.choice(["", "", " ", "\n\t"])
    kind = rng.randrange(9 if depth < 5 else 6)
    if kind == 0:
        return space + rng.choice(["null", "true", "false", "NaN", "-Infinity", "nul", "TRUE"])
    if kind in {1, 2}:
        made = (repr(rng.uniform(-1e9, 1e9)), str(rng.randrange(-(2**70), 2**70)))
        fixed = ("0", "-0", "-0.0", "1e5", "1E-400", "1e400", "01", "1.", ".5", "+1", "1_0")
        return space + rng.choice((*made, *fixed, "9" * 40))
    if kind in {3, 4, 5}:
        parts = ["a", "é", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "\\x", '\\"', "\t", "😀"]
        return space + '"' + "".join(rng.choices(parts, k=rng.randrange(4))) + '"'
    items = [_spelled(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return f"{space}[{','.join(items)}{rng.choice(['', '', '', ','])}]"
    pairs = [f'"{rng.choice("abc")}":{item}' for item in items]
    return f"{space}{{{','.join(pairs)}}}{rng.choice(['', '', ' '])}"


def compare_spellings(seeds: range) -> int:
    return sum(agree("json_loads", _spelled(random.Random(seed))) for seed in seeds)


def test_odd_spellings_are_read_alike_or_refused() -> None:
    assert compare_spellings(range(5_000)) > 1_000


@pytest.mark.slow
def test_many_odd_spellings_are_read_alike_or_refused() -> None:
    assert compare_spellings(range(5_000, 300_000)) > 60_000


def test_the_interpreter_hands_values_over_unchanged() -> None:
    spelled = [_spelled(random.Random(seed)) for seed in range(3_000)]
    texts = [text for text in spelled if "\\ud800" not in text and agree("json_loads", text)]
    assert len(texts) > 500
    code = (
        "[[sha256_hex(t), json_dumps(json_loads(t)), regex_findall('[a-zé]+', t)] for t in texts]"
    )
    inputs = (("texts", json.dumps(texts).encode()),)
    functions = dict.fromkeys(REGISTRY, BOUNDS)
    screen = Screen(2**16, 8, frozenset())
    with WorkerPool(str(find_worker().binary)) as pool:
        outcome = run(pool, LiteTask(code, inputs, functions, 30_000, 2**28, 2**22, 200, screen))
    assert outcome.exit == "ok", outcome.stderr
    assert json.loads(outcome.value) == [
        [
            hashlib.sha256(text.encode()).hexdigest(),
            json.dumps(json.loads(text), sort_keys=True),
            re.findall("[a-zé]+", text),
        ]
        for text in texts
    ]


def test_what_the_interpreter_puts_in_place_of_a_value_is_what_the_documents_say() -> None:
    """Done before a function or the converter sees the value, so neither can refuse it."""
    code = (
        "around = []\naround.append(around)\nitself = {}\nitself['itself'] = itself\n"
        "twice = [1]\ndef of_its_own(): pass\n"
        "[around, itself, json_dumps(itself), [twice, twice], of_its_own,"
        " '\\ud800', sha256_hex('\\ud800')]"
    )
    functions = dict.fromkeys(REGISTRY, BOUNDS)
    with WorkerPool(str(find_worker().binary)) as pool:
        job = LiteTask(
            code, (), functions, 30_000, 2**26, 2**16, 200, Screen(2**16, 8, frozenset())
        )
        outcome = run(pool, job)
    assert outcome.exit == "ok", outcome.stderr
    around, itself, dumped, twice, named, lone, digest = json.loads(outcome.value)
    assert (around, itself) == (["[...]"], {"itself": "{...}"})
    assert dumped == json.dumps(itself)
    assert twice == [[1], [1]], "control: a part that stands twice is there twice"
    assert "of_its_own" in named
    assert lone == "\ufffd"
    assert digest == hashlib.sha256(lone.encode()).hexdigest()
