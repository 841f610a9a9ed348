"""Attacks this machine: every attempt in every profile, and outside as a control."""

import dataclasses
import itertools
import json
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from threegate.base.errors import GateUnavailable
from threegate.sandbox.attacks.base import WORKER, AttackResult, Attempt, Said, judged, said_of
from threegate.sandbox.attacks.payload import ATTEMPTS
from threegate.sandbox.attacks.scene import Scene, outsider, scene
from threegate.sandbox.box import Start
from threegate.sandbox.doctor import stand_ins
from threegate.sandbox.machine import Machine
from threegate.sandbox.payload import LOCK
from threegate.sandbox.profiles import PROFILES, TOOL_LITE, Profile
from threegate.sandbox.session import run_gate
from threegate.sandbox.supervise import Ended
from threegate.sandbox.view import view_of

PAYLOAD = "threegate.sandbox.attacks.payload:main"
_LIMITS = ("memory_bytes", "processes", "open_files", "file_bytes", "scratch_bytes")
_NO_WORKER = ("bombs", "packages")  # groups whose limits come from the launcher, not from the lock
TOGETHER = "together"  # every attempt that needs no process of its own
EVERY_PROFILE = (*PROFILES, WORKER)


def attack(
    machine: Machine,
    profile_names: Iterable[str],
    *,
    names: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    control: bool = True,
) -> list[AttackResult]:
    """Make every attempt (or the named ones) in these profiles; never raises for what it finds."""
    results: list[AttackResult] = []
    with stand_ins() as given:
        for who, group in itertools.groupby(
            profile_names, lambda name: outsider(machine, _real(name).name)
        ):
            with scene(who) as place:
                for profile_name in group:
                    if progress is not None:
                        progress(profile_name)
                    real = _real(profile_name)
                    attacked = AttackedProfile(
                        machine, real, profile_name, given, place, control=control
                    )
                    results += attacked.results(applicable(profile_name, names))
    return results


def _real(name: str) -> Profile:
    return TOOL_LITE if name == WORKER else PROFILES[name]


def applicable(profile: str, names: Sequence[str] = ()) -> list[Attempt]:
    """Return the attempts that must be stopped in a profile."""
    chosen = [item for item in ATTEMPTS.values() if not names or item.name in names]
    if tuple(names) == (TOGETHER,):
        chosen = [item for item in ATTEMPTS.values() if not item.alone]
    if profile == WORKER:
        return [item for item in chosen if _for_worker(item)]
    return [item for item in chosen if item.applies(profile)]


def _for_worker(item: Attempt) -> bool:
    """Exclude attempts that need no system call, and those that the filter does not stop."""
    quiet = {"any_leaked_descriptor", "core_dump", "environment_of_the_caller"}
    meant = not item.only or WORKER in item.only
    return not item.alone and item.group not in _NO_WORKER and meant and item.name not in quiet


@dataclasses.dataclass(slots=True)
class AttackedProfile:
    """One profile under attack."""

    machine: Machine
    profile: Profile
    name: str
    given: dict[str, str]
    scene: Scene
    control: bool = True  # without it, an attempt that fails shows nothing: see `counted`

    def results(self, attempts: Sequence[Attempt]) -> list[AttackResult]:
        """Make the attempts inside, then outside, and judge each."""
        together = [item for item in attempts if not item.alone]
        said, reached = dict(self._batches(together)), set[str]()
        for mark in self.scene.reached():
            reached.add("signal_the_callers_group" if mark == "signal" else mark.split(":")[-1])
        for item in attempts:
            if item.alone:
                said |= self._batch([item])
        controls = self._controls(attempts) if self.control else {}
        missing = Said("ended", "", "no answer")
        return [
            judged(
                item,
                self.name,
                said.get(item.name, missing),
                controls.get(item.name, missing),
                reached=item.name in reached,
            )
            for item in attempts
        ]

    def _controls(self, attempts: Sequence[Attempt]) -> dict[str, Said]:
        self.scene.forget([item.name for item in attempts if item.group == "bombs"])
        names = [item.name for item in attempts]
        controls = self.scene.control(names, self._facts(control=True))
        self.scene.reached()
        return controls

    def _batches(self, attempts: Sequence[Attempt]) -> Iterator[tuple[str, Said]]:
        """Make attempts in one process, and go on in a new one when it ends."""
        left = list(attempts)
        while left:
            said = self._batch(left)
            yield from said.items()
            if not said:
                return
            left = [item for item in left if item.name not in said]

    def _batch(self, attempts: Sequence[Attempt]) -> dict[str, Said]:
        notes: list[dict[str, str]] = []
        names = [item.name for item in attempts]
        fork = self.profile.processes_may_fork and not attempts[0].alone
        lock = LOCK if self.name == WORKER else ""
        request = {"facts": self._facts(), "names": names, "fork": fork, "lock": lock}
        narrow = attempts[0].narrow if attempts[0].alone else {}
        profile = dataclasses.replace(self.profile, **narrow)  # type: ignore[arg-type]
        start = Start(profile, PAYLOAD, self.given)
        try:
            answer = run_gate(
                self.machine,
                start,
                json.dumps(request).encode(),
                deadline_seconds=attempts[0].deadline_seconds,
                note=lambda note: _keep(notes, note),
            )
        except GateUnavailable as exc:
            return {name: Said("ended", "not started", exc.message) for name in names}
        answer.message.close()  # each report already came as a note
        return _reports(notes, answer.ended)

    def _facts(self, *, control: bool = False) -> dict[str, Any]:
        if control:
            top = str(self.scene.directory / "control")
            places = (f"{top}/place", f"{top}/other")
            where = {"scratch": top, "places": places, "targets": _control_targets(places)}
        else:
            where = self._inside()
        return {
            **self.scene.facts,
            **where,
            "profile": self.name,
            "control": control,
            "token": f"{'control' if control else self.name}:",
            "limits": {name: getattr(self.profile, name) for name in _LIMITS},
        }

    def _inside(self) -> dict[str, Any]:
        """Return what the box shows: all of it must stay as it is."""
        view = view_of(self.profile)
        library = next(m.inside for m in view.mounts if m.inside.startswith("/usr/"))
        stdlib = next(m.inside for m in view.mounts if m.inside.startswith("/rt/lib/"))
        files = [b.inside for b in self.profile.binds if b.kind in ("file", "library")]
        directories = [b.inside for b in self.profile.binds if b.kind == "directory"]
        gate = "/gate/threegate"
        return {
            "scratch": "/tmp" if self.profile.scratch_bytes else "",  # noqa: S108
            "places": ["/rt", stdlib, gate, f"{gate}/sandbox", "/", "/usr/lib", *directories],
            "targets": [
                view.interpreter,
                f"{stdlib}/os.py",
                f"{gate}/sandbox/stage2.py",
                library,
                view.loader_link,
                *files,
            ],
        }


def _control_targets(places: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{place}/target" for place in places)


def _keep(notes: list[dict[str, str]], note: bytes) -> None:
    """Keep a report; anything else is dropped, and then the attempt has no answer."""
    try:
        value = json.loads(note)
    except ValueError:
        return
    if isinstance(value, dict):
        notes.append(value)


def _reports(notes: list[dict[str, str]], ended: Ended) -> dict[str, Said]:
    said = {note["name"]: said_of(note) for note in notes if "name" in note}
    begun = [note["begin"] for note in notes if "begin" in note]
    if begun and begun[-1] not in said:
        said[begun[-1]] = Said("ended", _why(ended), f"{ended.why}, exit code {ended.exit_code}")
    return said


def _why(ended: Ended) -> str:
    if ended.why not in {"crashed", "exit", "done"}:
        return ended.why
    number = ended.exit_code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit {ended.exit_code}"
