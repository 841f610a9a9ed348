"""The real boxes of pages and PDF files: documents are read in them, bombs end in them.

What arbitrary Python in these boxes can reach is asked by the sandbox's own suite, which attacks
the profiles `fetch-html` and `fetch-pdf` like every other: test_sandbox_escape.py.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.support import normalization, pdfs
from tests.support.boxes import importable
from tests.support.normalization import Boxed, ask, boxed, page_of
from tests.support.pages import HIDDEN, page
from threegate.artifacts.research_packet import FORMAT, ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import PacketMade, PacketNotMade
from threegate.sandbox.attacks.runner import applicable
from threegate.sandbox.profiles import FETCH_HTML, FETCH_NORMALIZE, FETCH_PDF, Profile

HTML, PDF = "text/html", "application/pdf"
PAYLOADS = {
    HTML: (FETCH_HTML, "threegate.gates.fetch.normalize.gate_html:serve"),
    PDF: (FETCH_PDF, "threegate.gates.fetch.normalize.gate_pdf:serve"),
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
    return judged(read(PAGE if kind == HTML else PAPER, kind, **SHORT))


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


@pytest.mark.parametrize("profile", [FETCH_NORMALIZE, FETCH_HTML, FETCH_PDF], ids=lambda p: p.name)
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
        "fetch-pdf": ["pypdfium2_raw.bindings"],
    }[profile.name]
    assert there == expected


@pytest.mark.parametrize("profile", ["fetch-html", "fetch-pdf"])
# claim TG-C-123
def test_the_boxes_of_libraries_are_attacked_like_the_one_without(profile: str) -> None:
    ours = {item.name for item in applicable(profile)}
    without = {item.name for item in applicable("fetch-normalize") if not item.only}
    assert len(without) > 250, "control: there are attempts"
    assert without <= ours
