"""What policy says about a question, and whether the question may be asked at all.

A retrieve process has one purpose and knows the hosts of that purpose only.  A question needs
the operator's authority or a signed approval.

SECURITY
    Reads what the host presents, which may be mistaken.  This process sends the request, so it
    makes the final check.  If this module is wrong, a URL is fetched that nobody approved, at a
    host that policy lists.
"""

from dataclasses import dataclass
from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.references import is_question_of, parse_reference
from threegate.base.errors import PolicyDenied
from threegate.base.forms import SYSTEM_ANCHOR
from threegate.gates.fetch.retrieve.messages import (
    MAX_BODY_BYTES,
    MAX_PART_SECONDS,
    Authority,
    FetchQuestion,
)
from threegate.gates.http_library.client import Failure, NotRetrieved
from threegate.keys.sshsig import sha256_hex
from threegate.policy.approvals import OTHER_LANE, RULE_OF_TWO, Approved, Presented, check_approval
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_connect, may_fetch
from threegate.policy.decision import Allow, Deny
from threegate.policy.hosts import matches
from threegate.policy.purposes import PACKETS, download_list
from threegate.policy.sections.fetch import OWN_PROXY

UNLISTED_ANCHOR: Final = "TG-FET-026"
MISSING_ANCHOR: Final = "TG-FET-027"
OTHER_PURPOSE: Final = "TG-FET-030"
_DIGEST: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class HostRule:
    """What the rule for one host grants."""

    content_types: frozenset[str] | None  # None for downloads, whose digest is pinned
    response_bytes: int
    credential: tuple[str, str] | None  # `query` or `header`, and the name


@dataclass(frozen=True, slots=True)
class RetrieveRules:
    """The section `fetch` of a bundle, as far as questions need it."""

    bundle: Bundle
    contact: str | None
    redirects: int
    seconds: int
    header_bytes: int
    gateway: bool  # the proxy gets requests in the clear and does TLS for us
    purpose: str = PACKETS

    @property
    def downloads(self) -> str | None:
        """Return the list of downloads of this purpose; None for packets."""
        return download_list(self.purpose)

    def for_host(self, host: str) -> HostRule:
        """Return the rule for `host`, or raise `NotRetrieved`."""
        if self.downloads is not None:
            return self._for_download(host)
        hosts = ("fetch", "hosts")
        for pattern in self.bundle.words(*hosts):
            if matches(pattern, host):
                place = self.bundle.value(*hosts, pattern, "credential")
                assert place is None or isinstance(place, str)
                kind, _, name = (place or "").partition(":")
                return HostRule(
                    frozenset(self.bundle.words(*hosts, pattern, "content_types")),
                    min(self.bundle.integer(*hosts, pattern, "response_bytes"), MAX_BODY_BYTES),
                    (kind, name) if place else None,
                )
        raise NotRetrieved(Failure.HOST, f"no rule covers the host {host}")

    def _for_download(self, host: str) -> HostRule:
        if not isinstance(may_connect(self.bundle, host, self.purpose), Allow):
            raise NotRetrieved(Failure.HOST, f"the list of downloads does not have the host {host}")
        return HostRule(None, MAX_BODY_BYTES, None)


def rules_of(bundle: Bundle, purpose: str = PACKETS) -> RetrieveRules:
    """Return the rules in `bundle` for this purpose; raise `PolicyDenied` if it has none."""
    downloads = download_list(purpose)
    listed = downloads is not None and bundle.has("fetch", "downloads", downloads)
    if purpose != PACKETS and not listed:
        raise PolicyDenied("policy has nothing for this purpose", code=OTHER_PURPOSE)
    seconds = bundle.integer("fetch", "deadline_seconds")
    if downloads is not None:
        whole = bundle.integer("fetch", "downloads", downloads, "deadline_seconds")
        seconds = min(whole, MAX_PART_SECONDS)
    contact = bundle.value("fetch", "contact")
    assert contact is None or isinstance(contact, str)
    way = bundle.text("fetch", "proxy")
    return RetrieveRules(
        bundle,
        contact,
        redirects=bundle.integer("fetch", "redirects"),
        seconds=seconds,
        header_bytes=bundle.integer("fetch", "header_bytes"),
        gateway=way != OWN_PROXY and way.startswith("gateway:"),
        purpose=purpose,
    )


def anchors_of(bundle: Bundle, given: tuple[bytes, ...]) -> dict[str, bytes | None]:
    """Return the CA files that policy lists, by digest; None means the system's store.

    Raises `PolicyDenied` for a file that is not listed, and for one that is missing: its
    certificates would be refused for a reason that nobody could see.
    """
    files = {sha256_hex(data): data for data in given}
    listed = bundle.words("fetch", "trust_anchors")
    if not {f"{_DIGEST}{digest}" for digest in files} <= set(listed):
        raise PolicyDenied("a CA file that policy does not list", code=UNLISTED_ANCHOR)
    found: dict[str, bytes | None] = {}
    for word in listed:
        digest = word.removeprefix(_DIGEST)
        if word != SYSTEM_ANCHOR and digest not in files:
            raise PolicyDenied(f"the CA file {digest[:12]} is not there", code=MISSING_ANCHOR)
        found[digest] = files.get(digest)
    return found


# Authority.

OTHER_QUESTION: Final = "TG-FET-029"


def check_authority(rules: RetrieveRules, ask: FetchQuestion, *, now: int) -> None:
    """Raise `PolicyDenied` unless policy lets the operator ask, or an approval covers this URL.

    For a download the list of hosts is enough: its digest is pinned.
    """
    if (ask.first_byte is None) != (rules.downloads is None):
        raise PolicyDenied("parts are for downloads, and nothing else is", code="TG-FET-003")
    if rules.downloads is not None:
        if ask.authority is not None:
            raise PolicyDenied("nobody approves a download", code="TG-FET-003")
        return
    if ask.authority is None:
        decision = may_fetch(rules.bundle, ask.url, integrity="operator")
        if not isinstance(decision, Allow):
            raise PolicyDenied(f"without an approval: {decision.reason}", code="TG-FET-003")
        return
    request = approved(rules.bundle, ask.authority, now=now)
    decision = may_fetch(rules.bundle, ask.url, integrity=request.integrity)
    if isinstance(decision, Deny):
        raise PolicyDenied(decision.reason, code="TG-FET-003")
    _check_question(request, ask.url, contact=rules.contact)


def approved(bundle: Bundle, authority: Authority, *, now: int) -> FetchRequest:
    """Return the request if it was approved, or raise `PolicyDenied`."""
    presented = Presented(authority.request, authority.approval, authority.signature)
    found = check_approval(presented, bundle, at=now, functions_sha256=None)
    request = found.request
    if not isinstance(request, FetchRequest):
        raise PolicyDenied("this gate retrieves, and runs nothing", code=OTHER_LANE)
    _check_rule_of_two(bundle, request, found)
    return request


def _check_rule_of_two(bundle: Bundle, request: FetchRequest, found: Approved) -> None:
    """Refuse external text with confidential data, unless policy and approval both accept it."""
    external = request.integrity == "external"
    joined = external and request.confidentiality == "confidential"
    if joined and bundle.text("tool-exec", "rule_of_two") != "allow-if-approved":
        message = "the request joins external input, confidential data and network"
        raise PolicyDenied(message, code=RULE_OF_TWO)
    if joined != (found.approval.rule_of_two == "accepted"):
        message = "the approval does not state the Rule of Two as it applies"
        raise PolicyDenied(message, code=RULE_OF_TWO)


def _check_question(request: FetchRequest, url: str, *, contact: str | None) -> None:
    try:
        references = [parse_reference(item.open_for_validation()) for item in request.references]
    except ValueError as exc:
        raise PolicyDenied("a reference cannot be read", code=OTHER_QUESTION) from exc
    if not is_question_of(url, references, want=request.want, contact=contact):
        message = "the URL is not one that the approved request leads to"
        raise PolicyDenied(message, code=OTHER_QUESTION)
