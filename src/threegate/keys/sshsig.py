"""SSH signatures (OpenSSH PROTOCOL.sshsig), verified in this process.

Stricter than `ssh-keygen -Y verify`, which decides everything else here the same way
(`tests/unit/keys/test_differential.py`).  Refused here, accepted there by some version:

    armor        CRLF, other line lengths, white space, text behind the last line
    version      0
    reserved     anything but empty: OpenSSH ignores it and does not sign it
    scalar       an Ed25519 `S` not reduced modulo the group order
    point        public keys of small order or with a second spelling
    length       Ed25519 signatures that are not 64 bytes; armor over 4096 bytes
    key type     everything but ed25519 and sk-ed25519: RSA, ECDSA, certificates
    application  FIDO2 keys not made for ssh
    touch        FIDO2 signatures nobody touched the token for
    name         a NUL byte behind the name of a type or a hash
    namespace    empty, over 64 bytes, or with characters other than printable ASCII

So a signature has one spelling and nothing in it is unsigned.

SECURITY
    Reads signatures anybody may have written, in host and executors.  Opens no files,
    starts nothing.  If this module is wrong, code runs that no human approved.
"""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from threegate.base.errors import SignatureRefused
from threegate.base.limits import MAX_SIGNATURE_BYTES
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.keys import public
from threegate.keys.public import (
    PublicKey,
    WireReader,
    decode_base64,
    malformed,
    parse_key_blob,
    wire_string,
)
from threegate.keys.signers import Signers

MAGIC: Final = b"SSHSIG"
VERSION: Final = 1
HASHES: Final = {"sha256": hashlib.sha256, "sha512": hashlib.sha512}
SIGNATURE_BYTES: Final = 64
TOUCHED: Final = 0x01  # FIDO2 authenticator data, "user present"

_BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----\n"
_END: Final = b"-----END SSH SIGNATURE-----\n"
_LINE_CHARS: Final = 70
_GROUP_ORDER: Final = 2**252 + 27742317777372353535851937790883648493


@dataclass(frozen=True, slots=True)
class SshSignature:
    """A well-formed signature; `check_signature` verifies it."""

    key: PublicKey
    namespace: str
    hash_name: str
    signature: bytes
    flags: int | None  # of a FIDO2 token, else None
    counter: int | None


@dataclass(frozen=True, slots=True)
class SignedBytes:
    """Who signed, with which key; `touched` is None for a key that has no token."""

    principal: str
    fingerprint: str
    key_type: str
    touched: bool | None


def verify(
    message: bytes,
    armored: Untrusted[bytes],
    *,
    namespace: str,
    signers: Signers,
    at: int,
    past: bool = False,
) -> SignedBytes:
    """Return who signed `message`, or raise `SignatureRefused`.

    `at` is when the signature was made, from the audit log or, for a new one, the clock.
    Never take it from the signed bytes: a thief of the key writes any date there.
    `past` is for signatures of the record, which a later revocation leaves as they are.
    """
    signature = parse_signature(armored)
    if signature.namespace != namespace:
        # Else an approval could be replayed as a policy, a checkpoint or a git commit.
        raise SignatureRefused(
            f"signature is for {quote(signature.namespace)}, not for {namespace}", code="TG-KEY-004"
        )
    signer = signers.find(signature.key)
    if signer is None:
        raise SignatureRefused(
            f"key {signature.key.fingerprint} is not an allowed signer", code="TG-KEY-003"
        )
    touched = check_signature(message, signature)
    # After the arithmetic, so that "revoked" is reported only for real signatures of that key.
    signer.refuse(namespace=namespace, at=at, past=past)
    return SignedBytes(signer.principal, signature.key.fingerprint, signature.key.key_type, touched)


def check_signature(message: bytes, signature: SshSignature) -> bool | None:
    """Return whether a token was touched (None: no token); raise if the signature is wrong."""
    signed = _signed_bytes(message, signature)
    # S + L spells the same signature again; some libraries take it (RFC 8032 section 8.4).
    if int.from_bytes(signature.signature[32:], "little") >= _GROUP_ORDER:
        raise SignatureRefused("signature is not in canonical form", code="TG-KEY-002")
    try:
        Ed25519PublicKey.from_public_bytes(signature.key.point).verify(signature.signature, signed)
    except (InvalidSignature, ValueError) as exc:
        raise SignatureRefused(
            f"signature by {signature.key.fingerprint} does not fit these bytes", code="TG-KEY-002"
        ) from exc
    if signature.flags is None:
        return None
    if not signature.flags & TOUCHED:
        raise SignatureRefused("nobody touched the security key", code="TG-KEY-008")
    return True


def parse_signature(data: Untrusted[bytes]) -> SshSignature:
    """Return the armored signature in `data`, or raise `SignatureRefused`."""
    untrusted = data.open_for_validation()
    reader = WireReader(_dearmor(untrusted), what="signature")
    if reader.take(len(MAGIC)) != MAGIC or reader.u32() != VERSION:
        raise malformed("not an SSH signature of version 1")
    key = parse_key_blob(reader.string(public.MAX_KEY_BLOB_BYTES))
    namespace = _read_namespace(reader.string(public.MAX_NAMESPACE_BYTES))
    reader.string(0)  # reserved
    hash_name = _read_hash(reader.string(public.MAX_HASH_NAME_BYTES))
    inner = WireReader(reader.string(public.MAX_KEY_BLOB_BYTES), what="signature")
    reader.end()
    if inner.string(public.MAX_KEY_TYPE_BYTES) != key.key_type.encode("ascii"):
        raise malformed("signature and key are of different types")
    raw = inner.string(SIGNATURE_BYTES)
    flags, counter = (inner.u8(), inner.u32()) if key.on_token else (None, None)
    inner.end()
    if len(raw) != SIGNATURE_BYTES:
        raise malformed(f"ed25519 signature of {len(raw)} bytes")
    return SshSignature(key, namespace, hash_name, raw, flags, counter)


def armor(blob: bytes) -> bytes:
    """Return `blob` in the only armor that is accepted, the one `ssh-keygen` writes."""
    text = base64.b64encode(blob)
    lines = [text[i : i + _LINE_CHARS] + b"\n" for i in range(0, len(text), _LINE_CHARS)]
    return _BEGIN + b"".join(lines) + _END


def _dearmor(untrusted: bytes) -> bytes:
    if len(untrusted) > MAX_SIGNATURE_BYTES:
        raise malformed(f"signature of {len(untrusted)} bytes, limit {MAX_SIGNATURE_BYTES}")
    if not untrusted.startswith(_BEGIN) or not untrusted.endswith(_END):
        raise malformed("not an armored SSH signature")
    body = untrusted[len(_BEGIN) : -len(_END)].replace(b"\n", b"")
    blob = decode_base64(body, MAX_SIGNATURE_BYTES, what="signature")
    if armor(blob) != untrusted:
        raise malformed("signature armor is not laid out as ssh-keygen does")
    return blob


def _read_namespace(name: bytes) -> str:
    if not name or not all(0x21 <= byte <= 0x7E for byte in name):
        raise malformed("signature namespace is not a word of printable ASCII")
    return name.decode("ascii")


def _read_hash(name: bytes) -> str:
    shown = name.decode("ascii", "backslashreplace")
    if shown not in HASHES:
        raise malformed(f"signature over hash {quote(shown)}")
    return shown


def _signed_bytes(message: bytes, signature: SshSignature) -> bytes:
    digest = HASHES[signature.hash_name](message).digest()
    parts = (signature.namespace.encode("ascii"), b"", signature.hash_name.encode("ascii"), digest)
    signed = MAGIC + b"".join(wire_string(part) for part in parts)
    if signature.flags is None or signature.counter is None:
        return signed
    # What a FIDO2 token signs: its application, its flags and its counter go in as well.
    head = hashlib.sha256(signature.key.application).digest() + bytes([signature.flags])
    return head + signature.counter.to_bytes(4, "big") + hashlib.sha256(signed).digest()


# SHA-256 of large bytes, where the standard library has no OpenSSL to use.
#
# A gate's sandbox has no libcrypto, and Python's own loop takes six times as long; the library
# that verifies signatures brings one along.


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` in lower-case hex."""
    return sha256_of((data,))


def sha256_of(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of all pieces, one after the other, in lower-case hex."""
    digest = hashes.Hash(hashes.SHA256())
    for piece in pieces:
        digest.update(piece)
    return digest.finalize().hex()
