"""SHA-256 of large bytes, where the standard library has no OpenSSL to use.

A gate's box has no libcrypto, and Python's own loop takes six times as long; the library that
checks signatures brings one along.
"""

from collections.abc import Iterable

from cryptography.hazmat.primitives import hashes


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` in lower-case hex."""
    return sha256_of((data,))


def sha256_of(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of all pieces, one after the other, in lower-case hex."""
    digest = hashes.Hash(hashes.SHA256())
    for piece in pieces:
        digest.update(piece)
    return digest.finalize().hex()
