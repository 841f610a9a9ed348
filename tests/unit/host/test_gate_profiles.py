"""The boxes are part of what is signed: a wider one starts nothing until it is applied."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.policies import GATES, policy, policy_files
from tests.support.workspaces import Clock, make_workspace, public_of, soft_signer
from threegate.base.errors import GateUnavailable
from threegate.host import gate_profiles
from threegate.host.gate_profiles import profile_rules, program_gates, refuse_unapplied_profile
from threegate.host.policy.changes import apply_policy, change_signers, edited
from threegate.host.workspace.workspace import Workspace, open_workspace
from threegate.keys.signers import AllowedSigner
from threegate.policy.bundle import Compiled, diff, parse_bundle
from threegate.policy.compiler import compile_policy
from threegate.policy.sections.gates import PROFILE
from threegate.sandbox import worker
from threegate.sandbox.profiles import (
    CORE,
    FETCH_NORMALIZE,
    MODEL_SERVER,
    PROFILES,
    PROXY,
    TOOL_LITE,
    Bind,
    Profile,
)

POLICY = policy()

WIDER: dict[str, dict[str, Any]] = {
    "packages": {"packages": (*CORE.packages, "host")},
    "libraries": {"libraries": ("requests",)},
    "modules": {"modules": (*CORE.modules, "ssl")},
    "binds": {"binds": (*CORE.binds, Bind("home", "/home", "directory"))},
    "devices": {"devices": ("kvm",)},
    "scratch_bytes": {"scratch_bytes": 1},
    "host_network": {"host_network": True},
    "families": {"families": ("unix", "inet")},
    "connect_ports": {"connect_ports": (25,)},
    "executables": {"executables": ("shell",)},
    "processes_may_fork": {"processes_may_fork": True},
    "new_code": {"new_code": "linked"},
    "memory_bytes": {"memory_bytes": CORE.memory_bytes + 1},
    "cpu_seconds": {"cpu_seconds": CORE.cpu_seconds + 1},
    "processes": {"processes": CORE.processes + 1},
    "open_files": {"open_files": CORE.open_files + 1},
    "file_bytes": {"file_bytes": 1},
    "output_bytes": {"output_bytes": CORE.output_bytes + 1},
    "stderr_bytes": {"stderr_bytes": CORE.stderr_bytes + 1},
    "deadline_seconds": {"deadline_seconds": CORE.deadline_seconds + 1},
    "reuse": {"reuse": "one start"},
    "grants": {"grants": ("memfd",)},
}


def with_profile(profile: Profile) -> Compiled:
    """Return the shipped policy as a program with this profile would compile it."""
    return compile_policy(policy_files(), gates={**GATES, profile.name: profile_rules(profile)})


@contextmanager
def opened(base: Path) -> Iterator[Workspace]:
    ws = open_workspace(base / "ws", clock=Clock())
    try:
        yield ws
    finally:
        ws.close()


def with_gate(name: str, change: Callable[[dict[str, Any]], None]) -> Compiled:
    profile = {key: list(v) if isinstance(v, list) else v for key, v in GATES[name].items()}
    change(profile)
    return compile_policy(policy_files(), gates={**GATES, name: profile})


def test_every_field_of_a_profile_has_a_direction() -> None:
    known = {field.name for field in PROFILE.fields}
    of_profiles = {field.name for field in fields(Profile)} - {"name", "purpose"}
    assert of_profiles <= known
    assert of_profiles == WIDER.keys()
    assert {field for profile in GATES.values() for field in profile} == known


@pytest.mark.parametrize("field", WIDER)
# claim TG-C-07
def test_widening_a_profile_is_a_capability_change(field: str) -> None:
    wider = replace(CORE, **WIDER[field])
    (change,) = diff(POLICY, with_profile(wider))
    assert change.effect == "widens"
    assert change.path.startswith(f"gates/core/{field}")
    assert change.sentence.startswith("gates core")
    (back,) = diff(with_profile(wider), POLICY)
    assert back.effect == "narrows"


@pytest.mark.parametrize("field", WIDER)
# claim TG-C-35
def test_a_wider_box_than_the_signed_one_is_not_started(field: str) -> None:
    refuse_unapplied_profile(POLICY, CORE)  # control: the signed one is
    wider = replace(CORE, **WIDER[field])
    with pytest.raises(GateUnavailable) as caught:
        refuse_unapplied_profile(POLICY, wider)
    assert (caught.value.code, caught.value.exit_code) == ("TG-BOX-040", 69)
    assert "policy apply" in caught.value.hint
    refuse_unapplied_profile(with_profile(wider), wider)  # once it is signed, it is
    refuse_unapplied_profile(with_profile(wider), CORE)  # narrower than signed is within it


def test_another_place_inside_is_something_else_and_refused() -> None:
    moved = replace(CORE, binds=(Bind("inputs", "/etc", "directory"), *CORE.binds[1:]))
    assert {change.effect for change in diff(POLICY, with_profile(moved))} == {"widens", "narrows"}
    with pytest.raises(GateUnavailable, match="inputs at /etc"):
        refuse_unapplied_profile(POLICY, moved)


def test_a_gate_the_policy_has_never_seen_is_not_started() -> None:
    without = compile_policy(policy_files(), gates={k: v for k, v in GATES.items() if k != "core"})
    (change,) = diff(without, POLICY)
    assert (change.path, change.effect) == ("gates/core", "widens")
    with pytest.raises(GateUnavailable, match="not the signed one"):
        refuse_unapplied_profile(without, CORE)
    refuse_unapplied_profile(without, PROXY)


@pytest.mark.parametrize(
    ("name", "edit", "refused"),
    [
        ("every-gate", lambda p: p["forbidden_calls"].append("accept4"), []),
        ("every-gate", lambda p: p["forbidden_calls"].remove("ptrace"), ["widens"]),
        (worker.NAME, lambda p: p["calls"].append("socket"), ["widens"]),
        (worker.NAME, lambda p: p.update(memory_bytes=2**31), ["widens"]),
        (worker.NAME, lambda p: p["calls"].remove("poll"), []),
    ],
)
# claim TG-C-35
def test_common_rules_and_the_worker_are_signed_too(
    name: str, edit: Callable[[dict[str, Any]], None], refused: list[str]
) -> None:
    def sorted_edit(profile: dict[str, Any]) -> None:
        edit(profile)
        profile.update({k: sorted(v) for k, v in profile.items() if isinstance(v, list)})

    changed = with_gate(name, sorted_edit)
    effects = [change.effect for change in diff(POLICY, changed)]
    assert effects == (refused or ["narrows"])
    # What the program has is what `POLICY` holds: against `changed` it is the other way round.
    if refused:
        refuse_unapplied_profile(changed, TOOL_LITE)
    else:
        with pytest.raises(GateUnavailable, match=name):
            refuse_unapplied_profile(changed, TOOL_LITE)
    if name == worker.NAME:
        refuse_unapplied_profile(changed, CORE)  # no worker in its box


def test_words_for_people_are_not_signed() -> None:
    assert diff(POLICY, with_profile(replace(CORE, purpose="thinks"))) == []


def test_a_field_of_another_version_is_read_and_shown_as_a_change() -> None:
    newer = with_gate("core", lambda profile: profile.update(swap_bytes=0, hugepages=["2M"]))
    stored = parse_bundle(newer.bundle().bundle_bytes())
    found = {change.path: change for change in diff(stored, POLICY)}
    assert found.keys() == {"gates/core/swap_bytes", "gates/core/hugepages"}
    assert {change.effect for change in found.values()} == {"changes"}
    assert "swap_bytes now unknown, before 0" in found["gates/core/swap_bytes"].sentence
    with pytest.raises(GateUnavailable, match=r"swap_bytes|hugepages"):
        refuse_unapplied_profile(stored, CORE)
    older = with_gate("core", lambda profile: profile.pop("reuse") and None)
    (change,) = diff(parse_bundle(older.bundle().bundle_bytes()), POLICY)
    assert (change.path, change.effect) == ("gates/core/reuse", "changes")
    with pytest.raises(GateUnavailable, match="reuse now one job, before unknown"):
        refuse_unapplied_profile(older, CORE)


def test_all_profiles_are_in_the_section_and_start_under_the_shipped_policy() -> None:
    assert program_gates().keys() == {*PROFILES, worker.NAME, gate_profiles.EVERY_GATE}
    for profile in PROFILES.values():
        refuse_unapplied_profile(POLICY, profile)


def test_an_upgraded_program_starts_nothing_wider_until_the_operator_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workspace(tmp_path).close()
    wider = replace(FETCH_NORMALIZE, memory_bytes=FETCH_NORMALIZE.memory_bytes * 2)
    monkeypatch.setitem(PROFILES, wider.name, wider)
    with opened(tmp_path) as ws:
        (change,) = diff(ws.bundle, edited(ws))
        assert (change.path, change.effect) == ("gates/fetch-normalize/memory_bytes", "widens")
        assert change.sentence.endswith("memory of a process now 4GiB, before 2GiB")
        with pytest.raises(GateUnavailable):
            refuse_unapplied_profile(ws.bundle, wider)
        refuse_unapplied_profile(ws.bundle, MODEL_SERVER)
        # Changing signers signs no box nobody has looked at, and needs none to be signed.
        more = ws.bundle.signers.add(AllowedSigner("second", public_of("second")))
        kept = change_signers(ws, more, soft_signer(), op="key-add")
        assert kept.sections["gates"] == ws.bundle.sections["gates"]
    with opened(tmp_path) as ws:
        assert ws.bundle.generation == 2
        apply_policy(ws, edited(ws), soft_signer(), op="policy.apply")
    with opened(tmp_path) as ws:
        refuse_unapplied_profile(ws.bundle, wider)
        told = [str(entry.data) for entry in ws.store.journal.log.entries()]
        assert any("gates/fetch-normalize/memory_bytes" in data for data in told)
