"""Data files: what a description says, and what is left undecided."""

import random
from dataclasses import replace

import pytest

from tests.support import tables
from tests.support.normalization import hazards, made, page_of, texts
from threegate.artifacts import media_types
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize import gate_office
from threegate.gates.fetch.normalize.readers import delimited, json_data, xlsx
from threegate.gates.fetch.normalize.readers.columns import Column, kind_of
from threegate.gates.fetch.normalize.readers.spreadsheet_dates import shown_date
from threegate.gates.fetch.normalize.readers.table import MAX_COLUMNS
from threegate.gates.fetch.normalize.text import Document, Read, Unread

READERS: dict[str, Read] = {
    media_types.CSV: delimited.read,
    media_types.TSV: delimited.read,
    media_types.JSON: json_data.read,
    media_types.JSON_LINES: json_data.read,
    media_types.XLSX: xlsx.read,
}


def read(raw: bytes, kind: str = media_types.CSV) -> Document:
    return READERS[kind](Untrusted(raw), tables.imported(raw, kind).answer)


def parts(raw: bytes, kind: str = media_types.CSV) -> dict[str, str]:
    found = read(raw, kind).parts
    return {part.label.open_for_display(): part.text.open_for_display() for part in found}


def columns(raw: bytes, kind: str = media_types.CSV) -> list[str]:
    return parts(raw, kind)["columns"].split("\n")


def test_a_csv_is_described_by_columns_and_first_rows() -> None:
    assert parts(tables.CSV) == {
        "data": "3 rows, 3 columns.\nThe first row is read as the names of the columns.\n"
        "A CSV file in the encoding UTF-8; cells are separated by semicolons.",
        "columns": "1. station: text; 3 values; 0 empty; at most 1 character; 2 distinct;"
        " A (2), B (1)\n"
        "2. temp: number with a decimal comma; 2 values; 0 empty; 1 marked as missing;"
        " from 1,5 to 12; 2 distinct\n"
        "3. taken: date; 2 values; 1 empty; from 2020-01-01 to 2020-02-01; 2 distinct",
        "rows 1-3": "station | temp | taken\nA | 1,5 | 2020-01-01\nB | NA | 2020-02-01\nA | 12 | ",
    }


def test_a_fetched_table_and_fetched_json_stay_text() -> None:
    control = made(tables.imported(tables.CSV, media_types.CSV))
    assert "columns" in texts(control), "control: an imported one is described"
    assert texts(made(page_of(tables.CSV, media_types.CSV))) == {
        "text": tables.CSV.decode().strip()
    }
    found = texts(made(page_of(tables.JSON, media_types.JSON)))
    assert list(found) == ["text"]
    assert '"ice": true' in found["text"]


def test_a_secret_in_the_rows_that_are_shown_is_counted() -> None:
    raw = b"user,key\nada,AKIA" + b"ABCD1234EFGH5678\nbob,x\n"
    found = hazards(made(tables.imported(raw, media_types.CSV)))
    assert found == {"secret-like": 2}, "among the values of its column, and in its row"
    harmless = raw.replace(b"AKIA", b"XXXX")
    assert hazards(made(tables.imported(harmless, media_types.CSV))) == {}, "control"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"a,b\n1,2\n", "commas"),
        (b"a;b\n1,5;2,5\n", "semicolons"),
        (b"1,5;2,5;3\n2,5;3,5;4\n", "semicolons"),  # by numbers: commas give as many cells
        (b"a\tb\nx, y\tz, u\n", "tabs"),
        (b"a|b\n1|2\n", "bars"),
        (b"sep=|\na,b|c\n1,2|3\n", "bars"),
        (b'a,b\n"x;y",1\n"z;u",2\n', "commas"),
        (b"only\nwords\n", "commas"),
    ],
)
def test_the_delimiter_is_detected_and_said(raw: bytes, said: str) -> None:
    assert f"separated by {said}" in parts(raw)["data"]


def test_quotation_marks_hold_delimiters_and_line_feeds() -> None:
    found = parts(b'name,size\n"Ice, sea\nand lake",1\n"say ""no""",2\n')
    assert "2 rows, 2 columns." in found["data"]
    assert found["rows 1-2"].split("\n")[1:] == ["Ice, sea and lake | 1", 'say "no" | 2']


def test_marks_of_inches_do_not_swallow_rows() -> None:
    found = parts(b'pipe\tlength\n"5\t1\n6\t2\n7\t3\n', media_types.TSV)
    assert "3 rows, 2 columns." in found["data"]
    assert "Quotation marks are part of the cells." in found["data"]


@pytest.mark.parametrize(
    ("raw", "encoding", "word"),
    [
        ("stra\xdfe,b\n1,2\n".encode("cp1252"), "windows-1252", "straße"),
        ("straße,b\n1,2\n".encode("utf-8-sig"), "UTF-8", "straße"),
        ("straße,b\n1,2\n".encode("utf-16"), "UTF-16-LE", "straße"),
        (b"a,b\r1,2\r", "UTF-8", "a"),
    ],
)
def test_encodings_and_ends_of_lines(raw: bytes, encoding: str, word: str) -> None:
    found = parts(raw)
    assert f"the encoding {encoding};" in found["data"]
    assert "1 row, 2 columns." in found["data"]
    assert found["columns"].startswith(f"1. {word}: whole number")


@pytest.mark.parametrize(
    ("raw", "first"),
    [
        (b"country,1990,1991\nChad,2,3\n", "1. country: text"),
        (b",a,b\n0,2,3\n", "1. column 1: whole number"),  # as pandas writes it
        (b"1,2\n3,4\n", "1. column 1: whole number; 2 values"),
        (b"a,a\n1,2\n", "1. column 1: mixed: 1 whole number, 1 text"),
    ],
)
def test_a_row_of_names_is_told_by_rules(raw: bytes, first: str) -> None:
    assert columns(raw)[0].startswith(first)


def test_titles_comments_and_uneven_rows_are_said() -> None:
    found = parts(b"# made in 2020\nIce of the sea,,\na,b,c\n1,2,3\n4,5\n6,7,8,9\n")
    assert found["data"].split("\n")[2:] == [
        "A CSV file in the encoding UTF-8; cells are separated by commas.",
        "1 line of comments above the table.",
        "Above the table: Ice of the sea",
        "2 rows with another number of cells than the usual 3; the first is row 2.",
    ]
    assert found["columns"].split("\n")[3] == (
        "4. column 4: whole number; 1 value; 2 empty; from 9 to 9; 1 distinct"
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(("12", "integer"), ("-0", "integer"), ("007", "text"), ("1" * 19, "text")),
        *(("1.5", "number"), (".5", "number"), ("1e-3", "number"), ("1,234.5", "number")),
        *(("1,5", "comma"), ("1.234,5", "comma"), ("0,123", "comma"), ("1,234", "grouped")),
        *(("2020-02-30", "date"), ("2020-02-01T10:00:00Z", "date"), ("2020-13-01", "text")),
        *(("TRUE", "boolean"), ("n/a", "missing"), ("#DIV/0!", "missing"), ("x", "text")),
        *(("١٢", "text"), ("1" * 10_000_000, "text"), ("1_000", "text"), ("inf", "text")),
    ],
)
def test_kinds_of_values(text: str, kind: str) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("1,234", "5"), "number with commas that are decimal or group digits (not decided)"),
        (("1,234", "0,5"), "number with a decimal comma; 2 values; from 0,5 to 1,234"),
        (("1,234", "2.5"), "number; 2 values; from 2.5 to 1,234"),
        (("9", "10"), "whole number; 2 values; from 9 to 10"),
        (("1.5", "2,5"), "mixed: 1 number with a decimal comma, 1 number; 2 values; 2 distinct"),
        (("1e400", "1"), "number; 2 values; from 1 to 1e400"),
    ],
)
def test_commas_are_decided_by_the_whole_column(values: tuple[str, ...], said: str) -> None:
    column = Column("x")
    for value in values:
        column.add(value)
    assert column.described().startswith(said)
    assert "from" in said or "from" not in column.described()


def test_columns_beyond_the_bound_are_counted() -> None:
    wide = b",".join([b"1"] * (MAX_COLUMNS + 7))
    found = parts(wide + b"\n" + wide + b"\n")
    assert f"2 rows, {MAX_COLUMNS + 7} columns." in found["data"]
    assert f"The first {MAX_COLUMNS} columns are described." in found["data"]
    assert len(found["columns"].split("\n")) == MAX_COLUMNS


def test_values_beyond_the_bound_are_not_counted_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threegate.gates.fetch.normalize.readers.table.MAX_CELLS", 300)
    found = parts(b"a,b\n" + b"1,2\n" * 500)
    assert "500 rows, 2 columns." in found["data"]
    assert "Values are counted in the first 151 rows." in found["data"]
    assert "151 values; 0 empty" in found["columns"]


def test_json_is_described_by_paths() -> None:
    found = parts(tables.JSON, media_types.JSON)
    assert found["data"] == "A JSON file: one object of 1 key."
    assert found["lists"] == "features: 1 list, 2 items in all"
    assert found["paths"] == (
        "features[].id: number; 2 values; from 1 to 2.5; 2 distinct\n"
        "features[].ice: true or false; 1 value; 1 marked as missing; 1 distinct; true (1)"
    )
    assert found["text"].startswith('{\n "features": [')


def test_json_lines_are_records() -> None:
    found = parts(tables.JSON_LINES, media_types.JSON_LINES)
    assert found["data"] == "A file of JSON lines: 2 records."
    assert found["paths"].split("\n")[0] == "id: whole number; 2 values; from 1 to 2; 2 distinct"
    assert found["records 1-2"] == '{"id": 1, "tags": ["x", "y"]}\n{"id": 2}'


def test_a_list_of_records_and_a_text_that_looks_like_a_number() -> None:
    found = parts(b'[{"code": "007", "a b": "12"}]', media_types.JSON)
    assert found["data"] == "A JSON file: a list of 1 record."
    assert "[].code: text; 1 value" in found["paths"]
    assert '[]."a b": text; 1 value' in found["paths"]


@pytest.mark.parametrize(
    ("raw", "kind", "reason", "words"),
    [
        (b'{"a": 1, "a": 2}', media_types.JSON, "damaged", "key twice"),
        (b"[NaN]", media_types.JSON, "damaged", "NaN"),
        (b'{"a": 1}\n{"a": ', media_types.JSON_LINES, "damaged", "line 2: not JSON"),
        (b"[" * 100 + b"]" * 100, media_types.JSON, "too-large", "nested deeper"),
        (b'a,b\n"' + b"x" * 1_100_000, media_types.CSV, "damaged", "quotation mark is missing"),
        (b"a,\x00\n", media_types.CSV, "encoding", "bytes that no text has"),
        (b"PK\x03\x04", media_types.XLSX, "damaged", "list of its members"),
    ],
)
def test_damaged_data_is_refused_with_the_reason(
    raw: bytes, kind: str, reason: str, words: str
) -> None:
    with pytest.raises(Unread) as caught:
        read(raw, kind)
    assert caught.value.reason == reason
    assert words in caught.value.detail


def test_a_workbook_is_described_sheet_by_sheet() -> None:
    found = parts(tables.XLSX, media_types.XLSX)
    assert found["workbook"] == "An XLSX file: 1 sheet."
    stored = "the value that the file stores is shown, no formula is evaluated"
    assert found["sheet Ice"].split("\n") == [
        "2 rows, 4 columns.",
        "The first row is read as the names of the columns.",
        f"2 cells with a formula: {stored}; 1 without such a value.",
    ]
    assert found["sheet Ice, rows 1-2"].split("\n") == [
        "station | depth | taken | twice",
        "A | 0.939 | 2020-01-01 | 1.878",
        "B | 2 | 2020-01-02 12:00:00",
    ]
    assert "3. taken: date; 2 values; 0 empty" in found["sheet Ice, columns"]
    assert "4. twice: number; 1 value; 1 empty" in found["sheet Ice, columns"]


@pytest.mark.parametrize("name", tables.XLSX_HIDDEN)
# claim TG-C-605
def test_hidden_cells_are_left_out_and_counted(name: str) -> None:
    packet = made(
        tables.imported(tables.XLSX_HIDDEN[name], media_types.XLSX), readers=gate_office.READERS
    )
    text = "\n".join(texts(packet).values())
    assert "Seen" in text, "control: the other cells are read"
    assert "ZZmarker" not in text
    assert hazards(packet) == {"hidden-text": len("ZZmarker")}


# claim TG-C-605
def test_cells_of_an_unknown_vocabulary_are_left_out_and_counted() -> None:
    packet = made(
        tables.imported(tables.XLSX_FOREIGN, media_types.XLSX), readers=gate_office.READERS
    )
    text = "\n".join(texts(packet).values())
    assert "last" in text, "control: the cells beside them are read"
    assert "ZZmarker" not in text
    assert hazards(packet) == {"hidden-text": len("ZZmarker")}


# claim TG-C-605
def test_macros_links_and_connections_are_counted_and_left_alone() -> None:
    packet = made(
        tables.imported(tables.XLSX_ACTIVE, media_types.XLSX), readers=gate_office.READERS
    )
    assert hazards(packet) == {"active-content": 4}
    assert "7" in texts(packet)["sheet S, rows 1-1"].split("\n"), (
        "control: the stored value is read"
    )


@pytest.mark.parametrize(
    ("number", "since_1904", "said"),
    [
        ("1", False, "1900-01-01"),
        ("61", False, "1900-03-01"),
        ("43831.25", False, "2020-01-01 06:00:00"),
        ("42369", True, "2020-01-01"),
        ("0.5", False, "12:00:00"),
        ("-1", False, "-1"),
        ("1e9", False, "1e9"),
        ("nan", False, "nan"),
        ("2958465.999999999", False, "2958465.999999999"),
        ("x", False, "x"),
    ],
)
def test_days_become_dates(number: str, since_1904: bool, said: str) -> None:
    assert shown_date(number, since_1904=since_1904) == said


@pytest.mark.parametrize("kind", READERS)
def test_damaged_bytes_are_read_or_refused(kind: str) -> None:
    source = {
        media_types.CSV: tables.CSV,
        media_types.TSV: tables.CSV.replace(b";", b"\t"),
        media_types.JSON: tables.JSON,
        media_types.JSON_LINES: tables.JSON_LINES,
        media_types.XLSX: tables.XLSX,
    }[kind]
    chance = random.Random(7)
    ends: set[object] = set()
    for _ in range(300):
        raw = bytearray(source)
        for _ in range(chance.randrange(1, 6)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        try:
            end = len(raw) if chance.random() < 0.7 else chance.randrange(1, len(raw))
            ends.add(bool(read(bytes(raw[:end]), kind).parts))
        except Unread as exc:
            ends.add(exc.reason)
    assert len(ends) > 1, "control: some are read or refused for different reasons"


def test_the_same_bytes_give_the_same_description() -> None:
    for kind, raw in ((media_types.CSV, tables.CSV), (media_types.XLSX, tables.XLSX)):
        assert read(raw, kind) == read(raw, kind)
        answer = replace(tables.imported(raw, kind).answer, retrieved="2027-01-01T00:00:00Z")
        assert READERS[kind](Untrusted(raw), answer) == read(raw, kind)
