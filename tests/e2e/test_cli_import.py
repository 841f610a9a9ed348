"""`threegate import`: files on disk become packets, through real sandboxes."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import documents, office
from tests.support.cli import Cli, made
from tests.support.pdfs import pdf
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.untrusted import Untrusted

PAGE = b"BT /F1 12 Tf 72 700 Td (Sea ice broke at 1.31 MPa.) Tj ET"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    place = tmp_path / "papers"
    (place / "sub").mkdir(parents=True)
    (place / "ice.pdf").write_bytes(pdf(PAGE, title="On ice"))
    (place / "sub" / "notes.md").write_text("# Notes\n\nThe lagoon froze in January.\n")
    return place


def imported(cli: Cli, *argv: str | Path, code: int = 0) -> dict[str, dict[str, str]]:
    found = cli("import", *argv, "--json", code=code).json["files"]
    return {one["file"]: one for one in found}


def stored(cli: Cli, packet_id: str) -> ResearchPacket:
    assert cli.workspace is not None
    (path,) = cli.workspace.glob(f"**/accepted/{packet_id}.md")
    found = registry.parse(Untrusted(path.read_bytes()))
    assert isinstance(found, ResearchPacket)
    return found


def packets(cli: Cli) -> list[dict[str, str]]:
    found: list[dict[str, str]] = cli("packet", "list", "--json", "--limit", "500").json["items"]
    return found


# claim TG-C-573
def test_a_folder_becomes_packets_with_relative_paths_and_raw_bytes(cli: Cli, papers: Path) -> None:
    found = imported(cli, papers, "--recursive")
    assert {name: one["status"] for name, one in found.items()} == {
        "file:ice.pdf": "made",
        "file:sub/notes.md": "made",
    }
    packet = stored(cli, found["file:ice.pdf"]["id"])
    assert (packet.source, packet.url, packet.trust_anchor) == ("file", "file:ice.pdf", "none")
    assert packet.raw_bytes == (papers / "ice.pdf").stat().st_size
    assert packet.confidentiality == "internal"
    assert any("1.31 MPa" in one.open_for_validation() for one in packet.texts)
    assert [one.source for one in packet.metadata_from if one.field == "title"] == ["file"]
    assert {one.get("origin") for one in packets(cli)} == {"imported"}
    assert "same" in cli("packet", "remake").out
    assert "verified" in cli("audit", "verify").out


# claim TG-C-572
def test_no_absolute_path_is_in_a_packet_a_record_or_the_log(cli: Cli, papers: Path) -> None:
    imported(cli, papers, "--recursive")
    assert cli.workspace is not None
    kept = [path for path in cli.workspace.rglob("*") if path.is_file()]
    control = [path for path in kept if b"sub/notes.md" in path.read_bytes()]
    assert control, "control: the relative path is found by this search"
    assert not [path for path in kept if os.fsencode(papers) in path.read_bytes()]


def test_the_same_bytes_are_already_here_and_a_changed_file_replaces(
    cli: Cli, papers: Path
) -> None:
    first = imported(cli, papers, "-r")
    again = imported(cli, papers, "-r")
    assert {one["status"] for one in again.values()} == {"already"}
    assert again["file:ice.pdf"]["id"] == first["file:ice.pdf"]["id"]
    (papers / "sub" / "notes.md").write_text("# Notes\n\nThe lagoon froze in February.\n")
    (papers / "ice.pdf").unlink()
    third = imported(cli, papers, "-r")
    changed = third["file:sub/notes.md"]
    assert (changed["status"], changed["replaces"]) == ("made", first["file:sub/notes.md"]["id"])
    assert stored(cli, changed["id"]).replaces == first["file:sub/notes.md"]["id"]
    assert third["file:ice.pdf"]["status"] == "gone"
    assert len(packets(cli)) == 3, "what is gone from the folder stays in the workspace"


def test_a_copy_under_another_name_is_already_here(cli: Cli, papers: Path) -> None:
    first = imported(cli, papers / "ice.pdf")
    (papers / "copy.pdf").write_bytes((papers / "ice.pdf").read_bytes())
    found = imported(cli, papers / "copy.pdf")["file:copy.pdf"]
    assert (found["status"], found["id"]) == ("already", first["file:ice.pdf"]["id"])


def test_a_refused_file_is_in_quarantine_with_its_reason_and_is_not_read_again(
    cli: Cli, papers: Path
) -> None:
    (papers / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing of a document")
    found = imported(cli, papers, code=os.EX_DATAERR)
    assert found["file:ice.pdf"]["status"] == "made", "control: the file beside it is imported"
    broken = found["file:broken.pdf"]
    assert (broken["status"], broken["code"]) == ("refused", "TG-NRM-004")
    kept = cli("quarantine", "list", "--json").json["items"]
    assert [one["sha256"] for one in kept] == [broken["sha256"]]
    again = imported(cli, papers, code=os.EX_DATAERR)["file:broken.pdf"]
    assert again["code"] == "TG-IMP-005"
    tried = imported(cli, papers, "--again", code=os.EX_DATAERR)["file:broken.pdf"]
    assert tried["code"] == "TG-NRM-004"


def test_a_dry_run_says_what_would_be_read_and_stores_nothing(cli: Cli, papers: Path) -> None:
    shown = cli("import", papers, "-r", "--dry-run").out
    assert "application/pdf  file:ice.pdf" in shown
    assert packets(cli) == []


# claim TG-C-575
def test_forgotten_bytes_do_not_come_back_by_another_import(cli: Cli, papers: Path) -> None:
    assert imported(cli, papers / "ice.pdf")["file:ice.pdf"]["status"] == "made", "control"
    digest = sha256_hex((papers / "ice.pdf").read_bytes())
    (one,) = packets(cli)
    cli("forget", f"blob-{digest}", "--reason", "a test", "--yes")
    cli("forget", one["id"], "--reason", "a test", "--yes")
    found = imported(cli, papers / "ice.pdf", code=os.EX_DATAERR)["file:ice.pdf"]
    assert (found["status"], found["reason"]) == ("refused", "these bytes were forgotten here")
    assert cli("quarantine", "list", "--json").json["items"] == []


# claim TG-C-574
def test_a_killed_import_loses_nothing_and_repeats_nothing(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "many"
    place.mkdir()
    for number in range(60):
        (place / f"{number:02}.txt").write_text(f"Note {number}: ice was {number} cm thick.\n")
    # After the start, then after as many reports as the number says, whatever is under way.
    for reports in (0, 0, 1, 1, 2, 3, 5, 8, 9, 10):
        process = subprocess.Popen(
            [*cli.program, "import", str(place)],
            cwd=cli.base,
            env=cli.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        for _ in range(reports):
            process.stdout.readline()
        process.kill()
        process.communicate(timeout=60)
    before = {one["id"] for one in packets(cli)}
    found = imported(cli, place)
    already = {one["id"] for one in found.values() if one["status"] == "already"}
    assert before <= already, "what was stored before the kill is here and was not made again"
    assert len(found) == 60
    assert len(packets(cli)) == 60
    assert "verified" in cli("audit", "verify").out


def test_an_interrupt_stores_what_is_complete(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "many"
    place.mkdir()
    for number in range(200):
        (place / f"{number:03}.txt").write_text(f"Note {number}.\n")
    process = subprocess.Popen(
        [*cli.program, "import", str(place)],
        cwd=cli.base,
        env=cli.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # the first packet is stored
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"interrupted: the same command again goes on from here" in err
    assert 0 < len(packets_of(cli)) < 200
    found = json.loads(cli("import", place, "--json").raw_out)["files"]
    assert {one["status"] for one in found} == {"already", "made"}


def packets_of(cli: Cli) -> list[str]:
    assert cli.workspace is not None
    return [path.name for path in cli.workspace.glob("**/accepted/rp-*.md")]


def test_watch_imports_a_file_that_appears(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "watched"
    place.mkdir()
    (place / "first.txt").write_text("First.\n")
    process = subprocess.Popen(
        [*cli.program, "import", str(place), "--watch"],
        cwd=cli.base,
        env=cli.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert b"file:first.txt" in process.stdout.readline()
    (place / "second.txt").write_text("Second.\n")
    assert b"file:second.txt" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


DOCUMENTS = {
    "thesis.docx": (office.DOCX, "Twelve."),
    "letter.odt": (office.ODT, "12 | 34"),
    "talk.pptx": (office.PPTX, "Say it slowly."),
    "book.epub": (office.EPUB, "We open gates."),
    "note.md": (documents.MARKDOWN.encode(), "See the ice and Gates."),
    "paper.tex": (documents.LATEX.encode(), "Inline $a_1$."),
    "work.ipynb": (documents.NOTEBOOK, "print(1)"),
    "paper.tei.xml": (documents.TEI, "We open 10^6."),
}


def test_each_document_format_becomes_a_packet_and_others_say_what_to_do(
    cli: Cli, tmp_path: Path
) -> None:
    place = tmp_path / "papers"
    place.mkdir()
    for name, (raw, _) in DOCUMENTS.items():
        (place / name).write_bytes(raw)
    (place / "old.rtf").write_bytes(b"{\\rtf1 x}")
    (place / "bomb.docx").write_bytes(office.bomb())
    found = imported(cli, place, "--recursive", code=65)
    for name, (_, words) in DOCUMENTS.items():
        one = found[f"file:{name}"]
        assert one["status"] == "made", one
        packet = stored(cli, one["id"])
        assert words in "\n".join(text.open_for_display() for text in packet.texts)
        assert packet.retraction == "unknown"
    assert found["file:old.rtf"]["hint"] == "save it as DOCX, ODT or PDF"
    assert found["file:bomb.docx"]["code"] == "TG-NRM-004"
    assert "unpacked" in found["file:bomb.docx"]["reason"]


# claim TG-C-577
def test_no_key_and_no_file_of_a_workspace_becomes_a_packet(cli: Cli, tmp_path: Path) -> None:
    assert cli.workspace is not None
    keys = tmp_path / ".config" / "threegate"
    assert keys.is_dir(), "control: the operator's key is there"
    refused = imported(cli, keys, cli.workspace / "handoff", "--recursive", code=65)
    assert {one["code"] for one in refused.values()} == {"TG-IMP-007"}
    (tmp_path / "copied").write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")
    (tmp_path / "notes.md").write_text("Ice.")
    found = imported(cli, tmp_path, "--recursive", "--exclude", "*.pub", code=65)
    assert found["file:notes.md"]["status"] == "made", "control: a note beside them is imported"
    assert found["file:copied"]["code"] == "TG-IMP-010"
    assert len(packets(cli)) == 1, [one["reference"] for one in packets(cli)]


def test_a_full_quarantine_does_not_keep_the_other_files_out(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "many"
    place.mkdir()
    (place / "a.pdf").write_bytes(b"%PDF-1.7\nno pages")
    (place / "b.txt").write_text("Ice.")
    full = cli.patched(
        "from threegate.handoff.records import Quota, StateUsage\n"
        "before = StateUsage.refuse_over\n"
        "def small(self, quotas, *, than):\n"
        "    before(self, {**quotas, 'handoff/quarantine': Quota(0, 0)}, than=than)\n"
        "StateUsage.refuse_over = small\n"
    )
    found = imported(full, place, code=65)
    assert found["file:b.txt"]["status"] == "made"
    assert found["file:a.pdf"]["code"] == "TG-NRM-004"
    assert not found["file:a.pdf"]["sha256"], "its bytes are not kept"
    kept = imported(cli, place, code=65)["file:a.pdf"]["sha256"]
    assert kept, "control: with room in quarantine the bytes are kept"
