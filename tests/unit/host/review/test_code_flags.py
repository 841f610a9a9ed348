"""Risk flags of a program: each with a reason and a line, and none for plain code."""

import pytest

from threegate.host.review.code_flags import code_flags, imitates, imports_of, lex
from threegate.host.review.parts import Flag

PLAIN = "import math\n\ndef mean(rows):\n    return math.fsum(rows) / len(rows)\n\nmean(rows)\n"


def flags(
    code: str, *, lite: bool = True, network: bool = False, **given: tuple[str, ...]
) -> dict[str, Flag]:
    found = code_flags(
        code.split("\n"),
        lex(code),
        functions=given.get("functions", ()),
        inputs=given.get("inputs", ()),
        importable=frozenset({"math", "json"}),
        lite=lite,
        network=network,
    )
    return {flag.name: flag for flag in found}


@pytest.mark.parametrize(
    ("code", "name", "line"),
    [
        ("x = 1\nwhile x:\n    x = 0\n", "loop", 2),
        ("x = 1\n" + "y = 2  # " + "a" * 200, "long-line", 2),
        ("x = 1" + " " * 30 + "; y = 2", "far-right", 1),
        ("x = 1" + "\n" * 20 + "y = 2", "below", 21),
        ("\n".join(f"x{n} = {n}" for n in range(301)), "long", None),
        ("x = 'aGVsbG8gd29ybGQsIHRoaXMgaXMgYSBzZWNyZXQ0Mg'", "encoded", 1),
        ("x = '" + "\\x41" * 8 + "'", "encoded", 1),
        ("x = '" + "9f86d081884c7d65" * 3 + "'", "encoded", 1),
        ("x = " + "1" * 41, "encoded", 1),
        ("api_key = 'x'", "credential", 1),
        ("x = 'my password'", "credential", 1),
        ("x = 'AKIAABCDEFGHIJKLMNOP'", "credential", 1),
        ("x = 'https://example.org/x'", "url", 1),
        ("# www.example.org", "url", 1),
        ("import json\nimport os\n", "import", 1),
        ("import json\nimport os\n", "import-denied", 2),
        ("if x: from os import path", "import-denied", 1),
        ("getattr(x, 'y')", "reflection", 1),
        ("x.__class__", "reflection", 1),
        ("# threegate: approved", "imitation", 1),
        ("x = 1\n   12 | y = 2", "imitation", 2),
        ("sha256_hex('x')", "undeclared-function", 1),
        ("x = (", "unreadable", None),
    ],
)
def test_each_has_a_reason_and_a_line(code: str, name: str, line: int | None) -> None:
    found = flags(code)
    assert name in found, sorted(found)
    assert found[name].line == line
    assert found[name].reason
    assert set(flags(PLAIN)) == {"import"}, "control: plain code has no other flag"


def test_what_is_asked_for_and_not_used() -> None:
    found = flags("json_loads('1')", functions=("json_loads", "sha256_hex"), inputs=("rows",))
    assert found["unused-function"].reason == "asks for sha256_hex and does not call it"
    assert found["unused-input"].reason == "is given rows and does not read it"
    assert set(flags("json_loads(rows)", functions=("json_loads",), inputs=("rows",))) == set()


@pytest.mark.parametrize("code", ["print(f'{rows}')", "x = f\"{len('1')} {rows!r:>10}\""])
# claim TG-C-445
def test_a_name_that_an_f_string_uses_is_not_called_unused(code: str) -> None:
    assert "unused-input" not in flags(code, inputs=("rows",))
    assert "unused-input" in flags(f"{code}\n# other", inputs=("other",)), "control: a comment"


# claim TG-C-445
def test_of_a_program_that_reads_files_no_input_is_called_unused() -> None:
    code = "import math\nprint(open('/in/table').read())\njson_loads = len\n"
    for inputs in (("table",), ("other",)):  # a path may be put together in many ways
        found = flags(code, lite=False, inputs=inputs)
        assert {"unused-input", "undeclared-function"} & set(found) == set()
    assert "unused-input" in flags(code, inputs=("other",)), "control: where inputs are names"


# claim TG-C-445
def test_a_function_of_the_program_itself_is_not_called_undeclared() -> None:
    bound = ("def sha256_hex(x):\n    return x\n", "sha256_hex = len\n", "import a as sha256_hex\n")
    for own in bound:
        assert "undeclared-function" not in flags(f"{own}sha256_hex('x')\n"), own
    assert "undeclared-function" not in flags("x.sha256_hex('x')")
    assert "undeclared-function" in flags("x = sha256_hex('x')\n"), "control"


def test_a_url_is_useless_only_without_a_network() -> None:
    assert flags("x = 'https://a.example'")["url"].reason.endswith("the code has no network")
    assert flags("x = 'https://a.example'", network=True)["url"].reason == "a URL"


def test_several_places_are_one_flag() -> None:
    assert flags("while 1:\n    pass\nwhile 2:\n    pass\n")["loop"].reason.endswith("2 such loops")


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import a.b as c, d", {"a": 1, "d": 1}),
        ("from a.b import c, d", {"a": 1}),
        ("x = 1; import a", {"a": 1}),
        ("raise x from y", {}),
        ("def f():\n    yield from rows\n", {}),
        ("s = 'import a'  # import b", {}),
        ("try:\n    import a\nexcept ImportError:\n    import b\n", {"a": 2, "b": 4}),
    ],
)
def test_which_modules_are_imported(code: str, modules: dict[str, int]) -> None:
    assert imports_of(lex(code).tokens) == modules


def test_a_line_that_looks_like_one_of_ours() -> None:
    assert imitates("fine\nThreeGate: approve [y/N]")
    assert imitates("    | purpose")
    assert not imitates("The threegate: it is a word here")
