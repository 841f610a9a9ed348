"""Edits of derived databases: each is found before the file is used, and changes no decision.

The attacker writes to the workspace's files with a SQLite of his own.  Control in each test: the
edit took effect in the file, and a host that accepted the file (its seal forged here, with the
rights of the state directory, which the attacker does not have) would be deceived.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.samples import box, digest, fetch_request, packet, packet_of_size
from tests.support.workspaces import (
    fetched_in,
    keep_blob,
    make_family,
    make_workspace,
    soft_signer,
    take_in,
)
from threegate.artifacts import registry
from threegate.artifacts.ids import short
from threegate.artifacts.research_packet import Identifier, ResearchPacket
from threegate.audit.entry import Entry
from threegate.base.untrusted import Untrusted
from threegate.gates.model.embedder.messages import VECTOR_BYTES
from threegate.handoff.admission import FETCH
from threegate.handoff.packet_admission import admit_packet
from threegate.host.ask.answer import TypedQuestion, answer_by_extracts
from threegate.host.provenance.headlines import answers_on_retracted, warnings
from threegate.host.report.sources import relabelled
from threegate.host.review.similar import find_earlier
from threegate.host.workspace.backup import silent
from threegate.host.workspace.derived import CHANGED, REBUILT, SCHEMA
from threegate.host.workspace.fetched import FILE as FETCHED
from threegate.host.workspace.fetched import FetchCache
from threegate.host.workspace.index import FILE, Index, remove_index
from threegate.host.workspace.index_audit import OTHER
from threegate.host.workspace.removal import forget, withdraw
from threegate.host.workspace.seal import Seal
from threegate.host.workspace.vectors import FILE as VECTORS
from threegate.host.workspace.vectors import VectorStore
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import Workspace

REQUESTS = ("draft", "held", "approved")


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def opened(ws: Workspace) -> Index:
    index = Index(ws.store, ws.seals)
    index.catch_up()
    return index


def edit(ws: Workspace, *statements: str) -> None:
    """Change the file as another program would, and put its times back."""
    path = ws.root / FILE
    before = path.stat()
    with closing(sqlite3.connect(path)) as db:
        changed = sum(max(0, db.execute(one).rowcount) for one in statements)
        db.commit()
    assert changed or any("CREATE" in one for one in statements), "control: it changes something"
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def forge_seal(ws: Workspace) -> None:
    """Seal the file as it is: what an attacker without the state directory cannot do."""
    assert ws.seals is not None
    with closing(Seal(ws.seals, ws.root / FILE)) as seal:
        seal.write()


def rebuilt(ws: Workspace) -> list[object]:
    entries: list[Entry] = list(ws.store.journal.log.entries(0))
    return [entry.data["why"] for entry in entries if entry.kind == REBUILT]


def cited(work: str, text: str, **changes: object) -> ResearchPacket:
    base = {
        "identifiers": (Identifier("doi", box(work)),),
        "reference": box(f"doi:{work}"),
        "retraction": "none",
    }
    return packet(text, **{**base, **changes})


WORK = "10.5555/ice.7"


def retracted_work(ws: Workspace) -> str:
    """Take in a paper and a later record that retracts it; return the paper's id."""
    paper_id, _ = take_in(
        ws,
        cited(WORK, "Lake ice is 31 cm thick."),
        cited(WORK, "A notice.", retraction="retracted", retrieved="2026-11-16T09:00:00Z"),
    )
    return paper_id


def label(ws: Workspace, paper_id: str) -> str:
    with closing(opened(ws)) as index:
        wish = TypedQuestion("How thick is lake ice?", [paper_id])
        return answer_by_extracts(ws, index, wish).stored.analysis.claims[0].label


@pytest.mark.parametrize("citing", [14, 16, 40])
# claim TG-C-480
def test_packets_that_cite_a_retracted_work_do_not_hide_the_retraction(
    ws: Workspace, citing: int
) -> None:
    paper_id = retracted_work(ws)
    others = [
        cited(f"10.5555/other.{n}", f"{WORK} {WORK} says that lake ice is thick, see {WORK}.")
        for n in range(citing)
    ]
    take_in(ws, *others)
    (sound,) = take_in(ws, cited("10.5555/sound", "Lake ice is 29 cm thick."))
    assert label(ws, sound) == "quote found", "control: a paper that was not retracted"
    assert label(ws, paper_id) == "source retracted"


# claim TG-C-480
def test_a_retraction_is_found_through_every_identifier_of_the_work(ws: Workspace) -> None:
    def named(text: str, *names: tuple[str, str], **changes: object) -> ResearchPacket:
        found = tuple(Identifier(scheme, box(value)) for scheme, value in sorted(names))
        return cited(
            WORK, text, reference=box("https://example.org/x"), identifiers=found, **changes
        )

    preprint, record, notice, stranger, page = fetched_in(
        ws,
        named("The preprint.", ("arxiv", "2101.00001v2"), source="arxiv"),
        named("The record.", ("arxiv", "2101.00001"), ("doi", WORK.upper())),
        named("The notice.", ("doi", WORK), ("issn", "1234-5678"), retraction="retracted"),
        named("Same journal.", ("doi", "10.5555/stranger"), ("issn", "1234-5678")),
        named("A page.", ("doi", "10.5555/innocent"), ("doi", WORK), source="url"),
    )
    with closing(opened(ws)) as index:
        packets = {one: ws.store.read(one) for one in (preprint, record, stranger, page)}
        said = {one: warnings(index, one, found)[:1] for one, found in packets.items()}  # type: ignore[arg-type]
        words = f"RETRACTED: according to {short(notice)}, another packet of this work"
        assert said[preprint] == said[record] == said[page] == (words,)
        assert said[stranger] == (), "control: a journal is not a work"
        innocent = index.same_work([("doi", "10.5555/innocent")])
        assert set(innocent) == {page}, "a web page that names two works does not join them"


# claim TG-C-481
def test_a_packet_fetched_later_marks_the_answers_before_it(ws: Workspace) -> None:
    (paper_id,) = take_in(ws, cited(WORK, "Lake ice is 31 cm thick."))
    with closing(opened(ws)) as index:
        stored = answer_by_extracts(
            ws, index, TypedQuestion("How thick is lake ice?", [paper_id])
        ).stored
        assert stored.analysis.claims[0].label == "quote found", "control"
        assert answers_on_retracted(ws.store, index) == []
        take_in(ws, cited(WORK, "A notice.", retraction="retracted", source="pubmed"))
        index.catch_up()
        shown = relabelled(ws.store, index, stored.analysis)
        assert shown.claims[0].label == "source retracted"
        assert answers_on_retracted(ws.store, index) == [stored.id]


Attack = Callable[[Workspace], None]


def statements(*texts: str) -> Attack:
    return lambda ws: edit(ws, *texts)


def replaced(ws: Workspace) -> None:
    path = ws.root / FILE
    edited = path.with_name("edited")
    shutil.copy2(path, edited)
    with closing(sqlite3.connect(edited)) as db:
        db.execute("DELETE FROM names")
        db.commit()
    before = path.stat()
    edited.replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def overwritten_in_place(ws: Workspace) -> None:
    """Write the same number of bytes through the same inode, and put the times back."""
    path = ws.root / FILE
    before, data = path.stat(), path.read_bytes()
    with path.open("r+b") as file:
        file.write(data.replace(b"ice.7", b"ice.8"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def hot_journal(ws: Workspace) -> None:
    (ws.root / f"{FILE}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))


TAMPERINGS: dict[str, Attack] = {
    "row of the retraction removed": statements("DELETE FROM names WHERE retracted"),
    "title and labels forged": statements(
        "UPDATE artifacts SET title = 'forged', integrity = 'operator'"
    ),
    "contents removed": statements("DELETE FROM contents"),
    "texts removed": statements("DELETE FROM texts"),
    "state forged": statements("UPDATE artifacts SET state = 'done'"),
    "sources removed": statements("DELETE FROM sources"),
    "raw bytes without holders": statements("DELETE FROM sources WHERE parent LIKE 'blob-%'"),
    "origin forged": statements("UPDATE origins SET name = 'retrieved'"),
    "origins removed": statements("DELETE FROM origins"),
    "rows added": statements("INSERT INTO names VALUES ('doi', '10.5555/x', 'rp-0', 1, 1)"),
    "trigger": statements(
        "CREATE TRIGGER t AFTER INSERT ON names BEGIN DELETE FROM names; END",
    ),
    "view": statements(
        "ALTER TABLE names RENAME TO hidden",
        "CREATE VIEW names AS SELECT * FROM hidden WHERE 0",
    ),
    "log position moved": statements("UPDATE seen SET seq = seq - 1"),
    "replaced file": replaced,
    "overwritten in place": overwritten_in_place,
    "journal beside it": hot_journal,
}


def answers(ws: Workspace, index: Index, ids: list[str]) -> list[object]:
    """Return everything the index says."""
    pages = index.page(("rp", "an", "fr", "tr", "res", "ap"), state=None, limit=1000, skip=0)
    return [
        sorted((row.id, row.state, row.title, row.integrity) for row in pages),
        [row.id for row in index.queue(REQUESTS, limit=99, skip=0)],
        [index.derived_from(one) for one in ids],
        index.same_work([("doi", WORK)]),
        index.retracted(),
        [index.origin(one) for one in ids],
        index.count_found("ice", ("rp",)),
        [index.made_from(f"blob-{one}") for one in sorted(ws.store.names("handoff/blobs"))],
    ]


@pytest.mark.parametrize("name", TAMPERINGS)
# claim TG-C-482
def test_an_edited_index_is_rebuilt_before_it_is_used(ws: Workspace, name: str) -> None:
    retracted_work(ws)
    ids = make_family(ws).ids()
    with closing(opened(ws)) as index:
        true = answers(ws, index, ids)
    with closing(opened(ws)) as index:
        assert (answers(ws, index, ids), index.rebuilt) == (true, None), "control: kept and used"
    TAMPERINGS[name](ws)
    with closing(opened(ws)) as index:
        assert index.rebuilt == CHANGED
        assert answers(ws, index, ids) == true
        assert not (ws.root / f"{FILE}-journal").exists()
    assert rebuilt(ws) == [CHANGED], "and the log says so"


# claim TG-C-482
def test_an_edit_while_a_command_has_it_open_is_found(ws: Workspace) -> None:
    paper_id = retracted_work(ws)
    with closing(opened(ws)) as index:
        (before,) = take_in(ws, packet("Another."))
        index.catch_up()
        assert rebuilt(ws) == [], "control"
        edit(ws, "DELETE FROM names")
        index.catch_up()
        assert index.rebuilt == CHANGED
        assert paper_id in index.same_work([("doi", WORK)])
        assert before in [row.id for row in index.page(("rp",), state=None, limit=9, skip=0)]


# claim TG-C-482
def test_the_seal_is_what_finds_it_and_other_tables_are_found_without_it(ws: Workspace) -> None:
    paper_id = retracted_work(ws)
    opened(ws).close()
    edit(ws, "DELETE FROM names WHERE retracted")
    forge_seal(ws)
    assert label(ws, paper_id) == "quote found", "control: believed with a forged seal"
    edit(ws, "CREATE TRIGGER t AFTER INSERT ON names BEGIN DELETE FROM names; END")
    forge_seal(ws)
    with closing(opened(ws)) as index:
        assert index.rebuilt == SCHEMA
    assert label(ws, paper_id) == "source retracted"


PLAN, SINCE = "0" * 64, "2026-11-01T00:00:00Z"
FETCHED_TAMPERINGS = {
    "old packet passed for a fresh one": (
        "INSERT INTO packets SELECT plan, min(packet), '2026-12-01T00:00:00Z' FROM packets"
    ),
    "packets removed": "DELETE FROM packets",
    "log position moved": "UPDATE seen SET seq = seq - 1",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON packets BEGIN DELETE FROM packets; END",
}


def newest(ws: Workspace) -> str | None:
    with closing(FetchCache(ws.store, ws.seals)) as cache:
        return cache.newest(PLAN, since=SINCE)


def edit_fetched(ws: Workspace, statement: str) -> None:
    with closing(sqlite3.connect(ws.root / FETCHED)) as db:
        db.execute(statement)
        db.commit()


@pytest.mark.parametrize("name", FETCHED_TAMPERINGS)
# claim TG-C-482
def test_an_edited_fetched_file_is_rebuilt_before_it_is_used(ws: Workspace, name: str) -> None:
    def stored(one: ResearchPacket, checked: str) -> str:
        data, detail = Untrusted(registry.emit(one)), {"plan": PLAN, "checked": checked}
        return admit_packet(ws.store, data, blobs=(), op=FETCH, detail=detail)[0]

    # The smallest id is the one that the forged row names: it must not be the newest.
    pair = sorted((cited(WORK, text) for text in ("One.", "Two.")), key=registry.id_of)
    old = stored(pair[0], "2026-11-15T00:00:00Z")
    new = stored(pair[1], "2026-11-16T00:00:00Z")
    assert old < new, "control: the forged row would name the old one"
    assert newest(ws) == new
    assert (newest(ws), rebuilt(ws)) == (new, []), "control: kept and used"
    edit_fetched(ws, FETCHED_TAMPERINGS[name])
    assert newest(ws) == new
    assert rebuilt(ws) == [CHANGED], "and the log says so"
    edit_fetched(ws, FETCHED_TAMPERINGS["old packet passed for a fresh one"])
    assert ws.seals is not None
    with closing(Seal(ws.seals, ws.root / FETCHED)) as seal:
        seal.write()
    assert newest(ws) == old, "control: believed with a forged seal"


# claim TG-C-483
def test_without_its_sources_nothing_made_from_a_packet_stays(ws: Workspace) -> None:
    family = make_family(ws)
    opened(ws).close()
    edit(ws, "DELETE FROM sources")
    forge_seal(ws)
    with closing(opened(ws)) as index:
        assert index.derived_from(family.packet) == [family.packet], "control: it would miss them"
    edit(ws, "INSERT INTO sources VALUES ('an-0', 'rp-0')")
    with closing(opened(ws)) as index:
        assert set(withdraw(ws, index, family.packet, "because").ids) == set(family.ids())


# claim TG-C-483
def test_without_its_rows_raw_bytes_of_another_packet_stay(ws: Workspace) -> None:
    digest = keep_blob(ws, b"shared")
    first, second = take_in(
        ws, *(packet(text, raw_sha256=digest, raw_bytes=6) for text in ("One.", "Two."))
    )
    opened(ws).close()
    edit(ws, "DELETE FROM sources WHERE parent LIKE 'blob-%'")
    with closing(opened(ws)) as index:
        forget(ws, index, first, "because", soft_signer())
    assert ws.store.has_blob(digest), f"{second} names them"
    with closing(opened(ws)) as index:
        forget(ws, index, second, "because", soft_signer())
    assert not ws.store.has_blob(digest), "control: the last one takes them along"


# claim TG-C-483
def test_without_its_rows_a_request_that_was_denied_is_still_known(ws: Workspace) -> None:
    (old,) = take_in(ws, fetch_request())
    ws.store.move(old, source="held", to="denied", op="deny")
    (new,) = take_in(ws, replace(fetch_request(), nonce="f" * 32))
    opened(ws).close()
    edit(ws, "DELETE FROM contents", "DELETE FROM texts")
    with closing(opened(ws)) as index:
        request = ws.store.read(new)
        earlier = find_earlier(ws.store, index, new, request)  # type: ignore[arg-type]
    assert earlier is not None
    assert (earlier.id, earlier.state, earlier.same) == (old, "denied", True)


# claim TG-C-486
def test_audit_verify_finds_an_edited_index(ws: Workspace) -> None:
    retracted_work(ws)
    family = make_family(ws)
    with closing(opened(ws)) as index:
        withdraw(ws, index, family.analysis, "because")
        index.catch_up()

    def found() -> list[tuple[str, str]]:
        report = verify_workspace(
            ws.root, given=(), clock=ws.clock, progress=silent, seals=ws.seals
        )
        return [(one.name, one.problem) for one in report.findings]

    assert found() == [], "control"
    (ws.root / FILE).unlink()
    opened(ws).close()
    assert found() == [], "control: rebuilt from the beginning it is the same"
    for name, tampering in TAMPERINGS.items():
        tampering(ws)
        assert found() == [(FILE, f"{CHANGED}; the next command rebuilds it")], name
        if name not in ("log position moved", "journal beside it"):
            forge_seal(ws)
            assert found() == [(FILE, OTHER)], f"{name}: by its rows alone"
        remove_index(ws.root)
        opened(ws).close()


# claim TG-C-486
def test_audit_verify_finds_an_edit_of_a_secondary_index(ws: Workspace) -> None:
    family = make_family(ws)
    opened(ws).close()
    path = ws.root / FILE
    with closing(sqlite3.connect(path)) as db:
        child, parent = db.execute(
            "SELECT child, parent FROM sources WHERE child = ?", (family.analysis,)
        ).fetchone()
    data = path.read_bytes()
    entry = f"{parent}{child}".encode()  # as `by_parent` spells it; the table has the child first
    assert data.count(entry) == 1
    path.write_bytes(data.replace(entry, f"{parent[:-1]}!{child}".encode()))
    forge_seal(ws)
    with closing(sqlite3.connect(path)) as db:
        missed = "SELECT count(*) FROM sources INDEXED BY by_parent WHERE parent = ? AND child = ?"
        assert db.execute(missed, (parent, child)).fetchone() == (0,), "control: queries miss it"
    report = verify_workspace(ws.root, given=(), clock=ws.clock, progress=silent, seals=ws.seals)
    assert [(one.name, one.problem) for one in report.findings] == [(FILE, OTHER)]


# claim TG-C-484
def test_vectors_that_were_edited_or_removed_are_computed_again(ws: Workspace) -> None:
    paper_id, other = take_in(ws, packet("Ice floats."), packet("Stars shine."))
    path, row = ws.root / VECTORS, bytes(VECTOR_BYTES)
    forged = bytes([1]) * VECTOR_BYTES
    texts = [digest(text) for text in ("Ice floats.", "Stars shine.")]

    def kept() -> VectorStore:
        return VectorStore(ws.root, "e" * 64, ws.seals)

    with closing(kept()) as vectors:
        vectors.keep(dict.fromkeys(texts, row), {paper_id: texts[:1], other: texts[1:]})
        vectors.mark_complete(paper_id)
        vectors.mark_complete(other)
        assert vectors.complete() == {paper_id, other}, "control"
    edits = {
        "UPDATE vectors SET row = ? WHERE text = ?": (forged, texts[0]),
        "DELETE FROM vectors WHERE ? != text AND text = ?": ("", texts[0]),
        "UPDATE holders SET texts = ? WHERE artifact = ?": ("", paper_id),
        "UPDATE holders SET artifact = ? WHERE artifact = ?": ("rp-0", paper_id),
    }
    whole = path.read_bytes()
    for statement, values in edits.items():
        with closing(sqlite3.connect(path)) as db:
            assert db.execute(statement, values).rowcount == 1, "control: it changes something"
            db.commit()
        with closing(kept()) as vectors:
            assert vectors.complete() == {other}, statement
            assert forged not in vectors.known(texts).values()
        path.write_bytes(whole)
    with closing(kept()) as vectors:
        assert vectors.complete() == {paper_id, other}, "control: the true file again"


# claim TG-C-485
def test_forgetting_removes_one_packet_and_keeps_the_rest(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    word, shared = "xylophoneparrot", "A sentence that both have."
    many = take_in(ws, *(packet_of_size(number, 2500) for number in range(300)))
    mine, other = take_in(ws, packet(f"One {word} flew.", shared), packet("Two flew.", shared))
    secret_text, both = digest(f"One {word} flew."), digest(shared)
    with closing(VectorStore(ws.root, "e" * 64, ws.seals)) as vectors:
        rows = {secret_text: bytes(VECTOR_BYTES), both: bytes(VECTOR_BYTES)}
        vectors.keep(rows, {mine: [secret_text, both], other: [both]})
    held = dict.fromkeys([FILE, VECTORS], False)
    with closing(opened(ws)) as index:
        held[FILE] = word.encode() in (ws.root / FILE).read_bytes()
        held[VECTORS] = secret_text.encode() in files_of(ws, VECTORS)
        assert all(held.values()), "control: both files hold it"
        # Nothing else is read again.
        monkeypatch.setattr(
            "threegate.host.workspace.index.rows_of", lambda one, *_: pytest.fail(one)
        )
        forget(ws, index, mine, "because", soft_signer())
        assert index.count(("rp",), state=None) == 301
        assert len(index.search("ice", ("rp",), limit=1000, skip=0)) == len(many) + 1
    for name in sorted(os.listdir(ws.root)):
        path = ws.root / name
        data = path.read_bytes() if path.is_file() else b""
        assert word.encode() not in data, name
        assert secret_text.encode() not in data, name
    with closing(VectorStore(ws.root, "e" * 64, ws.seals)) as vectors:
        assert list(vectors.known([secret_text, both])) == [both], "the other packet holds it"


def files_of(ws: Workspace, name: str) -> bytes:
    return b"".join(path.read_bytes() for path in ws.root.glob(f"{name}*"))
