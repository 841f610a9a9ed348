"""Bounds of keys, signatures and signer lists, checked before the bytes they bound are used."""

from typing import Final

# A signature by a plain key is about 300 bytes, by a FIDO2 key about 400.
MAX_ARMORED_BYTES: Final = 4_096
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
