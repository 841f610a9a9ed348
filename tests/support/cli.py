"""The real command in a process of its own, with a home, a key and a workspace to throw away."""

import atexit
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.workspaces import key_file, public_of
from threegate.host.keys.operator import Operator, remember
from threegate.host.settings import Settings

PYTHON = (sys.executable, "-I", "-B", "-m", "threegate")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    raw_out: bytes
    raw_err: bytes

    @property
    def out(self) -> str:
        return self.raw_out.decode("utf-8")

    @property
    def err(self) -> str:
        return self.raw_err.decode("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.raw_out)


@dataclass
class Cli:
    """Runs `threegate` as a user whose home is `base`."""

    base: Path
    workspace: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 120
    patch: str = ""  # Python that runs in the command's process before the command

    @property
    def program(self) -> tuple[str, ...]:
        """The command itself; with a patch, as no environment variable can start it."""
        if not self.patch:
            return PYTHON
        run = "import sys\nfrom threegate.cli.main import main\nsys.exit(main())\n"
        return (*PYTHON[:3], "-c", f"{self.patch}\n{run}")

    def patched(self, patch: str) -> "Cli":
        """Return the same user with changed innards: a clock, a program, a fault."""
        return replace(self, patch=patch)

    def env(self, **more: str) -> dict[str, str]:
        found = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.base),
            "LC_ALL": "C.UTF-8",
        }
        if self.workspace is not None:
            found["THREEGATE_WORKSPACE"] = str(self.workspace)
        return {**found, **self.environment, **more}

    def __call__(
        self,
        *argv: str | Path,
        code: int | None = 0,
        stdin: bytes = b"",
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> Done:
        """Run one command; its exit code must be `code`, unless that is None."""
        ended = subprocess.run(
            [*self.program, *map(str, argv)],
            input=stdin,
            capture_output=True,
            cwd=cwd or self.base,
            env=self.env(**(env or {})),
            timeout=self.seconds,
            check=False,
        )
        done = Done(ended.returncode, ended.stdout, ended.stderr)
        assert code is None or done.code == code, (
            f"exit {done.code}\n{done.raw_out!r}\n{done.raw_err!r}"
        )
        return done

    def in_terminal(self, *argv: str | Path, typed: bytes = b"", code: int | None = 0) -> bytes:
        """Run one command on a terminal, type something, and return all that appears there."""
        pid, screen = pty.fork()
        if pid == 0:
            os.chdir(self.base)
            argv = (*self.program, *map(str, argv))
            os.execve(argv[0], argv, self.env(TERM="xterm"))  # noqa: S606
        shown = _converse(screen, typed)
        _, status = os.waitpid(pid, 0)
        ended = os.waitstatus_to_exitcode(status)
        assert code is None or ended == code, f"exit {ended}\n{shown!r}"
        return shown


def _converse(screen: int, typed: bytes) -> bytes:
    """Read until the other side closes; type once something that ends in `] ` is asked."""
    shown, waiting = b"", typed
    waiter = select.poll()  # unlike select, it takes any descriptor number
    waiter.register(screen, select.POLLIN)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not waiter.poll(1000):
            continue
        try:
            read = os.read(screen, 65536)
        except OSError:  # EIO: the last process on the terminal has ended
            break
        if not read:
            break
        shown += read
        if waiting and shown.endswith(b"] "):
            os.write(screen, waiting)
            waiting = b""
    os.close(screen)
    return shown


def made(base: Path, *, name: str = "ws") -> Cli:
    """Return a user with a workspace, whose key is `key_file(base)`."""
    operator = Operator(key_file(base), public_of())
    remember(Settings(base / ".config/threegate", base / "state", None, base), operator)
    shutil.copytree(_template(), base / name)
    return Cli(base, base / name)


@cache
def _template() -> Path:
    """Return a new workspace to copy: making one starts `ssh-keygen` four times."""
    base = Path(tempfile.mkdtemp(prefix="threegate-template-"))
    atexit.register(shutil.rmtree, base)
    Cli(base)("init", base / "ws", "--key", key_file(base))
    return base / "ws"


def programs_from(directory: Path) -> str:
    """Return the patch that finds programs in a directory first; nothing in `src` can do that."""
    return (
        "from threegate.sandbox import programs\n"
        f"programs.SEARCH = ({str(directory)!r}, *programs.SEARCH)\n"
    )


def write(path: Path, data: bytes) -> Path:
    """Write a file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
