"""Fetch targets: references from words, files and searches, their questions, policy on them.

Where policy says `ask` for the operator's own references, they become a fetch request that waits
for review.

SECURITY
    Reads files that the operator names and somebody else may have written.  An entry that is not a
    reference is reported with its line and not asked for.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from threegate.artifacts import registry
from threegate.artifacts.draft import complete
from threegate.artifacts.ids import is_id, is_short_id, prefix_of
from threegate.artifacts.limits import MAX_REFERENCES
from threegate.artifacts.references import (
    DEFAULT_ENRICH,
    ENRICHERS,
    Question,
    Reference,
    parse_reference,
    questions,
    search_question,
    search_reference,
)
from threegate.base.errors import ArtifactRejected, PolicyDenied, UsageError
from threegate.base.text import quote, visible
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import spelled_reference
from threegate.gates.fetch.retrieve.messages import Authority, NotGot
from threegate.handoff.admission import admit
from threegate.host.bibliography.formats import MAX_LIST_BYTES, EntryUnreadable
from threegate.host.bibliography.reader import read_list
from threegate.host.workspace.drafts import NONCE_BYTES
from threegate.host.workspace.fetched import plan_of
from threegate.host.workspace.offered_files import named, read_regular, read_standard_input
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_fetch
from threegate.policy.decision import Allow, Ask, Decision
from threegate.policy.hosts import parse_url

NOT_A_LIST: Final = "TG-FET-076"
MOST_NOTED: Final = 10
STDIN: Final = "-"
_HINT: Final = "BibTeX, RIS, CSL-JSON, or one reference to a line"


@dataclass(frozen=True, slots=True)
class UnusableEntry:
    """An entry of a file that is not a reference."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class NamedTargets:
    """References, ids of approved fetch requests, and unusable entries."""

    references: tuple[Reference, ...]
    requests: tuple[str, ...]
    unusable: tuple[UnusableEntry, ...] = ()


def read_targets(
    words: Sequence[str],
    files: Sequence[str],
    *,
    stdin: BinaryIO,
    resolve: Callable[[str], str],
    note: Callable[[str], None],
) -> NamedTargets:
    """Return the named targets, each once; raise `UsageError` for an unknown word."""
    references: dict[Reference, None] = {}
    requests: dict[str, None] = {}
    for word in words:
        if is_id(word) or is_short_id(word):
            requests[_request(resolve(word))] = None
            continue
        try:
            references[parse_reference(word)] = None
        except ValueError as exc:
            hint = "`threegate fetch --help` shows every kind of reference"
            raise UsageError(f"{quote(word)}: {exc}", hint=hint) from exc
    unusable: list[UnusableEntry] = []
    for name in files:
        references |= dict.fromkeys(_read_file(name, stdin, note, unusable))
    return NamedTargets(tuple(references), tuple(requests), tuple(unusable))


def _request(artifact_id: str) -> str:
    if prefix_of(artifact_id) != "fr":
        hint = "`threegate run` runs tool requests" if prefix_of(artifact_id) == "tr" else ""
        raise UsageError(f"{artifact_id} is not a fetch request", hint=hint)
    return artifact_id


def _read_file(
    name: str, stdin: BinaryIO, note: Callable[[str], None], unusable: list[UnusableEntry]
) -> tuple[Reference, ...]:
    shown = "standard input" if name == STDIN else visible(name)
    with named(shown):
        if name == STDIN:
            data = read_standard_input(stdin, most_bytes=MAX_LIST_BYTES)
        else:
            data = read_regular(name, most_bytes=MAX_LIST_BYTES)
    try:
        found = read_list(Untrusted(data))
    except EntryUnreadable as exc:
        raise ArtifactRejected(f"{shown}: {exc}", code=NOT_A_LIST, hint=_HINT) from exc
    for problem in found.problems[:MOST_NOTED]:
        note(f"{shown}, line {problem.line}: {problem.message}")
    more = len(found.problems) - MOST_NOTED
    if more > 0:
        note(f"{shown}: {more} more lines are not references")
    lost = {one.line: one.message for one in found.problems if one.lost}
    unusable += [UnusableEntry(shown, line, reason) for line, reason in lost.items()]
    if not found.references:
        raise ArtifactRejected(f"{shown} names nothing to fetch", code=NOT_A_LIST, hint=_HINT)
    return found.references


def read_enrich(text: str | None) -> tuple[str, ...]:
    """Return the additional sources that `--enrich` names."""
    if text is None:
        return DEFAULT_ENRICH
    if text in ("none", "all"):
        return ENRICHERS if text == "all" else ()
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in found:
        if word not in ENRICHERS:
            hint = f"none, all, or some of {', '.join(ENRICHERS)}, with commas between"
            raise UsageError(f"{quote(word)} is not a source for --enrich", hint=hint)
    return found


SEARCH: Final = "search"
FULL_TEXT: Final = "full-text"
NOT_ALLOWED: Final = "TG-FET-073"
NO_HOST: Final = (
    "no rule can allow this: a URL is https:// and a public host name, never an address or a port"
)


@dataclass(frozen=True, slots=True)
class ApprovedFetch:
    """The authority of an approved fetch request over its references."""

    request_id: str
    authority: Authority
    integrity: str


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """One reference or search to retrieve, with its questions."""

    reference: str
    scheme: str
    want: str
    confidentiality: str
    questions: tuple[Question, ...]
    approved: ApprovedFetch | None = None

    @property
    def request_id(self) -> str | None:
        """Return the id of its fetch request, if any."""
        return None if self.approved is None else self.approved.request_id

    @property
    def wants_document(self) -> bool:
        """Tell whether a whole document is or may be asked for, not only records."""
        return self.want == FULL_TEXT or any(item.role == "document" for item in self.questions)

    @property
    def plan(self) -> str:
        """Return a digest that targets with the same questions share."""
        return plan_of([item.shown for item in self.questions], level=self.confidentiality)


def contact_of(bundle: Bundle) -> str | None:
    """Return the contact address that FETCH sends to hosts."""
    found = bundle.value("fetch", "contact")
    return found if isinstance(found, str) else None


def target_for(
    reference: Reference,
    bundle: Bundle,
    *,
    want: str,
    enrich: Iterable[str],
    confidentiality: str,
    approved: ApprovedFetch | None = None,
) -> FetchTarget:
    """Return the target of one reference."""
    asked = questions(reference, want=want, enrich=enrich, contact=contact_of(bundle))
    named = spelled_reference(reference.text)
    return FetchTarget(named, reference.scheme, want, confidentiality, asked, approved)


def search_target(
    query: str, bundle: Bundle, *, source: str, rows: int, confidentiality: str
) -> FetchTarget:
    """Return the target of a search, or raise `UsageError`."""
    try:
        question = search_question(source, query, rows, contact_of(bundle))
        named = spelled_reference(search_reference(source, query))
    except ValueError as exc:
        raise UsageError(f"cannot search: {exc}") from exc
    return FetchTarget(named, SEARCH, SEARCH, confidentiality, (question,))


def decide(bundle: Bundle, target: FetchTarget, question: Question) -> Decision:
    """Return the policy decision on one question of a target."""
    integrity = "operator" if target.approved is None else target.approved.integrity
    return may_fetch(bundle, question.url, integrity=integrity)


def is_allowed(decision: Decision, target: FetchTarget) -> bool:
    """Tell whether a question may be asked: by policy, or because a human approved it."""
    return isinstance(decision, Allow) or (
        isinstance(decision, Ask) and target.approved is not None
    )


def judged(bundle: Bundle, target: FetchTarget, question: Question) -> NotGot | None:
    """Return why a question may not be asked, or None."""
    decision = decide(bundle, target, question)
    if is_allowed(decision, target):
        return None
    return NotGot(NOT_ALLOWED, "denied", f"policy: {decision.reason}", None, ())


def refusal(bundle: Bundle, target: FetchTarget) -> PolicyDenied | None:
    """Return why a target is refused: its first question may not be asked."""
    question = target.questions[0]
    decision = decide(bundle, target, question)
    if is_allowed(decision, target):
        return None
    rule = "" if decision.rule is None else f" ({decision.rule})"
    try:
        where, hint = f"{host_of(question)}: ", _way_on(decision)
    except ValueError:  # the reason says what is wrong with the URL
        where, hint = "", NO_HOST
    detail = f"{where}{decision.reason}{rule}"
    return PolicyDenied(detail, code=NOT_ALLOWED, hint=hint)


def _way_on(decision: Decision) -> str:
    """Return a hint; references can be held for approval, a search cannot."""
    if isinstance(decision, Ask):
        return "a list cannot be held for approval: give `fetch` the references themselves"
    if decision.rule is not None:
        return "`threegate policy explain URL` shows every rule that was tried"
    return "hosts are listed in policy/fetch.policy.md; then `threegate policy apply`"


def host_of(question: Question) -> str:
    """Return the first host of a question; raise ValueError if its URL is invalid."""
    return parse_url(question.url).host


PURPOSE: Final = "Asked for by the operator with `threegate fetch`."


def must_be_held(ws: Workspace) -> bool:
    """Tell whether the operator's own targets need an approval too."""
    return ws.bundle.text("fetch", "operator_requests") == "ask"


def hold(
    ws: Workspace,
    references: Sequence[Reference],
    *,
    want: str,
    confidentiality: str,
    purpose: str = PURPOSE,
) -> list[str]:
    """Make as few requests as possible for all references; return their ids, which are held."""
    starts = range(0, len(references), MAX_REFERENCES)
    groups = [references[at : at + MAX_REFERENCES] for at in starts]
    items = [
        Untrusted(_request_bytes(ws, group, purpose, want=want, confidentiality=confidentiality))
        for group in groups
    ]
    ids = []
    for answer in admit(ws.store, items, now=ws.now):
        if answer.status != "accepted" or answer.id is None:
            raise ArtifactRejected(answer.reason or "the request was refused", code=answer.code)
        ids.append(answer.id)
    return ids


def _request_bytes(
    ws: Workspace,
    references: Sequence[Reference],
    purpose: str,
    *,
    want: str,
    confidentiality: str,
) -> bytes:
    given = {
        "format": "fr/1",
        "want": want,
        "references": [item.text for item in references],
        "confidentiality": confidentiality,
    }
    nonce = secrets.token_hex(NONCE_BYTES)
    request = complete(given, {"purpose": purpose}, created=ws.now(), nonce=nonce)
    return registry.emit(request)
