"""Keys: whatever bytes arrive, in whatever pieces, they are the keys that were pressed or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.host.review.terminal.screen import MAX_PASTE_CHARS, PASTE, Key, KeyReader


def names(data: bytes, encoding: str = "utf-8") -> list[str]:
    reader = KeyReader(encoding)
    return [key.name for key in [*reader.feed(data), *reader.settle()]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"jk", ["j", "k"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA\x1bOB", ["up", "down"]),
        (b"\x1b[5~\x1b[6~", ["page-up", "page-down"]),
        (b"\x1b[H\x1b[F\x1b[1~\x1b[4~", ["home", "end", "home", "end"]),
        (b"\r\n", ["enter", "enter"]),
        (b"\x7f\x08", ["backspace", "backspace"]),
        (b"\x03", ["interrupt"]),
        (b"\x1a", ["suspend"]),
        (b"\x1b", ["escape"]),
        ("é漢".encode(), ["é", "漢"]),
    ],
)
def test_keys_of_common_terminals(data: bytes, expected: list[str]) -> None:
    assert names(data) == expected


@pytest.mark.parametrize(
    "data", [b"\x1by", b"\x1b[99~", b"\x1b[M", b"\x00\x01", b"\xff\xfe", b"\x1b[1;5A", b"\xc2\x9b"]
)
def test_what_is_no_key_of_ours_is_none(data: bytes) -> None:
    assert names(data) == []
    assert names(data + b"q") == ["q"], "control: keys after it are read"


def test_alt_and_a_key_does_not_press_the_key() -> None:
    assert names(b"y") == ["y"], "control"
    assert names(b"\x1by") == []


def test_an_escape_waits_for_what_may_follow() -> None:
    reader = KeyReader("utf-8")
    found = []
    for data in (b"\x1b", b"[", b"A"):
        keys = reader.feed(data)
        found.append((keys, reader.undecided))
    assert found == [([], True), ([], True), ([Key("up")], False)]
    assert reader.feed(b"\x1b[") == []
    assert reader.settle() == [], "half a sequence is no Escape"
    assert reader.feed(b"A") == [Key("A", "A")]


def test_a_paste_presses_no_key() -> None:
    assert names(b"ay") == ["a", "y"], "control: typed, these are keys"
    reader = KeyReader("utf-8")
    keys = reader.feed(b"\x1b[200~ay\r\x03\x1b[A\x1b[201~j")
    assert keys == [Key(PASTE, "ay\r\x03\x1b[A"), Key("j", "j")]


@given(st.lists(st.integers(1, 7), max_size=30))
def test_however_a_paste_is_split_it_is_one_event(sizes: list[int]) -> None:
    data = b"k\x1b[200~y\x1b[201y\x1b\x1b[201~j"
    reader, keys = KeyReader("utf-8"), []
    for size in [*sizes, len(data)]:
        keys += reader.feed(data[:size])
        data = data[size:]
    assert [key.name for key in keys] == ["k", PASTE, "j"]
    assert keys[1].text == "y\x1b[201y\x1b"


def test_a_paste_is_bounded() -> None:
    reader = KeyReader("utf-8")
    reader.feed(b"\x1b[200~")
    for _ in range(100):
        assert reader.feed(b"y" * 4096) == []
    (key,) = reader.feed(b"\x1b[201~")
    assert key == Key(PASTE, "y" * MAX_PASTE_CHARS)


def test_forgetting_drops_half_a_key() -> None:
    reader = KeyReader("utf-8")
    reader.feed(b"\x1b[200~abc")
    reader.forget()
    assert reader.feed(b"A") == [Key("A", "A")]


def test_bytes_of_an_8_bit_locale() -> None:
    assert names(b"\xe9", "iso8859-1") == ["é"]
    assert names(b"\x9bA", "iso8859-1") == ["A"], "a C1 control is no key"


@given(st.binary(max_size=200))
def test_any_bytes_are_keys_of_the_tables_or_printable(data: bytes) -> None:
    reader = KeyReader("utf-8")
    for key in [*reader.feed(data), *reader.settle()]:
        assert key.name
        assert key.name == PASTE or len(key.name) > 1 or key.name.isprintable()
        assert key.name == PASTE or key.text in ("", key.name)
