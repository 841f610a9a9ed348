"""How a sandbox answers its opening: ready, with the versions in it, or refused, with a code.

`GateReady` and `GateRefused` are the same in every protocol and say which one they belong to.

SECURITY
    The host reads the answer of a sandbox that may be compromised, before it has given it anything.
"""

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from threegate.base import wire
from threegate.base.forms import CODE, NAME
from threegate.base.limits import MAX_HEADER_BYTES
from threegate.base.message_shapes import TableShape, TextLine
from threegate.base.messages import CheckedRecord, head, record
from threegate.base.schema import Pattern
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need

MAX_VERSIONS: Final = 32
VERSION: Final = Pattern(r"[!-\[\]-~]{1,100}", "a version: printable, without spaces")


@record
class GateReady(CheckedRecord):
    """The sandbox accepts its opening message and can work."""

    protocol: str
    versions: Mapping[str, str] = head(
        TableShape(NAME, VERSION, MAX_VERSIONS), "versions of what takes part in the sandbox"
    )

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(self.protocol, "ready", *self.spelled())


@record
class GateRefused(CheckedRecord):
    """The sandbox cannot work."""

    protocol: str
    code: str = head(CODE, "which rule refuses")
    message: str = head(TextLine(), "why, in our own words")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(self.protocol, "refused", *self.spelled())


R = TypeVar("R", bound=GateReady)


class Greeting(Generic[R]):
    """The answers to an opening in one protocol; `family` is how their codes begin."""

    most_bytes: Final = MAX_HEADER_BYTES

    def __init__(self, protocol: str, ready: type[R], family: str = "TG-") -> None:
        self.protocol, self.ready, self.family = protocol, ready, family

    def refused(self, code: str, message: str) -> GateRefused:
        """Return the refusal of a sandbox; raise `ProtocolBroken` for another's code."""
        need(code.startswith(self.family), "a code of another protocol")
        return GateRefused(self.protocol, code, message)

    def parse(self, data: Untrusted[bytes]) -> R | GateRefused:
        """Return the answer to an opening, or raise `ProtocolBroken`; used by the host."""
        packed = wire.unpack_due(
            data, "ready", "refused", protocol=self.protocol, most_bytes=self.most_bytes
        )
        if packed.kind == "ready":
            return self.ready.read(packed.fields, packed.parts, protocol=self.protocol)
        found = GateRefused.read(packed.fields, packed.parts, protocol=self.protocol)
        need(found.code.startswith(self.family), "a code of another protocol")
        return found
