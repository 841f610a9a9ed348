"""What policy says, taken out of a bundle, and which CA files count."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support import samples
from tests.support.internet import self_signed
from tests.support.retrieving import (
    ASK,
    CROSSREF,
    URL,
    answer,
    authority,
    bundle,
    fetch_rules,
    retrieve,
    signed_bundle,
)
from tests.support.workspaces import soft_signer
from threegate.artifacts import registry
from threegate.base.errors import PolicyDenied
from threegate.base.greeting import GateRefused
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.retrieve.gate import open_with
from threegate.gates.fetch.retrieve.messages import (
    MAX_BODY_BYTES,
    Authority,
    Got,
    NotGot,
    RetrieveOpening,
)
from threegate.gates.fetch.retrieve.rules import anchors_of, rules_of
from threegate.gates.http_library.client import Failure, NotRetrieved
from threegate.gates.http_library.tunnel import GatewayProxy, Tunnels
from threegate.keys.sshsig import sha256_hex
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import Bundle

PEM = self_signed(["example.org"]).partition(b"-----BEGIN CERTIFICATE")[1:]
CA = b"".join(PEM)
ONLY_CA = fetch_rules(trust_anchors=[f"sha256:{sha256_hex(CA)}"])


def test_the_rule_for_a_host_is_the_one_that_covers_it() -> None:
    rules = rules_of(bundle())
    openalex = rules.for_host("api.openalex.org")
    assert openalex.credential == ("query", "api_key")
    assert openalex.content_types == frozenset({"application/json"})
    assert openalex.response_bytes == 16 * 2**20
    assert rules.for_host("api.crossref.org").credential is None
    with pytest.raises(NotRetrieved) as caught:
        rules.for_host("evil.example")
    assert caught.value.failure is Failure.HOST


def test_no_policy_allows_more_than_an_answer_holds() -> None:
    rules = rules_of(bundle(fetch=("response_bytes: 16MiB", "response_bytes: 4GiB")))
    assert rules.for_host("api.crossref.org").response_bytes == MAX_BODY_BYTES


def test_only_listed_ca_files_count_and_all_of_them_must_be_there() -> None:
    digest = sha256_hex(CA)
    assert anchors_of(bundle(), ()) == {"system": None}
    assert anchors_of(ONLY_CA, (CA,)) == {digest: CA}
    both = fetch_rules(trust_anchors=[f"sha256:{digest}", "system"])
    assert anchors_of(both, (CA,)) == {digest: CA, "system": None}
    with pytest.raises(PolicyDenied, match="does not list"):
        anchors_of(bundle(), (CA,))
    with pytest.raises(PolicyDenied, match="is not there"):
        anchors_of(ONLY_CA, ())


@pytest.mark.parametrize(
    ("rules", "anchors", "code"),
    [
        (b"{}", (), "TG-POL-"),
        (bundle().bundle_bytes(), (CA,), "TG-FET-026"),
        (ONLY_CA.bundle_bytes(), (), "TG-FET-027"),
        (
            fetch_rules(trust_anchors=[f"sha256:{sha256_hex(b'no certificate')}"]).bundle_bytes(),
            (b"no certificate",),
            "TG-FET-028",
        ),
    ],
)
def test_a_box_refuses_rules_it_cannot_work_under(
    rules: bytes, anchors: tuple[bytes, ...], code: str
) -> None:
    assert not isinstance(open_with(RetrieveOpening(ONLY_CA.bundle_bytes(), (CA,))), GateRefused), (
        "control"
    )
    refused = open_with(RetrieveOpening(rules, anchors))
    assert isinstance(refused, GateRefused)
    assert refused.code.startswith(code)


@pytest.mark.parametrize(
    ("word", "way"),
    [
        ("own", Tunnels),
        ("connect:/run/proxy.sock", Tunnels),
        ("gateway:/run/gateway.sock", GatewayProxy),
    ],
)
def test_the_way_out_is_the_one_of_policy(word: str, way: type) -> None:
    rules: Bundle = fetch_rules(proxy=word)
    assert rules_of(rules).gateway is (way is GatewayProxy)


# The box that asks looks itself whether somebody who may decide it wants this URL.

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
