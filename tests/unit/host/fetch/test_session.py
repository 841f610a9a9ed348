"""One command's wishes: what was wanted and cannot be asked for is told."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.fetching import ARTICLE, RETRACTED
from tests.support.workspaces import Clock, make_workspace
from threegate.artifacts.references import parse_reference
from threegate.host.fetch.plan import Wish, wish_for
from threegate.host.fetch.session import Note, Work, begun, rehearsed
from threegate.host.workspace.workspace import Workspace

Begin = Callable[[Workspace, Sequence[Wish], Sequence[str], Note], Work]
PREPRINT, PAGE = "arxiv:2610.99901", "https://notes.western-basin.example/field-notes"


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path, clock=Clock())


@pytest.mark.parametrize("begin", [begun, rehearsed])
@pytest.mark.parametrize(
    ("want", "references", "told"),
    [
        ("full-text", (PREPRINT, PAGE), None),
        ("metadata", (ARTICLE,), None),
        ("full-text", (ARTICLE, PREPRINT), ARTICLE),
        ("full-text", (ARTICLE, RETRACTED), "2 references"),
    ],
)
def test_a_document_that_no_source_gives_is_told(
    ws: Workspace, begin: Begin, want: str, references: tuple[str, ...], told: str | None
) -> None:
    wishes = [
        wish_for(parse_reference(text), ws.bundle, want=want, enrich=(), confidentiality="public")
        for text in references
    ]
    notes: list[str] = []
    work = begin(ws, wishes, (), notes.append)
    assert work.wishes == tuple(wishes), "control: the rest is asked all the same"
    words = "no source gives the document; links to it stand in the packet"
    assert notes == ([] if told is None else [f"{told}: {words}"])
