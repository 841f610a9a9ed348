"""How a box answers its opening: ready, with the versions in it, or refused, with a code.

Each protocol has its own two classes, made from these by naming itself.

SECURITY
    The host reads the answer of a box that may be owned, before it has given it anything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from threegate.base import limits, wire
from threegate.base.untrusted import Untrusted
from threegate.base.wire import fields_of, need, need_sentence, need_word, parts_of

CODE: Final = re.compile(r"TG-[A-Z]{2,8}-[0-9]{3}")
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_VERSION: Final = re.compile(r"[!-\[\]-~]{1,100}")


def need_versions(versions: object) -> None:
    """Raise `ProtocolBroken` unless these are names with their versions."""
    need(isinstance(versions, Mapping), "no versions")
    assert isinstance(versions, Mapping)
    need(len(versions) <= limits.MAX_VERSIONS, "too many versions")
    for name, version in versions.items():
        need_word(name, NAME, "the name of a version")
        need_word(version, _VERSION, "a version")


@dataclass(frozen=True, slots=True)
class Ready:
    """The box can work."""

    versions: Mapping[str, str]
    protocol: ClassVar[str]

    def __post_init__(self) -> None:
        need_versions(self.versions)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(self.protocol, "ready", {"versions": dict(self.versions)}, [])


@dataclass(frozen=True, slots=True)
class Refused:
    """The box cannot work, and why."""

    code: str
    message: str
    protocol: ClassVar[str]
    codes: ClassVar[re.Pattern[str]] = CODE

    def __post_init__(self) -> None:
        need_word(self.code, self.codes, "code")
        need_sentence(self.message, limits.MAX_LINE_CHARS, "message")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {"code": self.code, "message": self.message}
        return wire.pack(self.protocol, "refused", fields, [])


R = TypeVar("R", bound=Ready)
N = TypeVar("N", bound=Refused)


def parse_greeting(data: Untrusted[bytes], ready: type[R], refused: type[N]) -> R | N:
    """Return the answer to an opening, or raise `ProtocolBroken`; used by the host."""
    packed = wire.unpack_due(
        data, "ready", "refused", protocol=ready.protocol, most_bytes=limits.MAX_HEADER_BYTES
    )
    parts_of(packed, 0)
    if packed.kind == "refused":
        return refused(*fields_of(packed, "code", "message"))
    return ready(*fields_of(packed, "versions"))
