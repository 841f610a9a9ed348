"""What policy and this machine say about stored requests."""

import pytest

from tests.support.policies import policy
from tests.support.run_scenes import granted
from tests.support.samples import box, escalated, fetch_request, packet, tool_request
from threegate.artifacts.references import is_question_of, parse_reference
from threegate.artifacts.registry import Artifact
from threegate.base.errors import UsageError
from threegate.host.run import verdicts as module
from threegate.host.run.verdicts import decisions, plans
from threegate.policy.approvals import execution_of
from threegate.policy.decision import Allow, Deny, verdict
from threegate.policy.ring.compiler import ProfileRejected

BUNDLE = policy().bundle()
KERNEL_HELD, PLAIN = granted(network="kernel-allowlist"), granted()
KIND = "heavy-python"


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


# claim TG-C-305
def test_without_nftables_the_profile_is_rejected_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "missing", lambda: None)
    assert module.compile_here(KERNEL_HELD, KIND, "online").network == "kernel-allowlist", "control"
    assert isinstance(module.may_enforce_here(KERNEL_HELD, KIND, "online"), Allow), "control"
    monkeypatch.setattr(module, "missing", lambda: "only root may set nftables")
    rule = KERNEL_HELD.ref("tool-exec", "interpreter_ring", "online", "executor_network")
    with pytest.raises(ProfileRejected) as refusal:
        module.compile_here(KERNEL_HELD, KIND, "online")
    assert refusal.value.rule == rule
    decision = module.may_enforce_here(KERNEL_HELD, KIND, "online")
    assert isinstance(decision, Deny)
    assert decision.rule == rule
    assert "it needs nftables" in decision.reason


def test_the_kernel_is_asked_only_where_a_profile_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked() -> str:
        raise AssertionError("nobody needs to know")

    monkeypatch.setattr(module, "missing", asked)
    assert module.compile_here(PLAIN, KIND, "online").network == "gateway"
    assert module.compile_here(KERNEL_HELD, KIND, "python").network == "off"
    with pytest.raises(AssertionError, match="nobody needs to know"):
        module.compile_here(KERNEL_HELD, KIND, "online")


def test_a_profile_that_is_not_there_is_no_error_of_ours() -> None:
    decision = module.may_enforce_here(KERNEL_HELD, KIND, "nobody's")
    assert isinstance(decision, Deny)
    assert "is not offered" in decision.reason
    assert not module.says_kernel(KERNEL_HELD, "nobody's")
    assert module.says_kernel(KERNEL_HELD, "online"), "control"
