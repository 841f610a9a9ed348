"""More attacks of the kind that deceived the index: between a look and a use, and after a kill.

The attacker writes to the workspace's files, not to the state directory.  Each test has the
control that the attack took effect in the file, or that the untouched file is kept.
"""

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.samples import box, packet
from tests.support.workspaces import keep_blob, make_workspace, soft_signer, take_in
from threegate.artifacts.research_packet import Identifier
from threegate.base.errors import HandoffTampered
from threegate.host.workspace import seal
from threegate.host.workspace.backup import silent
from threegate.host.workspace.derived import CHANGED, UNSEALED, Derived
from threegate.host.workspace.index import FILE, Index
from threegate.host.workspace.index_rows import SCHEMA as INDEX_SCHEMA
from threegate.host.workspace.removal import forget
from threegate.host.workspace.vectors import FILE as VECTORS
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import Workspace

NAME = ("doi", "10.5555/ice.7")
SCHEMA = "CREATE TABLE IF NOT EXISTS t (a TEXT);"


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def opened(ws: Workspace) -> Index:
    index = Index(ws.store, ws.seals)
    index.catch_up()
    return index


def edit(ws: Workspace, statement: str) -> None:
    with closing(sqlite3.connect(ws.root / FILE)) as db:
        assert db.execute(statement).rowcount > 0, "control: it changes something"
        db.commit()


def removed(ws: Workspace) -> None:
    (ws.root / FILE).unlink()


def edited(ws: Workspace) -> None:
    edit(ws, "DELETE FROM names")


@pytest.mark.parametrize("attack", [edited, removed])
# claim TG-C-490
def test_an_edit_between_the_last_look_and_a_decision_is_found(
    ws: Workspace, attack: Callable[[Workspace], None]
) -> None:
    names = (Identifier(NAME[0], box(NAME[1])),)
    (paper,) = take_in(ws, packet("Ice.", identifiers=names, retraction="retracted"))
    with closing(opened(ws)) as index:
        assert (index.same_work([NAME]), index.rebuilt) == ({paper: True}, None), "control"
        for _ in range(2):  # also for the second time in one command
            attack(ws)
            assert index.same_work([NAME]) == {paper: True}
            assert index.rebuilt == (CHANGED if attack is edited else None)
            attack(ws)
            assert not index.is_sound(), "a console catches up before it shows anything"
            index.catch_up()
            assert index.retracted() == [paper]


# claim TG-C-490
def test_an_edit_while_somebody_signs_destroys_no_raw_bytes_of_others(ws: Workspace) -> None:
    digest = keep_blob(ws, b"shared")
    first, second = take_in(
        ws, *(packet(text, raw_sha256=digest, raw_bytes=6) for text in ("One.", "Two."))
    )
    true, edits = soft_signer(), []

    class Slow:
        """A signer who is asked for a passphrase; meanwhile the index is edited."""

        def sign(self, message: bytes, namespace: str) -> bytes:
            edit(ws, "DELETE FROM sources WHERE parent LIKE 'blob-%'")
            edits.append(namespace)
            return true.sign(message, namespace)

        def __getattr__(self, name: str) -> object:
            return getattr(true, name)

    with closing(opened(ws)) as index:
        forget(ws, index, first, "because", Slow())
        assert edits, "control: edited after the last look"
        assert ws.store.has_blob(digest), f"{second} names them"
        assert index.rebuilt == CHANGED
        forget(ws, index, second, "because", true)
    assert not ws.store.has_blob(digest), "control: the last one takes them along"


def in_child(act: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# claim TG-C-491
def test_a_kill_while_pages_are_written_leaves_no_valid_seal(tmp_path: Path) -> None:
    path, seals = tmp_path / "x.sqlite", tmp_path / "seals"
    with closing(Derived(path, SCHEMA, seals)) as file, file.writing() as db:
        db.execute("INSERT INTO t VALUES ('whole')")
    with closing(Derived(path, SCHEMA, seals)) as file:
        assert file.discarded is None, "control: kept when nothing happens"

    def write() -> None:
        with Derived(path, SCHEMA, seals).writing():
            killed()  # the file has the times of its last seal still

    before = path.stat()
    assert in_child(write) == -signal.SIGKILL
    assert path.stat().st_ctime_ns == before.st_ctime_ns, "control: its times tell nothing"
    with closing(Derived(path, SCHEMA, seals)) as file:
        assert file.discarded == UNSEALED
        assert file.db.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_audit_verify_tells_a_killed_update_from_an_edit(ws: Workspace) -> None:
    take_in(ws, packet("Ice floats."))
    opened(ws).close()

    def verified() -> tuple[list[str], list[str]]:
        found = verify_workspace(ws.root, given=(), clock=ws.clock, progress=silent, seals=ws.seals)
        return [one.problem for one in found.findings], found.unfinished

    assert verified() == ([], []), "control"

    def write() -> None:
        with Derived(ws.root / FILE, INDEX_SCHEMA, ws.seals).writing():
            killed()

    assert in_child(write) == -signal.SIGKILL
    rebuilds = "the next command rebuilds it"
    assert verified() == ([], [f"{FILE}: {UNSEALED}; {rebuilds}"])
    opened(ws).close()
    assert verified() == ([], []), "and so it did"
    os.utime(ws.root / FILE)
    assert verified() == ([f"{CHANGED}; {rebuilds}"], []), "control: an edit is a difference"


@pytest.mark.parametrize("at", ["replace", "remove"])
# claim TG-C-492
def test_a_kill_while_a_file_is_written_again_leaves_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    path, seals = tmp_path / "x.sqlite", tmp_path / "seals"
    fresh = tmp_path / "x.sqlite.new"
    with closing(Derived(path, SCHEMA, seals)) as file, file.writing() as db:
        db.execute("INSERT INTO t VALUES ('canary')")

    def rewrite() -> None:
        monkeypatch.setattr(Path, "replace", killed)
        Derived(path, SCHEMA, seals).rewrite()

    assert in_child(rewrite) == -signal.SIGKILL
    assert b"canary" in fresh.read_bytes(), "control: the copy is there"
    assert path.exists(), "the file itself is never missing"
    if at == "remove":
        path.unlink()
    with closing(Derived(path, SCHEMA, seals)) as file:
        file.rewrite()
        assert not fresh.exists()


# claim TG-C-492
def test_forgetting_removes_a_copy_that_a_killed_command_left(ws: Workspace) -> None:
    (paper,) = take_in(ws, packet("A canary."))
    left = ws.root / f"{VECTORS}.new"
    left.write_bytes(b"canary")
    with closing(opened(ws)) as index:
        assert left.exists(), "control"
        forget(ws, index, paper, "because", soft_signer())
    assert not left.exists()


# claim TG-C-496
def test_a_file_that_is_hidden_while_the_index_is_rebuilt_ends_the_rebuild(ws: Workspace) -> None:
    (paper_id,) = take_in(ws, packet("Ice floats.", retraction="retracted"))
    opened(ws).close()
    path = ws.root / "handoff/packets/accepted" / f"{paper_id}.md"
    hidden = ws.root.parent / "hidden"
    path.rename(hidden)
    os.utime(ws.root / FILE)  # so that the next command rebuilds it
    for _ in range(2):  # no seal is left behind that the second command would believe
        with pytest.raises(HandoffTampered, match="is missing from handoff/packets/accepted"):
            opened(ws)
    hidden.rename(path)
    with closing(opened(ws)) as index:
        assert index.retracted() == [paper_id], "control: with the file in its place it is found"


# claim TG-C-482
def test_a_program_that_holds_the_lock_of_sqlite_gets_no_edit_sealed(ws: Workspace) -> None:
    work = ("doi", "10.5555/only.one")
    named = (Identifier(work[0], box(work[1])),)
    (paper_id,) = take_in(ws, packet("Ice floats.", identifiers=named))
    with closing(opened(ws)) as index:
        assert paper_id in index.same_work([work]), "control"
        take_in(ws, packet("Stars shine."))  # so that there is something to write
        path = ws.root / FILE
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM artifacts").fetchone()  # holds SQLite's lock
            writer = ThreadPoolExecutor(1)
            done = writer.submit(lambda: closing(opened(ws)).__enter__())
            with pytest.raises(TimeoutError):
                done.result(timeout=0.5)  # control: it waits for that lock
            data = path.read_bytes()
            path.write_bytes(data.replace(b"10.5555/only.one", b"10.5555/only.two"))
            assert path.read_bytes() != data, "control: edited while it waits"
            other.execute("ROLLBACK")
        done.result(timeout=60)
        writer.shutdown()
        assert paper_id in index.same_work([work])


# claim TG-C-482
def test_an_edit_on_another_machine_with_its_times_put_back_is_found(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in(ws, packet("Ice floats."))
    opened(ws).close()
    assert ws.seals is not None
    place = seal.seal_of(ws.seals, ws.root / FILE)
    monkeypatch.setattr(seal, "boot_id", lambda: "the next boot")
    with closing(opened(ws)) as index:
        assert index.rebuilt is None, "control: kept through a reboot"
    monkeypatch.setattr(seal, "boot_id", lambda: "the boot after that")
    edit(ws, "UPDATE artifacts SET title = 'Other'")
    sealed = json.loads(place.read_bytes())
    # As if the times had been set to the sealed ones, which a raw disk allows.
    place.write_text(json.dumps({**sealed, "file": seal.stat_of(ws.root / FILE)}))
    with closing(opened(ws)) as index:
        assert index.rebuilt == CHANGED
