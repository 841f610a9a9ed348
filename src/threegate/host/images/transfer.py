"""Taking an image to another machine: one file that every tar program can list.

The first member is the manifest, then come its files in the order of their names; the last is
the digest of everything before it.  What arrives counts by the digests of the manifest, and the
image by the digest of that.

SECURITY
    Reads files that anybody may have made.  Names and sizes are those the manifest
    promised, in that order, or the file is refused; nothing is named by the sender.  If
    this module is wrong, an image is kept under a name it should not have.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from threegate.base.errors import ArtifactRejected
from threegate.host.atomic_file import new_file
from threegate.host.images.manifest import MAX_MANIFEST_BYTES, Part, parse_manifest, rejected
from threegate.host.images.store import (
    MANIFEST,
    PIECE_BYTES,
    Image,
    Images,
    Told,
    damaged,
)
from threegate.host.workspace.archive import ArchiveReader, ArchiveWriter

OTHER_IMAGE: Final = "TG-IMG-013"


def export(image: Image, path: Path, told: Told = lambda _: None) -> None:
    """Write an image to a new file, whole or not at all.

    Raises `UsageError` if there is one, `GateUnavailable` if the image is not what it should be.
    """
    with new_file(path) as out:
        _write_all(image, out, told)


def _write_all(image: Image, out: BinaryIO, told: Told) -> None:
    archive = ArchiveWriter(out)
    archive.add(MANIFEST, image.manifest.data)
    for name, part in sorted(image.manifest.files.items()):
        archive.add_pieces(name, part.size, _checked(image, name, part, told))
    archive.end()


def _checked(image: Image, name: str, part: Part, told: Told) -> Iterator[bytes]:
    found, left = hashlib.sha256(), part.size
    with (image.place / name).open("rb") as file:
        while left and (piece := file.read(min(left, PIECE_BYTES))):
            found.update(piece)
            left -= len(piece)
            told(len(piece))
            if left or found.hexdigest() == part.sha256:
                yield piece
    if left or found.hexdigest() != part.sha256:
        raise damaged(image.digest, f"{name} has other bytes")


def bring(
    file: BinaryIO,
    images: Images,
    *,
    expected: str | None = None,
    look: Callable[[str], None] = lambda _: None,
    told: Told = lambda _: None,
) -> Image:
    """Keep the image in a file; raise `ArtifactRejected` for any that is not whole and intact.

    With `expected` it must be the image of this digest.  Without, `look` is given the digest
    before anything is written, and may raise.
    """
    reader = ArchiveReader(file, rejected)
    manifest = parse_manifest(reader.next(MANIFEST, max_bytes=MAX_MANIFEST_BYTES))
    if expected is not None and manifest.digest != expected:
        message = f"the file holds the image {manifest.digest}, not the one you named"
        raise ArtifactRejected(message, code=OTHER_IMAGE, hint="nothing was kept")
    if expected is None:
        look(manifest.digest)
    with images.making() as work:
        made = work / "made"
        made.mkdir()
        for name, part in sorted(manifest.files.items()):
            _write(reader, name, part, made / name, told)
        reader.end()
        return images.keep(made, manifest)


def _write(reader: ArchiveReader, name: str, part: Part, path: Path, told: Told) -> None:
    found, size = hashlib.sha256(), 0
    with path.open("xb") as out:
        for piece in reader.next_pieces(name, max_bytes=part.size, piece_bytes=PIECE_BYTES):
            found.update(piece)
            out.write(piece)
            size += len(piece)
            told(len(piece))
    if size != part.size or found.hexdigest() != part.sha256:
        raise rejected(f"{name} is not the file its manifest names")
