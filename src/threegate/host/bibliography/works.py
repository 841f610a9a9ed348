"""Bibliographies from packets: the entry of a work, one entry per work, and BibTeX, RIS, CSL-JSON.

| format | what a hostile title could do | why it cannot |
|---|---|---|
| BibTeX | close its field, run a TeX command | braces and backslashes of a title are escaped |
| RIS | begin a line with another tag | titles have no line breaks |
| CSL-JSON | close its string | written by the JSON encoder, in ASCII |

SECURITY
    Opens titles and names of hostile sources and writes them for programs that execute their input
    (TeX) or believe it.  Texts become single lines and are escaped for each format.  Identifiers
    and links are rebuilt from parsed references, so nothing foreign reaches a field that programs
    follow.  If this module is wrong, a title becomes a field, or a command where it is typeset.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from threegate.artifacts.ids import digest_of
from threegate.artifacts.references import Reference, parse_reference
from threegate.artifacts.research_packet import Notice, ResearchPacket
from threegate.artifacts.sources import LOCAL_SOURCES
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.host.provenance.headlines import RETRACTED, caution_words, cautions, unmarked
from threegate.host.workspace.packets import Name, PacketOrigin, joins_names, names_of

KEY_DIGITS: Final = 12
CITEKEY: Final = "citekey"
_CITEKEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:.+/-]{0,99}")
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
    published: tuple[str, ...]  # year, month, day as far as known
    names: dict[str, Reference]  # by scheme, the best first
    url: str
    retrieved: str  # the time
    remarks: tuple[str, ...]  # cautions and notices, the worst first
    packet: str  # the id, shortened
    identity: tuple[Name, ...]  # packets that share one of these are about one work
    joins: bool  # a registry says that all of these are one work
    citekey: str = ""  # the operator's own key for it, of a Zotero library

    @property
    def is_retracted(self) -> bool:
        """Tell whether the work was retracted."""
        return RETRACTED in caution_words(self.remarks)

    @property
    def note(self) -> str:
        """Return the remarks and the packet id."""
        return "; ".join((*self.remarks, f"packet {self.packet}"))

    def link_of(self, scheme: str) -> str:
        """Return the page of the work in a registry."""
        return _PAGES[scheme] + self.names[scheme].value


def work_of(
    artifact_id: str,
    packet: ResearchPacket,
    origin: PacketOrigin,
    warned: tuple[str, ...] | None = None,
) -> Work:
    """Return the entry of a packet; `warned` replaces the cautions of the packet alone."""
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
        retrieved="" if origin.is_brought or packet.source in LOCAL_SOURCES else packet.retrieved,
        remarks=tuple(dict.fromkeys((*warned, *_remarks(packet)))),
        packet=artifact_id[: len("rp-") + KEY_DIGITS],
        identity=names_of(packet) or (("url", packet.url),),
        # A brought packet may name any number of works; it must not join them into one entry.
        joins=joins_names(packet) and not origin.is_brought,
        citekey="" if origin.is_brought else _citekey(packet),
    )


def once_each(works: Iterable[Work]) -> list[Work]:
    """Return one entry per work: the most complete packet, the newest of equals.

    The key is the operator's own, or else that of the oldest packet: a text may cite it already.
    """
    chosen = []
    taken: set[str] = set()
    for same in _by_work(list(works)):
        oldest = min(same, key=lambda one: (not one.retrieved, one.retrieved, one.key))
        own = min((one.citekey for one in same if one.citekey), default="")
        # Two works of one key would be one entry to BibTeX, which compares without case.
        key = oldest.key if not own or own.lower() in taken else own
        taken.add(key.lower())
        chosen.append(replace(max(same, key=_rank), key=key))
    return sorted(chosen, key=lambda work: work.packet)


def _rank(work: Work) -> tuple[object, ...]:
    """Rank a packet: a retraction first, retrieved before brought, then completeness."""
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
    """Return the only work that a packet names; a page that names several belongs to none."""
    schemes = [scheme for scheme, _ in work.identity]
    return work.key if len(found) > 1 or len(set(schemes)) < len(schemes) else found.pop()


def _title(packet: ResearchPacket, warned: tuple[str, ...]) -> str:
    """Return the title; `RETRACTED` comes first and once."""
    title = _line(packet.title) or _line(packet.reference)
    if RETRACTED not in caution_words(warned):
        return title
    title = unmarked(title)
    return title if title.upper().startswith(RETRACTED) else f"{RETRACTED}: {title}"


def _line(text: Untrusted[str] | None) -> str:
    """Return a text on one line: every kind of line break becomes a blank."""
    return "" if text is None else visible(" ".join(text.open_for_display().split()))


def _names(packet: ResearchPacket) -> dict[str, Reference]:
    found: dict[str, Reference] = {}
    asked = packet.reference.open_for_validation()
    spelled = [f"{item.scheme}:{item.value.open_for_validation()}" for item in packet.identifiers]
    # A source may know several versions: the requested one comes first.
    for text in sorted(spelled, key=lambda text: text != asked):
        scheme = text.partition(":")[0]
        if scheme in _SCHEMES and scheme not in found:
            try:
                found[scheme] = parse_reference(text)
            except ValueError:  # a packet may hold identifiers that are not references
                continue
    return {scheme: found[scheme] for scheme in _SCHEMES if scheme in found}


def _url(packet: ResearchPacket, names: dict[str, Reference]) -> str:
    """Return the page of the work; the DOI has its own field."""
    if packet.source == "url" or not names:
        return "" if packet.source in LOCAL_SOURCES else packet.url
    scheme = next(iter(names))
    return "" if scheme == "doi" else _PAGES[scheme] + names[scheme].value


def _key(artifact_id: str, authors: tuple[str, ...], published: tuple[str, ...]) -> str:
    """Return a key that is unique and the same in every export."""
    name = authors[0] if authors else ""
    family = name.partition(",")[0] if "," in name else name.rpartition(" ")[2]
    plain = unicodedata.normalize("NFKD", family).encode("ascii", "ignore").decode("ascii")
    word = "".join(filter(str.isalnum, plain.lower()))[:24] or "work"
    return f"{word}{published[0] if published else ''}-{digest_of(artifact_id)[:KEY_DIGITS]}"


def _citekey(packet: ResearchPacket) -> str:
    """Return the key of the operator's library, if it is one that BibTeX reads."""
    found = (one.value.open_for_validation() for one in packet.identifiers if one.scheme == CITEKEY)
    return next((key for key in found if _CITEKEY.fullmatch(key)), "")


def _remarks(packet: ResearchPacket) -> Iterator[str]:
    yield from filter(None, map(_notice, packet.notices))
    if packet.licence is not None:
        yield f"licence: {_line(packet.licence)}"


def _notice(notice: Notice) -> str:
    parts = [_line(notice.label), _line(notice.notice), notice.date or ""]
    return f"{notice.status}: {', '.join(filter(None, parts))}" if any(parts) else ""


_TEX: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\textbraceleft{}",  # BibTeX counts the brace of `\{` like any other
    "}": r"\textbraceright{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "@": r"\symbol{64}",  # some readers look for entries everywhere
    **{character: f"\\{character}" for character in "#$%&_"},
}
_TEX_TABLE: Final = str.maketrans(_TEX)
# Characters in a verbatim identifier that would end it, be read as encoding, or begin a command:
# TeX reads `^^5cinput` as `\input` before anything could escape it.
_VERBATIM: Final = {ord(character): f"%{ord(character):02X}" for character in '\\{}%"^'}
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_SPLITS: Final = re.compile(r"\band\b|\bothers\b|,.*,", re.IGNORECASE)


def bibtex(works: Iterable[Work]) -> str:
    """Return the works as BibTeX."""
    return "\n".join(_bibtex_entry(work) for work in works)


def _bibtex_entry(work: Work) -> str:
    kind = "article" if work.container else "misc"
    fields = "".join(f",\n  {name} = {value}" for name, value in _bibtex_fields(work))
    return f"@{kind}{{{work.key}{fields}\n}}\n"


def _bibtex_fields(work: Work) -> Iterator[tuple[str, str]]:
    yield "title", f"{{{{{_tex(work.title)}}}}}"
    if work.authors:
        yield "author", f"{{{' and '.join(map(_tex_name, work.authors))}}}"
    if work.container:
        yield "journal", f"{{{_tex(work.container)}}}"
    if work.published:
        yield "year", work.published[0]
    if len(work.published) > 1:
        yield "month", _MONTHS[int(work.published[1]) - 1]
    for scheme in ("doi", "pmid", "pmcid", "openalex"):
        if scheme in work.names:
            yield scheme, f"{{{work.names[scheme].value.translate(_VERBATIM)}}}"
    if "arxiv" in work.names:
        yield "eprint", f"{{{work.names['arxiv'].value}}}"
        yield "archiveprefix", "{arXiv}"
    if work.url:
        yield "url", f"{{{work.url}}}"
        if work.retrieved:
            yield "urldate", f"{{{work.retrieved[:10]}}}"
    yield "note", f"{{{_tex(work.note)}}}"


def _tex(text: str) -> str:
    return text.translate(_TEX_TABLE)


def _tex_name(name: str) -> str:
    """Return one name, in braces if BibTeX would read several in it."""
    return f"{{{_tex(name)}}}" if _SPLITS.search(name) else _tex(name)


def ris(works: Iterable[Work]) -> str:
    """Return the works as RIS."""
    lines = (f"{tag}  - {value}" for work in works for tag, value in _ris_lines(work))
    return "".join(f"{line}\r\n" for line in lines)


def _ris_lines(work: Work) -> Iterator[tuple[str, str]]:
    yield "TY", "JOUR" if work.container else "GEN"
    yield "ID", work.key
    yield "TI", work.title
    yield from (("AU", name) for name in work.authors)
    if work.container:
        yield "T2", work.container
    if work.published:
        yield "PY", work.published[0]
        yield "DA", "/".join((*work.published, "", "")[:3]) + "/"
    if "doi" in work.names:
        yield "DO", work.names["doi"].value.replace("%", "%25")
    for scheme in work.names:
        if scheme != "doi":
            yield "UR", work.link_of(scheme)
    if work.url and work.url not in [work.link_of(name) for name in work.names if name != "doi"]:
        yield "UR", work.url
    if work.retrieved:
        yield "Y2", work.retrieved[:10].replace("-", "/")
    yield "N1", work.note
    yield "ER", ""


def csl_json(works: Iterable[Work]) -> str:
    """Return the works as CSL-JSON."""
    return json.dumps([dict(_csl_fields(work)) for work in works], indent=2) + "\n"


def _csl_fields(work: Work) -> Iterator[tuple[str, Any]]:
    yield "id", work.key
    yield "type", "article-journal" if work.container else "document"
    yield "title", work.title
    if work.authors:
        yield "author", [_csl_name(name) for name in work.authors]
    if work.container:
        yield "container-title", work.container
    if work.published:
        yield "issued", {"date-parts": [[int(part) for part in work.published]]}
    for scheme, field in (("doi", "DOI"), ("pmid", "PMID"), ("pmcid", "PMCID")):
        if scheme in work.names:
            yield field, work.names[scheme].value.replace("%", "%25")
    if "arxiv" in work.names:
        yield "archive", "arXiv"
        yield "archive_location", work.names["arxiv"].value
    if work.url:
        yield "URL", work.url
        if work.retrieved:
            day = [int(part) for part in work.retrieved[:10].split("-")]
            yield "accessed", {"date-parts": [day]}
    yield "note", work.note


def _csl_name(name: str) -> dict[str, str]:
    family, comma, given = name.partition(",")
    if comma and family.strip() and given.strip() and "," not in given:
        return {"family": family.strip(), "given": given.strip()}
    return {"literal": name}


WRITERS: Final[dict[str, Callable[[Iterable[Work]], str]]] = {
    "bibtex": bibtex,
    "csl-json": csl_json,
    "ris": ris,
}
