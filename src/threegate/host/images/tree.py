"""A tree of files that becomes a layer: names and kinds here, the bytes in scratch files."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from threegate.base import erofs


@dataclass(frozen=True, slots=True)
class Kept:
    """The bytes of a file, in a scratch file of ours."""

    path: Path
    size: int
    executable: bool = False


@dataclass(slots=True)
class Tree:
    """Paths below a root that is nowhere yet; nothing here is ever looked up by following."""

    scratch: Path
    files: dict[str, Kept] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    directories: dict[str, int] = field(default_factory=dict)
    _count: int = 0

    def __contains__(self, path: str) -> bool:
        return path in self.files or path in self.links or path in self.directories

    def new_file(self) -> tuple[Path, BinaryIO]:
        """Return a new scratch file, open for writing."""
        self._count += 1
        path = self.scratch / f"{self._count:06}"
        return path, path.open("xb")

    def add_bytes(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Put a file into the tree."""
        kept, file = self.new_file()
        with file:
            file.write(data)
        self.files[path] = Kept(kept, len(data), executable)

    def drop(self, path: str) -> None:
        """Take a path out, if it is there."""
        self.files.pop(path, None)
        self.links.pop(path, None)
        self.directories.pop(path, None)

    def paths(self) -> Iterator[str]:
        """Yield every path."""
        yield from (*self.files, *self.links, *self.directories)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return self.files[path].path.read_bytes()

    def nodes(self) -> Mapping[str, erofs.Node]:
        """Return what the image of this tree holds."""
        nodes: dict[str, erofs.Node] = {
            path: erofs.ErofsFile(kept.size, kept.executable) for path, kept in self.files.items()
        }
        nodes |= {path: erofs.ErofsLink(target) for path, target in self.links.items()}
        return nodes | {path: erofs.Directory(mode) for path, mode in self.directories.items()}

    def write_image(self, out: BinaryIO) -> None:
        """Write the tree as an image."""
        layout = erofs.lay_out(self.nodes())
        erofs.write(layout, out, lambda path: self.files[path].path.open("rb"))

    def put_on_disk(self, root: Path) -> None:
        """Make the tree in an empty directory, its files as second names of the scratch files.

        Links come last: until then there is none that a path could lead through.
        """
        for path in self.directories:
            (root / path).mkdir(parents=True, exist_ok=True)
        for path, kept in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            kept.path.chmod(0o755 if kept.executable else 0o644)
            os.link(kept.path, root / path)
        for path in self.links:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        for path, target in self.links.items():
            (root / path).symlink_to(target)
