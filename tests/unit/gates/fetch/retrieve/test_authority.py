"""The box that asks looks itself whether somebody who may decide it wants this URL."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support import samples
from tests.support.retrieving import ASK, CROSSREF, URL, answer, authority, retrieve, signed_bundle
from tests.support.workspaces import soft_signer
from threegate.artifacts import registry
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.retrieve.messages import Authority, Got, NotGot
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import Bundle

DATACITE = "https://api.datacite.org/dois/10.5555/12345678"


@pytest.fixture(scope="module")
def rules() -> Bundle:
    """Policy under which even the operator's own questions need an approval."""
    return signed_bundle(fetch=("operator_requests: allow", "operator_requests: ask"))


def asked(rules: Bundle, by: Authority | None, url: str = URL) -> tuple[Got | NotGot, list[str]]:
    found, servers = retrieve(
        {CROSSREF: [answer()], "api.datacite.org": [answer()]},
        replace(ASK, url=url, authority=by),
        rules,
    )
    return found, servers.opened


def code(found: Got | NotGot) -> str:
    assert isinstance(found, NotGot), found
    assert found.reason == "denied"
    return found.code


# claim TG-C-115
def test_what_nobody_approved_is_not_asked(rules: Bundle) -> None:
    request = samples.fetch_request()
    found, opened = asked(rules, authority(rules, request))
    assert isinstance(found, Got), "control: approved, it is asked"
    assert opened == [CROSSREF]
    found, opened = asked(rules, None)
    assert code(found) == "TG-FET-003"
    assert opened == []


def test_the_operators_own_question_needs_none_where_policy_says_so() -> None:
    found, _ = asked(signed_bundle(), None)
    assert isinstance(found, Got)
    denied = signed_bundle(fetch=("operator_requests: allow", "operator_requests: deny"))
    assert code(asked(denied, None)[0]) == "TG-FET-003"
    request = samples.fetch_request()
    assert code(asked(denied, authority(denied, request))[0]) == "TG-FET-003"


@pytest.mark.parametrize("url", [URL, DATACITE])
def test_every_question_of_the_approved_reference_may_be_asked(rules: Bundle, url: str) -> None:
    found, _ = asked(rules, authority(rules, samples.fetch_request()), url)
    assert isinstance(found, Got)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.crossref.org/works/10.5555%2F87654321",
        "https://api.crossref.org/works/10.5555%2F12345678?x=exfiltrated",
        "https://api.crossref.org/works",
        "https://arxiv.org/pdf/1234.56789",
    ],
)
# claim TG-C-115, TG-C-129
def test_an_approval_covers_its_own_questions_only(rules: Bundle, url: str) -> None:
    approval = authority(rules, samples.fetch_request())
    assert isinstance(asked(rules, approval)[0], Got), "control: its own question is asked"
    found, opened = asked(rules, approval, url)
    assert code(found) == "TG-FET-029"
    assert opened == []


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"request": "fr-" + "0" * 64}, "TG-APR-002"),
        ({"not_before": "2020-01-01T00:00:00Z", "not_after": "2020-01-02T00:00:00Z"}, "TG-APR-007"),
        ({"approver": "somebody"}, "TG-APR-006"),
        ({"rule_of_two": "accepted"}, "TG-APR-009"),
    ],
)
# claim TG-C-115
def test_an_approval_that_does_not_cover_the_request_is_none(
    rules: Bundle, changes: dict[str, Any], wanted: str
) -> None:
    good = authority(rules, samples.fetch_request())
    assert isinstance(asked(rules, good)[0], Got), "control: unchanged, it is one"
    found, opened = asked(rules, authority(rules, samples.fetch_request(), **changes))
    assert code(found) == wanted
    assert opened == []


# claim TG-C-115
def test_an_approval_under_other_rules_is_none(rules: Bundle) -> None:
    other = signed_bundle(fetch=("redirects: 5", "redirects: 4"))
    given = authority(other, samples.fetch_request())
    assert isinstance(asked(other, given)[0], Got), "control: under its own rules it is one"
    found, opened = asked(rules, given)
    assert code(found) == "TG-APR-005"
    assert opened == []


# claim TG-C-115
def test_another_signature_is_none(rules: Bundle) -> None:
    good = authority(rules, samples.fetch_request())
    assert isinstance(asked(rules, good)[0], Got), "control: the approver's is one"
    found, _ = asked(rules, replace(good, signature=b""))
    assert code(found).startswith("TG-KEY-")
    forged = soft_signer("mallory").sign(good.approval, NAMESPACE)
    found, _ = asked(rules, replace(good, signature=forged))
    assert code(found).startswith("TG-KEY-")


def test_an_approved_program_is_no_approved_question(rules: Bundle) -> None:
    request = samples.tool_request()
    found, _ = asked(rules, Authority(registry.emit(request), b"x", b"y"))
    assert code(found).startswith("TG-APR-")


def test_external_text_confidential_data_and_a_network_are_not_joined() -> None:
    """The Rule of Two, looked at once more where it counts."""
    request = samples.fetch_request(
        origin="core",
        integrity="external",
        confidentiality="confidential",
        derived_from=("rp-" + "1" * 64,),
    )
    accepted = {"rule_of_two": "accepted"}
    allowing = signed_bundle(tool_exec=("rule_of_two: refuse", "rule_of_two: allow-if-approved"))
    found, _ = asked(allowing, authority(allowing, request, **accepted))
    assert isinstance(found, Got), "control: where policy and approver both say so"
    assert code(asked(allowing, authority(allowing, request))[0]) == "TG-APR-009"
    refusing = signed_bundle()
    assert code(asked(refusing, authority(refusing, request, **accepted))[0]) == "TG-APR-009"


def test_a_reference_that_cannot_be_read_leads_nowhere(rules: Bundle) -> None:
    request = samples.fetch_request(references=(Untrusted("what is this"),))
    found, _ = asked(rules, authority(rules, request))
    assert code(found) == "TG-FET-029"
