"""`packet export` by the real command: bibliographies for other programs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.samples import box, packet
from threegate.artifacts import registry
from threegate.artifacts.research_packet import Identifier, ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.host.bibliography.reader import read_list

FIRST = packet(title=box("}}, doi = {10.5555/evil \\input{x}"))
SECOND = packet(
    title=box("Ice\u00e9"),
    reference=box("arxiv:1706.03762v5"),
    identifiers=(Identifier("arxiv", box("1706.03762v5")),),
    confidentiality="confidential",
)
SEARCH = packet(reference=box("search:crossref:ice"))


def admitted(tmp_path: Path, *packets: ResearchPacket) -> tuple[Cli, list[str]]:
    cli = made(tmp_path)
    for number, one in enumerate(packets):
        cli("admit", write(tmp_path / f"{number}.md", registry.emit(one)))
    return cli, [registry.id_of(one) for one in packets]


@pytest.mark.parametrize("form", ["bibtex", "ris", "csl-json"])
def test_an_export_reads_back(tmp_path: Path, form: str) -> None:
    cli, _ = admitted(tmp_path, FIRST, SECOND, SEARCH)
    done = cli("packet", "export", "--format", form)
    found = read_list(Untrusted(done.raw_out))
    assert found.problems == ()
    assert {work.reference.text for work in found.works} == {
        "doi:10.5555/12345678",
        "arxiv:1706.03762v5",
    }
    assert done.err.splitlines() == [
        "threegate: left out 1 list of search results",
        "threegate: 1 packet of these is not public",
    ]
    assert cli("packet", "export", "--format", form).raw_out == done.raw_out


def test_what_says_the_same_is_written_once(tmp_path: Path) -> None:
    later = replace(FIRST, retrieved="2026-11-16T00:00:00Z", confidentiality="confidential")
    cli, ids = admitted(tmp_path, FIRST, later)
    done = cli("packet", "export", "--format", "bibtex")
    assert done.out.count("@article{") == 1
    assert done.err.startswith("threegate: left out 1 packet of works that have an entry\n")
    both = cli("packet", "export", *ids, "--format", "bibtex")
    assert both.out.count("@article{") == 2, "control: who names both gets both"


def test_chosen_packets_go_to_a_new_file(tmp_path: Path) -> None:
    cli, (first, second) = admitted(tmp_path, FIRST, SECOND)
    cli("packet", "export", second[:15], second, "--format", "csl-json", "--output", "out.json")
    (item,) = json.loads((tmp_path / "out.json").read_text())
    assert item["title"] == "Ice\u00e9"
    again = ("packet", "export", first, "--format", "ris", "--output", "out.json")
    assert "is already there" in cli(*again, code=2).err
    assert json.loads((tmp_path / "out.json").read_text()) == [item], "left as it was"
    there = ("packet", "export", "--format", "ris", "--output", "no/such/file")
    assert "cannot write" in cli(*there, code=2).err


def test_a_terminal_is_shown_text(tmp_path: Path) -> None:
    cli, _ = admitted(tmp_path, SECOND)
    shown = cli.in_terminal("packet", "export", "--format", "bibtex")
    assert b"eprint = {1706.03762v5}" in shown


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--format", "word"), "invalid choice"),
        ((), "--format"),
        (("rp-" + "0" * 12, "--format", "ris"), "no artifact"),
        (("tr-" + "0" * 64, "--format", "ris"), "is no packet"),
    ],
)
def test_what_cannot_be_exported_is_one_clear_error(
    tmp_path: Path, argv: tuple[str, ...], words: str
) -> None:
    done = made(tmp_path)("packet", "export", *argv, code=2)
    assert words in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_an_empty_workspace_has_an_empty_bibliography(tmp_path: Path) -> None:
    assert made(tmp_path)("packet", "export", "--format", "csl-json").json == []
