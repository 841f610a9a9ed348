"""What policy says about stored requests."""

import pytest

from tests.support.policies import policy
from tests.support.samples import box, escalated, fetch_request, packet, tool_request
from threegate.artifacts.registry import Artifact
from threegate.errors import UsageError
from threegate.host.judging import decisions, execution_of
from threegate.policy.decision import verdict

BUNDLE = policy().bundle()


def verdicts(artifact: Artifact) -> list[str | None]:
    answers = (decision for _, decision in decisions(BUNDLE, artifact))
    return [None if decision is None else verdict(decision) for decision in answers]


def test_each_reference_is_judged_and_names_wait_for_fetch() -> None:
    references = (
        "https://arxiv.org/abs/1",
        "https://example.org/",
        "http://arxiv.org/",
        "doi:10.5555/1",
    )
    request = fetch_request(references=tuple(map(box, references)))
    assert verdicts(request) == ["allow", "deny", "deny", None]
    external = fetch_request(references=(box("https://arxiv.org/abs/1"),), integrity="external")
    assert verdicts(external) == ["ask"]


def test_a_tool_request_is_asked_for_or_denied() -> None:
    assert verdicts(tool_request(profile="pure")) == ["ask"], "control"
    assert verdicts(tool_request(profile="other")) == ["deny"]
    assert verdicts(escalated("binary")) == ["deny"]


def test_what_asks_for_nothing_is_no_question() -> None:
    with pytest.raises(UsageError, match="only requests"):
        list(decisions(BUNDLE, packet()))


def test_every_limit_of_a_request_is_judged() -> None:
    request = tool_request()
    found = execution_of(request).limits
    assert set(found) == set(type(request.limits).__dataclass_fields__)
    assert found["wall_ms"] == request.limits.wall_ms
    assert execution_of(escalated("binary")).binaries == {"/usr/bin/git"}
