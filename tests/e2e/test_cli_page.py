"""`packet page` by the real command: a PNG file, and clear ends where there is none."""

import io
from pathlib import Path

from PIL import Image

from tests.support.cli import Cli, made, write
from tests.support.normalization import fetched, pdf_retrieval, retrieval
from tests.support.pdfs import line, pdf
from threegate.artifacts.ids import sha256_hex
from threegate.host.workspace.workspace import open_workspace

PDF = pdf(
    line("The strength of sea ice was 1.31 MPa at the sur-") + line("face.", y=680),
    line("The second page."),
)
MARKER = (255, 226, 92)


def stored(tmp_path: Path) -> tuple[Cli, str, str]:
    """Return a user with two packets: one of a PDF, one without."""
    cli = made(tmp_path)
    assert cli.workspace is not None
    ws = open_workspace(cli.workspace)
    ids = fetched(ws.store, pdf_retrieval(PDF)), fetched(ws.store, retrieval())
    ws.close()
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
