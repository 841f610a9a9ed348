"""Jobs in the heavy lane as it is deployed: a signed approval, real boxes, a real engine and guest.

Guests run by emulation, which works on every machine, or under a user-space kernel;
`nested.py` runs the same tests where acceleration works, with images that were made before.
Image and snapshot are made once in a process of tests, by the program's own code.
"""

import atexit
import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support import samples
from tests.support.lite import OPERATOR
from tests.support.policies import policy
from tests.support.sshlab import Forge, Key
from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, PolicySection
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import Escalation, Input, OutputSpec, RunLimits, ToolRequest
from threegate.base import erofs
from threegate.base.errors import GateUnavailable
from threegate.base.untrusted import Untrusted
from threegate.host.images.build import build, place_of
from threegate.host.images.choice import Sources
from threegate.host.images.lock import SHIPPED, parse_lock
from threegate.host.images.manifest import ImagePart, agent_digest
from threegate.host.images.packages import Apt, Packages
from threegate.host.images.store import Image, Images, digest_of
from threegate.host.run.heavy.backend import (
    EMULATION,
    KVM,
    Asked,
    Backend,
    EnginePlace,
    HeavyRun,
    Want,
)
from threegate.host.run.heavy.lane import want_of
from threegate.host.run.heavy.qemu import BOOT_SECONDS, WAKE_SECONDS, QemuBackend, find_qemu
from threegate.host.run.heavy.runsc import RUNSC, RunscBackend, find_runsc
from threegate.host.settings import Settings
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import Bundle
from threegate.sandbox import service, session
from threegate.sandbox.machine import find_machine

MIB: Final = 2**20
# Wall time on a machine that does other things as well; what hangs takes it all.
LIMITS: Final = RunLimits(240_000, 192 * MIB, 256 * 1024, 1000, 1, 64, 16 * MIB)
_LANE: Final = "\n    default_profile: python\n    profiles: [python, tools]\n    engines: "
_DEFAULT: Final = f"enabled: no{_LANE}[qemu-emulation, qemu-kvm]"
ENABLED: Final = (_DEFAULT, f"enabled: yes{_LANE}[qemu-emulation]")
ACCELERATED: Final = (_DEFAULT, f"enabled: yes{_LANE}[qemu-kvm]")
AGENT: Final = Sources.usual().agent / "__main__.py"
ENGINE: Final = os.environ.get("THREEGATE_TEST_ENGINE", EMULATION)
MADE: Final = os.environ.get("THREEGATE_TEST_IMAGES")  # images for a machine without packages
if ENGINE == KVM:  # by a processor that is itself emulated, and so is that of the boxes
    WAKE_SECONDS[KVM], BOOT_SECONDS[KVM] = WAKE_SECONDS[EMULATION], BOOT_SECONDS[EMULATION]
    for module in (service, session):
        module.__dict__["START_SECONDS"] = 300.0


@dataclass(frozen=True)
class Task:
    """What a request asks for."""

    code: str = ""
    argv: tuple[str, ...] = ()
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)
    limits: RunLimits = LIMITS
    profile: str = ""  # of the ring; the usual one of its kind, unless it says otherwise

    def limited(self, **changes: int) -> "Task":
        return replace(self, limits=replace(self.limits, **changes))


def request_for(task: Task, **changes: Any) -> ToolRequest:
    """Return the request for a task, as a reader accepts it."""
    outputs = tuple(OutputSpec(name, most) for name, most in sorted(task.outputs.items()))
    if task.argv:
        why = Escalation("binary", None)
    else:
        why = Escalation("files", None)
        outputs = outputs or (OutputSpec("unused", 1),)
    usual = "tools" if task.argv and "python" not in task.argv[0] else "python"
    base = samples.tool_request(
        backend="era",
        why_not_monty=why,
        profile=task.profile or usual,
        argv=tuple(samples.box(word) for word in task.argv),
        code=samples.box(task.code),
        code_sha256=sha256_hex(task.code.encode()),
        functions=(),
        inputs=tuple(
            Input(name, "blob-" + sha256_hex(data), len(data), None)
            for name, data in sorted(task.inputs.items())
        ),
        limits=task.limits,
        outputs=outputs,
    )
    made = replace(base, **changes)
    registry.parse(Untrusted(registry.emit(made)))
    return made


def asked_for(
    task: Task, rules: Bundle, *, key: Key = OPERATOR, given: bytes | None = None, **changes: Any
) -> Asked:
    """Return a job that a human approved just now; `changes` are fields of the approval."""
    request = request_for(task)
    now = int(time.time())
    approval = samples.approval(
        request=registry.id_of(request),
        backend="era",
        limits=request.limits,
        functions_sha256=None,
        policy=tuple(
            PolicySection(name, rules.section_digest(name)) for name in BOUND_SECTIONS["era"]
        ),
        not_before=_spelled(now - 60),
        not_after=_spelled(now + 1800),
    )
    data = registry.emit(replace(approval, **changes))
    signature = Forge(key, message=data, namespace=NAMESPACE.encode()).armored()
    return Asked(
        bundle=rules.bundle_bytes(),
        request=given or registry.emit(request),
        approval=data,
        signature=signature,
        inputs=tuple(sorted(task.inputs.items())),
        wall_ms=task.limits.wall_ms,
    )


def _spelled(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


@cache
def rules() -> Bundle:
    """Return a policy that names the engine under test."""
    return policy(tool_exec=ENABLED if ENGINE == EMULATION else ACCELERATED).bundle()


@cache
def place() -> Path:
    """Return a cache that is gone with the tests."""
    found = Path(tempfile.mkdtemp(prefix="threegate-heavy-"))
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def built(cache_home: Path, *layers: str, agent: Path = AGENT.parent) -> Image:
    """Return an image of the shipped lock, by default without the scientific layer."""
    debs = Settings.from_environment(os.environ).cache_home / "debs"
    sources = Sources(Sources.usual().init, agent)
    if MADE is not None:
        return _made(Images(Path(MADE)), agent_digest(sources.read().agent))
    images = Images(cache_home / "images")
    lock = parse_lock(SHIPPED.read_bytes())
    return build(lock, layers or ("base",), images, Packages(debs, Apt(os.environ)), sources)


def _made(images: Images, agent: str) -> Image:
    found = [images.find(digest) for digest in images.digests()]
    return next(image for image in found if image.manifest.agent_sha256 == agent)


@dataclass
class Lab:
    """An engine with an image of its own."""

    backend: Backend

    def want(self, task: Task) -> Want:
        return want_of(rules(), request_for(task), self.backend.image.manifest)

    def run(self, task: Task | str, **changes: Any) -> HeavyRun:
        asked = Task(task) if isinstance(task, str) else task
        return self.backend.run(self.want(asked), asked_for(asked, rules(), **changes))


def backend_for(image: Image, engine: str = ENGINE, cache_home: Path | None = None) -> QemuBackend:
    return QemuBackend(
        engine,
        place=EnginePlace(find_machine(), rules()),
        qemu=find_qemu(),
        image=image,
        cache=cache_home or place(),
    )


def runsc_for(image: Image, cache_home: Path | None = None) -> RunscBackend:
    return RunscBackend(
        place=EnginePlace(find_machine(), rules()),
        runsc=find_runsc(),
        image=image,
        cache=cache_home or place(),
    )


@cache
def image() -> Image:
    """Return the image with our own agent."""
    return built(place())


@cache
def lab() -> Lab:
    """Return the lane with our own agent, as it is deployed."""
    return Lab(backend_for(image()))


@cache
def runsc_lab() -> Lab:
    """Return the lane with our own agent, under a user-space kernel."""
    return Lab(runsc_for(image()))


def lab_of(engine: str) -> Lab:
    """Return the lane with one of the engines that every machine has."""
    return runsc_lab() if engine == RUNSC else lab()


def with_agent(agent: str, tmp_path: Path) -> Image:
    """Return our own image with another program as its agent."""
    sources = Sources.usual().read().agent
    return with_sources({**sources, "__main__.py": agent.encode()}, tmp_path / "cache" / "images")


def with_sources(
    sources: Mapping[str, bytes], root: Path, programs: Mapping[str, bytes] | None = None
) -> Image:
    """Return our own image with an agent of these files, below a directory of images.

    `programs` are files more in the guest, by their paths; each can be executed.
    """
    usual, images = image(), Images(root)
    with images.making() as work:
        made = work / "image"
        made.mkdir()
        for name in usual.manifest.files:
            shutil.copy(usual.place / name, made / name)
        files = {f"threegate/agent/{place_of(name)}": data for name, data in sources.items()}
        files |= programs or {}
        layout = erofs.lay_out(
            {
                name: erofs.ErofsFile(len(data), executable=name in (programs or {}))
                for name, data in files.items()
            }
        )
        layer = made / "agent.erofs"
        layer.unlink()
        with layer.open("xb") as out:
            erofs.write(layout, out, lambda name: io.BytesIO(files[name]))
        parts = dict(usual.manifest.files)
        parts["agent.erofs"] = ImagePart(digest_of(layer), layer.stat().st_size)
        return images.keep(made, replace(usual.manifest, files=parts))


def hostile_runsc(agent: str, tmp_path: Path) -> Lab:
    """Return a lane whose guest is owned from the start, under a user-space kernel."""
    return Lab(runsc_for(with_agent(agent, tmp_path), tmp_path / "cache"))


def hostile(agent: str, tmp_path: Path) -> Lab:
    """Return a lane whose guest is owned from the start: its agent, root there, is this program."""
    cache_home = tmp_path / "cache"
    image = built(cache_home, agent=agent_at(tmp_path / "agent", agent))
    return Lab(backend_for(image, cache_home=cache_home))


def agent_at(place: Path, agent: str) -> Path:
    """Return a directory with our own agent, of which this is the program."""
    shutil.copytree(AGENT.parent, place, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "__main__.py").write_text(agent, "utf-8")
    return place


# -- One job in the heavy lane, in a process of its own that an ordinary user started.

JOB = Task("print(open('/in/a').read())", inputs={"a": b"hello"})


def main() -> None:
    cache, digest = Path(sys.argv[1]), sys.argv[2]
    kept = Images(cache / "images").find(digest)
    make = runsc_for if ENGINE == RUNSC else backend_for
    lane = Lab(make(kept, cache_home=cache))
    try:
        lane.backend.prepare(lane.want(JOB))
    except GateUnavailable as exc:
        print(json.dumps([exc.code, exc.message]))
        return
    ran = lane.run(JOB)
    gate, engine, *_ = ran.evidence
    said = [ran.outcome.exit, ran.outcome.stdout.decode(), os.getuid(), engine.own_uid]
    print(json.dumps([*said, gate.profile]))
