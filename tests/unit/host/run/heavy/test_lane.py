"""Which engine a request is run by: the one that was proved for it, whatever comes after."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import pytest

from tests.support.heavy import ENABLED, LIMITS, Task, request_for, rules
from tests.support.images import kept
from tests.support.policies import policy
from tests.unit.host.images.test_contents import image as layered
from threegate.artifacts.ids import sha256_hex
from threegate.base import canonical
from threegate.base.errors import GateUnavailable
from threegate.gates.tool_exec.era.messages import HeavyOutcome
from threegate.host.images.store import Image
from threegate.host.run.heavy import lane as module
from threegate.host.run.heavy.backend import (
    EMULATION,
    KVM,
    NO_ACCELERATOR,
    NOT_USABLE,
    Asked,
    HeavyRun,
    Say,
    Want,
)
from threegate.host.run.heavy.lane import ENDED, HeavyLane
from threegate.host.run.heavy.runsc import RUNSC
from threegate.host.run.ready import Ready
from threegate.policy.bundle import Bundle
from threegate.policy.ring.compiler import ProfileRejected
from threegate.sandbox.launch import Evidence

PROOF = Evidence("tool-heavy", "0" * 64, "0" * 64, "6.1", 4, mdwe=True, own_uid=False, proofs=())


@dataclass
class FakeBackend:
    """An engine that answers as it is told, and knows whom it ran."""

    name: str
    image: Image
    works: bool = True
    outcome: HeavyOutcome = HeavyOutcome(
        "crashed", note="the virtual machine stopped: guest-panicked"
    )
    closed: bool = False

    def prepare(self, want: Want, say: Say = lambda _: None) -> None:
        say(f"{want.memory_mib} MiB")
        if not self.works:
            raise GateUnavailable(f"{self.name} does not work here")

    def probe(self, want: Want) -> tuple[str, ...]:
        raise AssertionError(want)

    def run(self, want: Want, asked: Asked) -> HeavyRun:
        assert (want.memory_mib, asked.inputs) == (LIMITS.memory_bytes // 2**20, ())
        return HeavyRun(self.outcome, 1, 1, 1, (PROOF, PROOF), "0" * 64)

    def under(self, _: Bundle) -> Self:
        return self

    def close(self) -> None:
        self.closed = True

    def versions(self) -> dict[str, str]:
        return {"engine": self.name}


@dataclass
class Stub:
    """As much of a ready request as a lane looks at."""

    request: Any
    request_id: str
    presented: Any
    inputs: tuple[()] = ()


@dataclass
class Given:
    request: bytes = b"r"
    approval: bytes = b"a"
    signature: bytes = b"s"


def ready(name: str, task: Task = Task("print(1)")) -> Ready:  # noqa: B008
    return cast("Ready", Stub(request_for(task), f"tr-{name}", Given()))


def test_a_request_runs_on_the_engine_that_was_proved_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = kept(tmp_path)
    engines = {name: FakeBackend(name, image) for name in (KVM, EMULATION)}
    monkeypatch.setattr(module, "open_backend", lambda _, name, *__: engines[name])
    both = (ENABLED[0], ENABLED[1].replace("[qemu", "[qemu-kvm, qemu"))
    lane = HeavyLane(policy(tool_exec=both).bundle(), tmp_path, lambda _: image)
    first, second = ready("1"), ready("2")
    lane.prove(first)
    engines[KVM].works = False  # the accelerator goes away while the first one waits
    lane.prove(second)
    assert lane.run(first, "now").box.isolation == KVM
    assert lane.run(second, "now").box.isolation == EMULATION
    with pytest.raises(KeyError):  # proved once, for one run
        lane.run(first, "now")
    lane.close()
    assert all(engine.closed for engine in engines.values())


# claim TG-C-323
def test_of_all_engines_that_policy_names_the_strongest_that_works_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, said = kept(tmp_path), list[str]()
    engines = {name: FakeBackend(name, image) for name in (KVM, EMULATION, RUNSC)}
    monkeypatch.setattr(module, "open_backend", lambda _, name, *__: engines[name])
    # In the other order: the order in a policy is not one of strength.
    named = (ENABLED[0], ENABLED[1].replace("[qemu-emulation", "[runsc, qemu-emulation"))
    rules_of_both = policy(tool_exec=named).bundle()
    lane = HeavyLane(rules_of_both, tmp_path, lambda _: image, say=said.append)
    for works, taken in ((True, EMULATION), (False, RUNSC)):
        engines[EMULATION].works = works
        lane.prove(ready("1"))
        assert lane.run(ready("1"), "now").box.isolation == taken
    assert "qemu-emulation does not work here" in said
    engines[RUNSC].works = False
    with pytest.raises(GateUnavailable, match="runsc does not work here"):
        lane.prove(ready("1"))  # KVM would work, and is not named


# claim TG-C-418
def test_an_engine_that_cannot_work_is_tried_once_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, said, tries = kept(tmp_path), list[str](), list[str]()
    engines = {name: FakeBackend(name, image) for name in (KVM, EMULATION)}
    monkeypatch.setattr(module, "open_backend", lambda _, name, *__: engines[name])

    def refuse(code: str) -> Callable[..., None]:
        def prepare(*_: object) -> None:
            tries.append(code)
            raise GateUnavailable("qemu-kvm does not work here", code=code)

        return prepare

    both = (ENABLED[0], ENABLED[1].replace("[qemu", "[qemu-kvm, qemu"))
    rules_of_both = policy(tool_exec=both).bundle()
    lane = HeavyLane(rules_of_both, tmp_path, lambda _: image, say=said.append)
    for code, count in ((NOT_USABLE, 3), (NO_ACCELERATOR, 1)):
        tries.clear()
        monkeypatch.setattr(engines[KVM], "prepare", refuse(code))
        for each in (lane, lane, lane.under(rules_of_both)):
            each.prove(ready("1"))
            assert each.run(ready("1"), "now").box.isolation == EMULATION
        assert tries == [code] * count, "what may pass is tried again, what lasts is not"


# claim TG-C-242
def test_why_a_machine_stopped_is_told_apart_from_what_the_guest_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = b"threegate: the virtual machine stopped: shutdown\n"
    engine = FakeBackend(EMULATION, kept(tmp_path))
    monkeypatch.setattr(module, "open_backend", lambda *_: engine)
    lane = HeavyLane(rules(), tmp_path, lambda _: engine.image)
    said = []
    for outcome in (
        HeavyOutcome("crashed", stderr=forged, note="the virtual machine stopped: guest-panicked"),
        HeavyOutcome("limit:time", stderr=forged),
    ):
        engine.outcome = outcome
        lane.prove(ready("1"))
        answer = lane.run(ready("1"), "now")
        assert answer.ran.outcome.stderr == forged, "as the guest printed it"
        said.append({item.name: item.version for item in answer.box.versions}.get(ENDED))
    assert said == ["the-virtual-machine-stopped:-guest-panicked", None]


# claim TG-C-282
def test_a_result_names_the_program_and_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "cmp",
        "comm",
        "cut",
        "diff",
        "head",
        "join",
        "sha256sum",
        "sort",
        "tail",
        "uniq",
        "wc",
    )
    run = {f"usr/bin/{name}": name.encode() for name in (*names, "other")}
    engine = FakeBackend(EMULATION, layered(tmp_path, {**run}, {}))
    monkeypatch.setattr(module, "open_backend", lambda *_: engine)
    lane = HeavyLane(rules(), tmp_path, lambda _: engine.image)

    def versions(task: Task) -> dict[str, str]:
        lane.prove(ready("1", task))
        answer = lane.run(ready("1", task), "now")
        return {item.name: item.version for item in answer.box.versions}

    found = versions(Task(argv=("sort", "/in/a")))
    assert (found["program"], found["program-sha256"]) == ("/usr/bin/sort", sha256_hex(b"sort"))
    profile = {f"/usr/bin/{name}": sha256_hex(name.encode()) for name in names}
    assert found["ring-programs-sha256"] == sha256_hex(canonical.encode(profile))
    assert versions(Task(argv=("/usr/bin/wc",)))["program-sha256"] == sha256_hex(b"wc")
    assert not {"program", "ring-programs-sha256"} & {*versions(Task("print(1)"))}, "control"


@pytest.mark.parametrize("there", [{}, {"usr/bin/wc": "head"}, {"usr/bin": "bin"}])
# claim TG-C-382
def test_a_program_that_the_image_lacks_or_links_is_refused_with_its_line_before_a_guest(
    there: dict[str, bytes | str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ("cmp", "comm", "cut", "diff", "head", "join", "sha256sum", "sort", "tail", "uniq")
    have: dict[str, bytes | str] = {f"usr/bin/{name}": b"x" for name in named}
    if "usr/bin" in there:
        have = {path.replace("usr/bin", "bin"): data for path, data in have.items()}
    engine = FakeBackend(EMULATION, layered(tmp_path, {**have, **there}, {}), works=False)
    monkeypatch.setattr(module, "open_backend", lambda *_: engine)
    lane = HeavyLane(rules(), tmp_path, lambda _: engine.image)
    lacking = "cmp" if "usr/bin" in there else "wc"
    line = rules().ref("tool-exec", "interpreter_ring", "tools", "allowed_binaries", "/usr/bin/wc")
    with pytest.raises(ProfileRejected) as caught:
        lane.prove(ready("1", Task(argv=("sort", "/in/a"))))
    told = f"profile tools: the image has no program /usr/bin/{lacking}, or it is a link"
    assert caught.value.message.startswith(told)
    assert str(caught.value.rule).startswith("policy/tool-exec.policy.md:")
    if lacking == "wc":
        assert caught.value.rule == line
    engine.image = layered(tmp_path, {**have, "usr/bin/wc": b"x"}, {})
    if "usr/bin" not in there:
        with pytest.raises(GateUnavailable, match="does not work here"):  # control: it gets so far
            lane.prove(ready("1", Task(argv=("sort", "/in/a"))))
