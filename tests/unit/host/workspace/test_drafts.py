"""Drafts are completed with what is in force, and nothing else is touched."""

import pytest

from tests.support.samples import packet, tool_request
from threegate.artifacts import registry
from threegate.artifacts.draft import LANES
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.host.workspace.drafts import completer, lanes_of
from threegate.host.workspace.workspace import Workspace

DRAFT = (
    b'---\nformat: "tr/1"\n---\n\n## Purpose\n\nWhy.\n\n## Code\n\n    1 + 1\n\n## Risks\n\nNone.\n'
)


def test_the_shipped_policy_and_the_built_in_lanes_agree(ws: Workspace) -> None:
    assert lanes_of(ws.bundle) == LANES


def test_a_draft_gets_time_and_a_nonce_of_its_own(ws: Workspace) -> None:
    complete = completer(ws)
    first, second = (registry.parse(complete(Untrusted(DRAFT))) for _ in range(2))
    assert isinstance(first, ToolRequest)
    assert isinstance(second, ToolRequest)
    assert first.created == ws.now()
    assert first.nonce != second.nonce
    assert registry.content_digest(first) == registry.content_digest(second)


def test_stored_artifacts_and_rubbish_pass_as_they_are(ws: Workspace) -> None:
    complete = completer(ws)
    for data in (registry.emit(packet()), registry.emit(tool_request()), b"rubbish", b""):
        assert complete(Untrusted(data)).open_for_validation() == data


def test_a_bad_draft_is_refused_for_its_own_reason(ws: Workspace) -> None:
    with pytest.raises(ArtifactRejected) as caught:
        completer(ws)(Untrusted(DRAFT.replace(b'"tr/1"\n', b'"tr/1"\nnonce: "0"\n')))
    assert caught.value.code == "TG-ART-029"
