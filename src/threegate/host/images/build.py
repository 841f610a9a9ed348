"""Building a guest image from a lock: the same lock, init and agent give the same bytes.

Packages are brought and compared first.  Then each layer is made in a scratch place of the
user's cache, and the image gets its name when every file of it is whole.
"""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base import canonical
from threegate.host.images import initramfs, kernel, recipe
from threegate.host.images.bytecode import compile_all
from threegate.host.images.executables import drop_programs
from threegate.host.images.lock import Lock
from threegate.host.images.manifest import (
    INITRAMFS,
    KERNEL,
    Manifest,
    Part,
    agent_digest,
    layer_file,
)
from threegate.host.images.ours import Ours, Sources
from threegate.host.images.packages import Packages, Told
from threegate.host.images.store import Image, Images, digest_of
from threegate.host.images.tree import Tree
from threegate.host.images.unpack import unpack

_AGENT_PLACE: Final = "threegate/agent"

Say = Callable[[str], None]


def build(
    lock: Lock,
    layers: Sequence[str],
    images: Images,
    packages: Packages,
    sources: Sources,
    *,
    told: Told = lambda _: None,
    say: Say = lambda _: None,
) -> Image:
    """Return the image of a lock, made anew; raises `GateUnavailable` and the like."""
    ours = sources.read()
    needed = [item for item in lock.packages if item.layer in {recipe.KERNEL, *layers}]
    packages.bring(needed, told)
    with images.making(wait=lambda: say("somebody else is making an image; waiting")) as work:
        made, scratch = work / "made", work / "scratch"
        made.mkdir()
        scratch.mkdir()
        version = _Build(lock, packages, ours, made, scratch, say).run(layers)
        return images.keep(made, _manifest(made, [*layers, recipe.AGENT], version, lock, ours))


def _manifest(made: Path, layers: Sequence[str], version: str, lock: Lock, ours: Ours) -> Manifest:
    names = [KERNEL, INITRAMFS, *map(layer_file, layers)]
    files = {name: Part(digest_of(made / name), (made / name).stat().st_size) for name in names}
    return Manifest(files, tuple(layers), version, lock.digest, agent_digest(ours.agent))


@dataclass(frozen=True, slots=True)
class _Build:
    lock: Lock
    packages: Packages
    ours: Ours
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
                unpack(self.packages.path(package), tree, _is_wanted)
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
        unpack(self.packages.path(package), tree, kernel.wants)
        version = kernel.version_of(tree)
        bare = kernel.bare_kernel(tree.read(f"boot/vmlinuz-{version}"))
        (self.made / KERNEL).write_bytes(bare)
        modules = [data for _, data in kernel.modules_of(tree, version)]
        archive = initramfs.archive(self.ours.init, modules)
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
        if layer != recipe.AGENT:  # what the ring keeps in view beside an allowed package
            tree.add_bytes(f"threegate/imports/{layer}.json", canonical.encode(imports))
            programs = canonical.encode(programs_of(tree))
            tree.add_bytes(f"threegate/programs/{layer}.json", programs)
        with (self.made / layer_file(layer)).open("xb") as out:
            tree.write_image(out)


def place_of(path: str) -> str:
    """Return where a part of the agent lies: beside it, under the name it is imported by."""
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
    """Do what maintainer scripts would have done, and add what every program looks for."""
    for path, target in recipe.LINKS.get(layer, {}).items():
        tree.drop(path)
        tree.links[path] = target
    if layer == "base":
        tree.directories.update(recipe.DIRECTORIES)
        for path, data in recipe.FILES.items():
            tree.add_bytes(path, data)
