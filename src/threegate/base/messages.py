"""Messages, declared once: a dataclass with a shape for each field gives parser and emitter.

    @message("pixels/1", "decode", sender="host", answer="`Pixels` or `NotRead`")
    class Decode(Message):
        image: bytes = part(RawPart(MAX_IMAGE_BYTES), "the bytes of one file")

    data = Decode(image).to_bytes()
    parse_decode = parser_of(Decode)
    assert parse_decode(Untrusted(data)).image == image

A field declared with `head` goes into the message's line of JSON, one declared with `part`
into the raw parts behind it (`wire`).  A `FlatMessage` is JSON alone.  Rules about several fields
are in `check`.

SECURITY
    Reads bytes from the other side of a gate, which may be compromised.  Sender and reader check
    every field when they build a message, so no message object breaks a rule.  Errors are our
    own words: they quote nothing of the message.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform, overload

from threegate.base import canonical, texts, wire
from threegate.base.errors import ProtocolBroken
from threegate.base.limits import MAX_HEADER_BYTES
from threegate.base.message_parts import Carrier
from threegate.base.message_shapes import TableShape
from threegate.base.schema import Mismatch, Shape
from threegate.base.untrusted import Untrusted

T = TypeVar("T")
M_co = TypeVar("M_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
F = TypeVar("F", bound="FlatMessage")


def head(shape: Shape, doc: str, *, default: Any = MISSING, secret: bool = False) -> Any:
    """Declare a field in the header; a secret one is left out of `repr`."""
    hashed = None if not isinstance(shape, TableShape) else False
    metadata = {"shape": shape, "doc": doc}
    return field(default=default, repr=not secret, hash=hashed, metadata=metadata)


def part(carrier: Carrier, doc: str, *, default: Any = MISSING) -> Any:
    """Declare a field in the raw parts."""
    return field(default=default, repr=False, metadata={"carrier": carrier, "doc": doc})


@dataclass(frozen=True, slots=True)
class Declared:
    """A field of a message: its name, and its shape or what carries it."""

    name: str
    doc: str
    shape: Shape | None
    carrier: Carrier | None

    @property
    def header(self) -> Shape | None:
        """The shape of its value in the header, if it has one there."""
        return self.shape if self.carrier is None else self.carrier.header

    def describe(self) -> str:
        """Return the words for the field table."""
        words = self.shape or self.carrier
        assert words is not None
        return words.describe()

    def spell(self, value: Any) -> tuple[Any, list[Any]]:
        """Return what goes into the header and the parts."""
        if self.carrier is not None:
            return self.carrier.split(value)
        assert self.shape is not None
        return self.shape.plain(value), []

    def read(self, head: Any, parts: Iterator[Any]) -> Any:
        """Return the typed value, or raise `ProtocolBroken`."""
        try:
            found = None if self.header is None else self.header.build(head)
            return found if self.carrier is None else self.carrier.join(found, parts)
        except Mismatch as exc:
            raise ProtocolBroken(f"{self.name} {exc.words}") from exc

    def checked(self, value: Any) -> Any:
        """Return a typed value as `read` would, or raise `ProtocolBroken`."""
        try:
            head, parts = self.spell(value)
        except Mismatch as exc:
            raise ProtocolBroken(f"{self.name} {exc.words}") from exc
        except (AttributeError, TypeError, ValueError) as exc:
            raise ProtocolBroken(f"{self.name} is of another type") from exc
        return self.read(head, iter(parts))


class CheckedRecord:
    """A record whose fields are of their shapes, whichever side built it."""

    __slots__ = ()
    declared: ClassVar[tuple[Declared, ...]]  # its fields, in their order
    header_keys: ClassVar[tuple[str, ...]]  # as canonical JSON sorts them

    def __post_init__(self) -> None:
        for one in self.declared:
            object.__setattr__(self, one.name, one.checked(getattr(self, one.name)))
        self.check()

    def check(self) -> None:
        """Raise `ProtocolBroken` unless the fields agree with each other."""

    @classmethod
    def from_built(cls, values: Mapping[str, Any]) -> Self:
        """Return the record of values that shapes have built, so that none is checked twice."""
        made = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        made.check()
        return made

    def spelled(self) -> tuple[dict[str, Any], list[Any]]:
        """Return the header fields and the parts."""
        head: dict[str, Any] = {}
        parts: list[Any] = []
        for one in self.declared:
            value, more = one.spell(getattr(self, one.name))
            parts += more
            if one.header is not None:
                head[one.name] = value
        return head, parts

    def plain(self) -> dict[str, Any]:
        """Return the header fields as plain data."""
        return dict(sorted(self.spelled()[0].items()))

    @classmethod
    def read(cls, head: Mapping[str, Any], parts: Iterable[Any], **known: Any) -> Self:
        """Return the record in header fields and parts, or raise `ProtocolBroken`."""
        rows, left = cls.declared, iter(parts)
        if tuple(head) != cls.header_keys:
            raise ProtocolBroken("unexpected fields")
        values = {one.name: one.read(head.get(one.name), left) for one in rows}
        if next(left, None) is not None:
            raise ProtocolBroken("more parts than fields")
        return cls.from_built({**known, **values})


@dataclass(frozen=True, slots=True)
class MessageForm:
    """What holds for a message as a whole."""

    protocol: str
    kind: str
    sender: str
    answer: str
    most_bytes: int
    texts: bool = False  # its parts are texts, all in one
    constants: Mapping[str, Any] = field(default_factory=dict)


class Message(CheckedRecord):
    """A header and raw parts, in the envelope of `wire`."""

    __slots__ = ()
    form: ClassVar[MessageForm]

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        head, parts = self.spelled()
        pack = texts.pack_texts if self.form.texts else wire.pack
        return pack(self.form.protocol, self.form.kind, head, parts)


class FlatMessage(CheckedRecord):
    """One JSON object, with constants of its own; a part follows behind a line feed."""

    __slots__ = ()
    form: ClassVar[MessageForm]

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        head, parts = self.spelled()
        line = canonical.encode({**head, **self.form.constants})
        return b"\n".join([line, *parts])


@dataclass_transform(frozen_default=True, field_specifiers=(head, part))
def record(cls: type[T]) -> type[T]:
    """Declare a record that is part of a message."""
    made: Any = dataclass(frozen=True, slots=True)(cls)
    found = ((item.name, item.metadata) for item in fields(made) if item.metadata)
    made.declared = tuple(
        Declared(name, meta["doc"], meta.get("shape"), meta.get("carrier")) for name, meta in found
    )
    made.header_keys = tuple(sorted(one.name for one in made.declared if one.header is not None))
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, field_specifiers=(head, part))
def message(
    protocol: str,
    kind: str,
    *,
    sender: str,
    answer: str = "",
    most_bytes: int | None = None,
    texts: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Declare a message: who sends it, what answers it, and its size unless that follows."""

    def declare(cls: type[T]) -> type[T]:
        made: Any = record(cls)
        size = MAX_HEADER_BYTES + _parts_bytes(made) if most_bytes is None else most_bytes
        made.form = MessageForm(protocol, kind, sender, answer, size, texts=texts)
        return made  # type: ignore[no-any-return]

    return declare


@dataclass_transform(frozen_default=True, field_specifiers=(head, part))
def flat_message(
    protocol: str,
    kind: str,
    *,
    sender: str,
    answer: str = "",
    most_bytes: int = MAX_HEADER_BYTES,
    constants: Mapping[str, Any] | None = None,
) -> Callable[[type[T]], type[T]]:
    """Declare a message without an envelope; `protocol` and `kind` are for the documents."""

    def declare(cls: type[T]) -> type[T]:
        made: Any = record(cls)
        size = most_bytes + _parts_bytes(made)
        made.form = MessageForm(
            protocol, kind, sender, answer, size, constants=dict(constants or {})
        )
        return made  # type: ignore[no-any-return]

    return declare


def _parts_bytes(kind: type[CheckedRecord]) -> int:
    return sum(one.carrier.most_bytes for one in kind.declared if one.carrier is not None)


class MessageParser(Generic[M_co]):
    """Parses the messages that are due: those of some kinds of one protocol."""

    def __init__(self, *kinds: type[Message]) -> None:
        self._kinds = {kind.form.kind: kind for kind in kinds}
        self._protocol = kinds[0].form.protocol
        self.most_bytes = max(kind.form.most_bytes for kind in kinds)

    def __call__(self, data: Untrusted[bytes]) -> M_co:
        """Return the message in `data`, or raise `ProtocolBroken`."""
        packed = wire.unpack_due(
            data, *self._kinds, protocol=self._protocol, most_bytes=self.most_bytes
        )
        kind: Any = self._kinds[packed.kind]
        parts = texts.texts_of(packed) if kind.form.texts else packed.parts
        return kind.read(packed.fields, parts)  # type: ignore[no-any-return]


class FlatParser(Generic[F]):
    """Parses a flat message."""

    def __init__(self, kind: type[F]) -> None:
        self._kind, self.most_bytes = kind, kind.form.most_bytes
        self._has_part = _parts_bytes(kind) > 0

    def __call__(self, data: Untrusted[bytes]) -> F:
        """Return the message in `data`, or raise `ProtocolBroken`."""
        untrusted = data.open_for_validation()
        # Cap before decode: decoding a huge body is already the attack.
        if len(untrusted) > self.most_bytes:
            raise ProtocolBroken(f"{len(untrusted)} bytes, limit {self.most_bytes}")
        line, parts = untrusted, []
        if self._has_part:
            end = untrusted.find(b"\n", 0, MAX_HEADER_BYTES)
            wire.need(end >= 0, "no header")
            line, parts = untrusted[:end], [untrusted[end + 1 :]]
        return self._kind.read(_object(line, self._kind.form.constants), parts)


@overload
def parser_of(a: type[A], /) -> MessageParser[A]: ...
@overload
def parser_of(a: type[A], b: type[B], /) -> MessageParser[A | B]: ...
@overload
def parser_of(a: type[A], b: type[B], c: type[C], /) -> MessageParser[A | B | C]: ...
@overload
def parser_of(
    a: type[A], b: type[B], c: type[C], d: type[D], /
) -> MessageParser[A | B | C | D]: ...


def parser_of(*kinds: Any) -> Any:
    """Return the parser of the messages of these kinds."""
    return MessageParser(*kinds)


def _object(untrusted: bytes, constants: Mapping[str, Any]) -> dict[str, Any]:
    try:
        value = canonical.decode(untrusted)
    except ValueError as exc:
        raise ProtocolBroken("not canonical JSON") from exc
    wire.need(type(value) is dict, "not an object")
    for key, constant in constants.items():
        wire.need(value.pop(key, None) == constant, f"{key} is not {constant}")
    return dict(value)
