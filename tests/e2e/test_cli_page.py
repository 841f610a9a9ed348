"""`packet page` by the real command: a PNG file, and clear ends where there is none."""

import base64
import io
import re
from pathlib import Path

from PIL import Image

from tests.support.cli import Cli, made, write
from tests.support.console import opened
from tests.support.holdings import answer_on
from tests.support.normalization import fetched, pdf_retrieval, retrieval
from tests.support.pdfs import line, pdf
from tests.support.reports import pdf_images
from threegate.artifacts.ids import sha256_hex

PDF = pdf(
    line("The strength of sea ice was 1.31 MPa at the sur-") + line("face.", y=680),
    line("The second page."),
)
MARKER = (255, 226, 92)


def stored(tmp_path: Path) -> tuple[Cli, str, str]:
    """Return a user with two packets: one of a PDF, one without."""
    cli = made(tmp_path)
    with opened(cli) as ws:
        ids = fetched(ws.store, pdf_retrieval(PDF)), fetched(ws.store, retrieval())
    return cli, *ids


def is_marked(data: bytes) -> bool:
    points = Image.open(io.BytesIO(data)).tobytes()
    return MARKER in zip(*(points[channel::3] for channel in range(3)), strict=True)


def test_a_page_is_written_with_the_quote_marked(tmp_path: Path) -> None:
    cli, packet, _ = stored(tmp_path)
    argv = (
        "packet",
        "page",
        packet[:15],
        "1",
        "--quote",
        "MPa at the surface",
        "--output",
        "a.png",
    )
    told = cli(*argv, "--json")
    assert told.json == {
        "packet": packet,
        "page": 1,
        "pages": 2,
        "found": True,
        "whole": True,
        "width": 1224,
        "height": 1584,
        "file": "a.png",
    }
    assert "page 1 of 2; the words are marked" in told.err
    data = (tmp_path / "a.png").read_bytes()
    assert Image.open(io.BytesIO(data)).size == (1224, 1584)
    assert is_marked(data)
    assert cli("packet", "page", packet, "1", "--quote", "MPa at the surface").raw_out == data
    plain = cli("packet", "page", packet, "1", "--scale", "0.5").raw_out
    assert Image.open(io.BytesIO(plain)).size == (306, 396)
    assert not is_marked(plain)
    assert cli("audit", "verify").out.startswith("verified"), "a picture changes nothing"


def test_an_excerpt_names_its_page(tmp_path: Path) -> None:
    cli, packet, _ = stored(tmp_path)
    told = cli("packet", "page", packet, "--excerpt", "2", "--output", "b.png", "--json").json
    assert (told["page"], told["found"], told["whole"]) == (2, True, True)
    assert is_marked((tmp_path / "b.png").read_bytes())
    wrong = cli("packet", "page", packet, "--excerpt", "9", code=2).err
    assert "there is no excerpt 9" in wrong
    assert "the packet has 2 excerpts" in wrong


def test_words_that_are_not_there_are_said_and_the_page_is_drawn(tmp_path: Path) -> None:
    cli, packet, _ = stored(tmp_path)
    done = cli(
        "packet", "page", packet, "2", "--quote", "sea ice was", "--output", "c.png", "--json"
    )
    assert (done.json["found"], done.json["whole"]) == (False, None)
    assert "page 2 of 2; the words were not found on it" in done.err
    assert not is_marked((tmp_path / "c.png").read_bytes())


def test_what_cannot_be_drawn_ends_in_one_line_and_a_hint(tmp_path: Path) -> None:
    cli, packet, other = stored(tmp_path)
    for argv, words, hint in (
        ((packet, "3"), 'there is no page "3"', "the PDF has 2 pages"),
        ((packet, "iv"), 'there is no page "iv"', "the PDF has 2 pages"),
        ((other, "1"), "was not made from a PDF", "threegate packet show"),
        ((packet,), "name a page", "packet page --help"),
        ((packet, "1", "--scale", "9"), "--scale is a number from 0.25 to 4", "packet page --help"),
        ((packet, "1", "--json"), "--force and --json go with --output", "packet page --help"),
    ):
        done = cli("packet", "page", *argv, code=2)
        assert words in done.err
        assert hint in done.err
        assert done.raw_out == b""
        assert "Traceback" not in done.err


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    cli, packet, _ = stored(tmp_path)
    write(tmp_path / "mine.png", b"mine")
    argv = ("packet", "page", packet, "1", "--output", "mine.png")
    assert "exists already" in cli(*argv, code=2).err
    assert (tmp_path / "mine.png").read_bytes() == b"mine"
    cli(*argv, "--force")
    assert (tmp_path / "mine.png").read_bytes().startswith(b"\x89PNG")


def test_a_terminal_is_shown_no_picture(tmp_path: Path) -> None:
    cli, packet, _ = stored(tmp_path)
    assert b"\x89PNG" not in cli.in_terminal("packet", "page", packet, "1", code=2)


def test_a_forgotten_pdf_is_said(tmp_path: Path) -> None:
    cli, packet, _ = stored(tmp_path)
    assert cli("packet", "page", packet, "1").raw_out, "control"
    cli("forget", f"blob-{sha256_hex(PDF)}", "--reason", "licence", "--yes")
    done = cli("packet", "page", packet, "1", code=2)
    assert f"the PDF of {packet[:15]} is not here any more" in done.err
    assert "threegate packet show" in done.err


def asked(tmp_path: Path) -> tuple[Cli, str, str]:
    cli, packet, other = stored(tmp_path)
    cli("withdraw", other, "--reason", "one source is enough", "--yes")
    answer = cli("ask", "--extractive", "What was the strength of sea ice?", "--json").json
    return cli, packet, str(answer["id"])


def test_a_report_shows_each_quote_on_its_page(tmp_path: Path) -> None:
    cli, packet, analysis = asked(tmp_path)
    plain = cli("report", analysis, "--format", "html").raw_out
    assert b"<img" not in plain, "control: without the option there is no picture"
    argv = ("report", analysis, "--with-pages", "--format")
    page = cli(*argv, "html").raw_out
    found = re.findall(
        rb'<img [^>]*alt="the page of the quote" src="data:image/png;base64,([^"]*)"', page
    )
    assert found
    shown = base64.b64decode(found[0])
    assert Image.open(io.BytesIO(shown)).size == (918, 1188)
    assert is_marked(shown)
    assert b"The stored PDF, page 1 of 2; the words are marked." in page
    assert cli(*argv, "html").raw_out == page, "the same workspace gives the same bytes"
    assert pdf_images(cli(*argv, "pdf").raw_out) == len(found)
    cli(*argv, "md", "--output", "r.md")
    text = (tmp_path / "r.md").read_text()
    assert "![the page of the quote](./r-1.png)" in text
    assert (tmp_path / "r-1.png").read_bytes() == shown
    assert cli("packet", "page", packet, "1").raw_out, "control: nothing was removed"


def test_a_report_without_the_pdf_says_so_and_is_written(tmp_path: Path) -> None:
    cli, packet, analysis = asked(tmp_path)
    cli("forget", f"blob-{sha256_hex(PDF)}", "--reason", "licence", "--yes")
    page = cli("report", analysis, "--with-pages", "--format", "html").out
    assert f"No picture of the page: the PDF of {packet[:15]} is not here any more." in page
    assert "<img" not in page


def test_a_run_has_no_pages(tmp_path: Path) -> None:
    cli, _, _ = stored(tmp_path)
    with opened(cli) as ws:
        result = answer_on(ws, {"a.txt": b"words"})[1]
    done = cli("report", result, "--with-pages", code=2)
    assert "--with-pages goes with an analysis" in done.err
    assert cli("report", result).raw_out, "control"
