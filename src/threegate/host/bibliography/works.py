"""What a bibliography says of a packet: plain one-line texts and identifiers that were parsed.

SECURITY
    Opens titles and names of hostile sources.  Here they become single lines; each writer
    escapes them for its format.  Identifiers and links are made anew from what a grammar
    read, so nothing foreign reaches a field that programs follow.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from threegate.artifacts.ids import digest_of
from threegate.artifacts.references import Reference, parse_reference
from threegate.artifacts.research_packet import Notice, ResearchPacket
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.host.provenance.headlines import RETRACTED, cautions, unmarked, words
from threegate.host.workspace.packets import Name, PacketOrigin, joins_names, names_of

KEY_DIGITS: Final = 12
_SCHEMES: Final = ("doi", "arxiv", "pmid", "pmcid", "openalex")
_PAGES: Final = {
    "arxiv": "https://arxiv.org/abs/",
    "pmid": "https://pubmed.ncbi.nlm.nih.gov/",
    "pmcid": "https://pmc.ncbi.nlm.nih.gov/articles/",
    "openalex": "https://openalex.org/",
}


@dataclass(frozen=True, slots=True)
class Work:
    """One entry of a bibliography; its texts are foreign and have no line breaks."""

    key: str
    title: str
    authors: tuple[str, ...]
    container: str
    published: tuple[str, ...]  # year, month, day as far as they are known
    names: dict[str, Reference]  # by scheme, the best first
    url: str
    retrieved: str  # the time
    remarks: tuple[str, ...]  # what a reader must know, the worst first
    packet: str  # the id, shortened
    identity: tuple[Name, ...]  # packets that share one of these are of one work
    joins: bool  # whether a registry says that all of these are one work

    @property
    def is_retracted(self) -> bool:
        """Tell whether the work was retracted."""
        return RETRACTED in words(self.remarks)

    @property
    def note(self) -> str:
        """Return the remarks, and which packet says all this."""
        return "; ".join((*self.remarks, f"packet {self.packet}"))

    def link_of(self, scheme: str) -> str:
        """Return the page that stands for the work in a registry."""
        return _PAGES[scheme] + self.names[scheme].value


def is_search(packet: ResearchPacket) -> bool:
    """Tell whether a packet lists candidates, and is no work itself."""
    return packet.reference.open_for_validation().startswith("search:")


def work_of(
    artifact_id: str,
    packet: ResearchPacket,
    origin: PacketOrigin,
    warned: tuple[str, ...] | None = None,
) -> Work:
    """Return what a bibliography says of `packet`; `warned` replaces what the packet says alone."""
    names, warned = _names(packet), warned or cautions(packet, origin)
    authors = tuple(filter(None, map(_line, packet.authors)))
    published = tuple((packet.published or "").split("-")) if packet.published else ()
    return Work(
        key=_key(artifact_id, authors, published),
        title=_title(packet, warned),
        authors=authors,
        container=_line(packet.container),
        published=published,
        names=names,
        url=_url(packet, names),
        retrieved="" if origin.is_brought else packet.retrieved,
        remarks=tuple(dict.fromkeys((*warned, *_remarks(packet)))),
        packet=artifact_id[: len("rp-") + KEY_DIGITS],
        identity=names_of(packet) or (("url", packet.url),),
        # A brought packet may name any number of works; it must not make them one entry.
        joins=joins_names(packet) and not origin.is_brought,
    )


def once_each(works: Iterable[Work]) -> list[Work]:
    """Return one entry for each work: the most complete packet, of equals the newest.

    The key is that of the oldest packet: it may be cited in a text already.
    """
    chosen = []
    for same in _by_work(list(works)):
        oldest = min(same, key=lambda one: (not one.retrieved, one.retrieved, one.key))
        chosen.append(replace(max(same, key=_rank), key=oldest.key))
    return sorted(chosen, key=lambda work: work.packet)


def _rank(work: Work) -> tuple[object, ...]:
    """Rank a packet: a retraction first, retrieved before brought, then what it knows."""
    known = (*work.authors[:1], work.container, *work.published, *work.names, work.url)
    filled = sum(map(bool, known))
    return (work.is_retracted, bool(work.retrieved), filled, work.retrieved, work.key)


def _by_work(works: list[Work]) -> list[list[Work]]:
    root: dict[Name, Name] = {}

    def find(name: Name) -> Name:
        while (up := root.setdefault(name, name)) != name:
            root[name] = name = root[up]
        return name

    for work in works:
        for name in work.identity if work.joins else ():
            root[find(name)] = find(work.identity[0])
    known = {find(name) for work in works if work.joins for name in work.identity}
    groups: dict[object, list[Work]] = {}
    for work in works:
        found = {find(name) for name in work.identity}
        main = find(min(work.identity, key=lambda name: (name[0] != "doi", name)))
        key = main if work.joins else _only(work, found & known or {main})
        groups.setdefault(key, []).append(work)
    return list(groups.values())


def _only(work: Work, found: set[Name]) -> object:
    """Return the one work that a packet names; a page that names several is none of them."""
    schemes = [scheme for scheme, _ in work.identity]
    return work.key if len(found) > 1 or len(set(schemes)) < len(schemes) else found.pop()


def _title(packet: ResearchPacket, warned: tuple[str, ...]) -> str:
    """Return the title; of a retracted work with the word once, in front."""
    title = _line(packet.title) or _line(packet.reference)
    if RETRACTED not in words(warned):
        return title
    title = unmarked(title)
    return title if title.upper().startswith(RETRACTED) else f"{RETRACTED}: {title}"


def _line(text: Untrusted[str] | None) -> str:
    """Return a text on one line: whatever any reader takes for a line break is a blank."""
    return "" if text is None else visible(" ".join(text.open_for_display().split()))


def _names(packet: ResearchPacket) -> dict[str, Reference]:
    found: dict[str, Reference] = {}
    asked = packet.reference.open_for_validation()
    spelled = [f"{item.scheme}:{item.value.open_for_validation()}" for item in packet.identifiers]
    # A source may know several versions: the one that was asked for comes first.
    for text in sorted(spelled, key=lambda text: text != asked):
        scheme = text.partition(":")[0]
        if scheme in _SCHEMES and scheme not in found:
            try:
                found[scheme] = parse_reference(text)
            except ValueError:  # more may stand in a packet than can be asked for
                continue
    return {scheme: found[scheme] for scheme in _SCHEMES if scheme in found}


def _url(packet: ResearchPacket, names: dict[str, Reference]) -> str:
    """Return where a reader finds the work; the DOI has a field of its own."""
    if packet.source == "url" or not names:
        return packet.url
    scheme = next(iter(names))
    return "" if scheme == "doi" else _PAGES[scheme] + names[scheme].value


def _key(artifact_id: str, authors: tuple[str, ...], published: tuple[str, ...]) -> str:
    """Return a key that is the same in every export and nobody else's."""
    name = authors[0] if authors else ""
    family = name.partition(",")[0] if "," in name else name.rpartition(" ")[2]
    plain = unicodedata.normalize("NFKD", family).encode("ascii", "ignore").decode("ascii")
    word = "".join(filter(str.isalnum, plain.lower()))[:24] or "work"
    return f"{word}{published[0] if published else ''}-{digest_of(artifact_id)[:KEY_DIGITS]}"


def _remarks(packet: ResearchPacket) -> Iterator[str]:
    yield from filter(None, map(_notice, packet.notices))
    if packet.licence is not None:
        yield f"licence: {_line(packet.licence)}"


def _notice(notice: Notice) -> str:
    parts = [_line(notice.label), _line(notice.notice), notice.date or ""]
    return f"{notice.status}: {', '.join(filter(None, parts))}" if any(parts) else ""
