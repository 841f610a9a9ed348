"""The encoding of a page: a mark, what it declares, UTF-8, windows-1252; never one of its own."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.normalize.readers.charset import PRESCAN_BYTES, decoded

TEXT = "naïve Ω ж 日本"


@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
def test_a_mark_decides_against_a_declaration(mark: bytes, codec: str) -> None:
    text = '<meta charset="koi8-r">' + TEXT
    assert decoded(mark + text.encode(codec)) == text


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("Shift_JIS", "cp932", "日本"),
        ("gb2312", "gb18030", "汉字"),
        ("windows-1251", "cp1251", "жук"),
        ("iso-8859-1", "cp1252", "“naïve”"),
        ("EUC-KR", "cp949", "한글"),
    ],
)
def test_a_declared_encoding_is_used(label: str, codec: str, text: str) -> None:
    head = f'<meta http-equiv="Content-Type" content="text/html; charset={label}">'
    assert decoded(head.encode() + text.encode(codec)) == head + text
    head = f'<?xml version="1.0" encoding="{label}"?>'
    assert decoded(head.encode() + text.encode(codec)) == head + text


@pytest.mark.parametrize("label", ["utf-7", "hex", "rot13", "zlib", "idna", "unicode_escape", "x"])
def test_a_page_chooses_from_our_list_alone(label: str) -> None:
    text = f'<meta charset="{label}">+AGE- \\u0061 naïve'
    assert decoded(text.encode()) == text


def test_without_a_word_it_is_utf_8_or_windows_1252() -> None:
    assert decoded(TEXT.encode()) == TEXT
    assert decoded("“naïve”".encode("cp1252")) == "“naïve”"


def test_broken_utf_8_stays_utf_8_where_it_is_declared() -> None:
    assert decoded(b"<meta charset=utf-8>\xff\xc3\xaf") == "<meta charset=utf-8>\ufffd\xef"


def test_a_declaration_too_far_down_does_not_count() -> None:
    far = b" " * PRESCAN_BYTES + b"<meta charset=koi8-r>"
    assert decoded(far + "naïve".encode()).endswith("naïve")


@given(st.binary())
def test_any_bytes_are_text(data: bytes) -> None:
    decoded(data).encode("utf-8", "surrogatepass")
    decoded(b"<meta charset=gbk>" + data).encode("utf-8")
