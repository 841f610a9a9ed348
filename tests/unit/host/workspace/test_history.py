"""Entries for people: the right ones, and one line each."""

from typing import Any

from tests.support.samples import packet
from tests.support.workspaces import take_in
from threegate.audit.entry import Entry
from threegate.handoff.records import INTENT
from threegate.host.workspace.text_form import entry_line, history
from threegate.host.workspace.workspace import Workspace


def sequence(ws: Workspace, wanted: str | None = None, *, limit: int, skip: int = 0) -> list[int]:
    log = ws.store.journal.log
    found, _ = history(log, wanted, limit=limit, skip=skip, progress=lambda _: None)
    return [entry.seq for entry in found]


def test_the_newest_come_first_page_oldest_of_them_first(ws: Workspace) -> None:
    last = ws.store.journal.log.head.seq
    assert sequence(ws, limit=2) == [last - 1, last]
    assert sequence(ws, limit=2, skip=2) == [last - 3, last - 2]
    assert sequence(ws, limit=100) == list(range(last + 1))
    assert sequence(ws, limit=3, skip=last) == [0]
    assert sequence(ws, limit=3, skip=100) == []


def test_entries_of_one_artifact_only(ws: Workspace) -> None:
    first, second = take_in(ws, packet("One."), packet("Two."))
    (again,) = take_in(ws, packet("Three."))
    found = {name: sequence(ws, name, limit=10) for name in (first, second, again)}
    assert all(len(seqs) == 1 for seqs in found.values())
    assert len({seq for seqs in found.values() for seq in seqs}) == 3
    _, total = history(
        ws.store.journal.log, first, limit=10, skip=0, progress=lambda _: None
    )  # fmt: skip
    assert total == 1


def entry(kind: str, **data: object) -> Entry:
    return Entry(7, "2026-11-15T12:00:00Z", kind, data, "0" * 64, "1" * 64)


def test_a_line_says_what_was_done_to_what() -> None:
    put = entry("intent", op="admit", act="put", name="rp-1.md", to="handoff/x", n=1, of=2)
    move = entry(
        "intent", op="held", act="move", name="fr-1.md", **{"from": "a"}, to="b", n=0, of=1
    )
    assert entry_line(put) == "admit: put rp-1.md handoff/x (2 of 2)"
    assert entry_line(move) == "held: move fr-1.md a -> b"
    assert entry_line(entry("outcome", first=3, last=4, usage={})) == "entries 3 to 4 done"
    back = entry("recovered", first=3, last=4, usage={}, direction="back")
    assert entry_line(back) == "entries 3 to 4 done, back"
    assert entry_line(entry("checkpoint", size=4, root="ab")) == "size=4  root=ab"


def test_an_entry_of_tomorrow_is_told_too() -> None:
    assert entry_line(entry("new-kind", names=["a", "b"], who="x")) == "names=2 items  who=x"
    assert entry_line(entry("intent")).startswith("None: ")


def test_a_packet_is_told_with_where_it_came_from() -> None:
    put = {
        "op": "fetch",
        "act": "put",
        "name": "rp-1.md",
        "to": "handoff/packets/accepted",
        "of": 1,
    }
    urls = ["https://api.crossref.org/works/1", "https://api.openalex.org/works/1"]
    entry = Entry(1, "", INTENT, {**put, "detail": {"urls": urls}}, "", "")
    assert entry_line(entry).endswith(
        "handoff/packets/accepted from https://api.crossref.org/works/1 and 1 more"
    )
    strange: tuple[Any, ...] = ({}, {"urls": []}, {"urls": "https://x"}, None)
    for odd in strange:
        assert entry_line(Entry(1, "", INTENT, {**put, "detail": odd}, "", "")).endswith("accepted")
