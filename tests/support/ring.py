"""Guests whose ring lacks a layer: the real agent with the lines of that layer taken out.

What a bypass achieves there tells which layer stops it in the guest as it is deployed.
"""

import json
import shutil
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
    place,
    runsc_for,
    with_sources,
)
from tests.support.ring_bypasses import HARNESS, bypasses
from tests.support.ring_table import Found
from threegate.host.images.ours import Sources
from threegate.host.images.unpacked import tree_of
from threegate.host.run.heavy.runsc import RUNSC

LAYERS: Final = ("hook", "view", "kernel")
Edit = tuple[str, str, str]
# One mechanism each: file of the agent, a line of it, and what stands there when it is gone.
MECHANISMS: Final[dict[str, Edit]] = {
    "hook": ("interpreter.py", "    hook.install()\n", "    pass\n"),
    "view": ("interpreting.py", "sorted(view.hidden(kept, allowed))", "[]"),
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
    "interpreting.py",
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
