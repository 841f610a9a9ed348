"""Messages about the rules a tool-lite box works under: other ones, and which it enforces.

| message | sent by | answered by |
|---|---|---|
| `Adopt` | host, between two jobs | `Ready`, or `Refused`: then the box keeps the rules it has |
| `Prove` | host, between two jobs | `Enforced` |

SECURITY
    Either side may be owned.  A box that is can say it enforces what it does not: an answer
    counts for the host only if it is exactly what the host works out itself, and no answer
    widens anything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from threegate.base import limits, wire
from threegate.base.untrusted import Untrusted
from threegate.base.wire import (
    Packed,
    fields_of,
    need,
    need_bytes,
    need_number,
    need_word,
    parts_of,
)

PROTOCOL: Final = "tool-lite/1"
MAX_TRIES: Final = 256
MAX_PROFILES: Final = 64
MAX_GENERATION: Final = 2**53 - 1
_TRY: Final = re.compile(r"[a-z0-9-]{1,32}(:[!-~ ]{1,200})?")
_CALL: Final = re.compile(r"[a-z0-9_]{1,64}")
_PROFILE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Adopt:
    """The rules from now on: the bundle that follows the one in force, with its signature."""

    bundle: bytes
    signature: bytes

    def __post_init__(self) -> None:
        need_bytes(self.bundle, limits.MAX_BUNDLE_BYTES, "bundle")
        need_bytes(self.signature, limits.MAX_SIGNATURE_BYTES, "signature")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "adopt", {}, [self.bundle, self.signature])


@dataclass(frozen=True, slots=True)
class Prove:
    """Try these forbidden acts once more, and say which rules are in force."""

    tries: tuple[str, ...]
    numbers: Mapping[str, int]  # of the system calls that are tried

    def __post_init__(self) -> None:
        _need_tries(self.tries)
        for name, number in self.numbers.items():
            need_word(name, _CALL, "the name of a call")
            need_number(number, 2**31 - 1, "the number of a call")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {"numbers": dict(sorted(self.numbers.items())), "tries": list(self.tries)}
        return wire.pack(PROTOCOL, "prove", fields, [])


@dataclass(frozen=True, slots=True)
class Enforced:
    """What a box holds code to, found by trying, and which forbidden acts failed just now."""

    generation: int
    policy: str  # digest of the bundle
    rings: Mapping[str, str]  # profile -> digest of what it lets through
    tried: tuple[str, ...]

    def __post_init__(self) -> None:
        need_number(self.generation, MAX_GENERATION, "generation", least=1)
        need_word(self.policy, _DIGEST, "the digest of a bundle")
        need(len(self.rings) <= MAX_PROFILES, "too many profiles")
        for name, digest in self.rings.items():
            need_word(name, _PROFILE, "the name of a profile")
            need_word(digest, _DIGEST, "the digest of a profile")
        _need_tries(self.tried)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "generation": self.generation,
            "policy": self.policy,
            "rings": dict(sorted(self.rings.items())),
            "tried": list(self.tried),
        }
        return wire.pack(PROTOCOL, "enforced", fields, [])


def adopt_of(packed: Packed) -> Adopt:
    """Return the message in a packed one, or raise `ProtocolBroken`."""
    fields_of(packed)
    return Adopt(*parts_of(packed, 2))


def prove_of(packed: Packed) -> Prove:
    """Return the message in a packed one, or raise `ProtocolBroken`."""
    numbers, tries = fields_of(packed, "numbers", "tries")
    parts_of(packed, 0)
    need(type(numbers) is dict and type(tries) is list, "not a table and a list")
    return Prove(tuple(tries), numbers)


def parse_enforced(data: Untrusted[bytes]) -> Enforced:
    """Return what a box says it enforces, or raise `ProtocolBroken`; used by the host."""
    packed = wire.unpack_due(
        data, "enforced", protocol=PROTOCOL, most_bytes=limits.MAX_HEADER_BYTES
    )
    parts_of(packed, 0)
    generation, policy, rings, tried = fields_of(packed, "generation", "policy", "rings", "tried")
    need(type(rings) is dict and type(tried) is list, "not a table and a list")
    return Enforced(generation, policy, rings, tuple(tried))


def _need_tries(tries: tuple[str, ...]) -> None:
    need(type(tries) is tuple and len(tries) <= MAX_TRIES, "too many acts to try")
    for one in tries:
        need_word(one, _TRY, "an act to try")
