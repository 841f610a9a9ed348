"""The index: derived, shared by commands at once, and built again when it is not usable."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.support.samples import packet, packet_of_size
from tests.support.workspaces import Clock, make_family, soft_signer, take_in
from threegate.artifacts.ids import digest_of
from threegate.base.errors import UsageError
from threegate.host.workspace.index import FILE, Index
from threegate.host.workspace.places import blobs_of, place_of, resolve
from threegate.host.workspace.removal import forget, withdraw
from threegate.host.workspace.workspace import Workspace, open_workspace

KINDS = ("rp", "an", "fr", "tr", "res", "ap")


def rows(index: Index) -> list[str]:
    return sorted(row.id for row in index.page(KINDS, state=None, limit=10_000, skip=0))


def test_commands_at_once_insert_every_row_once(ws: Workspace) -> None:
    expected = sorted(take_in(ws, *(packet_of_size(number, 2000) for number in range(300))))
    Index(ws.store, ws.seals).close()
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                other = open_workspace(ws.root, clock=Clock(), seals=ws.seals)
                index = Index(other.store, other.seals)
                index.catch_up()
                code = 0 if rows(index) == expected else 2
            finally:
                os._exit(code)
        pids.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 4
    index = Index(ws.store, ws.seals)
    index.catch_up()
    assert rows(index) == expected
    assert len(index.search("ice", ("rp",), limit=1000, skip=0)) == 300
    index.close()


def test_log_that_went_another_way_makes_it_anew(ws: Workspace, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(ws.root, kept)
    take_in(ws, packet("One history."))
    index = Index(ws.store, ws.seals)
    index.catch_up()
    index.close()
    other = open_workspace(kept, clock=Clock())
    (mine,) = take_in(other, packet("Another history."))
    for name in os.listdir(ws.root):
        if name.startswith(FILE):
            shutil.copy(ws.root / name, kept / name)
    index = Index(other.store, other.seals)
    index.catch_up()
    assert rows(index) == [mine]
    index.close()
    other.close()


def test_corrupt_file_is_built_again(ws: Workspace) -> None:
    (found,) = take_in(ws, packet("A sentence."))
    index = Index(ws.store, ws.seals)
    index.catch_up()
    path = ws.root / FILE
    with path.open("r+b") as file:
        for page in range(4096, path.stat().st_size, 4096):  # all but the first
            file.seek(page)
            file.write(b"\xff" * 4096)
    control = sqlite3.connect(path)
    with pytest.raises(sqlite3.DatabaseError):
        control.execute("SELECT * FROM artifacts").fetchall()
    control.close()
    (second,) = take_in(ws, packet("Another sentence."))
    index.catch_up()
    assert rows(index) == sorted([found, second])
    index.close()


def test_sources_survive_quarantine_and_a_new_index(ws: Workspace) -> None:
    family = make_family(ws)
    index = Index(ws.store, ws.seals)
    withdraw(ws, index, family.analysis, "because")
    index.reset()
    index.catch_up()
    found = index.derived_from(family.packet)
    assert found[0] == family.packet
    assert sorted(found) == sorted(family.ids())
    assert rows(index) == sorted([family.packet, family.fetch])
    index.close()


def test_raw_bytes_have_holders(ws: Workspace) -> None:
    family = make_family(ws, raw=b"the raw bytes")
    index = Index(ws.store, ws.seals)
    index.catch_up()
    (digest,) = blobs_of(ws.store.read(family.packet))
    assert index.holders_of(digest) == [family.packet]
    assert index.holders_of("0" * 64) == []
    index.close()


def test_short_id_finds_what_is_withdrawn_or_forgotten(ws: Workspace) -> None:
    family = make_family(ws)
    index = Index(ws.store, ws.seals)
    withdraw(ws, index, family.fetch, "because")
    forget(ws, index, family.later, "because", soft_signer())
    index.close()
    for artifact_id in (family.packet, family.fetch, family.later):
        assert resolve(ws.store, artifact_id[:18]) == artifact_id
    assert place_of(ws.store, family.fetch) == "handoff/quarantine"
    assert place_of(ws.store, family.later) is None
    for text in ("rp-000000000000", "rp-12", "blob-" + digest_of(family.packet), "../x"):
        with pytest.raises(UsageError):
            resolve(ws.store, text)
