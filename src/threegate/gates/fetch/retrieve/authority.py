"""Whether a question may be asked at all: the operator's own, or one that a human approved.

SECURITY
    Reads what the host presents.  The host may have been confused about it; here is who asks,
    so here is who looks last.  If this module is wrong, a URL that nobody approved is asked
    for, at a host that policy lists.
"""

from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.references import is_question_of, parse_reference
from threegate.base.errors import PolicyDenied
from threegate.gates.fetch.retrieve.messages import Ask, Authority
from threegate.gates.fetch.retrieve.rules import RetrieveRules
from threegate.policy.approvals import OTHER_LANE, RULE_OF_TWO, Approved, Presented, check_approval
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_fetch
from threegate.policy.decision import Allow, Deny

OTHER_QUESTION: Final = "TG-FET-029"


def check_authority(rules: RetrieveRules, ask: Ask, *, now: int) -> None:
    """Raise `PolicyDenied` unless somebody who may decide it wants this URL asked for.

    A download is a set-up command's, of a pinned digest; the host's list is all that counts.
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
    """Refuse what joins external text, confidential data and a network, unless both said so."""
    external = request.integrity == "external"
    joined = external and request.confidentiality == "confidential"
    if joined and bundle.text("tool-exec", "rule_of_two") != "allow-if-approved":
        message = "the request joins external input, confidential data and network"
        raise PolicyDenied(message, code=RULE_OF_TWO)
    if joined != (found.approval.rule_of_two == "accepted"):
        message = "the approval does not speak of the Rule of Two as it stands"
        raise PolicyDenied(message, code=RULE_OF_TWO)


def _check_question(request: FetchRequest, url: str, *, contact: str | None) -> None:
    try:
        references = [parse_reference(item.open_for_validation()) for item in request.references]
    except ValueError as exc:
        raise PolicyDenied("a reference cannot be read", code=OTHER_QUESTION) from exc
    if not is_question_of(url, references, want=request.want, contact=contact):
        message = "the URL is not one that the approved request leads to"
        raise PolicyDenied(message, code=OTHER_QUESTION)
