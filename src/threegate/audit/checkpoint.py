"""Checkpoint: what the log looked like at one moment, in three lines to keep elsewhere.

    threegate/<workspace>
    <number of entries>
    <Merkle root, base64>

The text is the body of a C2SP checkpoint.  Its signature is a detached SSH signature
over exactly these bytes in the namespace `threegate-checkpoint`; making and checking
it is not done here.  A chain alone cannot show that its end was cut off, or that its
last entry was changed; a checkpoint kept on another machine can.

SECURITY
    `parse_checkpoint` reads bytes that come back from outside.  It accepts exactly what
    `emit_checkpoint` writes, so what was signed is what is compared.
"""

import base64
import binascii
import re
from dataclasses import dataclass

from threegate.audit.limits import MAX_CHECKPOINT_BYTES, MAX_TREE_SIZE
from threegate.audit.merkle import HASH_BYTES
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted

CODE = "TG-AUD-004"
WORKSPACE_ID = re.compile(r"[0-9a-z][0-9a-z-]{0,63}")

_TEXT = re.compile(
    rb"threegate/(?P<origin>[0-9a-z][0-9a-z-]{0,63})\n"
    rb"(?P<size>0|[1-9][0-9]{0,15})\n"
    rb"(?P<root>[A-Za-z0-9+/]{43}=)\n"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`size` entries of workspace `origin` have the Merkle root `root`."""

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        """Refuse a value that has no text."""
        if not WORKSPACE_ID.fullmatch(self.origin):
            raise ArtifactRejected("checkpoint names no workspace", code=CODE)
        if not 0 <= self.size <= MAX_TREE_SIZE or len(self.root) != HASH_BYTES:
            raise ArtifactRejected("checkpoint has no such size or root", code=CODE)


def emit_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the three lines of `checkpoint`: the bytes that are signed."""
    root = base64.b64encode(checkpoint.root).decode("ascii")
    return f"threegate/{checkpoint.origin}\n{checkpoint.size}\n{root}\n".encode("ascii")


def parse_checkpoint(data: Untrusted[bytes]) -> Checkpoint:
    """Return the checkpoint in `data`, or raise ArtifactRejected."""
    untrusted = data.open_for_validation()
    if len(untrusted) > MAX_CHECKPOINT_BYTES:
        raise ArtifactRejected("checkpoint is too long", code=CODE)
    match = _TEXT.fullmatch(untrusted)
    if match is None:
        raise ArtifactRejected("checkpoint is not three lines of the known form", code=CODE)
    try:
        root = base64.b64decode(match["root"], validate=True)
    except binascii.Error as exc:
        raise ArtifactRejected("checkpoint root is not base64", code=CODE) from exc
    checkpoint = Checkpoint(match["origin"].decode(), int(match["size"]), root)
    # base64 of 32 bytes has spare bits in its last digit: only one spelling counts.
    if emit_checkpoint(checkpoint) != untrusted:
        raise ArtifactRejected("checkpoint root has another spelling", code=CODE)
    return checkpoint
