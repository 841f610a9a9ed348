"""Running our own Python without a box, as an ordinary uid: canaries and controls.

As root the uid is given up before anything runs.  The interpreter may lie below a directory
that uid cannot enter (a pyenv in root's home): then the child covers that directory, in a
mount namespace of its own, with an empty one that leads to the interpreter and nothing else.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import threegate
from threegate.sandbox import kernel
from threegate.sandbox.machine import Machine, reachable

_RUN = "import sys;sys.path[:0]={paths!r};from {module} import {function};{function}()"
_NEW_MOUNTS = 0x00020000
_PRIVATE = 0x4000 | 0x40000
_BIND = 0x1000 | 0x4000


@dataclass(frozen=True, slots=True)
class Outsider:
    """How to start Python as one uid; None means: as whoever we are."""

    uid: int | None
    unshare: int
    groups: tuple[int, ...] = ()  # besides the one of its own

    def start(
        self,
        target: str,
        arguments: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        stderr: int | None = None,
        paths: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start `module:function` with pipes to its input and output."""
        module, _, function = target.partition(":")
        paths = [*paths, *_search_path()]
        code = _RUN.format(paths=paths, module=module, function=function)
        needed = [os.path.realpath(sys.base_prefix), *paths]
        return subprocess.Popen(
            [os.path.realpath(sys.executable), "-I", "-S", "-B", "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(env or {}),
            cwd="/",
            pass_fds=pass_fds,
            preexec_fn=None if self.uid is None else self._become(self.uid, needed),
        )

    def _become(self, uid: int, needed: Sequence[str]) -> Callable[[], None]:
        return become(uid, needed, self.unshare, self.groups)


def _search_path() -> list[str]:
    source = str(Path(threegate.__file__).resolve().parent.parent)
    return [source, *(path for path in sys.path if path.endswith("-packages"))]


def become(
    uid: int, needed: Sequence[str], unshare: int, groups: Sequence[int] = ()
) -> Callable[[], None]:
    """Return what a child of root does before it runs: open the way, give up root."""
    hidden = [path for path in needed if not reachable(Path(path))]
    closed = sorted({_first_closed(path) for path in hidden})

    def child() -> None:
        if hidden:
            kernel.syscall(unshare, _NEW_MOUNTS)
            kernel.mount("none", "/", None, _PRIVATE)
            opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in hidden}
            os.umask(0o022)
            for top in closed:
                kernel.mount("tmpfs", top, "tmpfs", 0)
                os.chmod(top, 0o755)
            for path, fd in opened.items():
                os.makedirs(path, exist_ok=True)
                kernel.mount(f"/proc/self/fd/{fd}", path, None, _BIND)
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)

    return child


def _first_closed(path: str) -> str:
    """Return the uppermost directory of a path that others cannot enter."""
    above = [path, *map(str, Path(path).parents)]
    return next(item for item in reversed(above) if not reachable(Path(item)))


def outsider(machine: Machine, profile: str) -> Outsider:
    """Return an outsider of the same uid as the profile's gate."""
    return Outsider(machine.uid_for(profile), machine.arch.numbers["unshare"])
