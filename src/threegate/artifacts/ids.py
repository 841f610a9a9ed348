"""Names of artifacts: a kind prefix and all 64 hex digits of the SHA-256 of the bytes."""

import hashlib
import re
from typing import Final

from threegate.base.forms import KINDS
from threegate.base.schema import Pattern

PREFIXES: Final = tuple(KINDS)
MIN_SHORT_DIGITS: Final = 12
ID_HINT: Final = (
    f"an id is its kind, `-` and at least {MIN_SHORT_DIGITS} lower-case hex digits: rp-0123456789ab"
)
TOO_SHORT_HINT: Final = (
    f"give {MIN_SHORT_DIGITS} digits, as lists show them: something else can be made to start "
    "with fewer"
)

_ID: Final = re.compile(rf"\A({'|'.join(PREFIXES)})-([0-9a-f]{{64}})\Z")
_SHORT: Final = re.compile(rf"\A({'|'.join(PREFIXES)})-([0-9a-f]{{{MIN_SHORT_DIGITS},64}})\Z")
_START: Final = re.compile(rf"\A({'|'.join(PREFIXES)})-[0-9a-f]{{1,{MIN_SHORT_DIGITS - 1}}}\Z")
_DIGEST: Final = re.compile(r"\A[0-9a-f]{64}\Z")


def id_of(*prefixes: str) -> Pattern:
    """Return the shape of a whole id of these kinds."""
    kinds = prefixes or PREFIXES
    return Pattern(rf"(?:{'|'.join(kinds)})-[0-9a-f]{{64}}", f"an id ({', '.join(kinds)})")


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def make_id(prefix: str, data: bytes) -> str:
    """Return the name of the artifact spelled by `data`."""
    return f"{prefix}-{sha256_hex(data)}"


def is_id(text: str) -> bool:
    """Tell whether `text` is a whole id, not a short form."""
    return _ID.match(text) is not None


def is_short_id(text: str) -> bool:
    """Tell whether `text` is an id or a prefix of one with enough digits for people."""
    return _SHORT.match(text) is not None


def is_too_short_id(text: str) -> bool:
    """Tell whether `text` would be a short id if it had more digits."""
    return _START.match(text) is not None


def is_digest(text: str) -> bool:
    """Tell whether `text` is 64 lower-case hex digits."""
    return _DIGEST.match(text) is not None


def prefix_of(artifact_id: str) -> str:
    """Return the kind prefix of a whole or short id."""
    return artifact_id.partition("-")[0]


def digest_of(artifact_id: str) -> str:
    """Return the digest in a whole id."""
    return artifact_id.partition("-")[2]


def short(artifact_id: str) -> str:
    """Return the form for people: prefix and the first digits."""
    prefix, _, digest = artifact_id.partition("-")
    return f"{prefix}-{digest[:MIN_SHORT_DIGITS]}"
