"""What would be asked for a reference, and what policy says to it, before anything is asked."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.references import (
    Question,
    Reference,
    questions,
    search_question,
    search_reference,
)
from threegate.base.errors import PolicyDenied, UsageError
from threegate.gates.fetch.normalize.messages import spelled_reference
from threegate.gates.fetch.retrieve.messages import Authority, NotGot
from threegate.host.workspace.fetched import plan_of
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_fetch
from threegate.policy.decision import Allow, Ask, Decision
from threegate.policy.hosts import parse_url

SEARCH: Final = "search"
NOT_ALLOWED: Final = "TG-FET-073"
NO_HOST: Final = (
    "no rule can allow this: a URL is https:// and a public host name, never an address or a port"
)


@dataclass(frozen=True, slots=True)
class Leave:
    """An approved fetch request, by which its references may be asked for."""

    request_id: str
    authority: Authority
    integrity: str


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing to retrieve: a packet, if anybody answers."""

    reference: str
    scheme: str
    want: str
    confidentiality: str
    questions: tuple[Question, ...]
    leave: Leave | None = None

    @property
    def request_id(self) -> str | None:
        """Return the request it answers, if any."""
        return None if self.leave is None else self.leave.request_id

    @property
    def wants_document(self) -> bool:
        """Tell whether a whole document is asked for, not only records."""
        return any(item.role == "document" for item in self.questions)

    @property
    def plan(self) -> str:
        """Return what wishes with the same questions have in common."""
        return plan_of([item.shown for item in self.questions], level=self.confidentiality)


def contact_of(bundle: Bundle) -> str | None:
    """Return the address that FETCH gives to the hosts it asks."""
    found = bundle.value("fetch", "contact")
    return found if isinstance(found, str) else None


def wish_for(
    reference: Reference,
    bundle: Bundle,
    *,
    want: str,
    enrich: Iterable[str],
    confidentiality: str,
    leave: Leave | None = None,
) -> Wish:
    """Return the wish for one reference."""
    asked = questions(reference, want=want, enrich=enrich, contact=contact_of(bundle))
    named = spelled_reference(reference.text)
    return Wish(named, reference.scheme, want, confidentiality, asked, leave)


def wish_to_search(
    query: str, bundle: Bundle, *, source: str, rows: int, confidentiality: str
) -> Wish:
    """Return the wish for a list of candidates, or raise `UsageError`."""
    try:
        question = search_question(source, query, rows, contact_of(bundle))
        named = spelled_reference(search_reference(source, query))
    except ValueError as exc:
        raise UsageError(f"cannot search: {exc}") from exc
    return Wish(named, SEARCH, SEARCH, confidentiality, (question,))


def decide(bundle: Bundle, wish: Wish, question: Question) -> Decision:
    """Return what policy says to one question of a wish."""
    integrity = "operator" if wish.leave is None else wish.leave.integrity
    return may_fetch(bundle, question.url, integrity=integrity)


def is_allowed(decision: Decision, wish: Wish) -> bool:
    """Tell whether a question may be asked: by policy alone, or because a human approved it."""
    return isinstance(decision, Allow) or (isinstance(decision, Ask) and wish.leave is not None)


def judged(bundle: Bundle, wish: Wish, question: Question) -> NotGot | None:
    """Return why a question is not asked, None if it may be."""
    decision = decide(bundle, wish, question)
    if is_allowed(decision, wish):
        return None
    return NotGot(NOT_ALLOWED, "denied", f"policy: {decision.reason}", None, ())


def refusal(bundle: Bundle, wish: Wish) -> PolicyDenied | None:
    """Return why a wish cannot be asked for at all: its first question is refused."""
    question = wish.questions[0]
    decision = decide(bundle, wish, question)
    if is_allowed(decision, wish):
        return None
    rule = "" if decision.rule is None else f" ({decision.rule})"
    try:
        where, hint = f"{host_of(question)}: ", _way_on(decision)
    except ValueError:  # then the reason says what is wrong with the URL
        where, hint = "", NO_HOST
    detail = f"{where}{decision.reason}{rule}"
    return PolicyDenied(detail, code=NOT_ALLOWED, hint=hint)


def _way_on(decision: Decision) -> str:
    """Return what the operator could do; what is held are references, never a search."""
    if isinstance(decision, Ask):
        return "a search cannot be held for approval: give `fetch` the references themselves"
    if decision.rule is not None:
        return "`threegate policy explain URL` shows every rule that was tried"
    return "hosts are listed in policy/fetch.policy.md; then `threegate policy apply`"


def host_of(question: Question) -> str:
    """Return the host a question goes to first; raise ValueError for what is no URL."""
    return parse_url(question.url).host
