"""What policy says, taken out of a bundle, and which CA files count."""

import pytest

from tests.support.internet_certificates import self_signed
from tests.support.retrieving import bundle, fetch_rules
from threegate.base.errors import PolicyDenied
from threegate.base.limits import MAX_BODY_BYTES
from threegate.gates.fetch.retrieve.gate import open_with
from threegate.gates.fetch.retrieve.messages import Opening, Refused
from threegate.gates.fetch.retrieve.rules import anchors_of, rules_of
from threegate.gates.http_library.client import Failure, NotRetrieved
from threegate.gates.http_library.tunnel import GatewayProxy, Tunnels
from threegate.keys.sshsig import sha256_hex
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
    assert not isinstance(open_with(Opening(ONLY_CA.bundle_bytes(), (CA,))), Refused), "control"
    refused = open_with(Opening(rules, anchors))
    assert isinstance(refused, Refused)
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
