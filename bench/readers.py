"""Pages and PDF files into packets on one core, next to the bare libraries on the same bytes.

The documents are invented: pages of 100 kB with a frame, style sheets, scripts and hidden
parts around an article, and papers of ten full pages.  The bare libraries give text; ours
takes out what is hidden, counts it, bounds, quotes and hashes the rest, and writes a packet.
Nothing here waits, so the clock is that of the core.
"""

import gc
import random
import time
from pathlib import Path

import pypdfium2  # type: ignore[import-untyped]
import trafilatura

from bench.data import sentences
from bench.figures import Plain, Sizes, compare, memory_rows
from bench.measure import Memory, Watch, noise, say
from tests.support.normalization import ask, page_of
from tests.support.pdfs import written
from threegate.gates.fetch.normalize import gate_html, gate_pdf
from threegate.gates.fetch.normalize.gate import answer
from threegate.gates.fetch.normalize.messages import PacketMade

DOCUMENTS = 12
ONE_IN = 500  # of the packets that are validated elsewhere: a page takes that much longer
MAX_SLOWER = 1.3


def run(sizes: Sizes, _directory: Path) -> Plain:
    """Measure and return rows."""
    memory, laps = Memory(), max(4, sizes.packets_to_validate // ONE_IN // DOCUMENTS)
    rows = [_pages(laps, memory), _papers(laps, memory)]
    return {"rows": [*rows, *memory_rows("readers", memory)], "curves": []}


def _pages(laps: int, memory: Memory) -> Plain:
    ours, bare = (Watch(clock=time.process_time) for _ in range(2))
    pages = [page(number) for number in range(DOCUMENTS)]
    asks = [ask([page_of(text.encode(), "text/html")])[1] for text in pages]
    gc.freeze()  # as the gate does
    for lap in range(laps):
        with ours.lap(len(asks)):
            made = [answer(message, gate_html.READERS) for message in asks]
        with bare.lap(len(pages)):
            for text in pages:
                trafilatura.extract(text, fast=True, include_comments=False)
        assert all(isinstance(found, PacketMade) for found in made)
        memory.look()
        if lap % 10 == 9:
            say(f"readers: {ours.done} pages, {ours.rate():,.0f}/s")
    return compare(
        "HTML of 100 kB to packet, per core",
        ours.rate(),
        peer="trafilatura, fast, the text alone",
        theirs=bare.rate(),
        unit="pages/s",
        target=f"at most {MAX_SLOWER} times the peer's time",
        met=bare.rate() <= MAX_SLOWER * ours.rate(),
        noise=(noise(ours.seconds), noise(bare.seconds)),
    )


def _papers(laps: int, memory: Memory) -> Plain:
    ours, bare = (Watch(clock=time.process_time) for _ in range(2))
    papers = [paper(number) for number in range(DOCUMENTS)]
    asks = [ask([page_of(raw, "application/pdf")])[1] for raw in papers]
    for _ in range(laps):
        made = []
        for message in asks:
            with ours.lap(PAPER_PAGES):
                made.append(answer(message, gate_pdf.READERS))
        for raw in papers:
            with bare.lap(PAPER_PAGES):
                _bare_pdf(raw)
        assert all(isinstance(found, PacketMade) for found in made)
        memory.look()
    return compare(
        "PDF to packet, per core",
        ours.rate(),
        peer="pypdfium2, the text alone",
        theirs=bare.rate(),
        unit="pages/s",
        noise=(noise(ours.seconds), noise(bare.seconds)),
    )


def _bare_pdf(raw: bytes) -> list[str]:
    document = pypdfium2.PdfDocument(raw)
    texts = []
    for page in document:
        text_page = page.get_textpage()
        texts.append(text_page.get_text_range())
        text_page.close()
        page.close()
    document.close()
    return texts


PAPER_PAGES = 12
_LINES = 50


def paper(number: int) -> bytes:
    chooser = random.Random(number)
    lines = " ".join(chooser.choices(sentences(), k=900)).split()
    rows = [" ".join(lines[at : at + 8])[:60] for at in range(0, 8 * _LINES * PAPER_PAGES, 8)]
    return written("\n".join(rows), lines_per_page=_LINES)


def page(number: int) -> str:
    """Return a page as they are: an article among a frame that is larger."""
    chooser = random.Random(number)
    prose = chooser.choices(sentences(), k=160)
    rules = "".join(
        f".c{n}{{color:#{n:03x};margin:{n}px;text-decoration:none}}\n" for n in range(100, 300)
    ) + "".join(f".h{n}{{display:none}} .h{n}.open{{display:block}}\n" for n in range(20))
    menu = "".join(
        f'<li class="c{n}"><a class="h{n % 40}x" href="/{n}"><span>entry</span> {n}</a></li>'
        for n in range(100)
    )
    teasers = "".join(
        f'<div class="card c{200 + n}"><div class="in" style="margin:0"><h3><a href="/t{n}">Teaser'
        f' {n}</a></h3><p>{prose[n]}</p><span aria-hidden="true">*</span></div></div>'
        for n in range(40)
    )
    article = "".join(
        f"<section><h2>Part {n // 10}</h2><ul><li>{prose[n]}<li><a href=/x>{prose[n + 1]}</a></ul>"
        "<table><tr><th>a<th>b<tr><td>1<td>2</table>"
        if n % 10 == 0
        else f"<div><p>{prose[n]} <b>{prose[n - 1]}</b> <a href='/r'>[{n}]</a> <i>and</i> on</p>"
        "<figure><img src='/f.png' alt='x'><figcaption>A figure.</figcaption></figure></div>"
        for n in range(120)
    )
    hidden = "".join(f'<p style="display:none">{text}</p>' for text in prose[:5])
    script = "var x = {" + ",".join(f"k{n}:'{'v' * 40}'" for n in range(700)) + "};"
    return (
        f"<!doctype html><html><head><title>Page {number}</title><style>{rules}</style>"
        f"<script>{script}</script></head><body><nav><ul>{menu}</ul></nav>"
        f"<main><article><h1>On gates</h1>{article}{hidden}</article></main>"
        f"<aside>{teasers}</aside><footer><ul>{menu}</ul></footer></body></html>"
    )
