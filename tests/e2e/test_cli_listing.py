"""list, show and search: pages, exact JSON, inert text."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli, made, write
from tests.support.console import opened
from tests.support.holdings import put_results
from tests.support.samples import box, fetch_request, packet, tool_request
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex, short
from threegate.artifacts.registry import Artifact

COUNT = 7


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    cli = made(tmp_path_factory.mktemp("listing"))
    offered: list[Artifact] = [
        packet(f"Sea ice, sample {n}.", title=box(f"Sample {n}")) for n in range(COUNT)
    ]
    offered += [fetch_request(), tool_request(inputs=())]
    files = [write(cli.base / f"{n}.md", registry.emit(item)) for n, item in enumerate(offered)]
    cli("admit", *files)
    return cli


def an_id(cli: Cli, number: int = 0) -> str:
    return f"rp-{sha256_hex((cli.base / f'{number}.md').read_bytes())}"


def test_a_list_is_newest_first_and_pages(cli: Cli) -> None:
    pages = [
        cli("packet", "list", "--json", "--limit", "3", "--page", str(page)).json
        for page in (1, 2, 3, 4)
    ]
    titles = [item["title"] for page in pages for item in page["items"]]
    assert titles == [f"Sample {n}" for n in reversed(range(COUNT))]
    assert [len(page["items"]) for page in pages] == [3, 3, 1, 0]
    assert {page["total"] for page in pages} == {COUNT}


def test_a_list_for_people_has_short_ids_and_a_footer(cli: Cli) -> None:
    shown = cli("packet", "list", "--limit", "2").out.splitlines()
    assert shown[0].split() == [
        "ID",
        "STATE",
        "ORIGIN",
        "MADE",
        "BYTES",
        "INTEGRITY",
        "CONFIDENTIALITY",
        "TITLE",
    ]
    assert shown[1].startswith(short(an_id(cli, COUNT - 1)))
    assert shown[1].endswith("  Sample 6 (Ada Example et al., 2024)")
    assert shown[-1] == f"showing 1-2 of {COUNT}; --page 2 for more"


def test_a_test_source_and_a_retraction_are_marked_before_the_title(tmp_path: Path) -> None:
    cli = made(tmp_path)
    bare: dict[str, Any] = {"authors": (), "published": None}
    title = box("RETRACTED: Hard")
    hard = packet("Ice.", title=title, retraction="retracted", trust_anchor="ab" * 32, **bare)
    other = {"identifiers": (), "reference": box("https://example.org/another")}
    plain = packet("Water.", title=box("TEST SOURCE"), **other, **bare)
    for name, one in (("hard", hard), ("plain", plain)):
        cli("admit", write(cli.base / f"{name}.md", registry.emit(one)))
    lines = {line.rpartition("  ")[2]: line for line in cli("packet", "list").out.splitlines()}
    assert "accepted, RETRACTED, BROUGHT, TEST SOURCE  " in lines["Hard"]
    assert "accepted, BROUGHT  " in lines["TEST SOURCE"], "control: a title marks nothing"
    items = {item["title"]: item for item in cli("packet", "search", "ice", "--json").json["items"]}
    assert items["RETRACTED: Hard"]["cautions"] == ["RETRACTED", "BROUGHT", "TEST SOURCE"]
    shown = cli("packet", "show", registry.id_of(hard)).out.splitlines()
    assert shown[1].startswith("! RETRACTED")
    assert shown[2].startswith("! BROUGHT")
    assert shown[3].startswith("! TEST SOURCE")


# claim TG-C-453
def test_a_title_of_a_list_comes_from_the_file_whatever_the_index_says(tmp_path: Path) -> None:
    cli = made(tmp_path)
    cli("admit", "-", stdin=registry.emit(packet("Ice.", title=box("The true title"))))
    assert "The true title (Ada Example et al., 2024)" in cli("packet", "list").out, "control"
    assert cli.workspace is not None
    with closing(sqlite3.connect(cli.workspace / "index.sqlite")) as db, db:
        assert db.execute("UPDATE artifacts SET title = 'A forged title'").rowcount == 1, "control"
    for argv in (("packet", "list"), ("packet", "list", "--json"), ("packet", "search", "ice")):
        shown = cli(*argv).out
        assert "The true title" in shown
        assert "forged" not in shown


# claim TG-C-456
def test_a_file_that_was_changed_is_named_and_hides_no_other(tmp_path: Path) -> None:
    cli = made(tmp_path)
    packets = [packet(f"Ice {n}.", title=box(f"Work {n}")) for n in range(2)]
    for one in packets:
        cli("admit", "-", stdin=registry.emit(one))
    assert "Work 0" in cli("packet", "list").out, "control"
    assert cli.workspace is not None
    changed = registry.id_of(packets[0])
    (path,) = cli.workspace.rglob(f"{changed}.md")
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data.replace(b"Work 0", b"Evil 0"))
    path.chmod(0o444)
    shown = cli("packet", "list", code=76)
    (line,) = [one for one in shown.out.splitlines() if one.startswith(short(changed))]
    assert "tampered with" in line
    assert "Work 1 (" in shown.out
    assert "Evil" not in shown.out
    assert "is not what its name says [TG-HND-008]" in shown.err


def test_a_result_is_listed_by_the_purpose_of_its_request_and_its_exit(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with opened(cli) as ws:
        (result,) = put_results(ws, ["out"])
    (line,) = [one for one in cli("result", "list").out.splitlines() if short(result) in one]
    assert "accepted, ended ok  " in line
    assert line.endswith("  The mean of three measurements.")
    (item,) = cli("result", "list", "--json").json["items"]
    assert (item["title"], item["note"]) == ("The mean of three measurements.", "ended ok")


def test_requests_are_both_kinds_and_can_be_filtered_by_state(cli: Cli) -> None:
    items = cli("request", "list", "--json").json["items"]
    assert sorted(item["id"][:3] for item in items) == ["fr-", "tr-"]
    assert cli("request", "list", "--json", "--state", "held").json["total"] == 2
    assert cli("request", "list", "--json", "--state", "done").json["total"] == 0
    cli("request", "list", "--state", "gone", code=2)


def test_an_empty_list_says_so(cli: Cli) -> None:
    assert cli("result", "list").out == "none\n"
    assert cli("analysis", "list", "--json").json["items"] == []


def test_search_finds_words_and_phrases(cli: Cli) -> None:
    assert cli("packet", "search", "--json", "sea", "ice").json["total"] == COUNT
    found = cli("packet", "search", "--json", '"sample 3"').json
    assert [item["title"] for item in found["items"]] == ["Sample 3"]
    assert cli("packet", "search", "penguin").out == "none\n"
    assert cli("packet", "search", "--limit", "2", "ice").out.endswith(
        f"showing 1-2 of {COUNT}; --page 2 for more\n"
    )


@pytest.mark.parametrize("query", ["NEAR(", "title:x", "ice AND", "a OR b NOT", "x^y"])
def test_query_syntax_is_only_text(cli: Cli, query: str) -> None:
    assert cli("packet", "search", "--json", "--", query).json["items"] == []


@pytest.mark.parametrize("query", ['"', "*", "'", "^ + -"])
def test_a_query_without_words_is_a_usage_error(cli: Cli, query: str) -> None:
    assert "the query has no words" in cli("packet", "search", "--", query, code=2).err


def test_show_by_short_form_is_the_whole_artifact(cli: Cli) -> None:
    shown = cli("packet", "show", short(an_id(cli))).out
    assert shown.startswith(f"Research Packet {an_id(cli)}\n! BROUGHT: ")
    assert "\norigin  brought by the operator, not retrieved here\n" in shown
    assert "\nExcerpts 1\n    | Sea ice, sample 0.\n" in shown
    found = cli("packet", "show", "--json", an_id(cli)).json
    assert found["fields"]["title"] == "Sample 0"
    assert found["sections"] == {"Excerpts": ["Sea ice, sample 0."]}


def test_show_raw_gives_the_very_bytes_but_not_to_a_terminal(cli: Cli) -> None:
    raw = cli("packet", "show", "--raw", an_id(cli)).raw_out
    assert raw == (cli.base / "0.md").read_bytes()
    screen = cli.in_terminal("packet", "show", "--raw", an_id(cli), code=2)
    assert b"raw bytes are not written to a terminal" in screen
    assert b"---" not in screen


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("rp-12", "is too short for an id"),
        ("rp-" + "0" * 64, "no artifact"),
        ("rp-" + "0" * 12, "no artifact"),
        ("../../etc/passwd", "is not an artifact id"),
        ("tr-\x1b[2J", "is not an artifact id"),
    ],
)
def test_what_is_not_an_id_or_not_here(cli: Cli, given: str, says: str) -> None:
    done = cli("packet", "show", "--", given, code=2)
    assert says in done.err
    assert "threegate: hint: " in done.err
    assert b"\x1b" not in done.raw_err


def test_an_id_of_another_kind_points_there(cli: Cli) -> None:
    done = cli("result", "show", an_id(cli), code=2)
    assert f"`threegate packet show {short(an_id(cli))}`" in done.err


def test_a_terminal_cuts_lines_and_a_pipe_does_not(cli: Cli) -> None:
    screen = cli.in_terminal("packet", "list", "--limit", "1")
    assert b"showing 1-1" in screen
    assert all(len(line) <= 80 for line in screen.decode().splitlines())


def test_a_deleted_or_broken_index_is_made_anew(cli: Cli) -> None:
    assert cli.workspace is not None
    index = cli.workspace / "index.sqlite"
    before = cli("packet", "list", "--json").json
    index.unlink()
    assert cli("packet", "list", "--json").json == before
    index.write_bytes(b"not a database" * 1000)
    for suffix in ("-wal", "-shm"):
        Path(f"{index}{suffix}").unlink(missing_ok=True)
    assert cli("packet", "list", "--json").json == before
