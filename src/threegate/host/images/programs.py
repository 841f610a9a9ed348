"""The programs in an image, by their bytes: what a run under the ring was given to start.

SECURITY
    Reads an image of our own store.  What is returned is the digest of the bytes the guest
    sees; the guest compares them once more with what its layers were built with.
"""

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from threegate.base.erofs import ErofsFile, Layout
from threegate.base.erofs_reader import read_nodes
from threegate.base.errors import disk_errors
from threegate.host.images.store import Image, damaged

_PIECE_BYTES: Final = 1024 * 1024


def digests_in(image: Image, layers: Sequence[str], paths: Collection[str]) -> dict[str, str]:
    """Return the digest of each of these programs that the layers hold; the last layer counts.

    Raises `GateUnavailable` for an image that is damaged.
    """
    found: dict[str, str] = {}
    for name in layers:
        with _opened(image.layers[name]) as fd:
            try:
                nodes, layout = read_nodes(fd)
                for path in paths:
                    if isinstance(nodes.get(path.removeprefix("/")), ErofsFile):
                        found[path] = _digest(fd, path.removeprefix("/"), layout)
            except ValueError as exc:
                raise damaged(image.digest, f"layer {name}: {exc}") from exc
    return found


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    with disk_errors("read an image"):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)


def _digest(fd: int, path: str, layout: Layout) -> str:
    digest = hashlib.sha256()
    at, left = layout.places.get(path, (0, 0))
    while left:
        piece = os.pread(fd, min(left, _PIECE_BYTES), at)
        if not piece:
            raise ValueError("it ends early")
        digest.update(piece)
        at, left = at + len(piece), left - len(piece)
    return digest.hexdigest()
