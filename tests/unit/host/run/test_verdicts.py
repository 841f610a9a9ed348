"""What policy says about stored requests."""

import pytest

from tests.support.policies import policy
from tests.support.samples import box, escalated, fetch_request, packet, tool_request
from threegate.artifacts.references import is_question_of, parse_reference
from threegate.artifacts.registry import Artifact
from threegate.base.errors import UsageError
from threegate.host.run.verdicts import decisions, plans
from threegate.policy.approvals import execution_of
from threegate.policy.decision import verdict

BUNDLE = policy().bundle()


def verdicts(artifact: Artifact) -> list[str]:
    return [verdict(answer.decision) for answer in decisions(BUNDLE, artifact) if answer.needed]


def test_each_reference_is_judged_by_the_url_it_cannot_do_without() -> None:
    references = (
        "https://arxiv.org/list/cs/new",
        "https://example.org/",
        "http://arxiv.org/",
        "https://arxiv.org/abs/no-such-id",
        "doi:10.5555/1",
    )
    request = fetch_request(references=tuple(map(box, references)))
    assert verdicts(request) == ["allow", "deny", "deny", "deny", "allow"]
    external = fetch_request(references=(box("arxiv:1706.03762"),), integrity="external")
    assert verdicts(external) == ["ask"]


def test_what_a_source_adds_is_judged_too() -> None:
    bundle = policy(fetch=("  api.openalex.org:\n", "  api.other.org:\n")).bundle()
    request = fetch_request(references=(box("doi:10.5555/1"),))
    found = {
        answer.question.rpartition(" ")[2]: (verdict(answer.decision), answer.needed)
        for answer in decisions(bundle, request)
    }
    assert found == {
        "crossref": ("allow", True),
        "datacite": ("allow", False),
        "openalex": ("deny", False),
        "europepmc": ("allow", False),
    }


@pytest.mark.parametrize("want", ["metadata", "full-text"])
@pytest.mark.parametrize("contact", ["none", "first.last+x@library.org"])
# claim TG-C-129
def test_what_is_judged_is_what_the_box_will_let_pass(want: str, contact: str) -> None:
    bundle = policy(fetch=("contact: none", f"contact: {contact}")).bundle()
    texts = ("doi:10.5555/1", "https://arxiv.org/pdf/1706.03762", "pmcid:PMC7029158")
    request = fetch_request(references=tuple(map(box, texts)), want=want)
    address = None if contact == "none" else contact
    parsed = [parse_reference(text) for text in texts]
    urls = [question.url for plan in plans(bundle, request) for question, _ in plan.asks]
    assert len(urls) > len(texts)
    for url in urls:
        assert is_question_of(url, parsed, want=want, contact=address)
    assert any(contact.partition("+")[0] in url for url in urls) == (address is not None)


def test_a_tool_request_is_asked_for_or_denied() -> None:
    assert verdicts(tool_request(profile="pure")) == ["ask", "allow"], "control"
    assert verdicts(tool_request(profile="other")) == ["deny", "deny"]
    assert verdicts(escalated("binary")) == ["deny", "deny", "deny"], "the command as well"


def test_what_asks_for_nothing_is_no_question() -> None:
    with pytest.raises(UsageError, match="only requests"):
        list(decisions(BUNDLE, packet()))


def test_every_limit_of_a_request_is_judged() -> None:
    request = tool_request()
    found = execution_of(request).limits
    assert set(found) == set(type(request.limits).__dataclass_fields__)
    assert found["wall_ms"] == request.limits.wall_ms
    assert execution_of(escalated("binary")).binaries == {"/usr/bin/git"}
