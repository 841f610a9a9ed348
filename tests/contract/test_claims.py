"""docs/claims.md: every promise has an id, every id a test that exists and names it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "claims.md"
ID = re.compile(r"TG-C-[0-9]{2,3}")
ROW = re.compile(r"^\| (TG-C-[0-9]{2,3}) \| (.+) \|$", re.MULTILINE)
NODE = re.compile(r"`(tests/[^`]+\.py::[^`]+)`")
PENDING = re.compile(r"\[test pending: [a-z ]+\]")
COMMENT = re.compile(r"^# claim (?P<ids>.+)\ndef (?P<name>test_\w+)\(", re.MULTILINE)
INVARIANTS = (
    "Nothing both reasons and acts",
    "Nothing both browses and executes",
    "External content is hostile",
    "Execution is optional and sandboxed",
    "Network is scarce",
    "Results never feed FETCH or start another execution",
    "Widening a capability is a security change",
)


@dataclass(frozen=True)
class Claim:
    """One row."""

    id: str
    text: str
    section: str
    tests: tuple[str, ...]


def claims(document: str) -> list[Claim]:
    return [
        Claim(row[1], row[2], part.partition("\n")[0], tuple(NODE.findall(row[2])))
        for part in document.split("\n## ")[1:]
        for row in ROW.finditer(part)
    ]


def marks(source: str) -> dict[str, set[str]]:
    """Return which claims each test function names, in the comment right above it."""
    return {match["name"]: set(ID.findall(match["ids"])) for match in COMMENT.finditer(source)}


@cache
def collected() -> frozenset[str]:
    """Return every node pytest collects, with and without parameters."""
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "",
        "-p",
        "no:cacheprovider",
    ]
    files = sorted({test.partition("::")[0] for claim in CLAIMS for test in claim.tests})
    run = subprocess.run(
        [*argv, *files], cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert run.returncode == 0, run.stdout[-2000:]
    nodes = {line for line in run.stdout.splitlines() if "::" in line}
    return frozenset(nodes | {node.partition("[")[0] for node in nodes})


def problems(document: str, nodes: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with a document, given the nodes there are."""
    rows = claims(document)
    ids = [claim.id for claim in rows]
    yield from (f"{name} stands twice" for name in sorted({i for i in ids if ids.count(i) > 1}))
    for claim in rows:
        pending = PENDING.search(claim.text) is not None
        if pending != (claim.section == "Not yet claimed"):
            yield f"{claim.id} is in the wrong section"
        if pending == bool(claim.tests):
            yield f"{claim.id} has a test and is pending, or neither"
        yield from (f"{claim.id}: no test {test}" for test in claim.tests if test not in nodes)
    for name in sorted(set(ID.findall(document)) - set(ids)):
        yield f"{name} has no row"


TEXT = DOCUMENT.read_text("utf-8")
CLAIMS = claims(TEXT)


def test_every_claim_has_one_id_and_tests_that_exist() -> None:
    assert len(CLAIMS) >= 40
    assert list(problems(TEXT, collected())) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("test_unwritable_log_stops_everything", "test_never_written", "no test"),
        ("| TG-C-02 |", "| TG-C-01 |", "stands twice"),
        ("[test pending: hardware acceleration]", "soon", "wrong section"),
        ("[test pending: hardware acceleration]", "`tests/x.py::test_y`", "wrong section"),
        ("A weakness report", "TG-C-999 and a weakness report", "has no row"),
    ],
)
def test_a_wrong_document_is_found(old: str, new: str, problem: str) -> None:
    assert old in TEXT
    found = list(problems(TEXT.replace(old, new, 1), collected()))
    assert any(problem in line for line in found), found


@pytest.mark.parametrize("words", INVARIANTS)
def test_every_invariant_is_claimed(words: str) -> None:
    assert [c.id for c in CLAIMS if c.section == "Invariants" and f"**{words}.**" in c.text]


def test_tests_and_document_name_each_other() -> None:
    wanted: dict[tuple[str, str], set[str]] = {}
    for claim in CLAIMS:
        for test in claim.tests:
            file, _, name = test.partition("::")
            wanted.setdefault((file, name.partition("[")[0]), set()).add(claim.id)
    named = {
        (str(path.relative_to(ROOT)), name): ids
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name, ids in marks(path.read_text("utf-8")).items()
    }
    assert named == wanted


def test_a_comment_that_is_not_above_its_test_is_not_taken_for_one() -> None:
    assert marks("# claim TG-C-01, TG-C-02\ndef test_x() -> None:\n") == {
        "test_x": {"TG-C-01", "TG-C-02"}
    }
    assert marks("# claim TG-C-01\n\ndef test_x() -> None:\n") == {}


def test_no_other_page_names_a_claim_that_is_not_there() -> None:
    ids = {claim.id for claim in CLAIMS}
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]
    for page in pages:
        assert set(ID.findall(page.read_text("utf-8"))) <= ids, page
