"""The limits of form that no linter counts hold, and the check that counts them can fail."""

from pathlib import Path

import pytest

from scripts import check_shape

ROOT = Path(__file__).resolve().parents[2]


def findings(source: str) -> list[str]:
    return [finding for _, finding in check_shape.check_module(source)]


def test_the_tree_keeps_its_shape() -> None:
    assert check_shape.check_tree(ROOT / "src") == []


def test_an_empty_tree_is_a_finding(tmp_path: Path) -> None:
    assert check_shape.check_tree(tmp_path) == [f"{tmp_path}:1: no modules, so nothing was checked"]


def test_a_module_of_401_lines_is_too_long() -> None:
    assert findings("x = 1\n" * 400) == []
    assert findings("x = 1\n" * 401) == ["401 lines, limit 400: is there a seam?"]


def test_a_function_of_41_lines_is_too_long() -> None:
    assert findings("def f():\n" + "    x = 1\n" * 39) == []
    assert findings("def f():\n" + "    x = 1\n" * 40) == ["f has 41 lines, limit 40"]
    assert findings("async def f():\n" + "    x = 1\n" * 40) == ["f has 41 lines, limit 40"]


def test_a_docstring_does_not_count() -> None:
    docstring = '    """One.\n\n    Two.\n    """\n'
    assert findings("def f():\n" + docstring + "    x = 1\n" * 39) == []
    assert findings("def f():\n" + docstring + "    x = 1\n" * 40) == ["f has 41 lines, limit 40"]


def test_a_nested_function_is_counted_too() -> None:
    inner = "    def g():\n" + "        x = 1\n" * 40
    assert "g has 41 lines, limit 40" in findings("class C:\n" + inner)


def test_a_module_that_opens_the_box_needs_a_security_paragraph() -> None:
    code = "value = box.open_for_validation()\n"
    wanted = ["opens foreign bytes, so its docstring needs a SECURITY paragraph"]
    assert findings(f'"""One."""\n{code}') == wanted
    assert findings(f'"""One.\n\nSECURITY\n    Whose bytes.\n"""\n{code}') == []


@pytest.mark.parametrize(
    "source",
    ["def sanitize_name(): ...", "class SafeText: ...", "def f(clean): ...", "trusted_data = 1"],
)
def test_a_name_may_not_promise(source: str) -> None:
    assert len(findings(source)) == 1
    assert findings(source)[0].endswith("promises what no check can")


@pytest.mark.parametrize("source", ["untrusted = 1", "class Untrusted: ...", "cleanup_seconds = 1"])
def test_other_words_are_free(source: str) -> None:
    assert findings(source) == []


def test_a_gate_without_its_statement_is_named(tmp_path: Path) -> None:
    gate = tmp_path / "core"
    gate.mkdir()
    headings = "".join(f"\n## {heading}\n" for heading in check_shape.GATE_HEADINGS)
    (gate / "README.md").write_text(f"# Gate\n{headings}", "utf-8")
    (gate / "ruff.toml").touch()
    assert list(check_shape.check_gate(gate)) == [], "control: a full statement passes"
    (gate / "README.md").write_text(f"# Gate\n{headings}".replace("Must never", "May"), "utf-8")
    (gate / "ruff.toml").unlink()
    assert list(check_shape.check_gate(gate)) == [
        f"{gate / 'README.md'}:1: no heading Must never",
        f"{gate}:1: no ruff.toml with the calls this gate may not make",
    ]


HOMES = [
    ("import tempfile\nplace = tempfile.mkdtemp()\n", "tempfile.mkdtemp(dir=root)", "host/a.py"),
    ("with TemporaryDirectory(prefix='x') as name: ...\n", "TemporaryFile()", "host/a.py"),
    ("base = tempfile.gettempdir()\n", "base = root\n", "host/a.py"),
    ("sock.bind(path)\n", "sock.bind((ADDRESS, port))\n", "host/a.py"),
    ("found = shutil.which('git')\n", "found = find_program('git')\n", "host/a.py"),
    ("db = sqlite3.connect(path)\n", "db = open_plain(path, SCHEMA)\n", "host/a.py"),
    ("x = [sys.executable, '-m', 'pip']\n", "x = [sys.executable, '-I', '-m']\n", "host/a.py"),
]


@pytest.mark.parametrize(("refused", "accepted", "name"), HOMES)
# claim TG-C-413
def test_one_module_makes_sockets_and_one_finds_programs(
    refused: str, accepted: str, name: str
) -> None:
    assert len(list(check_shape.check_homes(name, refused))) == 1
    assert list(check_shape.check_homes(name, accepted)) == [], "control"


@pytest.mark.parametrize(
    ("line", "findings"),
    [
        ("from threegate.gates.core.prompts import used", 1),
        ("from threegate.gates.core import budget", 1),
        ("from threegate.gates.model.chat.messages import Served", 0),
        ("from threegate.gates.tool_exec.era import guest_messages", 0),
        ("from threegate.base import wire", 0),
    ],
)
def test_messages_bring_no_code_of_a_gate_into_the_host(line: str, findings: int) -> None:
    assert len(list(check_shape.check_homes("gates/core/messages.py", line))) == findings
    assert list(check_shape.check_homes("gates/core/gate.py", line)) == [], "control: a gate may"


def test_the_modules_that_may_are_there() -> None:
    homes = (check_shape.SOCKETS, check_shape.PROGRAMS, check_shape.DATABASES)
    for name in (*(one for home in homes for one in home), *check_shape.INTERPRETER):
        assert (ROOT / "src/threegate" / name).exists(), name
