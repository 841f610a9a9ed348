"""For root alone: give up root before anything runs, though the files lie where only root can look.

An interpreter below a closed home directory cannot be bound by an unprivileged process.  The
child of the supervisor therefore makes a mount namespace of its own, binds the sources to
numbered places on a private tmpfs that everybody may enter, and only then becomes the gate's
uid and starts bubblewrap.  Nothing of it is visible outside the child.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from threegate.sandbox import kernel
from threegate.sandbox.machine import reachable

STAGE: Final = "/run"
_NEW_MOUNTS: Final = 0x00020000
_RECURSIVE_PRIVATE: Final = 0x4000 | 0x40000
_BIND: Final = 0x1000 | 0x4000
_TMPFS_FLAGS: Final = 0x2 | 0x4  # nosuid, nodev


def staged(sources: list[str]) -> dict[str, str]:
    """Return where each source that others cannot reach will lie: source -> staged path."""
    known: dict[str, bool] = {}
    hidden = [s for s in dict.fromkeys(sources) if not reachable(Path(s), passable=known)]
    return {source: f"{STAGE}/{number}" for number, source in enumerate(hidden)}


def groups_of(devices: Iterable[str]) -> list[int]:
    """Return the groups that may use these devices, where that is how one gets at them."""
    found = [os.stat(f"/dev/{name}") for name in devices]
    return sorted({s.st_gid for s in found if s.st_mode & 0o060 == 0o060 and s.st_gid})


def become(
    uid: int, places: Mapping[str, str], unshare: int, groups: Sequence[int] = ()
) -> Callable[[], None]:
    """Return what the child must do between fork and exec; an exception ends it there."""
    kinds = {source: os.path.isdir(source) for source in places}

    def child() -> None:
        if places:
            kernel.syscall(unshare, _NEW_MOUNTS)
            kernel.mount("none", "/", None, _RECURSIVE_PRIVATE)
            for source in places:
                # Opened before the tmpfs hides anything that may lie below it.
                os.stat(source)
            _bind(places, kinds)
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)

    return child


def _bind(places: Mapping[str, str], kinds: Mapping[str, bool]) -> None:
    opened = {source: os.open(source, os.O_PATH | os.O_CLOEXEC) for source in places}
    kernel.mount("tmpfs", STAGE, "tmpfs", _TMPFS_FLAGS)
    os.chmod(STAGE, 0o755)
    for source, place in places.items():
        if kinds[source]:
            os.mkdir(place, 0o755)
        else:
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o644))
        kernel.mount(f"/proc/self/fd/{opened[source]}", place, None, _BIND)
        os.close(opened[source])
