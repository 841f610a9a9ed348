"""A gate, or another account, looks for derived files, seals, keys, budgets and foreign sockets.

`tests/support/inside_payload.py` is the attacker's code.  The same code runs inside each gate's
sandbox, as another account, and as the control with the rights of the owner.
"""

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.boxes import IS_ROOT, STARTERS, run_as
from tests.support.cli import Cli
from tests.support.inside_payload import Scene
from tests.support.inside_scenes import another_run, scene_of
from threegate.sandbox.attacks.base import UNIX, WORKER
from threegate.sandbox.attacks.runner import EVERY_PROFILE

SCENES = "tests.support.inside_scenes"
OPTIONAL = ("runsc-kernel", "runsc-files", "run-proxy")  # as in `test_sandbox_escape.py`
GATES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in OPTIONAL else [])
    for name in EVERY_PROFILE
]
OWN = "search for own code"
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can act for another account")
Told = dict[str, str]


@cache
def looked_inside(who: str, optional: bool) -> dict[str, Told]:
    """Start each gate once, in one process of the account `who`."""
    names = [name for name in EVERY_PROFILE if (name in OPTIONAL) is optional]
    ran = run_as(who, f"{SCENES}:inside", *names)
    assert ran.code == 0, ran.err
    found: dict[str, Told] = json.loads(ran.out.splitlines()[-1])
    return found


@pytest.mark.parametrize("who", STARTERS)
@pytest.mark.parametrize("gate", GATES)
# claim TG-C-493
def test_code_inside_a_gate_finds_no_derived_file_seal_key_budget_or_foreign_socket(
    gate: str, who: str
) -> None:
    found = looked_inside(who, gate in OPTIONAL)
    control, told = found["control"], dict(found[gate])
    assert set(control.values()) == {"worked"}, "control: outside, each attempt works"
    assert len(control) == 36
    assert told.keys() == control.keys(), "every attempt was made"
    own = told.pop(OWN)
    if gate == WORKER:  # the lock of the worker refuses the calls themselves
        assert set(told.values()) == {"EACCES", "SIGSYS", "ENOENT"}
        assert {name for name, why in told.items() if why == "ENOENT"} == {"search for all"}
        return
    assert own == "worked", "control: a search inside finds what is in view"
    assert told.pop("connect socket") == ("ENOENT" if gate in UNIX else "EACCES")
    assert set(told.values()) == {"ENOENT"}, told


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that every account can enter and list, as some distributions make it."""
    with tempfile.TemporaryDirectory(prefix="threegate-home-") as name:
        home = Path(name)
        home.chmod(0o755)
        yield home


def owned(home: Path, state: str) -> Scene:
    ran = run_as("root", f"{SCENES}:owner", str(home), state)
    assert ran.code == 0, ran.err
    return scene_of(home)


def attacked(who: str, scene: Scene) -> Told:
    ran = run_as(who, f"{SCENES}:attacker", json.dumps(scene))
    assert ran.code == 0, ran.err
    found: Told = json.loads(ran.out.splitlines()[-1])
    return found


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


@needs_root
# claim TG-C-494
def test_another_account_reads_and_replaces_no_derived_file_seal_key_or_budget(
    home: Path,
) -> None:
    """The commands ran with a umask that closes nothing."""
    with another_run(owned(home, "used")) as scene:
        scene["own"] = scene["inodes"][0]
        told, control = (attacked(who, scene) for who in ("ordinary user", "root"))
        assert set(control.values()) == {"worked"}, "control: the owner can do all of it"
        assert {told.pop(name) for name in ("search for all", OWN)} == {"ENOENT"}
        assert set(told.values()) == {"EACCES"}, told
        assert {mode(path) for path in scene["files"].values()} == {0o600}
        assert {mode(path) for path in scene["directories"].values()} == {0o700}
    made = [path for path in home.rglob("*") if path.name != "ws" and not path.is_symlink()]
    above = [path for path in made if path.is_dir() and home / "ws" not in path.parents]
    assert len(above) >= 6, "control: the directories that lead to them are found"
    assert {mode(path) & 0o022 for path in made} == {0}, "no file or directory can be written"
    assert {mode(path) for path in above} == {0o700}


@needs_root
# claim TG-C-495
def test_another_account_claims_no_name_before_its_owner_uses_it(
    home: Path,
) -> None:
    """After `init` most files do not exist; another account tries to make them first."""
    early = owned(home, "new") | {"early": True}
    absent = {name for name, path in early["files"].items() if not os.path.lexists(path)}
    assert len(absent) == 6, "control: only the operator's key exists"
    side = ("", ".new", "-journal")
    names = {f"{name}{end}": f"{early['files'][name]}{end}" for name in absent for end in side}
    told = attacked("ordinary user", early | {"files": names})
    assert (len(told), set(told.values())) == (18, {"EACCES"})
    assert set(attacked("root", early | {"files": names}).values()) == {"worked"}, "control"


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
# claim TG-C-495
def test_init_refuses_a_directory_in_which_others_can_claim_names(
    tmp_path: Path, mode: int
) -> None:
    threegate, place = Cli(tmp_path), tmp_path / "place"
    place.mkdir()
    place.chmod(mode)
    ended = threegate("init", place, code=os.EX_UNAVAILABLE)
    assert f"other accounts can write to {place}" in ended.err
    assert "chmod go-w" in ended.err
    assert os.listdir(place) == []
    place.chmod(mode & 0o755)
    threegate("init", place)
    threegate("-w", place, "status")  # control: closed, it is usable
