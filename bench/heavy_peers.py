"""The image's own Python without a virtual machine: plain, under bubblewrap, under gVisor.

The layers of the guest are unpacked, so that interpreter and libraries are the same bytes
as in the guest.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.host.images.store import Image

PYTHON: Final = "/usr/bin/python3.11"
LOADER: Final = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"  # of the tree, not of this machine
LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
PACKAGES: Final = "usr/lib/python3/dist-packages"
WORDS: Final = ("-I", "-S", "-B", "-c")
SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Peer:
    """Something that runs a program, or the reason why it does not."""

    name: str
    once: Callable[[], None]
    missing: str = ""


def unpacked(image: Image, place: Path) -> Path:
    """Return a directory with the files of all layers but the agent's."""
    place.mkdir()
    for name, path in image.layers.items():
        if name != "agent":
            words = ["fsck.erofs", f"--extract={place}", "--overwrite", str(path)]
            subprocess.run(words, capture_output=True, check=True)
    return place


def peers(tree: Path, code: str, scratch: Path) -> list[Peer]:
    """Return every peer for one program."""
    inside = f"import sys\nsys.path.append('/{PACKAGES}')\n{code}"
    boxed = (
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *("--ro-bind", str(tree), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *(PYTHON, *WORDS, inside),
    )
    return [
        Peer("plain Python, the image's own", _program(*_plain(tree, code))),
        Peer("the same under bubblewrap", _program(*boxed)),
        _runsc(tree, (PYTHON, *WORDS, inside), scratch),
    ]


def _plain(tree: Path, code: str) -> tuple[str, ...]:
    home = f"import sys\nsys.path.append({str(tree / PACKAGES)!r})\n{code}"
    loader = (str(tree / LOADER), "--library-path", str(tree / LIBRARIES), str(tree / PYTHON[1:]))
    return (*loader, *WORDS, home)


def _program(*argv: str) -> Callable[[], None]:
    def once() -> None:
        done = subprocess.run(argv, capture_output=True, env={}, timeout=SECONDS, check=False)
        assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr.decode()

    return once


def _runsc(tree: Path, argv: tuple[str, ...], scratch: Path) -> Peer:
    """Return gVisor as a peer: the platform that needs no KVM, and no network."""
    name = "the same under runsc (gVisor, ptrace)"
    found = shutil.which("runsc")
    if found is None:
        return Peer(name, lambda: None, "runsc is not installed")
    scratch.mkdir()
    (scratch / "config.json").write_text(json.dumps(_bundle(tree, argv)), "ascii")
    start = (found, "--network=none", "--platform=ptrace", "--ignore-cgroups")
    rootless = () if os.geteuid() == 0 else ("--rootless",)
    state = scratch / "state"
    words = (*start, *rootless, f"--root={state}", "run", "-bundle", str(scratch))

    def once() -> None:
        _program(*words, f"bench-{os.urandom(8).hex()}")()

    try:
        once()
    except (AssertionError, OSError, subprocess.TimeoutExpired) as exc:
        return Peer(name, lambda: None, f"it does not run here ({type(exc).__name__})")
    return Peer(name, once)


def _bundle(tree: Path, argv: tuple[str, ...]) -> dict[str, object]:
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(argv),
            "env": [],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": str(tree), "readonly": True},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
    }
