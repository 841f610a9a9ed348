"""The real boxes of pages, PDF and office files: documents are read in them, bombs end in them.

What arbitrary Python in these boxes can reach is asked by the sandbox's own suite, which attacks
the profiles `fetch-html`, `fetch-office` and `fetch-pdf` like every other: test_sandbox_escape.py.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.support import documents, normalization, office, pdfs
from tests.support.boxes import importable
from tests.support.normalization import Boxed, ask, boxed, page_of
from tests.support.pages import HIDDEN, page
from threegate.artifacts import media_types
from threegate.artifacts.research_packet import FORMAT, ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import PacketMade, PacketNotMade
from threegate.sandbox.attacks.runner import applicable
from threegate.sandbox.profiles import (
    FETCH_HTML,
    FETCH_NORMALIZE,
    FETCH_OCR,
    FETCH_OFFICE,
    FETCH_PDF,
    Profile,
)

HTML, PDF = "text/html", "application/pdf"
_GATE = "threegate.gates.fetch.normalize."
_OFFICE_BOX = (FETCH_OFFICE, f"{_GATE}gate_office:serve")
_TEXT_BOX = (FETCH_NORMALIZE, f"{_GATE}gate:serve")
PAYLOADS = {
    HTML: (FETCH_HTML, f"{_GATE}gate_html:serve"),
    PDF: (FETCH_PDF, f"{_GATE}gate_pdf:serve"),
    media_types.EPUB: (FETCH_HTML, f"{_GATE}gate_html:serve"),
    media_types.DOCX: _OFFICE_BOX,
    media_types.ODT: _OFFICE_BOX,
    media_types.PPTX: _OFFICE_BOX,
    media_types.MARKDOWN: _TEXT_BOX,
    media_types.LATEX: _TEXT_BOX,
    media_types.NOTEBOOK: _TEXT_BOX,
    media_types.XML: _TEXT_BOX,
}
PAGE = page("".join(HIDDEN["display"]))
PAPER = pdfs.pdf(pdfs.line("On gates") + pdfs.line("HIDDEN", y=600, before="3 Tr"), title="Gates")
# The same limits, less of them: how a bomb ends does not depend on how long it may burn.
SHORT = {"cpu_seconds": 3}

PDF_BOMBS = {
    "flate": pdfs.flate_bomb(),
    "forms in forms": pdfs.form_bomb(29),
    "a form in itself": pdfs.form_loop(),
    "pages without end": pdfs.cycle(),
    "many pages": pdfs.many_pages(200_000),
    "half a file": PAPER[: len(PAPER) // 2],
    "a password": pdfs.encrypted(),
}


DOCUMENTS = {
    media_types.DOCX: office.DOCX,
    media_types.ODT: office.ODT,
    media_types.PPTX: office.PPTX,
    media_types.EPUB: office.EPUB,
    media_types.MARKDOWN: documents.MARKDOWN.encode(),
    media_types.LATEX: documents.LATEX.encode(),
    media_types.NOTEBOOK: documents.NOTEBOOK,
    media_types.XML: documents.TEI,
}
_LAUGHS = '<!DOCTYPE w [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><w>&b;</w>'
_DOCUMENT = office.relations("r officeDocument d.xml")
# Files made to use up or to mislead their reader, the code of their end, and words of the reason.
HOSTILE: dict[str, tuple[str, bytes, str, str]] = {
    "a member of 100 MB": (media_types.DOCX, office.bomb(), "TG-NRM-004", "unpacked"),
    "a list that lies": (media_types.DOCX, office.liar(office.DOCX), "TG-NRM-004", "cannot be"),
    "members on top of each other": (
        media_types.DOCX,
        office.overlapping(1_000),
        "TG-NRM-004",
        "no part of it is the document",
    ),
    "names without end": (
        media_types.ODT,
        office.overlapping(30_000),
        "TG-NRM-004",
        "limit 20000",
    ),
    "an archive in an archive": (
        media_types.DOCX,
        office.packed({"_rels/.rels": _DOCUMENT, "d.xml": office.DOCX}),
        "TG-NRM-004",
        "not UTF-8",
    ),
    "entities of entities": (
        media_types.DOCX,
        office.packed({"_rels/.rels": _DOCUMENT, "d.xml": _LAUGHS}),
        "TG-NRM-004",
        "declarations of its own",
    ),
    "a file of the machine as an entity": (
        media_types.ODT,
        office.packed(
            {"content.xml": '<!DOCTYPE w [<!ENTITY f SYSTEM "file:///etc/passwd">]><w>&f;</w>'}
        ),
        "TG-NRM-004",
        "declarations of its own",
    ),
    "six million elements": (
        media_types.DOCX,
        office.packed(
            {"_rels/.rels": _DOCUMENT, "d.xml": "<w>" + "<a/>" * 6_000_000 + "</w>"},
            stored=("d.xml",),
        ),
        "TG-NRM-004",
        "5000000 nodes",
    ),
    "an attribute of 60 MB": (
        media_types.PPTX,
        office.packed(
            {"_rels/.rels": _DOCUMENT, "d.xml": f'<w a="{"x" * 60_000_000}"/>'}, stored=("d.xml",)
        ),
        "TG-NRM-004",
        "limit 16777216",
    ),
    "a presentation without slides": (
        media_types.PPTX,
        office.pptx(),
        "TG-NRM-004",
        "no text in the document",
    ),
    "half a book": (media_types.EPUB, office.EPUB[:900], "TG-NRM-004", "list of its members"),
    "a book of one deep page": (
        media_types.EPUB,
        office.epub("<div>" * 5_000),
        "TG-NRM-004",
        "deeper",
    ),
    "a notebook in a notebook": (
        media_types.NOTEBOOK,
        b'{"cells":' + b"[" * 100_000,
        "TG-NRM-004",
        "nested deeper",
    ),
    "TEI with entities": (media_types.XML, _LAUGHS.encode(), "TG-NRM-004", "declarations"),
}


def read(raw: bytes, kind: str, **less: int) -> Boxed:
    profile, payload = PAYLOADS[kind]
    return boxed(ask([page_of(raw, kind)])[1], replace(profile, **less), payload)  # type: ignore[arg-type]


def packet(found: Boxed) -> ResearchPacket:
    assert isinstance(found.answer, PacketMade), found
    return FORMAT.parse(Untrusted(found.answer.packet))


def judged(found: Boxed) -> str:
    """Return how a document ended: a packet, a code, or the limit of the box."""
    if isinstance(found.answer, PacketMade):
        packet(found)
        return "packet"
    if isinstance(found.answer, PacketNotMade):
        return found.answer.code
    assert found.ended.why in ("crashed", "deadline", "exit"), found
    assert found.ended.ready, "the box was locked, and the document ended it"
    # abort, kill, fault, time; 127: no memory was left to say anything
    assert found.ended.exit_code in (127, 134, 137, 139, 152), found
    return "limit"


@cache
def ordinary(kind: str) -> str:
    """Return how a small document ends in the very same box."""
    raw = {HTML: PAGE, PDF: PAPER, **DOCUMENTS}[kind]
    return judged(read(raw, kind, **SHORT))


@pytest.mark.parametrize(("raw", "kind"), [(PAGE, HTML), (PAPER, PDF)])
def test_a_document_is_read_in_its_box_twice_alike(raw: bytes, kind: str) -> None:
    first, again = read(raw, kind), read(raw, kind)
    assert first.answer == again.answer
    made = packet(first)
    assert [item.name for item in made.hazards] == ["hidden-text"]
    text = "\n".join(part.open_for_validation() for part in made.texts)
    assert "ZZmarker" not in text
    assert "HIDDEN" not in text
    assert "sentence number 3" in text or text == "On gates"


@pytest.mark.parametrize("name", normalization.REFUSED)
# claim TG-C-120
def test_a_bomb_of_a_page_is_refused(name: str) -> None:
    assert ordinary(HTML) == "packet", "control: a small one is read"
    found = read(normalization.REFUSED[name], HTML, **SHORT)
    assert judged(found) == "TG-NRM-004"
    assert isinstance(found.answer, PacketNotMade)
    assert (
        "limit" in found.answer.message
        or "more than" in found.answer.message
        or ("deeper" in found.answer.message)
    )


@pytest.mark.parametrize("name", normalization.READ)
# claim TG-C-120
def test_a_page_that_only_looks_like_a_bomb_is_read(name: str) -> None:
    found = read(normalization.READ[name], HTML, **SHORT)
    assert judged(found) == "packet"
    assert "haha" not in "".join(text.open_for_validation() for text in packet(found).texts)


@pytest.mark.parametrize("name", normalization.UNBOUNDED)
# claim TG-C-120
def test_a_page_that_gets_past_the_bounds_meets_the_box(name: str) -> None:
    assert ordinary(HTML) == "packet", "control: a small one is read"
    assert judged(read(normalization.UNBOUNDED[name], HTML, **SHORT)) in (
        "packet",
        "TG-NRM-004",
        "limit",
    )


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("flate", "limit"),
        ("forms in forms", "limit"),
        ("a form in itself", "limit"),
        ("pages without end", "TG-NRM-004"),
        ("many pages", "packet"),
        ("half a file", "TG-NRM-004"),
        ("a password", "TG-NRM-004"),
    ],
)
# claim TG-C-120
def test_a_bomb_of_a_pdf_ends_within_its_limits(name: str, end: str) -> None:
    assert ordinary(PDF) == "packet", "control: a small one is read"
    found = read(PDF_BOMBS[name], PDF, **SHORT)
    assert judged(found) == end
    if end == "packet":
        assert {item.name for item in packet(found).hazards} == {"truncated"}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_an_imported_document_is_read_in_its_box_twice_alike(kind: str) -> None:
    first, again = read(DOCUMENTS[kind], kind), read(DOCUMENTS[kind], kind)
    assert first.answer == again.answer
    made = packet(first)
    assert made.media_type == kind
    text = "\n".join(part.open_for_validation() for part in made.texts)
    assert "open" in text or "See [a,b]" in text
    assert "ZZmarker" not in text


@pytest.mark.parametrize("name", HOSTILE)
# claim TG-C-552
def test_a_hostile_document_is_refused_for_its_reason(name: str) -> None:
    kind, raw, code, words = HOSTILE[name]
    assert ordinary(kind) == "packet", "control: a small one is read"
    found = read(raw, kind)
    assert judged(found) == code
    assert isinstance(found.answer, PacketNotMade)
    assert words in found.answer.message


# claim TG-C-551
def test_macros_and_references_to_outside_are_counted_and_left_alone() -> None:
    made = packet(read(office.MACROS, media_types.DOCX))
    assert {item.name: item.count for item in made.hazards} == {"active-content": 7}
    assert [text.open_for_validation() for text in made.texts] == ["Seen."], "control: it is read"


@pytest.mark.parametrize(
    "profile",
    [FETCH_NORMALIZE, FETCH_HTML, FETCH_OFFICE, FETCH_PDF, FETCH_OCR],
    ids=lambda p: p.name,
)
# claim TG-C-123
def test_a_library_is_in_the_box_of_its_kind_and_in_no_other(
    profile: Profile, tmp_path: Path
) -> None:
    names = (
        *("babel", "courlan", "cryptography", "htmldate", "lxml.etree", "pydantic_monty"),
        *("pypdfium2_raw.bindings", "selectolax.lexbor", "tinycss2", "urllib3", "yaml"),
    )
    there = importable(tmp_path, profile, names)
    expected = {
        "fetch-normalize": [],
        "fetch-html": ["lxml.etree", "selectolax.lexbor", "tinycss2"],
        "fetch-office": [],
        "fetch-pdf": ["pypdfium2_raw.bindings"],
        "fetch-ocr": ["pypdfium2_raw.bindings"],
    }[profile.name]
    assert there == expected


@pytest.mark.parametrize("profile", ["fetch-html", "fetch-office", "fetch-pdf", "fetch-ocr"])
# claim TG-C-123
def test_the_boxes_of_libraries_are_attacked_like_the_one_without(profile: str) -> None:
    ours = {item.name for item in applicable(profile)}
    without = {item.name for item in applicable("fetch-normalize") if not item.only}
    assert len(without) > 250, "control: there are attempts"
    assert without <= ours
