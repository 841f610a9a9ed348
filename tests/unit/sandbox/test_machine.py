"""What a uid that is nobody's can reach decides what root must stage for it."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from threegate.base.errors import GateUnavailable
from threegate.sandbox.box import Start
from threegate.sandbox.launch import staged
from threegate.sandbox.machine import FIRST_GATE_UID, find_machine, gate_uid, reachable
from threegate.sandbox.profiles import PROFILES, Profile
from threegate.sandbox.session import run_gate


@pytest.fixture
def tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "open").mkdir(mode=0o755)
        (root / "open" / "file").write_bytes(b"")
        (root / "open" / "file").chmod(0o644)
        yield root


def test_what_everybody_can_open_is_reachable(tree: Path) -> None:
    assert reachable(tree / "open")
    assert reachable(tree / "open" / "file")


def test_a_closed_directory_anywhere_above_is_enough(tree: Path) -> None:
    (tree / "open" / "below").mkdir(mode=0o755)
    (tree / "open").chmod(0o750)
    known: dict[str, bool] = {}
    assert not reachable(tree / "open" / "file", passable=known)
    assert not reachable(tree / "open" / "below", passable=known)
    assert known == {str(tree / "open"): False}
    (tree / "open").chmod(0o755)
    assert reachable(tree / "open" / "file"), "control"


def test_a_file_or_directory_closed_itself_is_not(tree: Path) -> None:
    (tree / "open" / "file").chmod(0o640)
    assert not reachable(tree / "open" / "file")
    (tree / "open").chmod(0o751)  # may be entered, not listed
    assert not reachable(tree / "open")
    assert not reachable(tree / "nothing")


def test_only_what_is_hidden_is_staged_once_each(tree: Path) -> None:
    hidden = tree / "open" / "file"
    hidden.chmod(0o600)
    sources = [str(tree / "open"), str(hidden), str(hidden), "/usr"]
    assert staged(sources) == {str(hidden): "/run/0"}


def test_each_gate_has_a_uid_of_its_own_that_is_nobodys() -> None:
    uids = [gate_uid(name) for name in PROFILES]
    assert len(set(uids)) == len(PROFILES)
    assert min(uids) == FIRST_GATE_UID


def test_a_uid_that_belongs_to_somebody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        pw_name = "ada"

    monkeypatch.setattr("threegate.sandbox.machine.pwd.getpwuid", lambda _: Entry)
    with pytest.raises(GateUnavailable, match="belongs to ada") as caught:
        gate_uid("core")
    assert caught.value.code == "TG-BOX-012"
    Entry.pw_name = "threegate-core"
    assert gate_uid("core")


def test_a_kernel_without_landlock_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_machine().landlock_abi >= 1  # control
    monkeypatch.setattr("threegate.sandbox.machine.kernel.abi", lambda: 0)
    with pytest.raises(GateUnavailable, match="no Landlock") as caught:
        find_machine()
    assert caught.value.code == "TG-BOX-011"


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda p: p.name)
# claim TG-C-61
def test_a_kernel_that_cannot_hold_ports_starts_no_gate_with_the_hosts_network(
    profile: Profile,
) -> None:
    new, old = (replace(find_machine(), landlock_abi=abi) for abi in (4, 3))
    new.refuse_uncarried(profile)  # control
    if not profile.host_network:
        old.refuse_uncarried(profile)
        return
    start = Start(profile, "threegate.sandbox.channel:echo", {})
    with pytest.raises(GateUnavailable, match="to its ports") as caught:
        run_gate(old, start, b"")
    assert caught.value.code == "TG-BOX-013"
