"""Public keys: Ed25519, in a file or an agent, and Ed25519 on a FIDO2 token.

SECURITY
    Reads key blobs from signatures, signer lists and public key files.  A key that
    everybody can sign for must not become a signer: points of small order are refused,
    and so is a second spelling of a point.  If this module is wrong, a key nobody
    holds, or a key type nobody reviewed, can approve.
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import SignatureRefused
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted

# The SSH wire format (RFC 4251 section 5), read strictly and written.
#
# SECURITY: anybody may have written these bytes. Every length is compared with the caller's bound
# and with the rest of the input before a byte is sliced, and `end` refuses trailing bytes. Raises
# `SignatureRefused` and nothing else.

MALFORMED: Final = "TG-KEY-001"


def malformed(reason: str) -> SignatureRefused:
    """Return the refusal of bytes that are not what they should be."""
    return SignatureRefused(reason, code=MALFORMED)


class WireReader:
    """A cursor over foreign bytes."""

    __slots__ = ("_data", "_offset", "_what")

    def __init__(self, data: bytes, *, what: str) -> None:
        self._data = data
        self._offset = 0
        self._what = what

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, all of them."""
        if count > len(self._data) - self._offset:
            raise malformed(f"{self._what} ends early")
        start, self._offset = self._offset, self._offset + count
        return self._data[start : self._offset]

    def u8(self) -> int:
        """Return the next byte as a number."""
        return self.take(1)[0]

    def u32(self) -> int:
        """Return the next four bytes as a number."""
        return int.from_bytes(self.take(4), "big")

    def string(self, limit: int) -> bytes:
        """Return the next length-prefixed string, which may hold `limit` bytes."""
        length = self.u32()
        if length > limit:
            raise malformed(f"{self._what} has a field of {length} bytes, limit {limit}")
        return self.take(length)

    def end(self) -> None:
        """Refuse bytes behind the last field: nobody would have looked at them."""
        if self._offset != len(self._data):
            raise malformed(f"{self._what} has {len(self._data) - self._offset} trailing bytes")


def wire_string(data: bytes) -> bytes:
    """Return `data` with its length in front."""
    return len(data).to_bytes(4, "big") + data


# Bounds of keys, signatures and signer lists, checked before the bytes they bound are used.

# A signature by a plain key is about 300 bytes, by a FIDO2 key about 400.
MAX_PUBLIC_LINE_BYTES: Final = (
    8_192  # a long comment is legal; an RSA key must get a proper refusal
)
MAX_KEY_BLOB_BYTES: Final = 2_048
MAX_KEY_TYPE_BYTES: Final = 64
MAX_APPLICATION_BYTES: Final = 128
MAX_NAMESPACE_BYTES: Final = 64
MAX_HASH_NAME_BYTES: Final = 16

MAX_SIGNERS: Final = 256
MAX_SIGNERS_BYTES: Final = 262_144  # room for MAX_SIGNERS of the longest lines
MAX_PRINCIPAL_CHARS: Final = 128


ED25519: Final = "ssh-ed25519"
SK_ED25519: Final = "sk-ssh-ed25519@openssh.com"
KEY_TYPES: Final = (ED25519, SK_ED25519)
POINT_BYTES: Final = 32

_FIELD_PRIME: Final = 2**255 - 19
_ORDER_8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
# The y coordinates of all points of order 1, 2, 4 and 8.  For such a key a signature that
# fits every message, or every eighth, needs no secret.
_SMALL_ORDER_Y: Final = frozenset(
    {0, 1, _FIELD_PRIME - 1, _ORDER_8, _FIELD_PRIME - _ORDER_8},
)


def key_refused(reason: str) -> SignatureRefused:
    """Return the refusal of a key that is well formed but may never sign."""
    return SignatureRefused(
        reason, code="TG-KEY-007", hint="use an ed25519 key, or ed25519-sk on a FIDO2 token"
    )


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One accepted public key; `blob` is its only spelling."""

    key_type: str
    point: bytes
    application: bytes  # of a FIDO2 key, else empty

    @property
    def blob(self) -> bytes:
        """Return the key in wire format."""
        head = wire_string(self.key_type.encode("ascii")) + wire_string(self.point)
        return head + wire_string(self.application) if self.on_token else head

    @property
    def on_token(self) -> bool:
        """Return whether the private half lives in a FIDO2 token."""
        return self.key_type == SK_ED25519

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint as `ssh-keygen -l` shows it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest())
        return "SHA256:" + digest.decode("ascii").rstrip("=")

    @property
    def line(self) -> str:
        """Return type and base64, as a public key file and a signer list spell it."""
        return f"{self.key_type} {base64.b64encode(self.blob).decode('ascii')}"


def parse_key_blob(blob: bytes) -> PublicKey:
    """Return the key in wire-format `blob`, or raise `SignatureRefused`."""
    reader = WireReader(blob, what="public key")
    key_type = _known_type(reader.string(MAX_KEY_TYPE_BYTES))
    point = reader.string(POINT_BYTES)
    application = reader.string(MAX_APPLICATION_BYTES) if key_type == SK_ED25519 else b""
    reader.end()
    _refuse_point(point)
    if key_type == SK_ED25519:
        _refuse_application(application)
    return PublicKey(key_type, point, application)


def parse_public_line(data: Untrusted[bytes]) -> PublicKey:
    """Return the key in a public key file: one line of type, base64 and any comment."""
    untrusted = data.open_for_validation()
    if len(untrusted) > MAX_PUBLIC_LINE_BYTES:
        raise malformed(f"public key of {len(untrusted)} bytes")
    if untrusted.startswith(b"-----BEGIN"):
        raise malformed("this is a private key; the public one is in the file with .pub")
    line = untrusted.removesuffix(b"\n").removesuffix(b"\r")
    if b"\n" in line or b"\r" in line:
        raise malformed("public key file has more than one line")
    fields = line.split(b" ", 2)
    if len(fields) < 2:
        raise malformed("public key is not `type base64 comment`")
    return parse_typed_key(fields[0], fields[1])


def parse_typed_key(type_name: bytes, encoded: bytes) -> PublicKey:
    """Return the key spelled as type name and base64, which must agree."""
    key_type = _known_type(type_name)
    key = parse_key_blob(decode_base64(encoded, MAX_KEY_BLOB_BYTES, what="public key"))
    if key.key_type != key_type:
        raise malformed("public key is not of the type its line names")
    return key


def decode_base64(encoded: bytes, limit: int, *, what: str) -> bytes:
    """Return the bytes spelled by `encoded`, accepting their canonical spelling alone."""
    if len(encoded) > 4 * (limit // 3 + 1):
        raise malformed(f"{what} of more than {limit} bytes")
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise malformed(f"{what} is not base64") from exc
    if base64.b64encode(decoded) != encoded:  # stray bits behind the last byte
        raise malformed(f"{what} is not canonical base64")
    return decoded


def _known_type(name: bytes) -> str:
    shown = name.decode("ascii", "backslashreplace")
    if shown not in KEY_TYPES:
        raise key_refused(f"key type {quote(shown)} may not sign")
    return shown


def _refuse_point(point: bytes) -> None:
    if len(point) != POINT_BYTES:
        raise malformed(f"ed25519 key of {len(point)} bytes")
    y = int.from_bytes(point, "little") & (2**255 - 1)
    if y >= _FIELD_PRIME:
        raise key_refused("ed25519 key is not in canonical form")
    if y in _SMALL_ORDER_Y:
        raise key_refused("ed25519 key has small order: anybody can sign for it")


def _refuse_application(application: bytes) -> None:
    # A token also holds keys of web sites; theirs are named after the site.
    if not application.startswith(b"ssh:") or not all(0x21 <= byte <= 0x7E for byte in application):
        raise key_refused("FIDO2 key was not made for ssh")
