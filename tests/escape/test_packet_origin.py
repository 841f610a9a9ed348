"""Packets that somebody forged: what `admit` refuses, and how the others read afterwards."""

from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.normalization import STRENGTH, Retrieval, edited, fetched, retrieval
from threegate.artifacts.ids import sha256_hex
from threegate.host.workspace.workspace import open_workspace

QUESTION = "What is the flexural strength of sea ice?"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def keep(cli: Cli, one: Retrieval) -> str:
    """Store a packet as `fetch` does."""
    assert cli.workspace is not None
    ws = open_workspace(cli.workspace)
    try:
        return fetched(ws.store, one)
    finally:
        ws.close()


def listed(cli: Cli) -> dict[str, str]:
    """Return the origin of every packet in the list."""
    return {row["id"]: row["origin"] for row in cli("packet", "list", "--json").json["items"]}


# claim TG-C-14, TG-C-400
def test_an_edited_packet_of_a_retrieval_is_quarantined(cli: Cli, tmp_path: Path) -> None:
    kept = retrieval()
    packet_id = keep(cli, kept)
    same = write(tmp_path / "same.md", kept.data)
    assert cli("admit", same).out.startswith(f"already {packet_id}"), "control: the unchanged one"
    forged = edited(kept.packet, "1.31 MPa", "9.31 MPa")
    done = cli("admit", "--json", write(tmp_path / "forged.md", forged), code=65)
    (told,) = done.json["files"]
    assert (told["status"], told["code"]) == ("quarantined", "TG-HND-017")
    assert told["reason"].endswith("raw bytes give: excerpts, texts")
    shown = cli("quarantine", "show", sha256_hex(forged)[:12]).out
    assert "TG-HND-017" in shown
    assert listed(cli) == {packet_id: "retrieved"}
    answer = cli("ask", "--extractive", QUESTION).out
    assert STRENGTH in answer
    assert "9.31" not in answer


# claim TG-C-401
def test_an_invented_packet_reads_as_brought_everywhere(cli: Cli, tmp_path: Path) -> None:
    kept = keep(cli, retrieval())
    invented = edited(
        retrieval().packet, "1.31 MPa", "9.31 MPa", record_sha256=None, url="https://a.example/x"
    )
    brought = f"rp-{sha256_hex(invented)}"
    cli("admit", write(tmp_path / "invented.md", invented))
    assert listed(cli) == {kept: "retrieved", brought: "brought"}
    lines = cli("packet", "list").out.splitlines()
    assert "ORIGIN" in lines[0]
    assert [("BROUGHT" in line, "brought" in line) for line in lines[1:3]] == [
        (True, True),
        (False, False),
    ]
    shown = cli("packet", "show", brought).out
    assert "! BROUGHT: somebody admitted this file; it was not retrieved here" in shown
    assert cli("packet", "show", "--json", brought).json["origin"] == "brought"
    assert cli("packet", "show", "--json", kept).json["origin"] == "retrieved", "control"
    about(cli, kept, brought=False)
    about(cli, brought, brought=True)


def about(cli: Cli, packet_id: str, *, brought: bool) -> None:
    """Ask about one packet and look at the answer, the report and the graph."""
    answer = cli("ask", "--extractive", "--json", QUESTION, "--packets", packet_id).json
    (claim,) = answer["claims"]
    assert (claim["label"], claim["brought"]) == ("quote found", [packet_id] if brought else [])
    told = cli("analysis", "show", answer["id"]).out
    assert ("word for word, rests on a brought packet" in told) is brought
    (cited,) = [one for one in told.splitlines() if one.endswith(f", {packet_id[:15]}")]
    assert cited.startswith("  BROUGHT, text 1 from") is brought
    for form in ("md", "html"):
        report = cli("report", answer["id"], "--format", form).out
        assert ("by crossref" in report) is not brought
        assert ("brought by the operator, not retrieved here" in report) is brought
        assert ("quote found, word for word, rests on a brought packet" in report) is brought
    graph = cli("audit", "graph", answer["id"]).out
    assert ("BROUGHT, names https://a.example/x" in graph) is brought
    assert ("from https://api.crossref.org/works/tg.1" in graph) is not brought
    entry = cli("packet", "export", packet_id, "--format", "bibtex").out
    assert ("BROUGHT" in entry) is brought


# claim TG-C-401
def test_a_request_that_rests_on_a_brought_packet_is_flagged(cli: Cli, tmp_path: Path) -> None:
    kept = keep(cli, retrieval())
    invented = edited(retrieval().packet, "1.31", "9.31", record_sha256=None)
    brought = f"rp-{sha256_hex(invented)}"
    cli("admit", write(tmp_path / "invented.md", invented))
    for packet_id, flagged in ((kept, False), (brought, True)):
        code = write(tmp_path / "code.py", f"len(table) # {packet_id[:9]}".encode())
        asked = ("--purpose", "Count.", "--code", code, "--input", f"table={packet_id}")
        made_id = cli("request", "new", *asked, "--json").json["id"]
        sheet = cli("review", "show", made_id, "--json").json
        flags = {flag["name"]: flag["reason"] for flag in sheet["flags"]}
        assert ("brought" in flags) is flagged
        assert not flagged or brought[:15] in flags["brought"]


# claim TG-C-402
def test_a_record_that_was_not_retrieved_makes_no_packet_retrieved(
    cli: Cli, tmp_path: Path
) -> None:
    forged = retrieval(STRENGTH.replace("1.31", "9.31"))
    # As inputs of a request, a record and raw bytes get into the same directory as fetched ones.
    record = write(tmp_path / "record.json", forged.record)
    raw = write(tmp_path / "raw.json", forged.raws[0])
    code = write(tmp_path / "code.py", b"len(record) + len(raw)")
    inputs = ("--input", f"record={record}", "--input", f"raw={raw}")
    cli("request", "new", "--purpose", "Count.", "--code", code, *inputs)
    assert cli.workspace is not None
    assert (cli.workspace / "handoff/blobs" / sha256_hex(forged.record)).exists(), "control"
    cli("admit", write(tmp_path / "forged.md", forged.data))
    assert listed(cli) == {forged.id: "brought"}
    told = cli("packet", "show", "--json", forged.id).json
    assert told["origin_words"].startswith("brought by the operator with matching raw bytes")
