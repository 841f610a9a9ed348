"""The heavy lane: the strongest working engine that policy names, and one machine per job.

An engine that does not work here is never replaced by a weaker one that policy does not name.  The
result names the engine that was used.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from threegate import __version__
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import GatewayTerms, Network, ToolRequest
from threegate.artifacts.tool_result import ProbedMechanism
from threegate.base import canonical
from threegate.base.errors import GateUnavailable
from threegate.host.gate_profiles import refuse_unapplied_profile
from threegate.host.images.manifest import Manifest
from threegate.host.images.store import Image, Images
from threegate.host.run.heavy.backend import (
    EMULATION,
    KVM,
    MIB,
    NO_ACCELERATOR,
    Asked,
    Backend,
    EnginePlace,
    HeavyRun,
    Say,
    Want,
)
from threegate.host.run.heavy.gateway import Outward, Passed, opened_gateway, refuse_unusable
from threegate.host.run.heavy.qemu import QemuBackend, find_qemu
from threegate.host.run.heavy.runsc import RUNSC, RunscBackend, find_runsc
from threegate.host.run.ready import Ready
from threegate.host.run.results import Confinement, confinement_of
from threegate.host.run.verdicts import compile_here, layers_for, programs_in
from threegate.policy.approvals import command_of, executor_for, ring_for
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_use_engine
from threegate.policy.decision import Deny
from threegate.policy.ring.commands import resolve
from threegate.policy.ring.compiler import HEAVY_PYTHON, offline
from threegate.policy.ring.executor_profile import ARGUMENT_RULES, FIELDS, ExecutorProfile
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import ENGINE, RUNSC_FILES, RUNSC_KERNEL, TOOL_HEAVY, Profile
from threegate.sandbox.service import Companion

NO_ENGINE_NAMED: Final = "TG-ERA-004"
TOO_SMALL: Final = "TG-ERA-005"
MIN_MEMORY_MIB: Final = 128  # a guest that boots with less has no room for a job
BY_STRENGTH: Final = (KVM, EMULATION, RUNSC)

ENDED: Final = "ended"
MAX_VERSION_CHARS: Final = 100  # as a result may hold it
# The ring of a machine that only answers: no import, no program, no network.
NOTHING: Final = ExecutorProfile(
    kind=HEAVY_PYTHON,
    profile="nothing",
    imports=(),
    denied_imports=(),
    network="off",
    binaries=(),
    patterns=(),
    arguments=(),
    rules=dict.fromkeys((*FIELDS, ARGUMENT_RULES), "policy/none:0"),
)

FindImage = Callable[[Images], Image]


@dataclass(frozen=True, slots=True)
class HeavyAnswer:
    """A finished run, and what confined it."""

    started: str
    ran: HeavyRun
    box: Confinement
    passed: Passed | None = None  # through its gateway, if it had one


def want_of(bundle: Bundle, request: ToolRequest, manifest: Manifest) -> Want:
    """Return the machine a request is to have; raise `GateUnavailable` for one too small."""
    memory_mib = request.limits.memory_bytes // MIB
    if memory_mib < MIN_MEMORY_MIB:
        hint = f"ask for at least {MIN_MEMORY_MIB}MiB: --limit memory_bytes={MIN_MEMORY_MIB}MiB"
        detail = f"no guest starts with {memory_mib} MiB of memory"
        raise GateUnavailable(detail, code=TOO_SMALL, hint=hint)
    ring = ring_for(bundle, request)
    return _wanted(request.limits.cpus, memory_mib, manifest, ring, command=bool(request.argv))


def usual(bundle: Bundle, manifest: Manifest) -> Want:
    """Return the machine of a request for Python that asks for nothing else."""
    lane = ("tool-exec", "lanes", "era")
    ring = offline(compile_here(bundle, HEAVY_PYTHON, bundle.text(*lane, "default_profile")))
    memory_mib = bundle.integer(*lane, "default", "memory_bytes") // MIB
    cpus = bundle.integer(*lane, "default", "cpus")
    return _wanted(cpus, memory_mib, manifest, ring, command=False)


def _wanted(
    cpus: int, memory_mib: int, manifest: Manifest, ring: ExecutorProfile, *, command: bool
) -> Want:
    allowed, layers = {*ring.imports}, layers_for(manifest, ring)
    # Loads the list of fonts once, before the snapshot, and not in every run.
    more = {"matplotlib.pyplot"} if "matplotlib" in allowed and "science" in layers else set()
    # A command starts its own program: modules that are loaded already do not help it.
    imports = () if command else tuple(sorted(allowed | more))
    return Want(cpus, memory_mib, layers, imports, ring)


def smallest(manifest: Manifest) -> Want:
    """Return the smallest machine there is, to see whether an engine works."""
    layers = tuple(name for name in manifest.layers if name != "science")
    return Want(1, MIN_MEMORY_MIB, layers, (), NOTHING)


def open_backend(bundle: Bundle, name: str, cache: Path, find_image: FindImage) -> Backend:
    """Return an engine with a guest image, or raise `GateUnavailable`."""
    if name not in BY_STRENGTH:
        raise GateUnavailable(f"{name} is not built", code=NO_ENGINE_NAMED)
    images = Images(cache / "images")
    if name == RUNSC:
        runsc = find_runsc()
        place = EnginePlace(find_machine(), bundle)
        return RunscBackend(place=place, runsc=runsc, image=find_image(images), cache=cache)
    qemu = find_qemu()
    place = EnginePlace(find_machine(), bundle)
    return QemuBackend(name, place=place, qemu=qemu, image=find_image(images), cache=cache)


def profiles_of(engine: str) -> tuple[Profile, ...]:
    """Return the boxes a run with this engine needs."""
    boxes = (RUNSC_KERNEL, RUNSC_FILES) if engine == RUNSC else (ENGINE,)
    return (TOOL_HEAVY, *boxes)


class Lane(Protocol):
    """The heavy lane, as the lifecycle of runs uses it."""

    def prove(self, ready: Ready) -> None:
        """Raise `GateUnavailable` unless a machine for this request has answered here."""

    def run(self, ready: Ready, started: str) -> HeavyAnswer:
        """Run a claimed request in a machine that was proved for it."""

    def stop(self) -> None:
        """End it, from any thread and in any state."""

    def close(self) -> None:
        """Let go of what there is."""


class Stopper:
    """The running machine, if any; `stop` ends it and every later one, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._machine: Companion | None = None
        self.stopped = False

    def begun(self, machine: Companion) -> None:
        """Take note of a machine."""
        with self._lock:
            self._machine = machine
            if self.stopped:
                machine.kill()

    def ended(self) -> None:
        """Forget it."""
        with self._lock:
            self._machine = None

    def stop(self) -> None:
        """End what runs."""
        with self._lock:
            self.stopped = True
            if self._machine is not None:
                self._machine.kill()


class HeavyLane:
    """The heavy lane of one command."""

    def __init__(
        self,
        bundle: Bundle,
        cache: Path,
        find_image: FindImage,
        *,
        say: Say = lambda _: None,
        outward: Outward | None = None,
    ) -> None:
        self._bundle, self._cache, self._find_image = bundle, cache, find_image
        self._say, self._outward = say, outward
        self._stopper = Stopper()
        self._backends: dict[str, Backend] = {}
        self._proved: dict[str, Backend] = {}  # request -> the engine that answered for it
        self._programs: dict[tuple[str, str], dict[str, str]] = {}  # by image and ring
        self._lasting: dict[str, GateUnavailable] = {}  # engines that will not work in this process

    def under(self, bundle: Bundle) -> "HeavyLane":
        """Return the lane under other rules, with the engines this one has opened."""
        lane = HeavyLane(
            bundle, self._cache, self._find_image, say=self._say, outward=self._outward
        )
        lane._backends = {name: one.under(bundle) for name, one in self._backends.items()}
        lane._stopper = self._stopper
        lane._lasting = self._lasting
        return lane

    @property
    def stopped(self) -> bool:
        """Tell whether it was ended; then it runs nothing any more."""
        return self._stopper.stopped

    def prove(self, ready: Ready) -> None:
        """Raise `GateUnavailable` unless a machine for this request has answered here."""
        request = ready.request
        ring = compile_here(self._bundle, executor_for(request), request.profile)
        if isinstance(request.network, GatewayTerms):
            refuse_unusable(self._bundle, ring, self._outward)
        backend, _ = self._strongest(lambda image: want_of(self._bundle, request, image))
        self._proved[ready.request_id] = backend

    def prove_usual(self) -> tuple[Backend, Want]:
        """Have a machine ready for a request that asks for nothing special."""
        return self._strongest(lambda image: usual(self._bundle, image))

    def _strongest(self, wanted: Callable[[Manifest], Want]) -> tuple[Backend, Want]:
        """Return the strongest engine that policy names and that works, prepared."""
        found = GateUnavailable("policy names no engine that is built", code=NO_ENGINE_NAMED)
        for name in BY_STRENGTH:
            if isinstance(may_use_engine(self._bundle, name), Deny):
                continue
            if name in self._lasting:
                found = self._lasting[name]
                continue
            try:
                return self._prepared(name, wanted)
            except GateUnavailable as exc:
                self._say(exc.message)
                found = exc
                if exc.code == NO_ACCELERATOR:
                    self._lasting[name] = exc
        raise found

    def _prepared(self, name: str, wanted: Callable[[Manifest], Want]) -> tuple[Backend, Want]:
        for profile in profiles_of(
            name
        ):  # before a use is spent: an unapplied profile starts nothing
            refuse_unapplied_profile(self._bundle, profile)
        if name not in self._backends:
            self._backends[name] = open_backend(self._bundle, name, self._cache, self._find_image)
        backend = self._backends[name]
        want = wanted(backend.image.manifest)
        self._programs_of(backend, want)
        backend.prepare(want, self._say)
        return backend, want

    def _programs_of(self, backend: Backend, want: Want) -> dict[str, str]:
        """Return the digests of a profile's programs; raise `ProfileRejected` if one is missing."""
        if not want.ring.binaries:
            return {}
        known = backend.image.digest, want.ring.digest
        if known not in self._programs:
            self._programs[known] = programs_in(self._bundle, backend.image, want.ring)
        return self._programs[known]

    def run(self, ready: Ready, started: str) -> HeavyAnswer:
        """Run a claimed request in a machine that was proved for it.

        Called in a thread of its own, while the next request may be proved for another engine.
        """
        backend = self._proved.pop(ready.request_id)
        want = want_of(self._bundle, ready.request, backend.image.manifest)
        given = ready.presented
        asked = Asked(
            bundle=self._bundle.bundle_bytes(),
            request=given.request,
            approval=given.approval,
            signature=given.signature,
            inputs=ready.inputs,
            wall_ms=ready.request.limits.wall_ms,
            begun=self._stopper.begun,
        )
        programs = _programs(self._programs_of(backend, want), ready.request)
        try:
            ran, passed = self._ran(backend, want, asked, ready.request.network)
        finally:
            self._stopper.ended()
        return HeavyAnswer(started, ran, _box(backend, ran, programs, passed), passed)

    def _ran(
        self, backend: Backend, want: Want, asked: Asked, network: Network
    ) -> tuple[HeavyRun, Passed | None]:
        if not isinstance(network, GatewayTerms):
            return backend.run(want, asked), None
        outward = refuse_unusable(self._bundle, want.ring, self._outward)
        with opened_gateway(self._bundle, network, want.ring, outward) as (port, passed):
            return backend.run(want, replace(asked, gateway=port)), passed

    def stop(self) -> None:
        """End it, from any thread and in any state."""
        self._stopper.stop()

    def close(self) -> None:
        """Let go of the engines."""
        for backend in self._backends.values():
            backend.close()


def _programs(digests: dict[str, str], request: ToolRequest) -> dict[str, str]:
    """Return digests of the profile's programs in the image: of all, and of the command's own."""
    if not digests:
        return {}
    found = {"ring-programs-sha256": sha256_hex(canonical.encode(digests))}
    for word in command_of(request)[:1]:
        program = resolve([*digests], word)
        if program in digests:
            found |= {"program": program[:MAX_VERSION_CHARS], "program-sha256": digests[program]}
    return found


def _box(
    backend: Backend, ran: HeavyRun, programs: dict[str, str], passed: Passed | None = None
) -> Confinement:
    """Return what confined a run: its sandboxes as proved, and the guest's own report."""
    gate, engine, *others = (*ran.evidence, *([] if passed is None else passed.evidence))
    versions = {
        **backend.versions(),
        **programs,
        "engine-profile-sha256": engine.profile_sha256,
        **{f"{other.profile}-profile-sha256": other.profile_sha256 for other in others},
        "kernel": gate.kernel,
        "template-sha256": ran.template,
        "threegate": __version__,
    }
    if ran.outcome.note is not None:  # why the machine stopped, in our words, not the guest's
        versions[ENDED] = ran.outcome.note.replace(" ", "-")[:MAX_VERSION_CHARS]
    proofs = [*gate.proofs, *(f"engine-{proof}" for proof in engine.proofs)]
    proofs += [f"{other.profile}-{proof}" for other in others for proof in other.proofs]
    box = confinement_of(gate.profile_sha256, proofs, versions)
    guest = tuple(ProbedMechanism(name, "in-force") for name in ran.outcome.probes)
    evidence = tuple(sorted((*box.evidence, *guest), key=lambda item: item.mechanism))
    return Confinement(box.profile_sha256, evidence, box.versions, backend.name)
