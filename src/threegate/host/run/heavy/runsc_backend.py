"""runsc as an engine of the heavy lane: a user-space kernel, and not a microVM.

There is no snapshot: each guest is started for its one job.  What is prepared once is the
image as a directory, which an engine without disks needs.

SECURITY
    Takes answers of gates that listened to hostile guests, like `backend.py`.
"""

from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from threegate.base.errors import disk_errors
from threegate.gates.tool_exec.era import messages as tool_heavy
from threegate.gates.tool_exec.era.messages import HeavyOutcome, Probe
from threegate.host.images.contents import tree_of
from threegate.host.images.store import Image
from threegate.host.run.heavy.backend import (
    PATIENCE_SECONDS,
    Asked,
    Ran,
    Say,
    Want,
    answered,
    input_disk,
    job_for,
    ran_of,
)
from threegate.host.run.heavy.engine import MIB
from threegate.host.run.heavy.machines import Conversation, Place, Use
from threegate.host.run.heavy.memory_watch import Watch
from threegate.host.run.heavy.runsc import KIND, RUNSC, Runsc
from threegate.host.run.heavy.user_kernel import Guest, converse
from threegate.policy.bundle import Bundle

START_SECONDS: Final = 120


class RunscBackend:
    """gVisor's kernel, with the image as a directory."""

    name: str = RUNSC

    def __init__(self, *, place: Place, runsc: Runsc, image: Image, cache: Path) -> None:
        self.place, self._runsc, self.image = place, runsc, image
        self._scratch = cache / "runsc"
        self._trees: dict[tuple[str, ...], tuple[Path, str]] = {}

    def prepare(self, want: Want, say: Say = lambda _: None) -> None:
        """Have the image unpacked, and a guest of it answer."""
        if want.layers not in self._trees:
            say(f"unpacking the image, once, and comparing it ({self.name}: {KIND})")
            with disk_errors("make a place for guests"):
                self._scratch.mkdir(parents=True, exist_ok=True)
            self._trees[want.layers] = tree_of(self.image, want.layers)
        self.probe(want)

    def probe(self, want: Want) -> tuple[str, ...]:
        """Start a guest and have it answer a nonce that it cannot know."""
        shape = _shape(want)
        use = Use(
            lambda ends, _: Probe(ends, want.ring, START_SECONDS, shape),
            START_SECONDS,
            patience_seconds=PATIENCE_SECONDS,
        )
        talk, _ = self._converse(want, use)
        return answered(talk, tool_heavy.parse_probed, engine=self.name).probes

    def run(self, want: Want, asked: Asked) -> Ran:
        """Start a guest for one job, and end it with the job."""
        with ExitStack() as stack:
            disk = input_disk(stack, asked.inputs, self._scratch) if asked.inputs else None
            seconds = START_SECONDS + asked.wall_ms / 1000
            job = job_for(asked, _shape(want), START_SECONDS)
            use = Use(job, seconds, inputs=disk, begun=asked.begun, gateway=asked.gateway)
            talk, watch = self._converse(want, use)
        ran = ran_of(talk, self._tree(want)[1])
        largest = max(ran.peak_memory_bytes, watch.largest_bytes)
        return replace(ran, outcome=_judged(ran.outcome, watch), peak_memory_bytes=largest)

    def under(self, bundle: Bundle) -> Self:
        """Return the same engine under another policy; what was prepared is shared."""
        other = copy(self)
        other.place = Place(self.place.machine, bundle)
        return other

    def close(self) -> None:
        """Nothing is open between two runs."""
        self._trees.clear()

    def versions(self) -> dict[str, str]:
        """Return what takes part in a run here, by name."""
        return {
            "engine": self.name,
            "engine-kind": KIND.replace(" ", "-").replace(",", ""),
            "engine-sha256": self._runsc.digest(),
            "image-sha256": self.image.digest,
        }

    def _converse(self, want: Want, use: Use) -> tuple[Conversation, Watch]:
        tree, _ = self._tree(want)
        guest = Guest(self._runsc, tree, self._scratch, want.cpus, want.memory_mib)
        return converse(self.place, guest, replace(use, has_gateway=want.has_gateway))

    def _tree(self, want: Want) -> tuple[Path, str]:
        if want.layers not in self._trees:
            self.prepare(want)
        return self._trees[want.layers]


def _shape(want: Want) -> tool_heavy.GuestShape:
    return tool_heavy.GuestShape(want.cpus, want.memory_mib * MIB, "process")


def _judged(outcome: HeavyOutcome, watch: Watch) -> HeavyOutcome:
    """Return what ended a job: the watch over its memory, if it was that."""
    if watch.over and outcome.exit == "crashed":
        return replace(outcome, exit="limit:memory", note=None)
    return outcome
