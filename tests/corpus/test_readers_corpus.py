"""Pages, PDF files and hostile documents as they were found: a packet or a clear refusal.

Every file is read twice with the same bytes for a result; hostile ones only inside a real box.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
import trafilatura

from tests.support.normalization import Boxed, ask, boxed, page_of
from tests.support.pages import page
from tests.support.pdfs import written
from threegate.artifacts.research_packet import FORMAT, ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize import gate_html, gate_pdf
from threegate.gates.fetch.normalize.gate import answer
from threegate.gates.fetch.normalize.messages import Normalize, PacketMade, PacketNotMade
from threegate.gates.fetch.normalize.readers import main_text
from threegate.gates.fetch.normalize.readers.charset import decoded
from threegate.sandbox.profiles import FETCH_HTML, FETCH_PDF

HTML, PDF = "text/html", "application/pdf"
READERS = {HTML: gate_html.READERS, PDF: gate_pdf.READERS}
BOXES = {
    HTML: (FETCH_HTML, "threegate.gates.fetch.normalize.gate_html:serve"),
    PDF: (FETCH_PDF, "threegate.gates.fetch.normalize.gate_pdf:serve"),
}
CODES = ("TG-NRM-004", "TG-NRM-005", "TG-NRM-007")  # not readable, too large, a scan
# What may differ between a document and the same one with other words in it.
TEXT_FIELDS = {"raw_sha256", "raw_bytes", "record_sha256", "hazards", "excerpts", "texts"}
MAX_LINES = 400


def files(corpus: Path, *folders: str) -> Iterator[Path]:
    found = [path for name in folders for path in sorted((corpus / name).rglob("*"))]
    found = [path for path in found if path.is_file()]
    assert found, folders
    yield from found


def kind_of(path: Path) -> str:
    return PDF if path.suffix == ".pdf" else HTML


def message_of(raw: bytes, kind: str) -> Normalize:
    """Return what a box is given for a URL somebody typed."""
    got = page_of(raw, kind)
    entry = replace(got.answer, reference=got.answer.url)
    return ask([replace(got, answer=entry)], reference=entry.url, scheme="url", want="full-text")[1]


def read(raw: bytes, kind: str) -> PacketMade | PacketNotMade:
    message = message_of(raw, kind)
    found = answer(message, READERS[kind])
    assert found == answer(message, READERS[kind]), "the same record, the same bytes"
    return found


def in_box(raw: bytes, kind: str) -> Boxed:
    return boxed(message_of(raw, kind), *BOXES[kind])


# 127: the C library ends a process for which it cannot allocate thread-local data.
LIMIT_ENDS = {
    ("exit", 70),
    ("exit", 127),
    *(("crashed", 128 + signal) for signal in (6, 9, 11, 24)),
}


def packet(found: PacketMade | PacketNotMade | None) -> ResearchPacket:
    assert isinstance(found, PacketMade), found
    return FORMAT.parse(Untrusted(found.packet))


def text_of(made: ResearchPacket) -> str:
    return "\n".join(part.open_for_validation() for part in made.texts)


def counts(made: ResearchPacket) -> dict[str, int]:
    return {item.name: item.count for item in made.hazards}


def judged(found: PacketMade | PacketNotMade | None, name: str) -> str:
    if isinstance(found, PacketMade):
        packet(found)
        return "packet"
    assert isinstance(found, PacketNotMade), name
    assert found.code in CODES, (name, found)
    return found.code


def test_every_page_and_pdf_is_a_packet_or_refused_and_alike_in_a_box(corpus: Path) -> None:
    seen: Counter[str] = Counter()
    for path in files(corpus, "web", "pdf"):
        raw, kind = path.read_bytes(), kind_of(path)
        found = read(raw, kind)
        seen[judged(found, path.name)] += 1
        assert in_box(raw, kind).answer == found, path.name
    print(f"\npages and PDF files: {dict(seen)}")
    assert seen["packet"] >= 18
    assert seen.total() - seen["packet"] <= seen["packet"] // 2


@pytest.mark.parametrize("kind", [HTML, PDF])
def test_every_hostile_file_ends_within_its_limits(corpus: Path, kind: str) -> None:
    """Whatever a file is, somebody may send it as a page or as a PDF."""
    seen: Counter[str] = Counter()
    for path in files(corpus, "hostile"):
        if kind == PDF and path.suffix != ".pdf" and path.parent.name not in ("svg", "http"):
            continue
        if kind == HTML and path.suffix == ".pdf" and path.stat().st_size > 2**20:
            continue
        if path.suffix == ".yaml":  # hostile to others
            seen[judged(read(path.read_bytes(), kind), path.name)] += 1
            continue
        found = in_box(path.read_bytes(), kind)
        if found.answer is None:
            ended = found.ended
            assert ended.ready, path.name
            # Killed by a limit; or by itself, seen once: 70 is its last resort for any error.
            assert (ended.why, ended.exit_code) in LIMIT_ENDS, (path.name, ended)
            seen["limit"] += 1
        else:
            seen[judged(found.answer, path.name)] += 1
    print(f"\nhostile files as {kind}: {dict(seen)}")
    assert seen["packet"] >= 1, "control: a harmless one is read"
    assert seen["TG-NRM-004"] >= 1


# claim TG-C-121
def test_no_hidden_text_of_the_twenty_ways_is_left(corpus: Path) -> None:
    raw = (corpus / "hostile/html/hidden_text_20_ways.html").read_bytes()
    markers = set(re.findall(r"ZZ[a-z]+", raw.decode()))
    assert len(markers) >= 18, "control: they are in the file"
    made = packet(read(raw, HTML))
    # One stands in plain sight, among letters without width.
    assert set(re.findall(r"ZZ[a-z]+", text_of(made))) == {"ZZzw"}
    assert "genuine paragraph number 20" in text_of(made)
    assert counts(made)["hidden-text"] > 400


# claim TG-C-122
def test_no_hidden_text_of_a_pdf_is_left(corpus: Path) -> None:
    samples = [corpus / "hostile/pdf/js_launch_hidden.pdf", *(corpus / "injection").rglob("*.pdf")]
    for path in samples:
        raw = path.read_bytes()
        made = packet(read(raw, PDF))
        assert counts(made)["hidden-text"] > 40, path.name
        assert "ZZ" not in text_of(made)
        assert "LLM REVIEWER NOTE" not in text_of(made)
    assert b"ZZ white" in samples[0].read_bytes(), "control: it is in the file"


def test_our_copy_of_trafilatura_finds_what_it_finds(corpus: Path) -> None:
    pages = [
        path
        for path in files(corpus, "web", "hostile/html", "injection/html")
        if path.suffix == ".html"
    ]
    assert len(pages) >= 10
    for path in pages:
        text = re.sub(r"(?s)<script.*?</script>", "", decoded(path.read_bytes()))
        body = main_text.main_text(text)
        ours = "" if body is None else "\n".join(part for _, part in main_text.sections(body))
        theirs = trafilatura.extract(text, fast=True, include_comments=False) or ""
        assert ours.split() == theirs.split(), path.name


def as_page(text: str) -> bytes:
    return page("".join(f"<p>{html.escape(line)}</p>" for line in text.split("\n")[:MAX_LINES]))


def as_pdf(text: str) -> bytes:
    return written("\n".join(text.split("\n")[:MAX_LINES]))


def test_words_of_an_attack_change_text_and_flags_and_nothing_else(corpus: Path) -> None:
    quiet = {
        HTML: packet(read(as_page("ordinary words of an ordinary page"), HTML)),
        PDF: packet(read(as_pdf("ordinary words of an ordinary page"), PDF)),
    }
    changed: Counter[str] = Counter()
    for path in files(corpus, "injection"):
        text = path.read_bytes().decode("utf-8", "replace")
        for kind, raw in ((HTML, as_page(text)), (PDF, as_pdf(text))):
            made = packet(read(raw, kind))
            for field in fields(ResearchPacket):
                if field.name not in TEXT_FIELDS:
                    same = getattr(made, field.name) == getattr(quiet[kind], field.name)
                    assert same, (path.name, kind, field.name)
            changed.update(counts(made).keys())
    print(f"\nflags: {dict(changed)}")
    assert not changed["hidden-text"], "what is in plain sight stays"
    assert changed["injection-like"] >= 5
