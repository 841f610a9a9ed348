"""What people use instead to run a small untrusted program, each as its users run it.

All get the program and its inputs as one JSON line and answer with the result as JSON.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.lite_packages import PYODIDE, RESTRICTED
from bench.lite_programs import Program

PYTHON: Final = os.path.realpath(sys.executable)
BWRAP: Final = (
    "bwrap",
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--ro-bind",
    "/",
    "/",
)
SECONDS: Final = 60
PYODIDE_SCRIPT: Final = Path(__file__).with_name("lite_pyodide.mjs")

PLAIN: Final = """
import json, sys
job = json.loads(sys.stdin.readline())
names = dict(job["inputs"])
exec(job["code"], names)
print(json.dumps(names["result"]))
"""

# With the guards its documentation gives, and the modules the programs may import.
GUARDED: Final = """
import json, sys
sys.path.append(sys.argv[1])
from RestrictedPython import compile_restricted, limited_builtins, safe_builtins, utility_builtins
from RestrictedPython.Eval import default_guarded_getitem, default_guarded_getiter
from RestrictedPython.Guards import (
    full_write_guard, guarded_iter_unpack_sequence, guarded_unpack_sequence, safer_getattr
)
def importing(name, *rest):
    if name not in ("csv", "json", "re"):
        raise ImportError(name)
    return __import__(name, *rest)
job = json.loads(sys.stdin.readline())
more = {"dict": dict, "enumerate": enumerate, "list": list, "sum": sum, "__import__": importing}
names = {
    **job["inputs"],
    "__builtins__": {**safe_builtins, **limited_builtins, **utility_builtins, **more},
    "_getattr_": safer_getattr,
    "_getitem_": default_guarded_getitem,
    "_getiter_": default_guarded_getiter,
    "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
    "_unpack_sequence_": guarded_unpack_sequence,
    "_write_": full_write_guard,
}
exec(compile_restricted(job["code"], "program", "exec"), names)
print(json.dumps(names["result"]))
"""

Run = Callable[[Program], Any]
Start = Callable[[], AbstractContextManager[Run]]


@dataclass(frozen=True, slots=True)
class Peer:
    """Something that runs programs: how it is started, or why it cannot be."""

    name: str
    start: Start
    missing: str = ""
    is_slow: bool = False  # seconds for a run, so a few of them must do


def peers() -> list[Peer]:
    """Return every peer; one that cannot be had here says why."""
    node = _node_missing()
    return [
        Peer("CPython under bubblewrap", _each(*BWRAP, PYTHON, "-I", "-S", "-B", "-c", PLAIN)),
        Peer(
            f"{RESTRICTED.title} in a subprocess",
            _each(PYTHON, "-I", "-S", "-c", GUARDED, str(RESTRICTED.place)),
            "" if RESTRICTED.place.exists() else f"{RESTRICTED.title} was not fetched",
        ),
        Peer(f"{PYODIDE.title} in Node, a process for each", _each(*_pyodide()), node, True),
        Peer(f"{PYODIDE.title} in Node, one process for all", _served(*_pyodide()), node),
    ]


def _node_missing() -> str:
    if shutil.which("node") is None:
        return "no Node here"
    return "" if PYODIDE.place.exists() else f"{PYODIDE.title} was not fetched"


def _pyodide() -> tuple[str, ...]:
    return ("node", str(PYODIDE_SCRIPT), str(PYODIDE.place / "package"))


def _each(*argv: str) -> Start:
    """Return a peer that starts a process for every program."""

    def once(program: Program) -> Any:
        done = subprocess.run(
            argv, input=program.line, capture_output=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return json.loads(done.stdout)

    return lambda: nullcontext(once)


def _served(*argv: str) -> Start:
    """Return a peer that gives all programs to one process, which is up before the first."""

    @contextmanager
    def started() -> Iterator[Run]:
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as process:
            tell, hear = process.stdin, process.stdout
            assert tell is not None and hear is not None

            def once(program: Program) -> Any:
                tell.write(program.line)
                tell.flush()
                return json.loads(hear.readline())

            yield once

    return started
