"""Running our own Python without a box, as an ordinary uid: canaries and controls.

As root the uid is given up before anything runs, exactly as for a gate; the interpreter may
lie where that uid cannot look, so it goes through the same private view.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import threegate
from threegate.sandbox import rootview
from threegate.sandbox.machine import Machine

_RUN = "import sys;sys.path[:0]={paths!r};from {module} import {function};{function}()"


@dataclass(frozen=True, slots=True)
class Outsider:
    """How to start Python as one uid; None means: as whoever we are."""

    uid: int | None
    unshare: int

    def start(
        self,
        target: str,
        arguments: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        stderr: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `module:function` with pipes to its input and output."""
        module, _, function = target.partition(":")
        python, paths, prepare = self._interpreter()
        code = _RUN.format(paths=paths, module=module, function=function)
        return subprocess.Popen(
            [python, "-I", "-S", "-B", "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(env or {}),
            cwd="/",
            pass_fds=pass_fds,
            preexec_fn=prepare,
        )

    def _interpreter(self) -> tuple[str, list[str], Callable[[], None] | None]:
        python = os.path.realpath(sys.executable)
        prefix = os.path.realpath(sys.base_prefix)
        source = str(Path(threegate.__file__).resolve().parent.parent)
        paths = [source, *(p for p in sys.path if p.endswith("-packages"))]
        if self.uid is None:
            return python, paths, None
        places = rootview.staged([prefix, *paths])

        def moved(path: str, top: str) -> str:
            return path.replace(top, places.get(top, top), 1)

        prepare = rootview.become(self.uid, places, self.unshare)
        return moved(python, prefix), [moved(path, path) for path in paths], prepare


def outsider(machine: Machine, profile: str) -> Outsider:
    """Return an outsider of the same uid as the profile's gate."""
    return Outsider(machine.uid_for(profile), machine.arch.numbers["unshare"])
