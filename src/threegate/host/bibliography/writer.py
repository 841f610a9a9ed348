r"""Bibliographies: BibTeX, RIS and CSL-JSON out of packets.

| format | what a hostile title could do | why it cannot |
|---|---|---|
| BibTeX | close its field, run a TeX command | no brace or backslash of its own is left |
| RIS | begin a line with another tag | no line break is left |
| CSL-JSON | close its string | written by the JSON encoder, in ASCII |

SECURITY
    Writes foreign text for programs that execute what they read (TeX) or believe it.  If
    this module is wrong, a title becomes a field, or a command where it is typeset.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from threegate.base.errors import UsageError
from threegate.base.text import quote
from threegate.host.bibliography.works import Work

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
# Of an identifier that is read as it stands: what would end it or be read as encoding, and
# what begins a command: TeX reads `^^5cinput` as `\input`, before anything could escape it.
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
    """Return one name; in braces where BibTeX would read several in it."""
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


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, readable by the user alone; raise `UsageError`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError as exc:
        raise UsageError(f"{quote(str(path))} exists already", hint="choose another name") from exc
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "no such name"
        raise UsageError(f"cannot write {quote(str(path))}: {why.lower()}") from exc
