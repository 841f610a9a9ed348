"""ask: the command itself, as a person and a script see it."""

from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.holdings import shelf
from threegate.artifacts import registry
from threegate.artifacts.ids import short


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = made(tmp_path)
    files = [
        write(tmp_path / f"{number}.md", registry.emit(one)) for number, one in enumerate(shelf())
    ]
    cli("admit", *files)
    return cli


def test_an_extractive_answer_says_first_what_was_checked(cli: Cli) -> None:
    done = cli("ask", "--extractive", "At which pressure did sea ice break?")
    lines = done.out.split("\n")
    assert lines[0].startswith("Analysis an-")
    assert lines[1].split(maxsplit=1) == [
        "labels",
        (
            "4 quote found, 0 number differs, 0 unchecked, 0 source retracted; 4 of 4 word for "
            "word; 4 of 4 on brought packets, not retrieved here"
        ),
    ]
    assert "no words were generated" in lines[2]
    head = "Claim 1: quote found, word for word, rests on a brought packet\n"
    assert f"{head}    | Sea ice at -5 \u00b0C broke at 1.2 MPa.\n" in done.out
    shown = cli("analysis", "show", lines[0].removeprefix("Analysis ")).out
    assert shown.startswith(done.out), "the same again, with everything else behind it"
    assert "Notes 1\n    | Selected by words" in shown


def test_a_script_gets_one_document(cli: Cli) -> None:
    found = cli("ask", "--extractive", "How dense is snow?", "--json").json
    assert found["labels"]["quote found"] == len(found["claims"]) == 1
    (cite,) = found["claims"][0]["cites"]
    assert cite["quote"] == "Snow of the first winter month had a density of 310 kg/m3."
    assert found["selection"] == [cite["artifact"]]
    again = cli("analysis", "show", short(found["id"]), "--json").json
    assert again["labels"] == found["labels"]
    assert cli("audit", "verify").out.startswith("verified")


def test_a_question_nothing_is_about_ends_in_one_error(cli: Cli) -> None:
    done = cli("ask", "--extractive", "zebra", code=2)
    assert done.out == ""
    assert "no source here matches that question [TG-USE-001]" in done.err
    assert cli("analysis", "list").out == "none\n"
