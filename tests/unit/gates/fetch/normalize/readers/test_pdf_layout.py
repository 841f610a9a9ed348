"""The layout of PDF pages: columns, tables, headings, captions, notes, heads and page names."""

import random
from unittest.mock import patch

import pytest

from tests.support.pages import answer
from tests.support.pdf_layouts import LEFT, PITCH, broken, in_columns, written
from tests.support.pdfs import line, pdf
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers import pdf_order, pdf_sections
from threegate.gates.fetch.normalize.readers.pdf import read
from threegate.gates.fetch.normalize.text import Document

WORDS = ["gate", "keeper", "retrieved", "evidence", "while", "another", "process", "executes"]


def prose(count: int, seed: int = 1) -> str:
    chooser = random.Random(seed)
    return " ".join(f"{word}{n}" for n, word in enumerate(chooser.choices(WORDS, k=count)))


def parts(found: Document) -> list[tuple[str, str]]:
    return [
        (part.label.open_for_validation(), part.text.open_for_validation()) for part in found.parts
    ]


def whole(raw: bytes) -> str:
    return "\n".join(text for _, text in parts(read(Untrusted(raw), answer())))


def courier(*contents: bytes, **other: bytes) -> bytes:
    return pdf(*contents, font=b"Courier", **other)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("how", [{}, {"by_row": True}, {"backwards": True}], ids=str)
def test_columns_are_read_one_after_the_other(columns: int, how: dict[str, bool]) -> None:
    made = in_columns(prose(1800), columns, title="Gates", **how)
    found = parts(read(Untrusted(made.raw), answer()))
    words = [word for label, text in found if label.startswith("page") for word in text.split()]
    assert words == list(made.words)


def test_a_line_across_both_columns_divides_them() -> None:
    top, below = prose(40, 1), prose(40, 2)
    left, right = broken(top, 40)[:4], broken(below, 40)[:4]
    content = [
        *written(left, LEFT, 700),
        *written(left, LEFT, 500),
        line("across " * 12, x=LEFT, y=600, size=9),
        *written(right, 320, 700),
        *written(right, 320, 500),
    ]
    order = whole(courier(b"".join(content))).split()
    assert order == [
        *" ".join(left + right).split(),
        *["across"] * 12,
        *" ".join(left + right).split(),
    ]


def test_a_word_broken_at_the_end_of_a_line_is_whole_again() -> None:
    lines = [
        "it is nec-",
        "essary, for the keeper was an exam-",
        "ple of patience, a well-",
        "known one, since 2010-",
    ]
    lines += ["2015, by Smith-", "Jones; well known was its", "example of care and state-"]
    lines += ["of-the-art gates - they say"]
    text = whole(courier(b"".join(written(lines, LEFT, 700))))
    assert text == (
        "it is necessary, for the keeper was an example of patience, a well-known one, since "
        "2010-2015, by Smith-Jones; well known was its example of care and state-of-the-art "
        "gates - they say"
    )


def test_paragraphs_begin_where_a_line_is_indented_or_the_last_one_is_short() -> None:
    lines = broken(prose(60), 60)
    content = [*written(lines, LEFT, 700)]
    content += [line("Indented " + "words " * 8, x=LEFT + 14, y=700 - PITCH * len(lines), size=9)]
    content += written(["and it goes on.", "A new one."], LEFT, 700 - PITCH * (len(lines) + 1))
    text = whole(courier(b"".join(content)))
    assert [row.split()[0] for row in text.split("\n\n")] == [lines[0].split()[0], "Indented", "A"]


def test_references_with_hanging_lines_stay_apart() -> None:
    first = ["Ada Gate and Bob Wall. On gates, walls and what is between the two of", "them. 2024."]
    content = []
    for number in range(3):
        content += written(first[:1], LEFT, 700 - 22 * number)
        content += written(first[1:], LEFT + 12, 689 - 22 * number)
    assert whole(courier(b"".join(content))).split("\n\n") == [" ".join(first)] * 3


def test_entries_of_a_table_of_contents_and_of_a_list_stay_apart() -> None:
    lines = [f"{name} {'. ' * (38 - len(name) // 2)}7" for name in ("Gates", "Keepers", "Walls")]
    lines += ["- one of the entries of a list that has more than one of them, as lists have"]
    lines += ["- another one"]
    rows = whole(courier(b"".join(written(lines, LEFT, 700)))).split("\n\n")
    assert [row.split()[0] for row in rows] == ["Gates", "Keepers", "Walls", "-", "-"]


def test_running_heads_and_page_numbers_are_left_out_once_they_come_back() -> None:
    made = in_columns(prose(1800), 1)
    found = parts(read(Untrusted(made.raw), answer()))
    label, text = found[-1]
    pages = len(found) - 1
    assert label == f"running heads and feet, {2 * pages} lines left out of the pages"
    assert text == "A journal of gates, volume 0"
    assert "journal" not in " ".join(text for _, text in found[:-1])


def test_two_pages_have_no_running_heads() -> None:
    pages = [line("the same head", y=760) + line(f"text {n}", y=700) for n in "ab"]
    assert whole(courier(*pages)).count("the same head") == 2


def test_a_page_of_nothing_but_a_running_head_keeps_it() -> None:
    found = parts(read(Untrusted(courier(*[line("the same", y=760)] * 4)), answer()))
    assert found == [(f"page {n}", "the same") for n in range(1, 5)]


def test_headings_name_the_sections_of_each_page() -> None:
    body = broken(prose(30), 60)
    first = [line("2 Methods", x=LEFT, y=740, size=14), *written(body, LEFT, 700)]
    bold = line("Results", x=LEFT, y=500, size=9).replace(b"/F1", b"/F2")
    first += [bold, *written(body, LEFT, 480)]
    found = parts(
        read(Untrusted(courier(b"".join(first), b"".join(written(body, LEFT, 700)))), answer())
    )
    assert [label for label, _ in found] == [
        "page 1: 2 Methods",
        "page 1: Results",
        "page 2: Results",
    ]
    assert found[0][1].startswith("2 Methods\n")


def test_captions_tables_and_footnotes_are_parts_of_their_own() -> None:
    body = broken(prose(120), 80)
    rows = [("Gate", "Runs", "Network"), ("CORE", "1", "none"), ("FETCH", "22", "one socket")]
    rows += [("TOOL-EXEC", "3", "none")]
    content = written(body, LEFT, 740)
    content += [line("Table 2: What each gate may do.", x=LEFT, y=500, size=9)]
    for number, row in enumerate(rows):
        content += [
            line(cell, x=LEFT + 120 * at, y=480 - PITCH * number, size=9)
            for at, cell in enumerate(row)
        ]
    content += written(["and the text goes on after it."], LEFT, 400)
    content += [line("1 A note about gates.", x=LEFT, y=60, size=7)]
    found = dict(parts(read(Untrusted(courier(b"".join(content))), answer())))
    assert list(found) == ["page 1", "page 1: Table 2", "page 1: footnotes"]
    assert found["page 1: Table 2"].split("\n") == [
        "Table 2: What each gate may do.",
        "",
        *(" | ".join(row) for row in rows),
    ]
    assert found["page 1: footnotes"] == "1 A note about gates."
    assert found["page 1"].endswith("and the text goes on after it.")


def test_pages_are_called_what_the_document_calls_them() -> None:
    labels = b"0<</S/r>>2<</S/D/St 1>>"
    found = read(Untrusted(courier(*[line("x")] * 3, labels=labels)), answer())
    assert [label for label, _ in parts(found)] == ["page i", "page ii", "page 1"]
    assert [part.page for part in found.parts] == [1, 2, 3]


def test_more_parts_than_a_packet_holds_are_put_together_by_page() -> None:
    def page(name: str) -> bytes:
        rows = (
            (700 - 100 * n, f"Heading {name}{n}", f"{name}{n} below it are words") for n in range(3)
        )
        return b"".join(line(head, y=y, size=18) + line(text, y=y - 20) for y, head, text in rows)

    pages = [page(name) for name in "abcdefghklmn"]
    with patch.object(pdf_sections, "MAX_PARTS", 8):
        assert len(read(Untrusted(courier(*pages[:2])), answer()).parts) == 6, "control"
        found = read(Untrusted(courier(*pages[:4])), answer())
        assert [label for label, _ in parts(found)] == [f"page {n}" for n in range(1, 5)]
        found = read(Untrusted(courier(*pages)), answer())
        assert [label for label, _ in parts(found)][:2] == ["pages 1-2", "pages 3-4"]
        assert sum(text.count("below") for _, text in parts(found)) == 36


def test_a_page_with_too_many_blocks_stays_as_it_was_painted() -> None:
    content = line("right", x=400, y=680) + line("left", x=60, y=700)
    assert whole(courier(content)).split() == ["left", "right"], "control"
    with patch.object(pdf_order, "MAX_BLOCKS", 1):
        assert whole(courier(content)).split() == ["right", "left"]


def test_a_page_that_lies_on_its_side_is_read() -> None:
    lines = broken(prose(40), 50)
    content = b"q 0 1 -1 0 600 0 cm " + b"".join(written(lines, 60, 540)) + b"Q"
    assert whole(courier(content)).split() == " ".join(lines).replace("- ", "").split()


@pytest.mark.parametrize("number", ["1e38", "-1e38", "nan", "1e308", "0"])
def test_absurd_places_and_sizes_are_read_without_an_error(number: str) -> None:
    content = f"q BT /F1 12 Tf 1 0 0 {number} {number} {number} Tm (odd) Tj ET Q".encode()
    assert "plain" in whole(courier(content + line("plain") + content))
