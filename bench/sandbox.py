"""Starting gates, next to bare `bwrap python` and bare `python` with the same imports.

All of them take turns, so that a busy machine is as busy for each.
"""

import compileall
import os
import select
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import threegate
from bench.figures import Plain, Sizes, alone, compare
from bench.measure import Watch, pss, say
from threegate.sandbox.box import Start
from threegate.sandbox.doctor import stand_ins
from threegate.sandbox.launch import start_process, view_for
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import FETCH_NORMALIZE, PROFILES, TOOL_LITE, Profile
from threegate.sandbox.session import Prestarted, run_gate
from threegate.sandbox.supervise import Started, discard

MOST_TIMES_BWRAP = 2.0
ECHO = "threegate.sandbox.channel:echo"
PYTHON = os.path.realpath(sys.executable)
BARE = (PYTHON, "-I", "-S", "-B", "-c")
BWRAP = ("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/")
READY_SECONDS = 30


def run(sizes: Sizes, directory: Path) -> Plain:  # noqa: ARG001 -- every topic is called alike
    """Measure and return rows."""
    _compile()
    machine = find_machine()
    starts = max(3, sizes.singles // 10)
    rows = []
    with stand_ins() as given:
        for profile in PROFILES.values():
            say(f"sandbox: {profile.name}")
            rows += _cold(machine, Start(profile, ECHO, given), starts)
        for profile in (FETCH_NORMALIZE, TOOL_LITE):
            rows += _warm(machine, Start(profile, ECHO, given), starts)
        for profile in PROFILES.values():
            rows.append(_memory(machine, Start(profile, ECHO, given)))
    return {"rows": rows, "curves": []}


def _compile() -> None:
    """Compile what boxes run, as installing does; a box cannot keep what it compiles itself."""
    package = Path(threegate.__file__).parent
    for directory in (package, package / "sandbox"):
        assert compileall.compile_dir(directory, maxlevels=0, quiet=1)


def _bare(profile: Profile) -> str:
    """Return the code with which a bare interpreter imports what the gate imports."""
    code = "".join(f"import {name}\n" for name in profile.modules) or "pass"
    for library in profile.libraries[:1]:
        spec = find_spec(library)
        assert spec is not None and spec.origin is not None
        above = 1 if spec.submodule_search_locations else 0  # a package, or a file by itself
        places = (Path(spec.origin).parents[above], Path(threegate.__file__).parents[1])
        added = "".join(f"sys.path.append({str(place)!r})\n" for place in places)
        code = f"import sys\n{added}{code}"
    return code


def _program(argv: tuple[str, ...]) -> Callable[[], None]:
    def once() -> None:
        subprocess.run(argv, check=True, capture_output=True, env={}, cwd="/")

    return once


def _gate(machine: Machine, start: Start) -> Callable[[], None]:
    def once() -> None:
        answer = run_gate(machine, start, b"job")
        with answer.message as message:
            assert message.read() == b"job", answer.ended

    return once


def _cold(machine: Machine, start: Start, count: int) -> list[Plain]:
    """Return rows of starting a gate, giving it one message and reading its answer."""
    code, name = _bare(start.profile), start.profile.name
    acts = (
        _gate(machine, start),
        _program((*BWRAP, *BARE, code)),
        _program((*BARE, code)),
    )
    watches = tuple(Watch() for _ in acts)
    acts[0]()  # makes the view, as the first start of a process does
    for _ in range(count):
        for act, watch in zip(acts, watches, strict=True):
            with watch.lap():
                act()
    gate, bwrap, bare = (statistics.median(watch.seconds) * 1000 for watch in watches)
    judged = not start.profile.modules
    row = compare(
        f"start {name} and get an answer",
        gate,
        peer="bare bwrap python, same imports",
        theirs=bwrap,
        unit="ms",
        smaller_is_better=True,
        target=f"at most {MOST_TIMES_BWRAP:g} times the peer's time" if judged else "",
        met=gate <= MOST_TIMES_BWRAP * bwrap if judged else None,
    )
    if name != FETCH_NORMALIZE.name:
        return [row]
    return [
        row,
        compare(
            f"start {name} and get an answer, against no sandbox at all",
            gate,
            peer="bare python",
            theirs=bare,
            unit="ms",
            smaller_is_better=True,
        ),
    ]


def _warm(machine: Machine, start: Start, count: int) -> list[Plain]:
    """Return rows of one job given to a waiting process."""
    warm, cold, gate = Watch(), Watch(), _gate(machine, start)
    with Prestarted(machine, start, 1) as pool:
        for _ in range(count):
            _await_ready(pool.waiting()[0])
            with warm.lap():
                pool.run(b"job", refill=False).message.close()
            pool.fill()
            _await_ready(pool.waiting()[0])
            with cold.lap():
                gate()
    name = start.profile.name
    return [
        compare(
            f"a job for a waiting {name}, until its process is gone",
            statistics.median(warm.seconds) * 1000,
            peer="the same job, cold",
            theirs=statistics.median(cold.seconds) * 1000,
            unit="ms",
            smaller_is_better=True,
        )
    ]


def _await_ready(started: Started) -> None:
    assert started.process.stdout is not None
    ready, _, _ = select.select([started.process.stdout], [], [], READY_SECONDS)
    assert ready, "the gate does not greet"


def _memory(machine: Machine, start: Start) -> Plain:
    """Return the memory of a gate that waits for its job, with bubblewrap's two processes."""
    with ExitStack() as stack:
        started = start_process(machine, start, view_for(machine, start))
        stack.callback(discard, started)
        _await_ready(started)
        pids = [started.process.pid, *started.meter.processes()]
        sizes = [pss(pid) for pid in pids]
    return alone(f"memory of an idle {start.profile.name}", sum(sizes) / 2**20, "MiB PSS")
