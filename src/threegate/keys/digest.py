"""SHA-256 of large bytes, where the standard library has no OpenSSL to use.

A gate's box has no libcrypto, and Python's own loop takes six times as long; the library that
checks signatures brings one along.
"""

from cryptography.hazmat.primitives import hashes


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` in lower-case hex."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(data)
    return digest.finalize().hex()
