"""The files inside an image: digests of its programs, and all layers as one directory.

    images/<digest>/tree-base+agent/root        the layers, one over the other
    images/<digest>/tree-base+agent/sha256      the digest over all of it

An engine that cannot mount layers needs the directory.  It is made once, by our own reader, and is
removed with its image.  Each command that uses it reads every byte and compares.

SECURITY
    Reads images of our own store, which may come from somebody else, and writes files under their
    names.  Every directory was made here and is not a link; a file over another one is refused.
    The guest compares digests of programs again with those its layers were built with.
"""

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from threegate.base.erofs import Directory, ErofsFile, ErofsLink, Layout, Node
from threegate.base.erofs_reader import read_nodes
from threegate.base.errors import disk_errors
from threegate.host.images.store import Image, Images, damaged

TREE_ROOT: Final = "root"
TREE_DIGEST: Final = "sha256"
_PIECE_BYTES: Final = 1024 * 1024


def tree_of(image: Image, layers: Sequence[str]) -> tuple[Path, str]:
    """Return the directory of these layers and its digest; it is made if it is not here.

    Raises `GateUnavailable` for an image that is damaged.
    """
    place = image.place / f"tree-{'+'.join(layers)}"
    with disk_errors("unpack an image"):
        found = _intact(place)
        if found is None:
            _make(image, layers, place)
            found = _intact(place)
    if found is None:
        raise damaged(image.digest, "it cannot be unpacked")
    return place / TREE_ROOT, found


def _intact(place: Path) -> str | None:
    try:
        said = (place / TREE_DIGEST).read_text("ascii")
    except (FileNotFoundError, ValueError):
        return None
    return said if tree_digest(place / TREE_ROOT) == said else None


def _make(image: Image, layers: Sequence[str], place: Path) -> None:
    with Images(image.place.parent).making() as work:
        root = work / "tree" / TREE_ROOT
        root.mkdir(parents=True)
        for name in layers:
            try:
                with _opened(image.layers[name]) as fd:
                    nodes, layout = read_nodes(fd)
                    for path in sorted(nodes):  # a directory comes before its content
                        _put(fd, path, nodes[path], layout, root)
            except (ValueError, FileExistsError, NotADirectoryError) as exc:
                raise damaged(image.digest, f"layer {name}: {exc}") from exc
        (work / "tree" / TREE_DIGEST).write_text(tree_digest(root), "ascii")
        root.chmod(0o755)
        (work / "tree").chmod(0o755)
        if place.exists():
            place.rename(work / "before")  # a damaged one; gone with the rest
        (work / "tree").rename(place)


def _put(fd: int, path: str, node: Node, layout: Layout, root: Path) -> None:
    place = root / path
    if isinstance(node, Directory):
        if not place.is_symlink() and place.is_dir():
            return
        place.mkdir()
        place.chmod(0o755)  # against any umask: a sandbox of another uid reads it
    elif isinstance(node, ErofsLink):
        place.symlink_to(node.target)
    else:
        with place.open("xb") as file:
            file.writelines(_pieces(fd, path, layout))
        place.chmod(0o555 if node.executable else 0o444)


def tree_digest(root: Path) -> str:
    """Return the digest over names, kinds, modes and bytes of everything below a directory."""
    found = hashlib.sha256()
    for path in _walk(root):
        mode = path.lstat().st_mode
        name = os.fsencode(path.relative_to(root))
        found.update(b"%d %o %b\0" % (len(name), mode, name))
        if stat.S_ISLNK(mode):
            target = os.fsencode(os.readlink(path))
            found.update(b"%d %b" % (len(target), target))
        elif stat.S_ISREG(mode):
            with path.open("rb", buffering=0) as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def _walk(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def digests_in(image: Image, layers: Sequence[str], paths: Collection[str]) -> dict[str, str]:
    """Return the digest of each of these programs that the layers hold; the last layer counts.

    Raises `GateUnavailable` for an image that is damaged.
    """
    found: dict[str, str] = {}
    for name in layers:
        with disk_errors("read an image"), _opened(image.layers[name]) as fd:
            try:
                nodes, layout = read_nodes(fd)
                for path in paths:
                    inside, digest = path.removeprefix("/"), hashlib.sha256()
                    if isinstance(nodes.get(inside), ErofsFile):
                        for piece in _pieces(fd, inside, layout):
                            digest.update(piece)
                        found[path] = digest.hexdigest()
            except ValueError as exc:
                raise damaged(image.digest, f"layer {name}: {exc}") from exc
    return found


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _pieces(fd: int, path: str, layout: Layout) -> Iterator[bytes]:
    at, left = layout.places.get(path, (0, 0))
    while left:
        piece = os.pread(fd, min(left, _PIECE_BYTES), at)
        if not piece:
            raise ValueError("it ends early")
        yield piece
        at, left = at + len(piece), left - len(piece)
