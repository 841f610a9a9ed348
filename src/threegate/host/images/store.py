"""Where guest images are kept: the user's cache, one directory per digest, shared by all runs.

    images/<digest>/manifest.json      names every other file by digest and size
    images/<digest>/kernel             and initramfs, base.erofs, ...; all read-only
    images/making-XXXX/                one that is being made or brought
    images/lock                        held by whoever makes, brings or removes one

A directory gets its name when it is whole.  A name here is a promise; `find` with `verify` reads
every byte and compares.

SECURITY
    Reads the user's cache, which whoever is this user can write.  Files are opened without
    following links.  If this module is wrong, a guest starts from bytes nobody locked; it
    still has no network and no file of the host.
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
from typing import Final

from threegate.base.errors import (
    ArtifactRejected,
    GateUnavailable,
    StorageFailed,
    UsageError,
    disk_errors,
)
from threegate.base.text import quote
from threegate.host.images.manifest import (
    INITRAMFS,
    KERNEL,
    MAX_MANIFEST_BYTES,
    Manifest,
    layer_file,
    parse_manifest,
)

NOT_HERE: Final = "TG-IMG-011"
DAMAGED: Final = "TG-IMG-012"
MANIFEST: Final = "manifest.json"
MAKING: Final = "making-"
LOCK: Final = "lock"
PIECE_BYTES: Final = 1024 * 1024
MIN_SHORT_DIGITS: Final = 12
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Told = Callable[[int], None]  # bytes since the last time


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

    def compare(self, told: Told = lambda _: None) -> None:
        """Read every byte; raise `GateUnavailable` if one is not what the manifest promises."""
        for name, part in self.manifest.files.items():
            try:
                found = digest_of(self.place / name, told)
            except StorageFailed as exc:
                raise damaged(self.digest, f"{name} cannot be read") from exc
            if found != part.sha256:
                raise damaged(self.digest, f"{name} has other bytes")


@dataclass(frozen=True, slots=True)
class Images:
    """The images of one user."""

    root: Path

    def find(self, digest: str, *, verify: bool = False, told: Told = lambda _: None) -> Image:
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
            image.compare(told)
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
        """Be the only one who changes images, with an empty directory that is gone afterwards.

        `wait` is called if somebody else does now.  What others left who were ended in mid-work
        is removed.
        """
        with disk_errors("make the place for images"):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / LOCK).open("w")
        with lock, disk_errors("make an image"):  # closing it lets go of it
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
            # Under another name first: whoever looks for it finds it whole or not at all.
            place.rename(work / digest)
        return size

    def keep(self, made: Path, manifest: Manifest) -> Image:
        """Give a directory below the root, which holds the files of an image, its name."""
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
                # A damaged one, or whatever else has its name, goes with the place it was made in.
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
        except ArtifactRejected as exc:  # of a version to come, or made by somebody else
            raise damaged(digest, "its manifest is none this program knows") from exc


def digest_of(path: Path, told: Told = lambda _: None) -> str:
    """Return the SHA-256 of a plain file."""
    found = hashlib.sha256()
    with disk_errors("read an image"), _plain(path) as fd:
        while piece := os.read(fd, PIECE_BYTES):
            found.update(piece)
            told(len(piece))
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
