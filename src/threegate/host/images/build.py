"""Building a guest image from a lock: the same lock, init and agent give the same bytes.

Packages are downloaded and compared first.  Then each layer is made in a scratch directory of the
user's cache, and the image gets its name when all of its files are complete.

In a guest, everything but libraries and the programs of a profile is on mounts that execute
nothing.  The loader must be executable, and it runs any program that it can map: a program below
`usr/lib` would run under every profile.  So none goes into a layer.

SECURITY
    Reads heads of files from packages of the locked digest, bounded.  If the check for programs is
    wrong, a guest has a program that no profile names.
"""

import hashlib
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from threegate.base import canonical
from threegate.host.images import kernel, recipe
from threegate.host.images.bytecode import compile_all
from threegate.host.images.choice import OwnFiles, Sources, initramfs_archive
from threegate.host.images.layer import Tree, unpack_package
from threegate.host.images.lock import Lock
from threegate.host.images.manifest import (
    INITRAMFS,
    KERNEL,
    ImagePart,
    Manifest,
    agent_digest,
    layer_file,
)
from threegate.host.images.packages import Packages
from threegate.host.images.store import Image, Images, Progress, digest_of

_AGENT_PLACE: Final = "threegate/agent"

Say = Callable[[str], None]
LIBRARIES: Final = "usr/lib/"
# The C library is a program that prints its version, and everything needs it.
KEPT_PROGRAMS: Final = frozenset(("usr/lib/x86_64-linux-gnu/libc.so.6",))
_MAGIC: Final = b"\x7fELF\x02\x01"
_HEAD_BYTES: Final = 64
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ENTRY: Final = struct.Struct("<QQ")
_EXEC, _DYNAMIC, _INTERPRETER = 2, 2, 3  # a type of file, two of segments
_FLAGS, _PIE = 0x6FFFFFFB, 0x08000000
_MAX_DYNAMIC_BYTES: Final = 64 * 1024
_MAX_OFFSET: Final = 2**40


def build(
    lock: Lock,
    layers: Sequence[str],
    images: Images,
    packages: Packages,
    sources: Sources,
    *,
    progress: Progress = lambda _: None,
    say: Say = lambda _: None,
) -> Image:
    """Return the image of a lock, built again; raises `GateUnavailable` and the like."""
    ours = sources.read()
    needed = [item for item in lock.packages if item.layer in {recipe.KERNEL, *layers}]
    packages.bring(needed, progress)
    with images.making(wait=lambda: say("another process is making an image; waiting")) as work:
        made, scratch = work / "made", work / "scratch"
        made.mkdir()
        scratch.mkdir()
        version = _Build(lock, packages, ours, made, scratch, say).run(layers)
        return images.keep(made, _manifest(made, [*layers, recipe.AGENT], version, lock, ours))


def _manifest(
    made: Path, layers: Sequence[str], version: str, lock: Lock, ours: OwnFiles
) -> Manifest:
    names = [KERNEL, INITRAMFS, *map(layer_file, layers)]
    files = {
        name: ImagePart(digest_of(made / name), (made / name).stat().st_size) for name in names
    }
    return Manifest(files, tuple(layers), version, lock.digest, agent_digest(ours.agent))


@dataclass(frozen=True, slots=True)
class _Build:
    lock: Lock
    packages: Packages
    ours: OwnFiles
    made: Path
    scratch: Path
    say: Say

    def run(self, layers: Sequence[str]) -> str:
        """Make every file of the image; return the kernel's version."""
        version = self._kernel()
        for layer in layers:
            self.say(f"making the layer {layer}")
            tree = self._tree(layer)
            for package in self.lock.of_layer(layer):
                unpack_package(self.packages.path(package), tree, _is_wanted)
            for path in drop_programs(tree):
                self.say(f"left out, a program among the libraries: {path}")
            add_own(layer, tree)
            self._finish(layer, tree)
        self._finish(recipe.AGENT, self._agent())
        return version

    def _tree(self, name: str) -> Tree:
        place = self.scratch / f"{name}-files"
        place.mkdir()
        return Tree(place)

    def _kernel(self) -> str:
        self.say("unpacking the kernel")
        tree = self._tree(recipe.KERNEL)
        (package,) = self.lock.of_layer(recipe.KERNEL)
        unpack_package(self.packages.path(package), tree, kernel.wants)
        version = kernel.version_of(tree)
        bare = kernel.bare_kernel(tree.read(f"boot/vmlinuz-{version}"))
        (self.made / KERNEL).write_bytes(bare)
        modules = [data for _, data in kernel.modules_of(tree, version)]
        archive = initramfs_archive(self.ours.init, modules)
        (self.made / INITRAMFS).write_bytes(archive)
        shutil.rmtree(tree.scratch)
        return version

    def _agent(self) -> Tree:
        tree = self._tree(recipe.AGENT)
        for path, data in self.ours.agent.items():
            tree.add_bytes(f"{_AGENT_PLACE}/{place_of(path)}", data)
        return tree

    def _finish(self, layer: str, tree: Tree) -> None:
        root = self.scratch / layer
        root.mkdir()
        tree.put_on_disk(root)
        base = self.scratch / "base"
        imports = compile_all(tree, base, root)
        if layer != recipe.AGENT:  # the ring shows an allowed package with its imports
            tree.add_bytes(f"threegate/imports/{layer}.json", canonical.encode(imports))
            programs = canonical.encode(programs_of(tree))
            tree.add_bytes(f"threegate/programs/{layer}.json", programs)
        with (self.made / layer_file(layer)).open("xb") as out:
            tree.write_image(out)


def place_of(path: str) -> str:
    """Return the path of an agent's file in the guest: the name it is imported by."""
    if path == "__main__.py" or path.startswith("threegate/"):
        return path
    return f"threegate/gates/tool_exec/era/guest/{path}"


def programs_of(tree: Tree) -> dict[str, str]:
    """Return the digest of every program in a layer, by its path in the guest."""
    return {
        f"/{path}": hashlib.sha256(tree.read(path)).hexdigest()
        for path, kept in sorted(tree.files.items())
        if kept.executable
    }


def _is_wanted(path: str) -> bool:
    return not recipe.leaves_out(path)


def add_own(layer: str, tree: Tree) -> None:
    """Add what maintainer scripts would have made, and files that every program looks for."""
    for path, target in recipe.LINKS.get(layer, {}).items():
        tree.drop(path)
        tree.links[path] = target
    if layer == "base":
        tree.directories.update(recipe.DIRECTORIES)
        for path, data in recipe.FILES.items():
            tree.add_bytes(path, data)


def drop_programs(tree: Tree) -> list[str]:
    """Take the programs among the libraries out of a layer; return their paths."""
    found = [
        path
        for path in sorted(tree.files)
        if path.startswith(LIBRARIES) and path not in KEPT_PROGRAMS
    ]
    found = [path for path in found if is_program(tree.files[path].path)]
    for path in found:
        tree.drop(path)
    return found


def is_program(path: Path) -> bool:
    """Tell whether a file is a program: names a loader, has a fixed address, or a flag says so."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        if len(head) < _HEAD_BYTES or not head.startswith(_MAGIC):
            return False
        (kind,), (at,) = struct.unpack_from("<H", head, 16), struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        if kind == _EXEC:
            return True
        table = _read_at(file, at, size * count)
        segments = [
            _SEGMENT.unpack_from(table, at)
            for at in range(0, len(table) - _SEGMENT.size + 1, max(size, _SEGMENT.size))
        ]
        return any(
            one[0] == _INTERPRETER
            or (one[0] == _DYNAMIC and _has_program_flag(file, one[2], one[5]))
            for one in segments
        )


def _has_program_flag(file: BinaryIO, at: int, size: int) -> bool:
    """Tell whether a dynamic section is marked as a program (DF_1_PIE), as a static one is."""
    data = _read_at(file, at, min(size, _MAX_DYNAMIC_BYTES))
    whole = len(data) - len(data) % _ENTRY.size
    return any(tag == _FLAGS and value & _PIE for tag, value in _ENTRY.iter_unpack(data[:whole]))


def _read_at(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(min(at, _MAX_OFFSET))  # the offset is the file's own word
    return file.read(size)
