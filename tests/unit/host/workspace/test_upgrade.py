"""Upgrading with migrations of the test's own: audited, repeatable, resumed after any crash."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.crash import TURNING, deaths
from tests.support.samples import packet
from tests.support.workspaces import Clock, findings, make_workspace, take_in
from threegate.artifacts.ids import sha256_hex
from threegate.audit.verify import verify_log
from threegate.base.errors import StorageFailed, VersionUnsupported, WorkspaceUnusable
from threegate.handoff import states
from threegate.handoff.journal import Put, Remove
from threegate.host.workspace.setup import (
    DONE,
    MIGRATIONS,
    STEP,
    Migration,
    Step,
    Upgrade,
    Upgraded,
    upgrade,
)
from threegate.host.workspace.workspace import (
    VERSION,
    Marker,
    open_workspace,
    read_marker,
    write_marker,
)

BLOBS = [b"one", b"two"]


def add_blobs(context: Upgrade) -> None:
    """Change files the way all of the host does: in the journal."""
    puts = [Put(states.BLOBS, sha256_hex(data), data) for data in BLOBS]
    context.journal.run("upgrade", puts)


def drop_one(context: Upgrade) -> None:
    name = sha256_hex(BLOBS[0])
    if name in os.listdir(context.root / states.BLOBS):
        context.journal.run("upgrade", [Remove(states.BLOBS, name)])


def write_file(context: Upgrade) -> None:
    (context.root / "new-in-3").write_text("once")


def make_directory(root: Path) -> None:
    (root / "new-in-2").mkdir(exist_ok=True)


TABLE = {
    1: Migration(
        2,
        "blobs",
        (Step("add-blobs", add_blobs), Step("drop-one", drop_one)),
        prepare=make_directory,
    ),
    2: Migration(3, "a file", (Step("write-file", write_file),)),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    ws = make_workspace(tmp_path)
    take_in(ws, packet())
    ws.close()
    return ws.root


def events(root: Path) -> list[str]:
    """Return every upgrade event, in order, of a log that verifies."""
    found: list[str] = []

    def visit(entry: object) -> None:
        kind, data = getattr(entry, "kind", ""), getattr(entry, "data", {})
        if kind == STEP:
            found.append(f"{data['from']}-{data['to']} {data['step']} {data['state']}")
        elif kind == DONE:
            found.append(f"{data['from']}-{data['to']}")

    assert verify_log(root / "audit", visit=visit).problem is None
    return found


WHOLE = [
    "1-2 add-blobs started",
    "1-2 add-blobs done",
    "1-2 drop-one started",
    "1-2 drop-one done",
    "1-2",
    "2-3 write-file started",
    "2-3 write-file done",
    "2-3",
]


def assert_migrated(root: Path) -> None:
    assert read_marker(root, newest=3).version == 3
    assert os.listdir(root / states.BLOBS) == [sha256_hex(BLOBS[1])]
    assert (root / "new-in-3").read_text() == "once"
    assert (root / "new-in-2").is_dir()
    assert findings(root) == []


def test_today_there_is_nothing_to_do(root: Path) -> None:
    before = (root / "threegate.json").read_bytes()
    assert MIGRATIONS == {}
    assert upgrade(root, clock=Clock()) == Upgraded(VERSION, VERSION, ())
    assert (root / "threegate.json").read_bytes() == before
    assert events(root) == []


def test_every_step_runs_once_and_is_recorded(root: Path) -> None:
    told: list[str] = []
    done = upgrade(root, TABLE, clock=Clock(), progress=told.append)
    assert done == Upgraded(1, 3, ("add-blobs", "drop-one", "write-file"))
    assert told == ["version 1 to 2: blobs", "version 2 to 3: a file"]
    assert events(root) == WHOLE
    assert_migrated(root)


def test_identity_is_kept(root: Path) -> None:
    before = read_marker(root)
    upgrade(root, TABLE, clock=Clock())
    assert read_marker(root, newest=3) == Marker(before.id, before.created, 3)


def test_running_again_does_nothing(root: Path) -> None:
    upgrade(root, TABLE, clock=Clock())
    log = events(root)
    (root / "new-in-3").write_text("changed since")
    assert upgrade(root, TABLE, clock=Clock()) == Upgraded(3, 3, ())
    assert events(root) == log
    assert (root / "new-in-3").read_text() == "changed since"


def test_workspace_newer_than_the_table_is_refused(root: Path) -> None:
    upgrade(root, TABLE, clock=Clock())
    for call in (lambda: upgrade(root, clock=Clock()), lambda: open_workspace(root)):
        with pytest.raises(VersionUnsupported) as caught:
            call()
        assert (caught.value.code, caught.value.exit_code) == ("TG-VER-001", 78)
        assert caught.value.hint


def test_version_without_a_way_is_refused_and_left_alone(root: Path) -> None:
    with pytest.raises(VersionUnsupported, match="cannot upgrade from workspace version 1"):
        upgrade(root, {2: TABLE[2]}, clock=Clock())
    assert read_marker(root).version == 1
    assert events(root) == []


def test_what_is_no_workspace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceUnusable):
        upgrade(tmp_path / "nowhere", TABLE, clock=Clock())
    with pytest.raises(WorkspaceUnusable):
        upgrade(tmp_path, TABLE, clock=Clock())


def test_failing_step_leaves_the_version_and_is_tried_again(root: Path) -> None:
    broken = {"disk": True}

    def fails(context: Upgrade) -> None:
        if broken["disk"]:
            raise StorageFailed("no room")
        write_file(context)

    table = {**TABLE, 2: Migration(3, "a file", (Step("write-file", fails),))}
    with pytest.raises(StorageFailed):
        upgrade(root, table, clock=Clock())
    assert read_marker(root, newest=3).version == 2, "control: the first migration went through"
    broken["disk"] = False
    assert upgrade(root, table, clock=Clock()) == Upgraded(2, 3, ("write-file",))
    assert events(root) == [*WHOLE[:6], *WHOLE[5:]]
    assert_migrated(root)


def test_kill_at_any_turn_is_resumed(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(root, kept)
    versions = set()

    def prepare() -> None:
        shutil.rmtree(root)
        shutil.copytree(kept, root)

    def action() -> None:
        upgrade(root, TABLE, clock=Clock())

    for death in deaths(action, prepare, TURNING):
        versions.add(read_marker(root, newest=3).version)
        upgrade(root, TABLE, clock=Clock())
        assert_migrated(root)
        found = events(root)
        # A step that was cut off starts twice; nothing else happens twice, or out of order.
        assert list(dict.fromkeys(found)) == WHOLE, death
        assert len(found) <= len(WHOLE) + 1, death
    assert versions == {1, 2, 3}, "killed before, between and after the migrations"


def test_step_that_was_done_is_not_repeated(root: Path) -> None:
    count = {"runs": 0}

    def counting(context: Upgrade) -> None:
        count["runs"] += 1
        add_blobs(context)

    def dies(_: Upgrade) -> None:
        raise KeyboardInterrupt

    first = Step("add-blobs", counting)
    with pytest.raises(KeyboardInterrupt):
        upgrade(root, {1: Migration(2, "x", (first, Step("drop-one", dies)))}, clock=Clock())
    done = upgrade(root, {1: Migration(2, "x", (first, TABLE[1].steps[1]))}, clock=Clock())
    assert done.steps == ("drop-one",)
    assert count["runs"] == 1


def test_end_that_a_crash_kept_from_the_log_is_recorded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    table = {1: Migration(2, "a file", (Step("write-file", write_file),))}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("threegate.host.workspace.setup._record_end", interrupted)
        upgrade(root, table, clock=Clock())
    assert read_marker(root, newest=2).version == 2, "control: the marker was written"
    assert events(root)[-1] == "1-2 write-file done"
    assert upgrade(root, table, clock=Clock()) == Upgraded(2, 2, ())
    assert events(root)[-1] == "1-2"


def test_marker_from_the_future_is_refused_before_anything_runs(root: Path) -> None:
    marker = read_marker(root)
    write_marker(root, Marker(marker.id, marker.created, 4))
    with pytest.raises(VersionUnsupported):
        upgrade(root, TABLE, clock=Clock())
    assert events(root) == []
