"""Which image runs use: that of the lock in use, with the init and agent of this program.

The init and the modules it loads are the guest's first file system.  Its format is the kernel's own
(Documentation/driver-api/early-userspace/buffer-format.rst), not compressed: on an emulated
processor, unpacking takes longer than reading.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, disk_errors
from threegate.host.images import recipe
from threegate.host.images.lock import choose_lock
from threegate.host.images.manifest import agent_digest
from threegate.host.images.store import MIN_SHORT_DIGITS, Image, Images

NOT_BUILT: Final = "TG-IMG-014"
SEVERAL: Final = "TG-IMG-015"
# Anybody can write a manifest: one with a layer of its own could claim our lock, and would win
# over the image that was built here by having more layers.
KNOWN: Final = frozenset((*recipe.LAYERS, recipe.AGENT))
NO_INIT: Final = "TG-IMG-032"
NO_AGENT: Final = "TG-IMG-033"
# Source that the agent shares with host and gate, so that all three decide alike.
SHARED: Final = ("policy/ring/commands.py",)
_INITRAMFS_DIRECTORIES: Final = ("dev", "joined", "layers", "modules", "proc", "sys")
_MAX_MODULES: Final = 64


def current(images: Images, config_home: Path, *, layers: Collection[str] = ("base",)) -> Image:
    """Return the image of the lock in use, with the agent of this program and these layers.

    Among several, the most known layers win, then the init of this program: an older build remains
    when the init is compiled again.  Raises `GateUnavailable` if there is none, or if two different
    ones fit equally: only a person knows where each came from.
    """
    lock = choose_lock(None, config_home).lock.digest
    own = Sources.usual().read()
    agent = agent_digest(own.agent)
    fitting: list[Image] = []
    for digest in images.digests():
        try:
            image = images.find(digest)
        except GateUnavailable:  # damaged; `image verify` says why
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
        return begins_with(image.initramfs.read_bytes(), init)


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The bytes of our init and agent."""

    init: bytes
    agent: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where our init and agent are installed."""

    init: Path
    agent: Path

    @classmethod
    def usual(cls) -> "Sources":
        """Return the places of this program's own."""
        ours = Path(__file__).resolve().parents[2]
        init = ours / "host/images/native/bin/init"
        return cls(init, ours / "gates/tool_exec/era/guest")

    def read(self) -> OwnFiles:
        """Return the bytes of both; raise `GateUnavailable` if one is not here."""
        with disk_errors("read the guest's agent"):
            agent = {
                path.relative_to(self.agent).as_posix(): path.read_bytes()
                for path in sorted(self.agent.rglob("*.py"))
            }
            ours = Path(__file__).resolve().parents[2]
            agent |= {f"threegate/{name}": (ours / name).read_bytes() for name in SHARED}
        if "__main__.py" not in agent:
            raise GateUnavailable("this program carries no guest agent", code=NO_AGENT)
        return OwnFiles(_read_init(self.init), agent)


def _read_init(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        hint = "`make setup` compiles it"
        raise GateUnavailable("the guest's init is not compiled", code=NO_INIT, hint=hint) from exc


def initramfs_archive(init: bytes, modules: Iterable[bytes]) -> bytes:
    """Return the archive; modules are called 00, 01, ... in the order they are loaded."""
    members = [(name, 0o040755, b"") for name in _INITRAMFS_DIRECTORIES]
    members.append(("init", 0o100755, init))
    listed = list(modules)
    assert len(listed) <= _MAX_MODULES
    members += [(f"modules/{at:02}", 0o100644, data) for at, data in enumerate(listed)]
    parts = [_member(name, mode, data, at) for at, (name, mode, data) in enumerate(members, 1)]
    return b"".join([*parts, _member("TRAILER!!!", 0, b"", 0)])


def begins_with(archived: bytes, init: bytes) -> bool:
    """Tell whether an archive of ours starts this init."""
    before_modules = initramfs_archive(init, ()).removesuffix(_member("TRAILER!!!", 0, b"", 0))
    return archived.startswith(before_modules)


def _member(name: str, mode: int, data: bytes, number: int) -> bytes:
    encoded = name.encode("ascii") + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08x" % value for value in fields) + encoded
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
