"""What a bibliography says of a packet: plain one-line texts and identifiers that were parsed.

SECURITY
    Opens titles and names of hostile sources.  Here they become single lines; each writer
    escapes them for its format.  Identifiers and links are made anew from what a grammar
    read, so nothing foreign reaches a field that programs follow.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.ids import digest_of
from threegate.artifacts.research_packet import Notice, ResearchPacket
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.host.provenance.cautions import cautions
from threegate.host.workspace.origin import PacketOrigin
from threegate.protocol.references import Reference, parse_reference

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
    names = _names(packet)
    authors = tuple(filter(None, map(_line, packet.authors)))
    published = tuple((packet.published or "").split("-")) if packet.published else ()
    return Work(
        key=_key(artifact_id, authors, published),
        title=_line(packet.title) or _line(packet.reference),
        authors=authors,
        container=_line(packet.container),
        published=published,
        names=names,
        url=_url(packet, names),
        retrieved="" if origin.is_brought else packet.retrieved,
        remarks=tuple(dict.fromkeys((*(warned or cautions(packet, origin)), *_remarks(packet)))),
        packet=artifact_id[: len("rp-") + KEY_DIGITS],
    )


def once_each(works: Iterable[Work]) -> list[Work]:
    """Leave out what says the same as an earlier packet, whose key may stand in a text already.

    One that says less, or does not know of a retraction, says something else and stays.
    """
    said: dict[tuple[object, ...], Work] = {}
    for work in sorted(works, key=lambda work: (work.retrieved, work.key)):
        names = tuple(work.names.values())
        entry = (work.title, work.authors, work.container, work.published, names, work.url)
        said.setdefault((*entry, work.remarks), work)
    return sorted(said.values(), key=lambda work: work.packet)


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
