"""`result export` and `report RES` as a user types them: the files of a run, and all about it."""

import os
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.cli import Cli
from tests.support.holdings import answer_on, png
from tests.support.reports import read_markdown, read_page, read_pdf
from tests.support.requests import approved_request, live_workspace
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_result import OutputFile
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.host.workspace.workspace import Workspace

FILES = {"means.csv": b"group,mean\na,1.5\n", "plot.png": png(width=4, height=3)}


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return live_workspace(tmp_path)


@pytest.fixture
def cli(tmp_path: Path, ws: Workspace) -> Cli:
    return Cli(tmp_path, ws.root)


def test_the_files_of_a_run_are_written_for_their_reader_alone(ws: Workspace, cli: Cli) -> None:
    _, result = answer_on(ws, FILES)
    shown = cli("result", "show", result).out
    assert f"left means.csv, {len(FILES['means.csv'])} bytes\n" in shown
    assert f"`threegate result export {result[:16]} DIRECTORY` writes them\n" in shown
    done = cli("result", "export", result[:16], "out/plots")
    directory = cli.base / "out" / "plots"
    assert done.out.count("wrote ") == 2
    assert done.err == "threegate: these files are internal\n"
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == FILES
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    assert directory.stat().st_mode & 0o777 == 0o700
    told = cli("result", "export", result, "again", "--json").json
    assert [one["sha256"] for one in told["files"]] == [sha256_hex(FILES[n]) for n in sorted(FILES)]
    assert told["files"][0]["path"] == str(cli.base / "again" / "means.csv")
    assert cli("audit", "verify").out.startswith("verified"), "nothing here changed"


RUN_THAT_LEFT_FILES = """
from threegate.host.run import lifecycle
from threegate.host.run.results import MadeResult
def run_requests(ws, chosen, **_):
    for request_id in chosen:
        result = ws.store.read("{result}")
        made = MadeResult("{result}", b"", (), result)
        yield lifecycle.Report(request_id, made)
lifecycle.run_requests = run_requests
"""


def test_run_names_the_files_that_a_run_left(ws: Workspace, cli: Cli) -> None:
    _, result = answer_on(ws, FILES)
    request_id = approved_request(ws, "1")
    left = cli.patched(RUN_THAT_LEFT_FILES.format(result=result))("run", request_id).out
    lines = left.splitlines()
    assert f"  left means.csv, {len(FILES['means.csv'])} bytes" in lines
    assert f"  left plot.png, {len(FILES['plot.png'])} bytes" in lines
    assert f"  `threegate result export {result[:16]} DIRECTORY` writes them" in lines
    assert "left " not in cli("run", request_id).out, "control: a run without files"


# claim TG-C-443
def test_an_export_replaces_nothing_and_writes_all_or_nothing(ws: Workspace, cli: Cli) -> None:
    _, result = answer_on(ws, FILES)
    directory, victim = cli.base / "out", cli.base / "victim"
    directory.mkdir()
    victim.write_bytes(b"mine")
    (directory / "plot.png").symlink_to(victim)
    refused = cli("result", "export", result, "out", code=2)
    assert "exists already [TG-USE-001]" in refused.err
    assert os.listdir(directory) == ["plot.png"], "the other file was not written either"
    cli("result", "export", result, "out", "--force")
    assert victim.read_bytes() == b"mine", "the link was replaced, not followed"
    assert (directory / "plot.png").read_bytes() == FILES["plot.png"], "control: with --force it is"


# claim TG-C-443
def test_an_export_does_not_write_into_the_workspace(ws: Workspace, cli: Cli) -> None:
    names = {path.name: b"x" for path in ws.root.iterdir() if path.name[0] != "."}
    _, result = answer_on(ws, names)
    (cli.base / "link").symlink_to(ws.root / "policy")
    for place in (ws.root, ws.root / "handoff" / "blobs", ws.root / "audit", cli.base / "link"):
        refused = cli("result", "export", result, place, "--force", code=2)
        assert "belongs to the workspace" in refused.err
    assert cli("audit", "verify").out.startswith("verified")
    cli("result", "export", result, ws.root / "plots")  # control: a directory of its own
    assert cli("audit", "verify").out.startswith("verified")


# claim TG-C-443
def test_a_result_cannot_name_a_file_outside_the_directory() -> None:
    for name in ("../x", "/etc/x", "a/b", ".bashrc", "-rf", "", "x y", "x\u0301"):
        with pytest.raises(ArtifactRejected, match="plain file name"):
            registry.parse(Untrusted(naming(name)))
    registry.parse(Untrusted(naming("x")))  # control


def naming(name: str) -> bytes:
    left = (OutputFile(name, 1, sha256_hex(b"x")),)
    return registry.emit(samples.tool_result("", backend="era", exit_code=0, files=left))


def test_what_has_no_files_or_lost_them_is_one_clear_error(ws: Workspace, cli: Cli) -> None:
    run = cli("run", approved_request(ws, "6 * 7"), "--json").json["runs"][0]
    assert run["files"] == []
    assert "left no files" in cli("result", "export", run["result"], "out", code=2).err
    assert "is not a result" in cli("result", "export", run["request"], "out", code=2).err
    assert not (cli.base / "out").exists()


# claim TG-C-444
def test_a_run_is_reported_in_three_formats(ws: Workspace, cli: Cli) -> None:
    code = "print('a   1')\nprint('bb  2')\n[1, 2]"
    result = cli("run", approved_request(ws, code), "--json").json["runs"][0]["result"]
    text = cli("report", result[:16])
    assert text.out.startswith("# `The mean of three measurements.`\n"), "its purpose"
    assert "signature: checked again for this report: good" in text.out
    assert "BROUGHT FROM ELSEWHERE" not in text.out
    _, blocks = read_markdown(text.raw_out)
    assert {"a   1\nbb  2\n\n", "[1, 2]\n"} <= set(blocks)
    assert f"threegate replay {result[:16]}\n" in blocks
    raw = cli("report", result, "--format", "html").raw_out
    page = read_page(raw)
    assert any("a   1\nbb  2" in one for one in page.foreign)
    assert b'<pre class="foreign fixed" dir="ltr">\na   1\nbb  2' in raw
    assert b"pre.fixed { font-family: monospace;" in raw
    pages = "".join(read_pdf(cli("report", result, "--format", "pdf").raw_out))
    assert "Appendix: approval" in pages
    assert cli("report", result, "--format", "html").raw_out == raw, "the same bytes every time"


# claim TG-C-444
def test_a_report_says_of_a_result_that_no_run_left_it(ws: Workspace, cli: Cli) -> None:
    _, result = answer_on(ws, FILES)
    text = cli("report", result).out
    assert "BROUGHT FROM ELSEWHERE: no run of this workspace left this result" in text
    assert "NO USE of this approval was spent in this workspace" in text
    assert "group  mean" in text, "control: its table is shown"
    assert "re-encoded from its points, 4 x 3" in text, "control: and its image"
