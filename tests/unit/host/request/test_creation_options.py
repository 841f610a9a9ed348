"""Options of a request: units as policy spells them, and one clear error for each mistake."""

from typing import Any

import pytest

from tests.support.policies import altered, policy
from threegate.base.errors import ThreeGateError
from threegate.host.request.creation import read_functions, read_limits, read_network, read_outputs

BUNDLE = policy().bundle()
FOUR = ["json_dumps", "json_loads", "regex_findall", "sha256_hex"]


def test_limits_take_the_units_of_the_policy() -> None:
    stated = ["wall_ms=2s", "memory_bytes=64MiB", "output_bytes=1000", "recursion=7"]
    assert read_limits(BUNDLE, "monty", stated) == {
        "wall_ms": 2000,
        "memory_bytes": 64 * 2**20,
        "output_bytes": 1000,
        "recursion": 7,
    }
    assert read_limits(BUNDLE, "era", ["wall_ms=1h", "cpus=4"]) == {"wall_ms": 3_600_000, "cpus": 4}
    assert read_limits(BUNDLE, "monty", []) == {}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("wall_ms=30s", None, ""),
        ("wall_ms=30001", "TG-POL-001", "wall_ms of 30001ms is above the 30s of policy/"),
        ("recursion=1001", "TG-POL-001", "recursion of 1001 is above the 1000 of policy/"),
        ("cpus=2", "TG-POL-001", "cpus of 2 is above the 1 of policy/tool-exec.policy.md:"),
        ("disk_bytes=1", "TG-POL-001", "disk_bytes of 1 is above the 0 of"),
        ("wall_ms=0", "TG-USE-001", "the least is 1ms"),
        ("memory_bytes=1KiB", "TG-USE-001", "the least is 1MiB"),
        ("wall_ms=2 s", "TG-USE-001", "expected a number of milliseconds, or one with ms, s"),
        ("wall_ms=-1", "TG-USE-001", "expected a number"),
        ("wall_ms=\u0663", "TG-USE-001", "expected a number"),
        ("wall_ms=" + "9" * 400, "TG-USE-001", "expected a number"),
        ("wall=2s", "TG-USE-001", 'no limit is called "wall"'),
        ("source_bytes=1", "TG-USE-001", 'no limit is called "source_bytes"'),
        ("wall_ms", "TG-USE-001", "is not NAME=VALUE"),
        ("wall_ms=", "TG-USE-001", "is not NAME=VALUE"),
        ("=2s", "TG-USE-001", "is not NAME=VALUE"),
    ],
)
def test_limit(text: str, code: str | None, words: str) -> None:
    if code is None:
        assert read_limits(BUNDLE, "monty", [text])
        return
    with pytest.raises(ThreeGateError) as caught:
        read_limits(BUNDLE, "monty", [text])
    assert caught.value.code == code
    assert words in caught.value.message


def test_limit_given_twice_is_refused_even_if_equal() -> None:
    with pytest.raises(ThreeGateError, match="given twice"):
        read_limits(BUNDLE, "monty", ["wall_ms=1s", "wall_ms=1000"])


def test_all_functions_are_those_of_the_policy() -> None:
    assert read_functions(BUNDLE, "monty", ["all"]) == FOUR
    assert read_functions(BUNDLE, "monty", ["sha256_hex", "all", "sha256_hex"]) == FOUR
    assert read_functions(BUNDLE, "monty", []) == [], "none unless asked for"

    def fewer(sections: dict[str, Any]) -> None:
        del sections["tool-exec"]["functions"]["regex_findall"]

    bundle = altered(policy(), fewer).bundle()
    assert read_functions(bundle, "monty", ["all"]) == [n for n in FOUR if n != "regex_findall"]
    with pytest.raises(ThreeGateError) as caught:
        read_functions(bundle, "monty", ["regex_findall"])
    assert caught.value.code == "TG-POL-001"
    assert caught.value.hint == "policy offers json_dumps, json_loads, sha256_hex"


@pytest.mark.parametrize("name", ["open", "sha256", "SHA256_HEX", "", "all "])
def test_unknown_function_is_refused(name: str) -> None:
    with pytest.raises(ThreeGateError, match="no external function is called") as caught:
        read_functions(BUNDLE, "monty", ["json_loads", name])
    assert caught.value.code == "TG-USE-001"


def test_outputs_have_a_size_each() -> None:
    assert read_outputs(["b.csv=1MiB", "a=7"]) == [
        {"name": "a", "max_bytes": 7},
        {"name": "b.csv", "max_bytes": 2**20},
    ]
    for wrong, words in (
        (["a=1", "a=2"], "given twice"),
        (["a=much"], "expected a number of bytes"),
        (["a"], "NAME=VALUE"),
    ):
        with pytest.raises(ThreeGateError, match=words):
            read_outputs(wrong)


def test_a_gateway_is_asked_for_by_naming_hosts_within_what_policy_grants() -> None:
    assert read_network(BUNDLE, "era", [], None, None) == "none"
    hosts = ["b.example.org", "a.example.org", "b.example.org"]
    assert read_network(BUNDLE, "era", hosts, "1KiB", None) == {
        "hosts": ["a.example.org", "b.example.org"],
        "up_bytes": 1024,
        "down_bytes": 8 * 2**20,
    }
    for backend, named, up, words in (
        ("monty", hosts, None, "Monty has no network"),
        ("era", [], "1KiB", "go with --allow-host"),
        ("era", hosts, "a few", "--up-bytes"),
        ("era", hosts, "1MiB", "--up-bytes is above the 64KiB of policy/tool-exec.policy.md:"),
    ):
        with pytest.raises(ThreeGateError) as caught:
            read_network(BUNDLE, backend, named, up, None)
        assert words in caught.value.message
