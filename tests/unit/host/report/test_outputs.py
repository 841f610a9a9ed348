"""Files that runs left, in a report: images by a box, tables as text, everything else by name."""

from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.support.holdings import answer_on, png
from tests.support.reports import RENDERERS, read_markdown, read_page, read_pdf
from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import GateUnavailable
from threegate.base.untrusted import Untrusted
from threegate.gates.image_reader.decoder import points_of
from threegate.gates.image_reader.messages import MAX_IMAGE_BYTES, NotRead
from threegate.host import open_box
from threegate.host.report import outputs
from threegate.host.report.collection import gather
from threegate.host.report.facts import LeftFile, ReportFacts, ReportImage, Table
from threegate.host.report.layout import lay_out
from threegate.host.report.markdown import as_markdown, images_beside
from threegate.host.report.outputs import (
    MOST_CELL_CHARS,
    MOST_COLUMNS,
    MOST_ROWS,
    Viewer,
    computed_behind,
    parse_table,
)
from threegate.host.report.pdf_file import image_of
from threegate.host.review.characters import in_columns
from threegate.host.workspace.index import Index
from threegate.host.workspace.removal import withdraw
from threegate.host.workspace.workspace import Workspace

CSV = b"group,mean\na,1.5\nb,=cmd|calc\n"


def see(data: Untrusted[bytes]) -> ReportImage | str:
    """Decode here what a box decodes."""
    found = points_of(data)
    return found.reason if isinstance(found, NotRead) else image_of(found)


def files_of(report: ReportFacts) -> dict[str, LeftFile]:
    return {file.name: file for result in report.computed for file in result.files}


def gathered(ws: Workspace, index: Index, analysis: str) -> ReportFacts:
    index.catch_up()
    return gather(ws, index, analysis, see)


def test_images_and_tables_are_shown_and_the_rest_is_named(ws: Workspace, index: Index) -> None:
    left = {"a.csv": CSV, "b.png": png(), "c.svg": b"<svg/>", "d.txt": b"words", "e.bin": b"\0"}
    analysis, result = answer_on(ws, left)
    report = gathered(ws, index, analysis)
    assert [one.headline.id for one in report.computed] == [result]
    found = files_of(report)
    assert {name: type(file.shown) for name, file in found.items()} == {
        "a.csv": Table,
        "b.png": ReportImage,
        "c.svg": type(None),
        "d.txt": type(None),
        "e.bin": type(None),
    }
    assert found["c.svg"].words == "not shown: SVG is never shown"
    assert found["b.png"].words == "re-encoded from its points, 60 x 40"
    assert {file.sha256 for file in found.values()} == set(map(sha256_hex, left.values()))


# claim TG-C-321
def test_images_of_a_markdown_file_lie_beside_it_under_names_that_are_no_markup(
    ws: Workspace, index: Index
) -> None:
    analysis, _ = answer_on(ws, {"a.png": png(), "b.png": png()})
    blocks = lay_out(gathered(ws, index, analysis))
    assert "image" not in read_markdown(as_markdown(blocks))[0], "control: without names, none"
    name = "a ](http://x.test/) <b>.md"
    images = images_beside(blocks, name)
    assert [*images] == [f"{name.removesuffix('.md')}-{number}.png" for number in (1, 2)]
    text = as_markdown(blocks, (*images,)).decode()
    shown = [
        one.attrs["src"]
        for token in MarkdownIt("gfm-like").disable("linkify").parse(text)
        for one in token.children or ()
        if one.type in ("image", "link_open", "html_inline")
    ]
    assert [unquote(str(source)) for source in shown] == [f"./{name}" for name in images]
    for data in images.values():
        assert points_of(Untrusted(data)) == points_of(Untrusted(png()))


def test_the_same_workspace_gives_the_same_report(ws: Workspace, index: Index) -> None:
    analysis, _ = answer_on(ws, {"a.csv": CSV, "b.png": png()})
    assert gathered(ws, index, analysis) == gathered(ws, index, analysis)


@pytest.mark.parametrize("form", sorted(RENDERERS))
def test_a_refused_image_is_said_in_words_in_every_format(
    ws: Workspace, index: Index, form: str
) -> None:
    analysis, _ = answer_on(ws, {"plot.png": b"no image"})
    data = RENDERERS[form](lay_out(gathered(ws, index, analysis)))
    text = " ".join("".join(read_pdf(data)).split()) if form == "pdf" else data.decode()
    assert "not shown: other-kind" in text
    assert "What runs left" in text


def test_a_withdrawn_result_shows_nothing(ws: Workspace, index: Index) -> None:
    analysis, result = answer_on(ws, {"b.png": png()})
    assert isinstance(files_of(gathered(ws, index, analysis))["b.png"].shown, ReportImage), (
        "control"
    )
    withdraw(ws, index, result, reason="wrong")
    ((file,),) = [one.files for one in computed_behind(ws.store, [result], see)]
    assert (file.shown, file.words) == (None, "not shown: its result was withdrawn")


def test_no_more_than_so_many_are_shown(
    ws: Workspace, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "MOST_IMAGES", 1)
    analysis, _ = answer_on(ws, {"a.png": png(), "b.png": png(), "c.csv": CSV})
    found = files_of(gathered(ws, index, analysis))
    assert isinstance(found["a.png"].shown, ReportImage)
    assert (found["b.png"].shown, found["b.png"].words) == (
        None,
        "not shown: no more images are shown",
    )
    assert isinstance(found["c.csv"].shown, Table)


def test_a_file_that_is_too_large_is_not_even_read(ws: Workspace, index: Index) -> None:
    large = bytes(MAX_IMAGE_BYTES + 1)
    analysis, _ = answer_on(ws, {"a.png": large, "b.csv": large})
    for file in files_of(gathered(ws, index, analysis)).values():
        assert file.words == f"not shown: it has more than {MAX_IMAGE_BYTES} bytes"


def table(data: bytes, separator: str = ",") -> Table | str:
    return parse_table(Untrusted(data), separator)


def test_a_table_is_cells_of_text() -> None:
    assert table(CSV) == Table((("group", "mean"), ("a", "1.5"), ("b", "=cmd|calc")), 0, 0)
    assert table(b'\xef\xbb\xbf"x, y"\tz\n', "\t") == Table((("x, y", "z"),), 0, 0)
    assert table(b"a,b\n1\n") == Table((("a", "b"), ("1", "")), 0, 0), "a short row is filled up"


def test_a_large_table_is_cut_and_says_so() -> None:
    found = table((b"x," * MOST_COLUMNS + b"y\n") * (MOST_ROWS + 8))
    assert isinstance(found, Table)
    assert (len(found.rows), len(found.rows[0])) == (1 + MOST_ROWS, MOST_COLUMNS)
    assert (found.more_rows, found.more_columns) == (7, 1)
    (row,) = table(b"x" * 1000).rows  # type: ignore[union-attr]
    assert row == ("x" * MOST_CELL_CHARS + "...",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b'"a" b,c\n', "it is not a table"),
        (b'"' + b"x" * 200_000 + b'"\n', "it is not a table"),
    ],
)
def test_what_is_no_table_is_said(data: bytes, words: str) -> None:
    assert table(data) == words


@given(st.binary(max_size=300))
@example(b'"a')
@example(b"a\0b,c")
@example(b"a\rb\nc")
def test_any_bytes_are_a_table_in_bounds_or_words(data: bytes) -> None:
    found = table(data)
    if isinstance(found, str):
        assert found.startswith("it is ")
    else:
        assert 1 <= len(found.rows) <= 1 + MOST_ROWS
        assert {len(row) for row in found.rows} == {len(found.rows[0])}
        assert in_columns(found.rows), "it can be drawn"


HOSTILE_CELLS = b'"</table><script>alert(1)</script>","```\n# h",\xe2\x80\xaexyz\n1,2,3\n'


# claim TG-C-228
def test_no_cell_of_a_table_acts_in_any_format(ws: Workspace, index: Index) -> None:
    analysis, _ = answer_on(ws, {"t.csv": HOSTILE_CELLS})
    blocks = lay_out(gathered(ws, index, analysis))
    page = RENDERERS["html"](blocks)
    assert b"<script" not in page
    assert read_page(page).open == [], "every element is closed where it was opened"
    assert b'<th dir="auto">&lt;/table&gt;&lt;script&gt;' in page, "control: it is there"
    kinds, code = read_markdown(RENDERERS["md"](blocks))
    assert not {"html_block", "html_inline"} & kinds
    assert any("</table><script>alert(1)</script>" in one for one in code)
    assert "\u202e" not in page.decode()
    assert b"/JavaScript" not in RENDERERS["pdf"](blocks)


def test_without_the_signed_box_the_report_says_what_to_do(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise GateUnavailable(
            "the box is another", code="TG-BOX-040", hint="`threegate policy apply`"
        )

    monkeypatch.setattr(open_box, "refuse_unapplied_profile", refuse)
    found = Viewer(ws.bundle)(Untrusted(png()))
    assert found == (
        "there is no sandbox to decode it in: the box is another; `threegate policy apply`"
    )


def test_a_machine_that_has_run_out_is_said(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(outputs, "run_gate", run_out)
    found = Viewer(ws.bundle)(Untrusted(png()))
    assert isinstance(found, str)
    assert "a sandbox cannot be started: resource temporarily unavailable" in found


# claim TG-C-464
def test_a_line_of_millions_of_cells_is_refused_before_it_is_cut() -> None:
    line = b"," * (outputs.MAX_LINE_CHARS - 1)
    assert isinstance(table(line + b"\n"), Table), "control: as long as a line may be"
    assert table(line + b",\n") == "it is not a table"
    assert table(b"a,b\n1,2\n" + b"," * 2**20) == "it is not a table"
