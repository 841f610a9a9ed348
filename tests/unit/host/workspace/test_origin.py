from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tests.support.holdings import paper
from tests.support.normalization import edited, fetched, retrieval
from tests.support.workspaces import Clock, fetched_in, make_workspace, soft_signer, take_in
from threegate.artifacts import registry
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import Packets, Vouched, admit
from threegate.handoff.verify import Finding
from threegate.host.workspace.backup import backup
from threegate.host.workspace.index import Index, remove_index
from threegate.host.workspace.index_audit import verify_derived
from threegate.host.workspace.packets import BROUGHT, RETRIEVED, UNKNOWN, logged_origins
from threegate.host.workspace.removal import forget, withdraw
from threegate.host.workspace.restore import restore
from threegate.host.workspace.workspace import Workspace, open_workspace


def origins(ws: Workspace) -> dict[str, str]:
    """Return what the index says of every packet, and the log as well."""
    index = Index(ws.store, ws.seals)
    try:
        index.catch_up()
        found = {one: index.origin(one).name for one in ws.store.ids("rp")}
    finally:
        index.close()
    said = logged_origins(ws.store)
    assert {one: said(one).name for one in found} == found
    return found


# claim TG-C-402
def test_the_origin_is_read_from_the_log_again_and_after_a_restore(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    kept = fetched(ws.store, retrieval())
    (brought,) = take_in(ws, paper(1, "Ice."))
    expected = {kept: RETRIEVED, brought: BROUGHT}
    assert origins(ws) == expected
    remove_index(ws.root)
    assert origins(ws) == expected, "made again from the log"
    backup(ws, tmp_path / "ws.tar")
    restore(tmp_path / "ws.tar", tmp_path / "again", clock=Clock())
    again = open_workspace(tmp_path / "again", clock=Clock())
    try:
        assert origins(again) == expected
    finally:
        again.close()


def test_a_withdrawn_packet_keeps_its_origin_and_a_forgotten_one_leaves_none(
    ws: Workspace,
) -> None:
    kept = fetched(ws.store, retrieval())
    withdrawn, forgotten = fetched_in(ws, paper(1, "Ice."), paper(2, "Snow."))
    with closing(Index(ws.store, ws.seals)) as index:
        index.catch_up()
        withdraw(ws, index, withdrawn, "wrong")
        forget(ws, index, forgotten, "private", soft_signer())

    def rows() -> list[tuple[str, str]]:
        with closing(Index(ws.store, ws.seals)) as index:
            index.catch_up()
            query = "SELECT id, name FROM origins ORDER BY id"
            return [(str(one), str(name)) for one, name in index.database.execute(query)]

    def findings() -> list[Finding]:
        return list(verify_derived(ws.store, ws.seals, lambda _: None))

    expected = sorted([(kept, RETRIEVED), (withdrawn, RETRIEVED)])
    assert (rows(), findings()) == (expected, []), "followed entry by entry"
    remove_index(ws.root)
    assert (rows(), findings()) == (expected, []), "made again from the log"


def test_a_packet_that_the_log_does_not_know_is_brought(ws: Workspace, index: Index) -> None:
    unknown = f"rp-{'0' * 64}"
    assert (index.origin(unknown), logged_origins(ws.store)(unknown)) == (UNKNOWN, UNKNOWN)


def test_only_packets_whose_record_is_here_are_compared(ws: Workspace) -> None:
    fetched(ws.store, retrieval())
    asked: list[str] = []

    def compare(packets: Packets) -> Mapping[str, Vouched | ArtifactRejected]:
        asked.extend(packets)
        return {}

    others = [registry.emit(paper(number, "Ice.")) for number in range(1, 100)]
    known = edited(retrieval().packet, "1.31", "9.31")
    items = [Untrusted(data) for data in (*others, known, retrieval().data)]
    told = list(admit(ws.store, items, now=ws.now, compare=compare))
    assert asked == [told[-2].id], "not those without a record, not the one that is here"
