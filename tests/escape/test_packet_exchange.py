"""Complete exports: what a signature of a listed key adds, and what no stranger can add."""

import io
from pathlib import Path

import pytest

from tests.support.cli import made, write
from tests.support.normalization import STRENGTH, Retrieval, edited, fetched, retrieval
from tests.support.workspaces import SoftSigner, files_below, make_workspace, public_of, soft_signer
from threegate.artifacts.ids import sha256_hex
from threegate.handoff.admission import Admission
from threegate.host.fetch.delivery import (
    PACKET_NAMESPACE,
    DeliveredPacket,
    ExportStatement,
    admit_complete,
    export_complete,
    write_packet,
    write_start,
)
from threegate.host.policy import keyring
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace, open_workspace

FORGED = STRENGTH.replace("1.31", "9.31")


def stranger(one: Retrieval, *, data: bytes | None = None) -> bytes:
    """Return a file that anybody can make: consistent, and signed with a key of their own."""
    offered = one.data if data is None else data
    packet_id = f"rp-{sha256_hex(offered)}"
    statement = ExportStatement("0" * 32, "2026-11-16T05:00:00Z", (packet_id,))
    signature = soft_signer("stranger").sign(statement.to_bytes(), PACKET_NAMESPACE)
    out = io.BytesIO()
    archive = write_start(out, statement, signature)
    raws = {sha256_hex(raw): raw for raw in one.raws}
    write_packet(archive, DeliveredPacket(packet_id, offered, one.packet, one.record, raws))
    archive.end()
    return out.getvalue()


def exported(ws: Workspace, packet_id: str, path: Path, signer: SoftSigner) -> bytes:
    index = Index(ws.store)
    try:
        index.catch_up()
        export_complete(ws, index.origin, [packet_id], signer, path)
    finally:
        index.close()
    return path.read_bytes()


def admitted(ws: Workspace, data: bytes) -> tuple[Admission, str]:
    """Return what became of the only packet in a file, and its origin in words."""
    index = Index(ws.store)
    try:
        index.catch_up()
        (told,) = admit_complete(ws, index, io.BytesIO(data))
        index.catch_up()
        return told, "" if told.id is None else index.origin(told.id).words
    finally:
        index.close()


# claim TG-C-403
def test_only_a_listed_signature_makes_a_delivered_packet_retrieved(tmp_path: Path) -> None:
    sender, receiver = make_workspace(tmp_path, name="a"), make_workspace(tmp_path, name="b")
    packet_id = fetched(sender.store, retrieval())
    mine = exported(sender, packet_id, tmp_path / "mine.packets", soft_signer())
    told, words = admitted(receiver, mine)
    assert (told.status, told.id) == ("accepted", packet_id), told
    assert words == (
        f"retrieved elsewhere, signed by operator ({public_of().fingerprint}) "
        f"for workspace {sender.marker.id}"
    ), "control: a listed key"
    for digest in (sha256_hex(retrieval().record), sha256_hex(retrieval().raws[0])):
        assert receiver.store.has_blob(digest)
    forged = retrieval(FORGED)
    told, words = admitted(receiver, stranger(forged))
    assert (told.status, told.id) == ("accepted", forged.id)
    assert words == "brought by the operator with matching raw bytes, not retrieved here"
    assert told.reason is not None
    assert "is not an allowed signer" in told.reason
    # Its record is here now; that does not make the packet retrieved the next time either.
    again, words = admitted(receiver, stranger(forged))
    assert (again.status, words.split()[0]) == ("already", "brought")


# claim TG-C-403
def test_a_key_listed_for_something_else_vouches_for_no_packet(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    one = retrieval()
    key, only = public_of("stranger"), ("threegate-checkpoint",)
    keyring.add(ws, soft_signer(), principal="ada", key=key, namespaces=only)
    limited = open_workspace(ws.root, clock=ws.clock)
    try:
        told, words = admitted(limited, stranger(one))
    finally:
        limited.close()
    assert "may not sign in" in (told.reason or "")
    assert words.startswith("brought")


# claim TG-C-403
def test_a_brought_packet_becomes_retrieved_by_a_listed_signature(tmp_path: Path) -> None:
    sender, receiver = make_workspace(tmp_path, name="a"), make_workspace(tmp_path, name="b")
    one = retrieval()
    assert admitted(receiver, stranger(one))[1].startswith("brought"), "control"
    packet_id = fetched(sender.store, one)
    mine = exported(sender, packet_id, tmp_path / "mine.packets", soft_signer())
    told, words = admitted(receiver, mine)
    assert (told.status, words.split()[0]) == ("accepted", "retrieved")


# claim TG-C-403
def test_the_commands_take_a_packet_to_another_workspace(tmp_path: Path) -> None:
    cli = made(tmp_path, name="a")
    other = made(tmp_path, name="b")
    assert cli.workspace is not None
    sender = open_workspace(cli.workspace)
    packet_id = fetched(sender.store, retrieval())
    sender.close()
    file = tmp_path / "for-ada.packets"
    cli("packet", "export", packet_id, "--complete", "--output", file)
    cli("packet", "export", packet_id, "--complete", code=2)
    assert "retrieved elsewhere, signed by operator" in other("admit", file).out
    (row,) = other("packet", "list", "--json").json["items"]
    assert (row["id"], row["origin"]) == (packet_id, "retrieved")
    (told,) = other("admit", "--json", file).json["files"]
    assert told["status"] == "already"
    broken = write(tmp_path / "broken.packets", file.read_bytes()[:-700])
    assert "quarantined TG-HND-018" in other("admit", broken, code=65).out


# claim TG-C-404
def test_a_packet_that_its_delivered_record_does_not_make_is_quarantined(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    one = retrieval()
    forged = edited(one.packet, "1.31 MPa", "9.31 MPa")
    told, _ = admitted(ws, stranger(one, data=forged))
    assert (told.status, told.code) == ("quarantined", "TG-HND-017")
    assert told.reason is not None
    assert told.reason.endswith("give: excerpts, texts")
    assert f"handoff/quarantine/{sha256_hex(forged)}.bytes" in files_below(ws.root)
    assert admitted(ws, stranger(one))[0].status == "accepted", "control"


def _swapped(data: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    assert old in data
    return data.replace(old, new)


@pytest.mark.parametrize("attack", ["cut", "more", "raw", "twice", "signature", "huge"])
# claim TG-C-404
def test_a_hostile_file_is_refused_before_anything_is_stored(tmp_path: Path, attack: str) -> None:
    ws = make_workspace(tmp_path)
    good = stranger(retrieval())
    size = b"%011o" % len(retrieval().raws[0])
    hostile = {
        "cut": good[:-2000],
        "more": good + b"\0",
        "raw": _swapped(good, b"1.31 MPa", b"9.31 MPa"),
        "twice": good[:1024] + good,
        "signature": _swapped(good, b"BEGIN SSH SIGNATURE", b"BEGIN SSH SIGNATURF"),
        "huge": _swapped(good, size + b"\0", b"77777777777\0"),
    }[attack]
    before = set(files_below(ws.root))
    told, _ = admitted(ws, hostile)
    assert (told.status, told.code, told.id) == ("quarantined", "TG-HND-018", None)
    new = {name for name in set(files_below(ws.root)) - before if name.startswith("handoff")}
    assert {name.rpartition("/")[0] for name in new} == {"handoff/quarantine"}
    assert not list(ws.store.ids("rp"))


# claim TG-C-403
def test_only_what_was_retrieved_here_is_exported(tmp_path: Path) -> None:
    sender, receiver = make_workspace(tmp_path, name="a"), make_workspace(tmp_path, name="b")
    packet_id = fetched(sender.store, retrieval())
    mine = exported(sender, packet_id, tmp_path / "mine.packets", soft_signer())
    admitted(receiver, mine)
    with pytest.raises(Exception, match="was not retrieved here: retrieved elsewhere"):
        exported(receiver, packet_id, tmp_path / "theirs.packets", soft_signer())
    assert not (tmp_path / "theirs.packets").exists()
