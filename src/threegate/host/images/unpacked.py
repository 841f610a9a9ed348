"""An image as a directory, for an engine that cannot mount its layers.

    images/<digest>/tree-base+agent/root        the layers, one over the other
    images/<digest>/tree-base+agent/sha256      the digest over all of it

A tree is made once, by our own reader, and goes with its image.  Each command that uses it
reads every byte and compares.

SECURITY
    Writes files whose names come from an image that may be somebody else's.  Every directory
    is one that was made here and is no link; what lies over something else is refused.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from threegate.base.erofs import Directory, ErofsLink, Layout, Node
from threegate.base.erofs_reader import read_nodes
from threegate.base.errors import disk_errors
from threegate.host.images.store import Image, Images, damaged

ROOT: Final = "root"
DIGEST: Final = "sha256"
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
    return place / ROOT, found


def _intact(place: Path) -> str | None:
    try:
        said = (place / DIGEST).read_text("ascii")
    except (FileNotFoundError, ValueError):
        return None
    return said if tree_digest(place / ROOT) == said else None


def _make(image: Image, layers: Sequence[str], place: Path) -> None:
    with Images(image.place.parent).making() as work:
        root = work / "tree" / ROOT
        root.mkdir(parents=True)
        for name in layers:
            try:
                _unpack(image.layers[name], root)
            except (ValueError, FileExistsError, NotADirectoryError) as exc:
                raise damaged(image.digest, f"layer {name}: {exc}") from exc
        (work / "tree" / DIGEST).write_text(tree_digest(root), "ascii")
        for path in (root, work / "tree"):
            path.chmod(0o755)
        if place.exists():
            place.rename(work / "before")  # a damaged one; gone with the rest
        (work / "tree").rename(place)


def _unpack(layer: Path, root: Path) -> None:
    with ExitStack() as stack:
        fd = os.open(layer, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, fd)
        nodes, layout = read_nodes(fd)
        for path in sorted(nodes):  # a directory comes before what is in it
            _put(fd, path, nodes[path], layout, root)


def _put(fd: int, path: str, node: Node, layout: Layout, root: Path) -> None:
    place = root / path
    if isinstance(node, Directory):
        if not place.is_symlink() and place.is_dir():
            return
        place.mkdir()
        place.chmod(0o755)  # whatever this process leaves out: a box of another uid reads it
    elif isinstance(node, ErofsLink):
        place.symlink_to(node.target)
    else:
        with place.open("xb") as file:
            at, left = layout.places.get(path, (0, 0))
            while left:
                piece = os.pread(fd, min(left, _PIECE_BYTES), at)
                if not piece:
                    raise ValueError("it ends early")
                file.write(piece)
                at, left = at + len(piece), left - len(piece)
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
