"""The mechanism of messages: one declaration, checked on both sides; errors quote nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from threegate.base import canonical, wire
from threegate.base.errors import ProtocolBroken
from threegate.base.forms import IDENTIFIER, NAME
from threegate.base.greeting import GateReady, GateRefused, Greeting
from threegate.base.limits import MAX_HEADER_BYTES
from threegate.base.message_parts import (
    BoxedUtf8,
    JoinedParts,
    JsonPart,
    NamedParts,
    OptionalParts,
    RawPart,
    RawParts,
    Utf8,
)
from threegate.base.message_shapes import (
    BoxedText,
    OneNumber,
    OpenText,
    RecordRow,
    RowShape,
    SortedRecord,
    TableShape,
    TextLine,
    Utf8Text,
)
from threegate.base.messages import (
    CheckedRecord,
    FlatMessage,
    FlatParser,
    Message,
    flat_message,
    head,
    message,
    parser_of,
    part,
    record,
)
from threegate.base.schema import (
    Boolean,
    Integer,
    ListOf,
    Mismatch,
    Nullable,
    Pattern,
    Shape,
    Sorted,
)
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need


@record
class Point(CheckedRecord):
    """Two numbers that differ."""

    y: int = head(Integer(0, 9), "second")
    x: int = head(Integer(0, 9), "first", default=1)

    def check(self) -> None:
        need(self.x != self.y, "the same number twice")


@record
class Pair(CheckedRecord):
    """Two parts that come together."""

    one: bytes = part(RawPart(3), "one")
    two: bytes = part(RawPart(3), "two")


@message("test/1", "all", sender="test", answer="nothing")
class All(Message):
    """Every way in which a field can travel, but those that take all parts that are left."""

    name: str = head(NAME, "a name")
    point: Point = head(SortedRecord(Point), "an object")
    row: Point | None = head(Nullable(RecordRow(Point)), "a list")
    table: Mapping[str, int] = head(TableShape(NAME, Integer(0, 9), 2), "a table")
    secret: str = head(Pattern("[a-z]{4,8}", "a secret"), "a secret", secret=True)
    raw: bytes = part(RawPart(4), "bytes")
    code: str = part(RawPart(4, Utf8()), "text")
    value: tuple[int, ...] = part(JsonPart(ListOf(Integer(0, 9), 3), 20), "JSON")
    files: tuple[tuple[str, bytes], ...] = part(JoinedParts(IDENTIFIER, 2, 8), "files")
    named: tuple[tuple[str, bytes | None], ...] = part(
        NamedParts(Sorted(NAME, 3), 4, total_bytes=6, without="none"), "named", default=()
    )


@message("test/1", "rest", sender="test")
class Rest(Message):
    """A message that ends with any number of texts."""

    texts: tuple[Untrusted[str], ...] = part(RawParts(2, 4, least=1, form=BoxedUtf8()), "texts")


@message("test/1", "maybe", sender="test")
class Maybe(Message):
    """A message with a pair of parts, or none."""

    pair: Pair | None = part(OptionalParts(Pair), "both or none", default=None)


@flat_message("test", "flat", sender="test", most_bytes=60, constants={"format": "flat/1"})
class Flat(FlatMessage):
    """JSON alone."""

    number: int = head(Integer(0, 9), "a number")


@flat_message("test", "tail", sender="test")
class Tail(FlatMessage):
    """JSON with bytes behind it."""

    number: int = head(Integer(0, 9), "a number")
    rest: bytes = part(RawPart(3), "the rest")


ALL = All(
    name="a",
    point=Point(2),
    row=Point(3, 4),
    table={"b": 2, "a": 1},
    secret="sesame",
    raw=b"\0\n",
    code="é",
    value=(1, 2),
    files=(("x", b"12"), ("y", b"")),
    named=(("a", b"12"), ("none", None)),
)
parse_all, parse_rest, parse_maybe = parser_of(All), parser_of(Rest), parser_of(Maybe)


def test_a_message_is_a_line_of_sorted_fields_and_its_parts_in_order() -> None:
    line, _, parts = ALL.to_bytes().partition(b"\n")
    assert canonical.decode(line) == {
        "fields": {
            "files": [["x", 2], ["y", 0]],
            "name": "a",
            "named": ["a", "none"],
            "point": {"x": 1, "y": 2},
            "row": [3, 4],
            "secret": "sesame",
            "table": {"a": 1, "b": 2},
        },
        "kind": "all",
        "parts": [2, 2, 5, 2, 2],
        "protocol": "test/1",
    }
    assert parts == b"\0\n" + "é".encode() + b"[1,2]" + b"12" + b"12"
    assert parse_all(Untrusted(ALL.to_bytes())) == ALL


def test_the_size_of_a_message_follows_from_its_parts() -> None:
    assert parse_all.most_bytes == MAX_HEADER_BYTES + 4 + 4 + 20 + 8 + 6
    assert parse_rest.most_bytes == MAX_HEADER_BYTES + 8
    assert parser_of(All, Rest).most_bytes == parse_all.most_bytes
    with pytest.raises(ProtocolBroken, match="limit"):
        parse_rest(Untrusted(b"x" * (parse_rest.most_bytes + 1)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "A"}, "name is not a lower-case name"),
        ({"name": 1}, "name is not a string"),
        ({"point": None}, "point is of another type"),
        ({"row": (1, 2)}, "row is of another type"),
        ({"table": {"a": 1, "b": 2, "c": 3}}, "table has 3 keys, limit 2"),
        ({"table": {"A": 1}}, "table is not a lower-case name"),
        ({"table": [1]}, "table is of another type"),
        ({"raw": b"12345"}, "raw is too large"),
        ({"raw": "text"}, "raw is not bytes"),
        ({"code": "\ud800"}, "code has no spelling in UTF-8"),
        ({"code": "12345"}, "code is too large"),
        ({"value": (10,)}, "value is not within 0..9"),
        ({"value": (1,) * 4}, "value has 4 items"),
        ({"files": (("y", b""), ("x", b""))}, "files is not sorted"),
        ({"files": (("x", b"12345"), ("y", b"1234"))}, "files is too large"),
        ({"named": (("a", b"1"), ("a", b"2"))}, "named is not sorted"),
        ({"named": (("a", b"1234"), ("b", b"123"))}, "named is too large"),
        ({"named": (("none", b"1"),)}, "named has bytes for a name without any"),
        ({"named": (("a", None),)}, "named is not bytes"),
        ({"secret": "SESAME"}, "secret is not a secret"),
    ],
)
def test_a_sender_cannot_build_what_a_reader_refuses(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProtocolBroken, match=reason):
        replace(ALL, **change)


def test_a_rule_about_several_fields_holds_on_both_sides() -> None:
    with pytest.raises(ProtocolBroken, match="the same number twice"):
        Point(1, 1)
    data = ALL.to_bytes().replace(b'{"x":1,"y":2}', b'{"x":2,"y":2}')
    with pytest.raises(ProtocolBroken, match="the same number twice"):
        parse_all(Untrusted(data))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"x":1,"y":2}', b'{"y":2}'),
        (b'{"x":1,"y":2}', b'{"x":1,"y":2,"z":3}'),
        (b'{"x":1,"y":2}', b"[1,2]"),
        (b"[3,4]", b"[3,4,5]"),
        (b"[3,4]", b"[3,true]"),
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}'),  # not canonical
        (b'"name":"a",', b""),
        (b'"name":"a",', b'"name":"a","nameless":1,'),
        (b'"kind":"all"', b'"kind":"rest"'),
        (b"test/1", b"test/2"),
        (b'[["x",2],["y",0]]', b'[["x",1],["y",0]]'),
        (b"[2,2,5,2,2]", b"[2,2,5,2,1,1]"),
        (b"[2,2,5,2,2]", b"[2,2,5,4]"),
        (b"[1,2]", b"[1 2]"),
        ("é".encode(), b"\xc3("),
    ],
)
def test_another_spelling_is_refused(old: bytes, new: bytes) -> None:
    data = ALL.to_bytes()
    assert old in data, "control"
    with pytest.raises(ProtocolBroken):
        parse_all(Untrusted(data.replace(old, new)))


def test_an_error_quotes_nothing_of_the_message() -> None:
    data = ALL.to_bytes()
    for old, new in (
        (b'"secret":"sesame"', b'"secret":"CANARY"'),
        (b'"name":"a"', b'"name":"CANARY"'),
        (b'{"a":1,"b":2}', b'{"CANARY":1}'),
    ):
        with pytest.raises(ProtocolBroken) as refused:
            parse_all(Untrusted(data.replace(old, new)))
        assert "CANARY" not in str(refused.value)
    with pytest.raises(ProtocolBroken) as refused:
        replace(ALL, secret="CANARY")
    assert "CANARY" not in str(refused.value)


def test_a_secret_and_raw_bytes_are_not_printed() -> None:
    assert "sesame" not in repr(ALL)
    assert "raw" not in repr(ALL)
    assert "name='a'" in repr(ALL), "control"


def test_a_built_value_cannot_be_changed() -> None:
    given = {"a": 1}
    made = replace(ALL, table=given, value=[1, 2])  # type: ignore[arg-type]
    given["a"] = 2
    assert made.table == {"a": 1}
    assert made.value == (1, 2), "a list becomes a tuple"
    with pytest.raises(TypeError):
        made.table["a"] = 3  # type: ignore[index]


def test_parts_that_are_left_are_counted() -> None:
    two = Rest((Untrusted("one"), Untrusted("")))
    assert parse_rest(Untrusted(two.to_bytes())) == two
    for texts in ((), (Untrusted("x"),) * 3):
        with pytest.raises(ProtocolBroken, match="too few or too many"):
            Rest(texts)
    with pytest.raises(ProtocolBroken, match="UTF-8"):
        parse_rest(Untrusted(wire.pack("test/1", "rest", {}, [b"\xff"])))


def test_optional_parts_are_all_there_or_none_is() -> None:
    for found in (Maybe(), Maybe(Pair(b"1", b"2"))):
        assert parse_maybe(Untrusted(found.to_bytes())) == found
    for parts in ([b"1"], [b"1", b"2", b"3"], [b"1234", b"2"]):
        with pytest.raises(ProtocolBroken):
            parse_maybe(Untrusted(wire.pack("test/1", "maybe", {}, parts)))


def test_a_flat_message_has_its_constants_and_nothing_behind_it() -> None:
    parse = FlatParser(Flat)
    assert Flat(3).to_bytes() == b'{"format":"flat/1","number":3}'
    assert parse(Untrusted(Flat(3).to_bytes())) == Flat(3)
    for data in (
        b"",
        b"[]",
        b'{"number":3}',
        b'{"format":"flat/2","number":3}',
        b'{"format":"flat/1","number":10}',
        b'{"format":"flat/1","more":1,"number":3}',
        b'{"format":"flat/1","number":3}\n',
        b'{"format":"flat/1","number":3}' + b" " * 60,
        b"[" * 60,
    ):
        with pytest.raises(ProtocolBroken):
            parse(Untrusted(data))


def test_bytes_behind_a_flat_message_are_its_part() -> None:
    parse = FlatParser(Tail)
    assert parse(Untrusted(b'{"number":3}\na\nb')) == Tail(3, b"a\nb")
    for data in (b'{"number":3}', b'{"number":3}\nabcd', b"\n"):
        with pytest.raises(ProtocolBroken):
            parse(Untrusted(data))


def test_a_greeting_belongs_to_its_protocol_and_to_its_codes() -> None:
    ours, other = Greeting("ours/1", GateReady, "TG-OUR-"), Greeting("other/1", GateReady)
    ready, refused = GateReady("ours/1", {"python": "3.11"}), ours.refused("TG-OUR-001", "no")
    assert ours.parse(Untrusted(ready.to_bytes())) == ready
    assert ours.parse(Untrusted(refused.to_bytes())) == refused
    for said in (ready, refused):
        with pytest.raises(ProtocolBroken, match="not a message of this protocol"):
            other.parse(Untrusted(said.to_bytes()))
    with pytest.raises(ProtocolBroken, match="a code of another protocol"):
        ours.refused("TG-OTH-001", "no")
    with pytest.raises(ProtocolBroken, match="a code of another protocol"):
        ours.parse(Untrusted(GateRefused("ours/1", "TG-OTH-001", "no").to_bytes()))


@pytest.mark.parametrize(
    ("shape", "good", "bad"),
    [
        (OneNumber(1, 3), [1, 3], [2, True, "1", None]),
        (OpenText(3), ["", "a\nb"], ["abcd", 1, None]),
        (Utf8Text(2, least=1), ["é", "ab"], ["", "éa", "\ud800", 1]),
        (TextLine(3), ["abc"], ["", "abcd", "a\n", "a\t", "\x1b", "\u202e", 1]),
        (BoxedText(NAME), ["a"], ["A", 1]),
        (RowShape(Integer(0, 9), Boolean()), [[1, True]], [[1], [1, 2], (1, True), "ab"]),
        (TableShape(NAME, Integer(0, 9), 1), [{}, {"a": 1}], [{"a": 1, "b": 2}, {"A": 1}, []]),
    ],
)
def test_value_at_the_bound_and_beyond(shape: Shape, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert shape.plain(shape.build(value)) == value
    for value in bad:
        with pytest.raises(Mismatch):
            shape.build(value)
