"""Guest images in the user's cache, one directory per digest; their export and import.

    images/<digest>/manifest.json      names every other file by digest and size
    images/<digest>/kernel             and initramfs, base.erofs, ...; all read-only
    images/making-XXXX/                an image that is being made or imported
    images/lock                        held while an image is made, imported or removed

A directory gets its name when it is complete.  `find` with `verify` reads every byte and compares.

An exported image is one tar file: the manifest, its files in the order of their names, and the
digest of everything before it.  An imported image counts by the digests in its manifest.

SECURITY
    Reads the user's cache, which any process of this user can write, and files that anybody may
    have made.  Files are opened without following links.  Names and sizes of an imported file are
    those of its manifest, in that order, or it is refused; the sender names nothing.  If this
    module is wrong, a guest starts from bytes nobody locked; it still has no network and no file
    of the host.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from threegate.base.errors import (
    ArtifactRejected,
    GateUnavailable,
    StorageFailed,
    UsageError,
    disk_errors,
)
from threegate.base.text import quote
from threegate.host.atomic_file import new_file
from threegate.host.images.manifest import (
    INITRAMFS,
    KERNEL,
    MAX_MANIFEST_BYTES,
    ImagePart,
    Manifest,
    layer_file,
    parse_manifest,
    rejected,
)
from threegate.host.workspace.archive import ArchiveReader, ArchiveWriter

NOT_HERE: Final = "TG-IMG-011"
DAMAGED: Final = "TG-IMG-012"
OTHER_IMAGE: Final = "TG-IMG-013"
MANIFEST: Final = "manifest.json"
MAKING: Final = "making-"
LOCK: Final = "lock"
PIECE_BYTES: Final = 1024 * 1024
MIN_SHORT_DIGITS: Final = 12
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Progress = Callable[[int], None]  # called with the bytes since the last call


@dataclass(frozen=True, slots=True)
class Image:
    """An image on this machine."""

    digest: str
    place: Path
    manifest: Manifest

    @property
    def kernel(self) -> Path:
        """The kernel, not compressed."""
        return self.place / KERNEL

    @property
    def initramfs(self) -> Path:
        """The init and its modules."""
        return self.place / INITRAMFS

    @property
    def layers(self) -> Mapping[str, Path]:
        """Every layer by its name, the lowest first."""
        return {name: self.place / layer_file(name) for name in self.manifest.layers}

    def compare(self, progress: Progress = lambda _: None) -> None:
        """Read every byte; raise `GateUnavailable` if one is not what the manifest promises."""
        for name, part in self.manifest.files.items():
            try:
                found = digest_of(self.place / name, progress)
            except StorageFailed as exc:
                raise damaged(self.digest, f"{name} cannot be read") from exc
            if found != part.sha256:
                raise damaged(self.digest, f"{name} has other bytes")


@dataclass(frozen=True, slots=True)
class Images:
    """The images of one user."""

    root: Path

    def find(
        self, digest: str, *, verify: bool = False, progress: Progress = lambda _: None
    ) -> Image:
        """Return an image; with `verify` every byte of it is read and compared.

        Raises `GateUnavailable` if it is not here or not what its name promises.
        """
        place = self.root / digest
        if not _DIGEST.fullmatch(digest) or not _is_directory(place):
            hint = "`threegate image list` shows what is here, `threegate image build` makes one"
            raise GateUnavailable(
                f"there is no image {quote(digest)} here", code=NOT_HERE, hint=hint
            )
        image = Image(digest, place, self._manifest(place, digest))
        for name, part in image.manifest.files.items():
            if _size_of(place / name) != part.size:
                raise damaged(digest, f"{name} is missing or has another size")
        if verify:
            image.compare(progress)
        return image

    def resolve(self, text: str) -> str:
        """Return the whole digest for it or its start; raise `UsageError`."""
        if _DIGEST.fullmatch(text):
            return text
        found = [digest for digest in self.digests() if digest.startswith(text)]
        if len(text) < MIN_SHORT_DIGITS or len(found) != 1:
            hint = "`threegate image list` shows what is here"
            raise UsageError(f"{quote(text)} is not the digest of one image here", hint=hint)
        return found[0]

    def digests(self) -> list[str]:
        """Return the name of every image, intact or not."""
        with disk_errors("look at the images"):
            if not self.root.is_dir():
                return []
            names = sorted(path.name for path in self.root.iterdir())
        return [name for name in names if _DIGEST.fullmatch(name)]

    @contextmanager
    def making(self, *, wait: Callable[[], None] = lambda: None) -> Iterator[Path]:
        """Hold the lock over all images; yield an empty directory that is removed afterwards.

        `wait` is called if another process holds the lock.  Directories that killed processes left
        are removed.
        """
        with disk_errors("make the place for images"):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / LOCK).open("w")
        with lock, disk_errors("make an image"):  # closing it releases the lock
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                wait()
                fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self.root.glob(f"{MAKING}*"):
                shutil.rmtree(left)
            place = Path(tempfile.mkdtemp(prefix=MAKING, dir=self.root))
            try:
                yield place
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def remove(self, digest: str) -> int:
        """Remove an image and return its bytes; one that is not here has none."""
        place = self.root / digest
        assert _DIGEST.fullmatch(digest)
        if not _is_directory(place):
            return 0
        with self.making() as work:
            size = sum(path.lstat().st_size for path in place.iterdir())
            # Renamed first: another process finds it complete or not at all.
            place.rename(work / digest)
        return size

    def keep(self, made: Path, manifest: Manifest) -> Image:
        """Name a directory below the root, which holds the files of an image, after its digest."""
        digest, place = manifest.digest, self.root / manifest.digest
        with disk_errors("keep an image"):
            (made / MANIFEST).write_bytes(manifest.data)
            for name in (MANIFEST, *manifest.files):
                (made / name).chmod(0o444)
                _sync(made / name)
            made.chmod(0o755)
            _sync(made)
            if self._is_intact(digest):
                shutil.rmtree(made)
            else:
                # A damaged image, or another file of that name, goes with the scratch directory.
                if os.path.lexists(place):
                    place.rename(made.with_name("damaged"))
                made.rename(place)
            _sync(self.root)
        return self.find(digest)

    def _is_intact(self, digest: str) -> bool:
        try:
            self.find(digest, verify=True)
        except GateUnavailable:
            return False
        return True

    def _manifest(self, place: Path, digest: str) -> Manifest:
        try:
            with _plain(place / MANIFEST) as fd:
                data = os.read(fd, MAX_MANIFEST_BYTES + 1)
        except OSError as exc:
            raise damaged(digest, "it has no manifest that can be read") from exc
        if hashlib.sha256(data).hexdigest() != digest:
            raise damaged(digest, "its manifest has other bytes")
        try:
            return parse_manifest(data)
        except ArtifactRejected as exc:  # of a later version, or made by somebody else
            raise damaged(digest, "this program does not know the format of its manifest") from exc


def digest_of(path: Path, progress: Progress = lambda _: None) -> str:
    """Return the SHA-256 of a plain file."""
    found = hashlib.sha256()
    with disk_errors("read an image"), _plain(path) as fd:
        while piece := os.read(fd, PIECE_BYTES):
            found.update(piece)
            progress(len(piece))
    return found.hexdigest()


def damaged(digest: str, reason: str) -> GateUnavailable:
    """Return the error for an image that is not what its name promises."""
    hint = f"`threegate image remove {digest[:MIN_SHORT_DIGITS]}`, then build or import it again"
    message = f"image {digest[:MIN_SHORT_DIGITS]} is damaged: {reason}"
    return GateUnavailable(message, code=DAMAGED, hint=hint)


@contextmanager
def _plain(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "no plain file")
        yield fd
    finally:
        os.close(fd)


def _size_of(path: Path) -> int | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def export_image(image: Image, path: Path, progress: Progress = lambda _: None) -> None:
    """Write an image to a new file, completely or not at all.

    Raises `UsageError` if there is one, `GateUnavailable` if the image is not what it should be.
    """
    with new_file(path) as out:
        _send(image, out, progress)


def _send(image: Image, out: BinaryIO, progress: Progress) -> None:
    archive = ArchiveWriter(out)
    archive.add(MANIFEST, image.manifest.data)
    for name, part in sorted(image.manifest.files.items()):
        archive.add_pieces(name, part.size, _checked(image, name, part, progress))
    archive.end()


def _checked(image: Image, name: str, part: ImagePart, progress: Progress) -> Iterator[bytes]:
    found, left = hashlib.sha256(), part.size
    with (image.place / name).open("rb") as file:
        while left and (piece := file.read(min(left, PIECE_BYTES))):
            found.update(piece)
            left -= len(piece)
            progress(len(piece))
            if left or found.hexdigest() == part.sha256:
                yield piece
    if left or found.hexdigest() != part.sha256:
        raise damaged(image.digest, f"{name} has other bytes")


def import_image(
    file: BinaryIO,
    images: Images,
    *,
    expected: str | None = None,
    look: Callable[[str], None] = lambda _: None,
    progress: Progress = lambda _: None,
) -> Image:
    """Keep the image in a file; raise `ArtifactRejected` unless it is complete and intact.

    With `expected` it must be the image of this digest.  Otherwise `look` is called with the digest
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
            _receive(reader, name, part, made / name, progress)
        reader.end()
        return images.keep(made, manifest)


def _receive(
    reader: ArchiveReader, name: str, part: ImagePart, path: Path, progress: Progress
) -> None:
    found, size = hashlib.sha256(), 0
    with path.open("xb") as out:
        for piece in reader.next_pieces(name, max_bytes=part.size, piece_bytes=PIECE_BYTES):
            found.update(piece)
            out.write(piece)
            size += len(piece)
            progress(len(piece))
    if size != part.size or found.hexdigest() != part.sha256:
        raise rejected(f"{name} is not the file its manifest names")
