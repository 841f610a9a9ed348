"""The kept index is compared with files and log by sums over rows, in bounded memory."""

import tracemalloc
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest

from tests.support.samples import fetch_request, packet_of_size
from tests.support.workspaces import fetched_in, take_in
from threegate.host.workspace.index import Index
from threegate.host.workspace.index_audit import _is_same, _RowSums, verify_derived
from threegate.host.workspace.removal import withdraw
from threegate.host.workspace.workspace import Workspace

FEW, MANY = 1_100, 2_400  # more than one segment of the log, which is read as a whole
FLAT_BYTES = 100_000


def quiet(_: int) -> None:
    pass


def filled(ws: Workspace, count: int, start: int = 0) -> Index:
    take_in(ws, *(packet_of_size(number, 2500) for number in range(start, count)))
    index = Index(ws.store, None)  # a private one
    index.catch_up()
    return index


def peak_of(act: Callable[[], object]) -> int:
    tracemalloc.start()
    act()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_the_comparison_holds_no_list_of_artifacts(ws: Workspace) -> None:
    peaks, lists, store = [], [], ws.store
    for start, end in ((0, FEW), (FEW, MANY)):
        with closing(filled(ws, end, start)) as index:
            db = index.database
            assert _is_same(store, db, quiet), "control; and caches are filled now"
            peaks.append(peak_of(partial(_is_same, store, db, quiet)))
            lists.append(peak_of(lambda: sorted(store.ids("rp"))))
    assert abs(peaks[1] - peaks[0]) < FLAT_BYTES
    assert lists[1] - lists[0] > FLAT_BYTES, "control: a list of all ids is seen to grow"


EDITS = {
    "another title": "UPDATE artifacts SET title = title || '.' WHERE number = 2",
    "a text exchanged": "UPDATE texts SET rowid = -rowid",
    "a number as text": "UPDATE names SET retracted = 'no'",
    "the other origin": "UPDATE origins SET name = 'retrieved'",
    "a source exchanged": "UPDATE sources SET parent = parent || '0'",
    "a digest exchanged": "UPDATE contents SET digest = id",
    "a text of nobody": "INSERT INTO texts (rowid, title, body) VALUES (99, 'a', 'b')",
    "an origin of nobody": "INSERT INTO origins VALUES ('rp-0', 'retrieved', '', 0)",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_any_other_row_is_found(ws: Workspace, edit: str) -> None:
    take_in(ws, fetch_request())
    with closing(filled(ws, 3)) as index:
        assert _is_same(ws.store, index.database, quiet), "control"
        assert index.database.execute(edit).rowcount > 0
        assert not _is_same(ws.store, index.database, quiet)


def test_withdrawn_artifacts_and_files_beside_others_are_taken_into_account(ws: Workspace) -> None:
    first, _ = fetched_in(ws, packet_of_size(1, 2500), packet_of_size(2, 2500))
    (request,) = take_in(ws, fetch_request())
    with closing(Index(ws.store, ws.seals)) as index:
        index.catch_up()
        withdraw(ws, index, first, "wrong")
        ws.store.move(request, source="held", to="denied", op="deny")
        index.catch_up()
    seen: list[int] = []
    assert verify_derived(ws.store, ws.seals, seen.append) == []
    assert seen == [1, 2, 3]


def test_sums_depend_on_the_key_the_table_and_how_often_a_row_comes() -> None:
    def sums(key: bytes, *rows: tuple[str, tuple[object, ...]]) -> dict[str, int]:
        made = _RowSums(key)
        for table, row in rows:
            made.add(table, row)
        return made.sums

    one, two = ("names", ("a", 1)), ("names", ("b", None))
    assert sums(b"k", one, two) == sums(b"k", two, one), "control: the order has no effect"
    others = [
        sums(b"l", one, two),
        sums(b"k", one),
        sums(b"k", one, two, two),
        sums(b"k", ("sources", one[1]), two),
        sums(b"k", ("names", ("a", "1")), two),
    ]
    assert sums(b"k", one, two) not in others
