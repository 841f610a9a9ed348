"""Which lock counts, and which image: that of the lock and of this program's own agent."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, UsageError, disk_errors
from threegate.base.text import visible
from threegate.host.images import initramfs, recipe
from threegate.host.images.lock import MAX_LOCK_BYTES, Lock, Package, parse_lock
from threegate.host.images.manifest import agent_digest
from threegate.host.images.ours import Sources
from threegate.host.images.store import MIN_SHORT_DIGITS, Image, Images

NOT_BUILT: Final = "TG-IMG-014"
SEVERAL: Final = "TG-IMG-015"
FILE: Final = "image.lock"
SHIPPED: Final = Path(__file__).with_name(FILE)
# A manifest is its maker's word: one with a layer of its own could call itself an image of our
# lock, and have more to offer than the one that was built here.
KNOWN: Final = frozenset((*recipe.LAYERS, recipe.AGENT))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A lock, and the file it stands in."""

    path: Path
    lock: Lock


def choose(named: Path | None, config_home: Path) -> Chosen:
    """Return the lock that counts."""
    own = config_home / FILE
    path = named or (own if own.exists() else SHIPPED)
    try:
        with path.open("rb") as file:
            return Chosen(path, parse_lock(file.read(MAX_LOCK_BYTES + 1)))
    except OSError as exc:
        raise UsageError(
            f"cannot read {visible(str(path))}: {os.strerror(exc.errno or 0)}"
        ) from exc


def current(images: Images, config_home: Path, *, layers: Collection[str] = ("base",)) -> Image:
    """Return the image of the lock that counts, with the agent of this program and these layers.

    Of several the one with the most layers that we know, then the one with the init of this
    program: an older build stays behind when the init was compiled anew.  Raises
    `GateUnavailable` if there is none, or if two different ones fit equally: only a person knows
    where each came from.
    """
    lock = choose(None, config_home).lock.digest
    own = Sources.usual().read()
    agent = agent_digest(own.agent)
    fitting: list[Image] = []
    for digest in images.digests():
        try:
            image = images.find(digest)
        except GateUnavailable:  # a damaged one is none; `image verify` says why
            continue
        manifest = image.manifest
        ours = (manifest.lock_sha256, manifest.agent_sha256) == (lock, agent)
        if ours and {recipe.AGENT, *layers} <= set(image.layers) <= KNOWN:
            fitting.append(image)
    if not fitting:
        message = "the guest image of this program is not on this machine"
        hint = "`threegate image build` makes it, `threegate image import` brings it"
        raise GateUnavailable(message, code=NOT_BUILT, hint=hint)
    most = max(len(image.layers) for image in fitting)
    return _only([image for image in fitting if len(image.layers) == most], own.init)


def _only(images: Sequence[Image], init: bytes) -> Image:
    if len(images) > 1:
        ours = [image for image in images if _starts(image, init)]
        if len(ours) == 1:
            return ours[0]
        names = [image.digest[:MIN_SHORT_DIGITS] for image in images]
        message = f"{len(images)} images call themselves that of this program: {', '.join(names)}"
        hint = "keep the one you built: `threegate image remove DIGEST` for the others"
        raise GateUnavailable(message, code=SEVERAL, hint=hint)
    return images[0]


def _starts(image: Image, init: bytes) -> bool:
    with disk_errors("read an image"):
        return initramfs.begins_with(image.initramfs.read_bytes(), init)


def put(lock: Lock, path: Path) -> None:
    """Write a lock whole, or not at all."""
    with disk_errors("write the lock"):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_text(lock.text, "ascii")
        new.replace(path)


def differences(old: Lock, new: Lock) -> list[tuple[str, str, str]]:
    """Return package, old and new version of everything that changed; "-" is none."""
    before, after = _by_name(old), _by_name(new)
    return [
        (name, _version(before.get(name)), _version(after.get(name)))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _by_name(lock: Lock) -> dict[str, Package]:
    return {package.name: package for package in lock.packages}


def _version(package: Package | None) -> str:
    return package.version if package else "-"
