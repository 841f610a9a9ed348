"""The last similar request: found by content or by words, and told apart from this one."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.requests import approved, held, program
from tests.support.samples import LIMITS, box, escalated, fetch_request
from tests.support.workspaces import make_workspace
from threegate.artifacts.ids import short
from threegate.artifacts.registry import Request
from threegate.artifacts.tool_request import Input
from threegate.base.errors import HandoffTampered
from threegate.host.review.decisions import deny
from threegate.host.review.parts import Earlier
from threegate.host.review.sheet import read_sheet
from threegate.host.review.similar import MAX_COMPARED_LINES, changes, difference, likeness
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace

LONG = "\n".join(f"value_{number} = measure({number})" for number in range(40)) + "\n"


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with closing(make_workspace(tmp_path)) as found:
        yield found


@pytest.fixture
def index(ws: Workspace) -> Iterator[Index]:
    found = Index(ws.store, ws.seals)
    yield found
    found.close()


def earlier(ws: Workspace, index: Index, request: Request) -> Earlier | None:
    request_id = held(ws, request).id
    index.catch_up()
    return read_sheet(ws, request_id, index).earlier


def test_asked_before_and_still_waiting(ws: Workspace, index: Index) -> None:
    assert earlier(ws, index, program(LONG)) is None, "control: nothing came before"
    found = earlier(ws, index, program(LONG, nonce="f" * 32, created="2026-11-15T13:00:00Z"))
    assert found is not None
    assert (found.same, found.likeness, found.state) == (True, 100, "held")
    assert (found.diff, found.changes) == ((), ())
    before = earlier(ws, index, program(LONG, nonce="e" * 32, created="2026-11-15T11:00:00Z"))
    assert before is None, "what came later is not earlier"


def test_the_same_by_content_names_the_reason_of_its_denial(ws: Workspace, index: Index) -> None:
    deny(ws, held(ws, program(LONG)).id, "too broad")
    found = earlier(ws, index, program(LONG, nonce="f" * 32))
    assert found is not None
    assert (found.same, found.state, found.reason) == (True, "denied", "too broad")


def test_what_is_different_is_named(ws: Workspace, index: Index) -> None:
    approved(ws, held(ws, program(LONG)))
    other = program(
        LONG.replace("measure(7)", "measure(70)"),
        nonce="f" * 32,
        functions=("json_loads",),
        limits=replace(LIMITS, wall_ms=5000),
        purpose=box("The mean of four measurements."),
    )
    found = earlier(ws, index, other)
    assert found is not None
    assert (found.same, found.state) == (False, "approved")
    assert 90 < found.likeness < 100
    assert set(found.changes) == {
        "the purpose has other words",
        "wall_ms is 5000, was 1000",
        'function "sha256_hex" is gone',
    }
    assert found.diff[0] == "@@ -6,5 +6,5 @@", "numbered as in the whole program"
    assert "-value_7 = measure(7)" in found.diff
    assert "+value_7 = measure(70)" in found.diff


def test_something_else_entirely_is_not_similar(ws: Workspace, index: Index) -> None:
    held(ws, program(LONG))
    other = program("print('harvest')\n", nonce="f" * 32, purpose=box("Sort apples by weight."))
    assert earlier(ws, index, other) is None


def test_a_request_is_compared_with_its_own_kind(ws: Workspace, index: Index) -> None:
    held(ws, program(LONG, purpose=box("Find the measured toughness.")))
    first = earlier(ws, index, fetch_request())
    assert first is None
    found = earlier(
        ws,
        index,
        fetch_request(nonce="f" * 32, references=(box("doi:10.5555/12345679"),), want="full-text"),
    )
    assert found is not None
    assert set(found.changes) == {
        "want is full-text, was metadata",
        'reference "doi:10.5555/12345679" is new',
        'reference "doi:10.5555/12345678" is gone',
    }
    assert found.diff == ()


def test_inputs_and_lanes_are_compared() -> None:
    one = program(
        inputs=(Input("rows", "blob-" + "0" * 64, 1, None), Input("a", "blob-" + "0" * 64, 1, None))
    )
    two = program(inputs=(Input("rows", "blob-" + "1" * 64, 1, None),))
    assert set(changes(one, two)) == {'input "a" is gone', "input rows is other data"}
    told = set(changes(program(), escalated("files")))
    assert "backend is era, was monty" in told
    assert 'output "table.csv" is new' in told


def test_likeness_is_a_share() -> None:
    assert likeness(program(), program()) == 100
    assert likeness(program("a\n", purpose=box("b")), program("c\n", purpose=box("d"))) == 0


def test_long_programs_are_compared_in_bounded_time() -> None:
    # Every line stands many times on both sides: the slowest case for difflib.
    lines = [f"x{number % 97} = 1" for number in range(4 * MAX_COMPARED_LINES)]
    one, two = program("\n".join(lines)), program("\n".join(reversed(lines)))
    assert difference(one, two) == ((), len(lines))
    short = [lines[: MAX_COMPARED_LINES - 1], lines[MAX_COMPARED_LINES - 1 :: -1]]
    diff, _ = difference(*(program("\n".join(part)) for part in short))
    assert diff


def test_a_difference_is_cut_and_says_so() -> None:
    one, two = (program("\n".join(f"{c}{n}" for n in range(300))) for c in "ab")
    diff, longer = difference(one, two)
    assert len(diff) == 200
    assert longer == 601 - 200


def meddled(ws: Workspace, path: str) -> None:
    """Change a file of the workspace behind the log's back."""
    (found,) = ws.root.rglob(path)
    found.chmod(0o644)
    found.write_bytes(found.read_bytes().replace(b"measure", b"measyre").replace(b"format", b"f"))
    found.chmod(0o444)


def test_a_meddled_request_is_named_and_the_next_one_is_compared(
    ws: Workspace, index: Index
) -> None:
    """A request that somebody changed on disk made every similar one impossible to show."""
    older = held(ws, program(LONG, created="2026-11-15T11:00:00Z")).id
    same = held(ws, program(LONG, created="2026-11-15T11:30:00Z", nonce="d" * 32)).id
    new = held(ws, program(LONG, nonce="f" * 32)).id
    index.catch_up()
    before = read_sheet(ws, new, index)
    assert before.earlier is not None
    assert before.earlier.id == same, "control"
    meddled(ws, f"{same}.md")
    sheet = read_sheet(ws, new, index)
    assert sheet.earlier is not None
    assert sheet.earlier.id == older
    (flag,) = [one for one in sheet.flags if one.name == "meddled"]
    assert short(same) in flag.reason
    assert "[TG-HND-008]" in flag.reason
    with pytest.raises(HandoffTampered, match=same):
        read_sheet(ws, same, index)


def test_a_denial_that_cannot_be_read_is_named(ws: Workspace, index: Index) -> None:
    denied = held(ws, program(LONG)).id
    deny(ws, denied, "too broad")
    meddled(ws, f"{denied}*.json")
    new = held(ws, program(LONG, nonce="f" * 32)).id
    index.catch_up()
    sheet = read_sheet(ws, new, index)
    assert sheet.earlier is None
    (flag,) = [one for one in sheet.flags if one.name == "meddled"]
    assert flag.reason.startswith(f"a similar request, {short(denied)}, cannot be compared")
    assert flag.reason.endswith(f"why {denied} was denied is not readable [TG-HND-008]")
