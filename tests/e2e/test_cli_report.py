"""`report` by the real command: one analysis in three formats, the same bytes every time."""

import base64
from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.holdings import answer_on, chunks_of, paper, png, shelf
from tests.support.reports import pdf_images, read_markdown, read_page, read_pdf
from tests.support.requests import approved_request, live_workspace
from tests.support.workspaces import public_of, take_in
from threegate.artifacts import registry
from threegate.host.ask.answer import TypedQuestion, answer_by_extracts
from threegate.host.report.collection import gather
from threegate.host.report.layout import lay_out
from threegate.host.report.markdown import as_markdown
from threegate.host.run.lifecycle import run_requests
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import open_workspace

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "artifacts"
PACKETS = (EXAMPLES / "packet-field-strength.md", EXAMPLES / "packet-laboratory-ice.md")
QUOTE = "find 1.31 MPa, a little above"


def asked(tmp_path: Path) -> tuple[Cli, str]:
    cli = made(tmp_path)
    cli("admit", *PACKETS)
    found = cli("ask", "--extractive", "How strong is sea ice?", "--json").json
    return cli, str(found["id"])


def test_an_answer_is_reported_in_three_formats(tmp_path: Path) -> None:
    cli, analysis = asked(tmp_path)
    text = cli("report", analysis[:15])
    assert text.err == ""
    assert text.out.startswith("# `How strong is sea ice?`\n")
    title = (
        "Flexural strength of first-year sea ice between -2 and -10 °C (Ada Nansen et al., 2024)"
    )
    assert f"### \\[1\\] `{title}`\n" in text.out
    assert "- 2 quote found: " in text.out
    _, code = read_markdown(text.raw_out)
    assert any(QUOTE in one for one in code)
    assert f"threegate analysis show {analysis[:15]} --raw | sha256sum\n" in code
    page = read_page(cli("report", analysis, "--format", "html").raw_out)
    assert any(QUOTE in one for one in page.foreign)
    assert {"svg", "rect"} <= page.tags
    pages = read_pdf(cli("report", analysis, "--format", "pdf").raw_out)
    assert QUOTE.partition(",")[0] in "".join(pages)
    assert "Appendix: approvals" in "".join(pages)
    assert cli("audit", "verify").out.startswith("verified"), "a report changes nothing"


def test_the_same_analysis_gives_the_same_bytes(tmp_path: Path) -> None:
    cli, analysis = asked(tmp_path)
    elsewhere = {"LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"}
    for form in ("md", "html", "pdf"):
        first = cli("report", analysis, "--format", form).raw_out
        cli("report", analysis, "--format", form, "--output", form, env=elsewhere)
        assert (tmp_path / form).read_bytes() == first


def test_a_file_is_written_once(tmp_path: Path) -> None:
    cli, analysis = asked(tmp_path)
    write(tmp_path / "r.html", b"mine")
    argv = ("report", analysis, "--format", "html", "--output", "r.html")
    done = cli(*argv, code=2)
    assert "exists already [TG-USE-001]" in done.err
    assert (tmp_path / "r.html").read_bytes() == b"mine"
    cli(*argv, "--force")
    assert (tmp_path / "r.html").read_bytes().startswith(b"<!DOCTYPE html>")
    assert "cannot write" in cli("report", analysis, "--output", "no/such/r.md", code=74).err


def test_a_terminal_is_shown_text_and_no_pdf(tmp_path: Path) -> None:
    cli, analysis = asked(tmp_path)
    assert b"# `How strong is sea ice?`" in cli.in_terminal("report", analysis)
    shown = cli.in_terminal("report", analysis, "--format", "pdf", code=2)
    assert b"raw bytes are not written to a terminal" in shown


def test_what_is_not_public_says_so(tmp_path: Path) -> None:
    cli = made(tmp_path)
    secret = paper(1, "Sea ice broke at 1.2 MPa.", confidentiality="confidential")
    cli("admit", write(tmp_path / "p.md", registry.emit(secret)))
    found = cli("ask", "--extractive", "When did sea ice break?", "--json").json
    done = cli("report", found["id"])
    assert done.err == "threegate: this report is confidential\n"
    assert "This report is confidential." in done.out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("an-" + "0" * 12,), "no artifact"),
        (("rp-" + "0" * 64,), "is not an analysis or a result"),
        (("nonsense",), "is not an artifact id"),
        (("an-" + "0" * 64, "--format", "docx"), "invalid choice"),
        (("an-" + "0" * 64, "--force"), "--force goes with --output"),
    ],
)
def test_what_cannot_be_reported_is_one_clear_error(
    tmp_path: Path, argv: tuple[str, ...], words: str
) -> None:
    done = made(tmp_path)("report", *argv, code=2)
    assert words in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_result_that_ran_here_brings_its_approval_along(tmp_path: Path) -> None:
    ws = live_workspace(tmp_path)
    take_in(ws, *shelf())
    index = Index(ws.store, ws.seals)
    index.catch_up()
    first = answer_by_extracts(
        ws, index, TypedQuestion("At which pressure did sea ice break?")
    ).stored
    request = approved_request(
        ws,
        "1.2 + 1.2",
        derived_from=tuple(sorted((first.id, *first.analysis.derived_from))),
        integrity="external",
    )
    (ran,) = run_requests(ws, [request])
    assert ran.made is not None, ran.error
    index.catch_up()
    again = answer_by_extracts(
        ws, index, TypedQuestion("What came out?", continues=first.id)
    ).stored
    index.catch_up()
    report = gather(ws, index, again.id)
    (card,) = report.approvals
    said = {fact.name: fact.text for fact in card.facts}
    assert card.loud == (), "signed, and spent by a run of this workspace"
    assert (said["for"], said["request"]) == (ran.made.id, request)
    assert said["key"] == public_of().fingerprint
    text = as_markdown(lay_out(report)).decode()
    tree = text.partition("## Where it comes from")[2].partition("## Appendix")[0]
    order = ["claim-1 claim", ran.made.id[:16], request[:15], first.id[:15]]
    assert sorted(order, key=tree.index) == order, "from the claim back to the first answer"
    assert f"threegate replay {ran.made.id[:16]}" in text
    index.close()


def test_what_a_run_left_is_shown_in_three_formats(tmp_path: Path) -> None:
    cli = made(tmp_path)
    assert cli.workspace is not None
    ws = open_workspace(cli.workspace)
    left = {"bad.png": png()[:99], "means.csv": b"group,mean\na,1.5\n", "plot.png": png()}
    analysis, _ = answer_on(ws, left)
    ws.close()
    text = cli("report", analysis).out
    assert "not shown: it is damaged, or not a picture that can be decoded: `bad.png`" in text
    assert "group  mean\na      1.5\n" in text
    cli("report", analysis, "--output", "left.md")
    assert "![an image a run left](./left-1.png)" in (cli.base / "left.md").read_text("utf-8")
    assert chunks_of((cli.base / "left-1.png").read_bytes())
    raw = cli("report", analysis, "--format", "html").raw_out
    page = read_page(raw)
    assert {"table", "img"} <= page.tags
    (source,) = [
        value or "" for tag, name, value in page.attributes if (tag, name) == ("img", "src")
    ]
    assert chunks_of(base64.b64decode(source.removeprefix("data:image/png;base64,")))
    assert raw == cli("report", analysis, "--format", "html").raw_out, "the same bytes again"
    data = cli("report", analysis, "--format", "pdf").raw_out
    assert pdf_images(data) == 1
    assert "is damaged" in " ".join("".join(read_pdf(data)).split())
