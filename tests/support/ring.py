"""Guests whose ring lacks a layer: the real agent with the lines of that layer taken out.

What a bypass achieves there tells which layer stops it in the guest as it is deployed.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.heavy import (
    AGENT,
    ENGINE,
    MIB,
    Lab,
    Task,
    backend_for,
    image,
    lab,
    place,
    runsc_for,
    with_sources,
)
from threegate.host.images.choice import Sources
from threegate.host.images.contents import tree_of
from threegate.host.run.heavy.runsc import RUNSC

# -- Ways around the import rules of the ring: each obtains something denied and uses it.
# A way is Python that leaves in `found` what it obtained; an act is what code would want it for:
# an internet socket, or a program that runs. Without the ring every one of them works, which is
# the control; with it none does, and what stopped it is recorded.

VECTORS: Final = Path(__file__).parents[1] / "vectors" / "ring" / "imports.txt"
TITLE: Final = "=== "

_ENDED = "assert os.waitstatus_to_exitcode(os.waitpid(found, 0)[1]) == 0, 'not executed'"
ACTS: Final = {
    "socket": "found.socket(2, 1)",
    "run": "found.run(['/usr/bin/true'], check=True)",
    "ctypes": "assert found.CDLL(None).socket(2, 1, 0) >= 0, 'no socket by ctypes'",
    "spawn": f"import os\nfound = found('/usr/bin/true', ['true'], {{}})\n{_ENDED}",
    "forked": f"import os\n{_ENDED}",
    "zero": "assert found == 0, 'not executed'",
}


@dataclass(frozen=True)
class Bypass:
    """One way, and what is done with what it finds."""

    name: str
    way: str
    act: str


def bypasses() -> tuple[Bypass, ...]:
    """Return every way there is a vector of."""
    _, *blocks = VECTORS.read_text("utf-8").split(f"\n{TITLE}")
    found = []
    for block in blocks:
        title, _, way = block.partition("\n")
        act, _, name = title.partition(": ")
        found.append(Bypass(name, way, ACTS[act]))
    assert len({one.name for one in found}) == len(found) >= 60
    return tuple(found)


# Runs in the guest, as the request's code: each way in a process of its own.
HARNESS: Final = """\
import json, os, sys
out = {}
for name, way, act in json.load(open('/in/ways')):
    read, write = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        stage, space = 'refused', {'__name__': '__main__'}
        try:
            exec(way, space)
            stage = 'harmless'
            exec(act, space)
            said = ['done', '']
        except BaseException as exc:
            said = [stage, f'{type(exc).__name__}: {exc}'[:200]]
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    data = b''
    while piece := os.read(read, 65536):
        data += piece
    os.close(read)
    os.waitpid(pid, 0)
    out[name] = json.loads(data) if data else ['died', '']
json.dump(out, open('/out/found', 'w'))
"""


# -- The table of bypasses and layers, as both documents in docs/evidence have it.

Found = dict[str, tuple[str, str]]  # name of a bypass -> done, or what stopped it; and why
# The layer that stopped a way, by state and reason with all of them, and which hold alone.
Stopped = Callable[[str, str, Sequence[bool]], str]


def table(head: str, layers: Sequence[str], found: dict[str, Found], stopped: Stopped) -> str:
    """Return the document."""
    held = {name: _held(ways) for name, ways in found.items()}
    count = len(found["none"])
    bare, ringed = (count - len(held[name]) for name in ("none", "all"))
    alone = ", ".join(f"{layer} {len(held[layer])}" for layer in layers)
    lines = [
        f"{head}{count} ways; without the ring {bare} work, with it {ringed}. ",
        f"Held by one layer alone: {alone}.\n\n",
        f"| way | {' | '.join(layers)} | stopped by |\n|---|{'---|' * len(layers)}---|\n",
    ]
    for name, (state, why) in found["all"].items():
        marks = [name in held[layer] for layer in layers]
        said = " | ".join("yes" if mark else "no" for mark in marks)
        lines.append(f"| {name} | {said} | {stopped(state, why, marks)} |\n")
    return "".join(lines)


def _held(found: Found) -> set[str]:
    return {name for name, (state, _) in found.items() if state != "done"}


LAYERS: Final = ("hook", "view", "kernel")
Edit = tuple[str, str, str]
# One mechanism each: file of the agent, a line of it, and what stands there when it is gone.
MECHANISMS: Final[dict[str, Edit]] = {
    "hook": ("interpreter.py", "    hook.install()\n", "    pass\n"),
    "view": ("interpreter_process.py", "sorted(view.hidden(kept, allowed))", "[]"),
    "noexec": (
        "kernel.py",
        "MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32",
        "MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 0, 32",
    ),
    "landlock": ("kernel.py", "    handled = struct", "    return\n    handled = struct"),
    "seccomp": (
        "kernel.py",
        "    program = _filter()\n",
        "    return\n    program = _filter()\n",
    ),
    "lists": ("interpreter.py", 'frozenset(ring["denied_imports"])', "frozenset()"),
}
WITHOUT: Final = {
    "hook": ("hook",),
    "view": ("view",),
    "kernel": ("noexec", "landlock", "seccomp"),
}
# No image has a program there, which the loader would run; a guest without a view has this one.
AMONG_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu/glib-2.0/gio-querymodules"
# Under a user-space kernel one function lays the view and what may be executed.
SEALED: Final = (
    "interpreter_process.py",
    '            view.seal_in_place(self.ring["binaries"], paths)\n',
    "            pass\n",
)
# The guest would say that it is not what was promised, and get no job.
PRETEND: Final = (
    "interpreter.py",
    'report("proved", *prove(job))',
    'report("proved", "exec", "imports", "socket", "view")',
)


@cache
def lab_with(*layers: str, engine: str = ENGINE) -> Lab:
    """Return the lane with a guest whose ring has these layers alone."""
    gone = [layer for layer in LAYERS if layer not in layers]
    edits = [MECHANISMS[part] for layer in gone for part in WITHOUT[layer]]
    if engine == RUNSC:
        assert not layers, "there all layers, or none"
        edits.append(SEALED)
    programs = {}
    if "view" in gone:
        root, _ = tree_of(image(), ("base",))
        programs = {AMONG_LIBRARIES: (root / "usr/bin/true").read_bytes()}
    return _lab(f"{engine}-{'-'.join(layers) or 'none'}", [*edits, PRETEND], programs, engine)


@cache
def lab_lacking(mechanism: str) -> Lab:
    """Return the lane with a guest that lacks one mechanism, and says so like any other."""
    return _lab(f"lacking-{mechanism}", [MECHANISMS[mechanism]], {})


def _lab(name: str, edits: list[Edit], programs: dict[str, bytes], engine: str = ENGINE) -> Lab:
    own = place() / f"agent-{name}"
    shutil.copytree(AGENT.parent, own, ignore=shutil.ignore_patterns("__pycache__"))
    for edit in edits:
        _change(own, edit)
    sources = Sources(Sources.usual().init, own).read().agent
    # Not among the images of the other tests: its manifest is that of the whole agent.
    cache_home = place() / f"cache-{name}"
    made = with_sources(sources, cache_home / "images", programs)
    if engine == RUNSC:
        return Lab(runsc_for(made, cache_home))
    return Lab(backend_for(made, cache_home=cache_home))


def _change(own: Path, edit: Edit) -> None:
    file, old, new = edit
    text = (own / file).read_text("utf-8")
    assert text.count(old) == 1, edit
    (own / file).write_text(text.replace(old, new), "utf-8")


def attempt(lab: Lab) -> Found:
    """Try every bypass in one guest."""
    ways = [[one.name, one.way, one.act] for one in bypasses()]
    task = Task(
        HARNESS, inputs={"ways": json.dumps(ways).encode()}, outputs={"found": MIB}
    ).limited(wall_ms=1_800_000)
    outcome = lab.run(task).outcome
    assert outcome.exit == "ok", outcome
    found = json.loads(dict(outcome.files)["found"])
    assert list(found) == [name for name, _, _ in ways]
    return {name: (state, why) for name, (state, why) in found.items()}


# -- The table of bypasses and layers: `python -m tests.support.ring` writes it anew.

PLACE: Final = Path(__file__).parents[2] / "docs" / "evidence" / "ring-imports.md"

HEAD: Final = """\
# Ways around the import rules

Written by `python -m tests.support.ring`; `make slow` compares. Each way obtains something
that the profile `python` denies, in a real guest, and uses it: an internet socket, or a program
that runs. The ways are in `tests/vectors/ring/imports.txt`. Without the ring each of them works. A
column says whether that layer alone, with the others taken out of the guest, would have kept the
way from its end; the last says what stopped it in the guest as it is.

- **hook**: the import hook of the interpreter. It gives clear errors and is no boundary.
- **view**: files that no allowed package needs are not there.
- **kernel**: nothing but the profile's programs can be executed, by Landlock and by mounts that
  execute nothing; a filter refuses sockets other than Unix ones and files without a place.

The loader runs whatever program it can map, and libraries must be mapped: against a program among
them no rule of the kernel holds. No image has one; a guest without the view is given one.

"""


def import_table(found: dict[str, Found]) -> str:
    """Return the document."""
    return table(HEAD, LAYERS, found, stopped)


def stopped(state: str, why: str, _alone: Sequence[bool]) -> str:
    """Return the layer whose refusal it was, by its words."""
    # The hook takes archives off the path, and looks for a caller.
    if any(words in why for words in ("of profile python)", "'scipy'", "stack is not deep")):
        return "hook"
    if any(words in why for words in ("not permitted", "Permission denied", "not executed")):
        return "kernel"
    absent = ("No module named", "cannot import name", "No such file", "KeyError", "IndexError")
    if any(words in why for words in absent):
        return "view"  # looked for, and not there
    return f"{state}: {why.partition(':')[0]}"


def main() -> None:
    """Try everything in five guests, and write the table."""
    found = {"none": attempt(lab_with()), "all": attempt(lab())}
    found |= {layer: attempt(lab_with(layer)) for layer in LAYERS}
    PLACE.write_text(import_table(found), "utf-8")


if __name__ == "__main__":
    main()
