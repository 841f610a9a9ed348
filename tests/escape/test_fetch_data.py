"""The real sandboxes of data files: tables are described in them, and bombs stay within bounds."""

from functools import cache
from string import ascii_letters

import pytest

from tests.support import tables
from tests.support.normalization import Boxed, ask, boxed
from tests.support.tables import sheet, word, xlsx
from threegate.artifacts import media_types
from threegate.artifacts.research_packet import FORMAT, ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import PacketMade, PacketNotMade
from threegate.sandbox.profiles import FETCH_NORMALIZE, FETCH_OFFICE

_GATE = "threegate.gates.fetch.normalize."
DATA = {
    media_types.CSV: tables.CSV,
    media_types.TSV: tables.CSV.replace(b";", b"\t"),
    media_types.JSON: tables.JSON,
    media_types.JSON_LINES: tables.JSON_LINES,
    media_types.XLSX: tables.XLSX,
}
_LETTERS = "".join(f' {letter}=""' for letter in ascii_letters)
_LAUGHS = '<!DOCTYPE w [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><w>&b;</w>'
# Files made to use up their reader that it refuses, with words of the reason.
REFUSED: dict[str, tuple[str, bytes, str]] = {
    "a sheet of 100 MB": (
        media_types.XLSX,
        xlsx({"S": sheet(" " * 100_000_000)}),
        "unpacked",
    ),
    "a sheet of twenty million nodes": (
        media_types.XLSX,
        xlsx({"S": sheet(f"<c{_LETTERS}/>" * 195_000)}, stored=True),
        "20000000 nodes",
    ),
    "shared strings with entities": (
        media_types.XLSX,
        xlsx({"S": sheet(word("a"))}, strings=_LAUGHS),
        "declarations of its own",
    ),
    "a cell without an end": (
        media_types.CSV,
        b'a,b\n"' + b"x" * 20_000_000,
        "quotation mark is missing",
    ),
    "more text than is read": (media_types.CSV, b"1,2\n" * 17_000_000, "limit 67108864"),
    "lists in lists": (media_types.JSON, b"[" * 1_000_000, "nested deeper"),
    "three million lists": (media_types.JSON, b"[" + b"[]," * 3_000_000 + b"1]", "limit 2000000"),
    "a value of 40 MB": (media_types.JSON, b'"' + b"a" * 40_000_000 + b'"', "limit 33554432"),
    "a line that is not JSON": (media_types.JSON_LINES, b"1\n2\n{\n", "line 3"),
}
# Files that only look like a bomb: how they are described.
BOUNDED: dict[str, tuple[str, bytes, str]] = {
    "a cell in the last column of every row": (
        media_types.XLSX,
        xlsx({"S": sheet(*['<c r="XFD1"><v>1</v></c>'] * 100_000)}, stored=True),
        "16,384 columns.",
    ),
    "one long text in every cell": (
        media_types.XLSX,
        xlsx(
            {"S": sheet(*['<c t="s"><v>0</v></c>'] * 100_000)},
            strings=tables.shared("A " * 8_000_000),
            stored=True,
        ),
        "99,999 rows, 1 column.",
    ),
    "hidden columns without end": (
        media_types.XLSX,
        xlsx(
            {
                "S": sheet(
                    word("a", "GZ1"),
                    head="<cols>"
                    + '<col min="1" max="999999999" hidden="1"/>' * 50_000
                    + "</cols>",
                )
            },
            stored=True,
        ),
        "200 hidden columns",
    ),
    "a row of twenty million cells": (
        media_types.CSV,
        b"," * 20_000_000,
        "1 row, 20,000,001 columns.",
    ),
    "a million rows": (media_types.CSV, b"1\n" * 1_000_000, "1,000,000 rows, 1 column."),
    "a million paths": (
        media_types.JSON,
        b"{" + b",".join(b'"%d":1' % n for n in range(1_000_000)) + b"}",
        "more than 2,000 paths",
    ),
    "a million numbers": (
        media_types.JSON,
        b"[" + b"1," * 1_000_000 + b"1]",
        "a list of 1,000,001 records.",
    ),
}


def read(raw: bytes, kind: str) -> Boxed:
    office = kind in media_types.OFFICE
    profile = FETCH_OFFICE if office else FETCH_NORMALIZE
    payload = f"{_GATE}gate_office:serve" if office else f"{_GATE}gate:serve"
    return boxed(ask([tables.imported(raw, kind)])[1], profile, payload)


def packet(found: Boxed) -> ResearchPacket:
    assert isinstance(found.answer, PacketMade), found
    return FORMAT.parse(Untrusted(found.answer.packet))


def text_of(found: Boxed) -> str:
    return "\n".join(text.open_for_validation() for text in packet(found).texts)


@cache
def ordinary(kind: str) -> str:
    """Return the description of a small file, made in the same kind of sandbox."""
    return text_of(read(DATA[kind], kind))


@pytest.mark.parametrize("kind", DATA)
def test_data_is_described_in_its_sandbox_twice_alike(kind: str) -> None:
    first, again = read(DATA[kind], kind), read(DATA[kind], kind)
    assert first.answer == again.answer
    assert packet(first).media_type == kind
    assert "values" in text_of(first)


@pytest.mark.parametrize("name", REFUSED)
# claim TG-C-606
def test_a_bomb_of_data_is_refused_for_its_reason(name: str) -> None:
    kind, raw, words = REFUSED[name]
    assert "values" in ordinary(kind), "control: a small one is described"
    found = read(raw, kind)
    assert isinstance(found.answer, PacketNotMade), found
    assert found.answer.code == "TG-NRM-004"
    assert words in found.answer.message


@pytest.mark.parametrize("name", BOUNDED)
# claim TG-C-606
def test_data_larger_than_it_looks_is_described_within_bounds(name: str) -> None:
    kind, raw, words = BOUNDED[name]
    assert "values" in ordinary(kind), "control: a small one is described"
    found = read(raw, kind)
    assert words in text_of(found)
    assert len(text_of(found)) < 100_000
