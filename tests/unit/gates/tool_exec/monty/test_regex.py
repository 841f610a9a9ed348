"""`findall` against the standard library: equal, or refused."""

import random
import re

import pytest

from threegate.gates.tool_exec.monty.regex import MAX_TEXT_CHARS, PatternRefused, findall

ATOMS = (
    *("a", "b", "c", ".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "[ab]", "[^a]", "[a-c]"),
    *(r"[\d_]", r"[^\s]", r"\b", r"\B", "^", "$", r"\A", r"\Z", "é", "ß", "K", r"\n", " ", r"\."),
    *("(?i:a|K)", "(?-i:k)", "(?s:.)", "[^\\W_]", "[A-Zß]", "[\\s\\d]", "[^a-c\\n]", "(?P<n>a)"),
)
REPEATS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}")
FLAGS = ("", "", "", "(?i)", "(?m)", "(?s)", "(?a)", "(?x)", "(?im)", "(?ia)", "(?ms)")
LETTERS = "aabbccxéßKk\u212a \n.A1_"
COMPARISONS = 3_000


def _pattern(rng: random.Random, depth: int = 0) -> str:
    choice = rng.random()
    if depth > 3 or choice < 0.45:
        return rng.choice(ATOMS)
    if choice < 0.62:
        return _pattern(rng, depth + 1) + _pattern(rng, depth + 1)
    if choice < 0.72:
        return f"(?:{_pattern(rng, depth + 1)}|{_pattern(rng, depth + 1)})"
    if choice < 0.92:
        return f"(?:{_pattern(rng, depth + 1)}){rng.choice(REPEATS)}"
    return f"({_pattern(rng, depth + 1)})"


def compare(seeds: range) -> tuple[int, int]:
    """Return how many patterns were compared with the standard library, and how many refused."""
    compared = refused = 0
    for seed in seeds:
        rng = random.Random(seed)
        pattern = rng.choice(FLAGS) + _pattern(rng) + _pattern(rng)
        text = "".join(rng.choice(LETTERS) for _ in range(rng.randrange(14)))
        try:
            found = findall(pattern, text)
        except PatternRefused:
            refused += 1  # the standard engine may take minutes for these
            continue
        expected = re.findall(pattern, text)
        compared += 1
        assert found == expected, f"seed {seed}: {pattern!r} on {text!r}"
    return compared, refused


def test_every_accepted_pattern_gives_what_the_standard_library_gives() -> None:
    compared, refused = compare(range(COMPARISONS))
    assert compared > COMPARISONS // 3, f"only {compared} compared, {refused} refused"


@pytest.mark.slow
def test_many_more_patterns_give_what_the_standard_library_gives() -> None:
    compared, refused = compare(range(COMPARISONS, 100 * COMPARISONS))
    assert compared > 100_000, f"only {compared} compared, {refused} refused"


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "(a)(b)",
        "(?=a)b",
        "(?<!a)b",
        "(?>a)b",
        "a*+",
        "(a)?(?(1)b|c)",
        "(?:a*)*",
        "(",
        "[[a]",
        "(?L)a",
    ],
)
def test_what_cannot_be_followed_is_refused_not_approximated(pattern: str) -> None:
    with pytest.raises(PatternRefused):
        findall(pattern, "abab")


@pytest.mark.parametrize("pattern", ["(?:a+)+$", "(?:a|a)+$", "(?:[a-z]+)+[0-9]"])
def test_patterns_that_explode_elsewhere_end_here(pattern: str) -> None:
    # With the standard engine the first takes minutes at 40 characters.
    assert findall(pattern, "a" * 500 + "b") == []


def test_work_is_bounded() -> None:
    assert findall("a", "a" * 1000) == ["a"] * 1000  # control
    with pytest.raises(PatternRefused, match="too long"):
        findall("a", "a" * (MAX_TEXT_CHARS + 1))
    with pytest.raises(PatternRefused, match="too large"):
        findall("(?:(?:a{100}){100}){100}", "a")
    with pytest.raises(PatternRefused, match="too many steps"):
        # Each search runs to the end of the text and then matches one character.
        findall("a*b|a", "a" * 20_000)
