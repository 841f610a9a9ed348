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
    place,
    runsc_for,
    with_sources,
)
from tests.support.ring_bypasses import HARNESS, bypasses
from tests.support.ring_table import Found
from threegate.host.heavy.runsc import RUNSC
from threegate.host.images.ours import Sources

LAYERS: Final = ("hook", "view", "kernel")
Edit = tuple[str, str, str]
# File of the agent, a line of it, and what stands there when the layer is gone.
WITHOUT: Final[dict[str, tuple[Edit, ...]]] = {
    "hook": (("interpreter.py", "    hook.install()\n", "    pass\n"),),
    "view": (("interpreting.py", "sorted(view.hidden(kept, allowed))", "[]"),),
    "kernel": (
        (
            "kernel.py",
            "MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32",
            "MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 0, 32",
        ),
        ("kernel.py", "    handled = struct", "    return\n    handled = struct"),
        ("kernel.py", "    program = _filter()\n", "    return\n    program = _filter()\n"),
    ),
}
# Under a user-space kernel one function lays the view and what may be executed.
SEALED: Final = (
    "interpreting.py",
    '            view.seal_in_place(self.ring["binaries"], paths)\n',
    "            pass\n",
)
# The guest would say that it is not what was promised, and get no job.
PRETEND: Final = (
    "interpreter.py",
    'report("proved", *prove(job["hidden"]))',
    'report("proved", "exec", "imports", "view")',
)


@cache
def lab_with(*layers: str, engine: str = ENGINE) -> Lab:
    """Return the lane with a guest whose ring has these layers alone."""
    name = "-".join(layers) or "none"
    own = place() / f"agent-{engine}-{name}"
    shutil.copytree(AGENT.parent, own, ignore=shutil.ignore_patterns("__pycache__"))
    for layer in LAYERS:
        for edit in WITHOUT[layer] if layer not in layers else ():
            _change(own, edit)
    if engine == RUNSC:
        assert not layers, "there all layers, or none"
        _change(own, SEALED)
    _change(own, PRETEND)
    sources = Sources(Sources.usual({}).init, own, {}).read().agent
    # Not among the images of the other tests: its manifest is that of the whole agent.
    cache_home = place() / f"cache-{engine}-{name}"
    made = with_sources(sources, cache_home / "images")
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
