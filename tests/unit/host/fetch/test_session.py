"""One command's targets: what was wanted and cannot be asked for is told."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.fetches import ARTICLE, RETRACTED
from tests.support.workspaces import Clock, make_workspace
from threegate.artifacts.references import parse_reference
from threegate.host.fetch.session import FetchWork, Note, claim_work, dry_run_work
from threegate.host.fetch.targets import FetchTarget, target_for
from threegate.host.workspace.workspace import Workspace

Begin = Callable[[Workspace, Sequence[FetchTarget], Sequence[str], Note], FetchWork]
PREPRINT, PAGE = "arxiv:2610.99901", "https://notes.western-basin.example/field-notes"


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path, clock=Clock())


@pytest.mark.parametrize("begin", [claim_work, dry_run_work])
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
    targets = [
        target_for(parse_reference(text), ws.bundle, want=want, enrich=(), confidentiality="public")
        for text in references
    ]
    notes: list[str] = []
    work = begin(ws, targets, (), notes.append)
    assert work.targets == tuple(targets), "control: the rest is asked all the same"
    words = "an open copy is asked for if policy lists its host"
    assert notes == ([] if told is None else [f"{told}: {words}"])
