"""Lists of works around one work: what it cites, and what cites it.

A source is asked by an identifier that it knows.  OpenAlex knows its own only; packets here may
have it beside the others.

SECURITY
    A list is the operator's own question, like a search: it leaves at once if policy allows, and
    cannot be held for approval.  Identifiers come from packets, whose text is foreign; each passes
    the grammar of references before it becomes part of a URL.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from threegate.artifacts.ids import is_id, is_short_id
from threegate.artifacts.references import (
    RELATIONS,
    SCHEMES,
    Reference,
    parse_reference,
    related_questions,
    related_reference,
)
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import UsageError
from threegate.base.forms import CONFIDENTIALITY
from threegate.base.text import quote
from threegate.gates.fetch.normalize.messages import spelled_reference
from threegate.handoff.store import Store
from threegate.host.fetch.targets import SEARCH, FetchTarget, contact_of, target_for
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import is_search, joins_names, names_of, normalized_name
from threegate.host.workspace.places import refuse_absent, resolve
from threegate.policy.bundle import Bundle

OPENALEX = "openalex"


@dataclass(frozen=True, slots=True)
class KnownWork:
    """A work and the identifiers that are known for it here, the given one first."""

    reference: Reference
    names: tuple[Reference, ...]
    confidentiality: str = CONFIDENTIALITY[0]  # of the packet that was named

    def has(self, scheme: str) -> bool:
        """Tell whether an identifier of this scheme is known."""
        return any(name.scheme == scheme for name in self.names)

    def with_names_of(self, packet: ResearchPacket) -> "KnownWork":
        """Return the same work with the identifiers of one more packet."""
        return replace(self, names=tuple(dict.fromkeys((*self.names, *_references(packet)))))


def known_work(store: Store, index: Index, text: str) -> KnownWork:
    """Return the work that a reference or the id of a packet names, or raise `UsageError`."""
    if is_id(text) or is_short_id(text):
        work = _of_packet(store, resolve(store, text))
    else:
        try:
            reference = parse_reference(text)
        except ValueError as exc:
            hint = "a reference such as doi:10.5555/12345678, or the id of a packet"
            raise UsageError(f"{quote(text)}: {exc}", hint=hint) from exc
        if reference.scheme == "url":
            hint = "name the work by its DOI, arXiv, PubMed or OpenAlex identifier"
            raise UsageError("sources list what works cite, not pages", hint=hint)
        work = KnownWork(reference, (reference,))
    for packet_id in index.same_work(normalized_name(one.scheme, one.value) for one in work.names):
        packet = store.read(packet_id)
        # A page may name any work; a registry names its own.
        if isinstance(packet, ResearchPacket) and joins_names(packet):
            work = work.with_names_of(packet)
    return work


def _of_packet(store: Store, packet_id: str) -> KnownWork:
    refuse_absent(store, packet_id)
    packet = store.read(packet_id)
    if not isinstance(packet, ResearchPacket):
        raise UsageError(f"{packet_id} is not a research packet")
    if is_search(packet):
        raise UsageError("that packet lists candidates", hint="name one of them by its reference")
    names = _references(packet)
    if not names:
        raise UsageError("the packet names no identifier that a source knows")
    return KnownWork(names[0], names, packet.confidentiality)


def _references(packet: ResearchPacket) -> tuple[Reference, ...]:
    """Return the identifiers of a packet that sources are asked by, the best first."""
    found = []
    for scheme, value in names_of(packet):
        try:
            found.append(parse_reference(f"{scheme}:{value}"))
        except ValueError:
            continue
    return tuple(sorted(found, key=lambda one: SCHEMES.index(one.scheme)))


def sources_for(relation: str, source: str | None) -> tuple[str, ...]:
    """Return the sources to ask, all or the one that was named; raise `UsageError`."""
    if source is None:
        return RELATIONS[relation]
    if source not in RELATIONS[relation]:
        hint = f"one of {', '.join(RELATIONS[relation])}"
        raise UsageError(f"{quote(source)} does not list {relation}", hint=hint)
    return (source,)


def related_target(
    relation: str,
    work: KnownWork,
    bundle: Bundle,
    *,
    sources: Iterable[str],
    rows: int,
    confidentiality: str,
) -> FetchTarget:
    """Return the target of a list, at least as confidential as the packet that was named."""
    sources = tuple(sources)
    try:
        asked = related_questions(
            relation, work.names, rows, sources=sources, contact=contact_of(bundle)
        )
    except ValueError as exc:
        raise UsageError(f"cannot list: {exc}") from exc
    if not asked:
        hint = f"`threegate fetch {work.reference.text}` may find another identifier of it"
        names = ", ".join(sources)
        raise UsageError(f"{names}: cannot be asked by {work.reference.scheme}", hint=hint)
    named = spelled_reference(related_reference(relation, work.reference))
    level = max(confidentiality, work.confidentiality, key=CONFIDENTIALITY.index)
    return FetchTarget(named, SEARCH, SEARCH, level, asked)


def lookup_target(
    work: KnownWork, bundle: Bundle, *, sources: Iterable[str], confidentiality: str
) -> FetchTarget | None:
    """Return what to fetch first: the work itself, if only its OpenAlex record has a name."""
    if OPENALEX not in sources or work.has(OPENALEX) or work.reference.scheme != "doi":
        return None
    level = max(confidentiality, work.confidentiality, key=CONFIDENTIALITY.index)
    return target_for(
        work.reference, bundle, want="metadata", enrich=(OPENALEX,), confidentiality=level
    )
