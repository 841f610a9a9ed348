"""The worked example of the heavy lane: a large table in, pandas, a small one and a plot back."""

import base64
import csv
import os
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.support.cli import Cli, made
from tests.support.heavy import ENABLED, built
from tests.support.reports import pdf_images
from threegate.handoff import states
from threegate.host.run.heavy.backend import EMULATION
from threegate.host.run.heavy.runsc import RUNSC

ROWS = 200_000
EXAMPLE = Path(__file__).parents[2] / "examples" / "heavy" / "means"


def table(path: Path) -> dict[str, float]:
    """Write a table; return the mean of each group."""
    groups: dict[str, list[float]] = {"a": [], "b": [], "c": []}
    with path.open("w", encoding="ascii") as file:
        file.write("group,x,y\n")
        for n in range(ROWS):
            name, y = "abc"[n % 3], (n * 7919 % 1000) / 1000 + n % 3
            groups[name].append(y)
            file.write(f"{name},{n},{y}\n")
    return {name: statistics.fmean(values) for name, values in groups.items()}


@pytest.mark.slow
@pytest.mark.parametrize("engine", [EMULATION, RUNSC])
def test_a_large_table_becomes_a_small_one_and_a_plot(tmp_path: Path, engine: str) -> None:
    built(tmp_path / "cache" / "threegate", "base", "science")
    cli = replace(made(tmp_path), seconds=3600)  # a guest is emulated, beside whatever else runs
    cli.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    assert cli.workspace is not None
    path = cli.workspace / "policy" / "tool-exec.policy.md"
    named = ENABLED[1].replace(EMULATION, engine)
    path.write_text(path.read_text("utf-8").replace(ENABLED[0], named), "utf-8")
    cli("policy", "apply", "--yes")
    means = table(tmp_path / "table.csv")
    words = "request new --purpose means --code means.py --backend era --why files --json"
    limits = "--limit wall_ms=900s --limit memory_bytes=512MiB"
    outputs = "--output means.csv=64KiB --output means.png=1MiB"
    given = f"--input=table={tmp_path / 'table.csv'}"
    asked = [*words.split(), *limits.split(), *outputs.split(), given]
    request_id = cli(*asked, cwd=EXAMPLE).json["id"]
    cli("review", "approve", request_id, "--yes")
    (run,) = cli("run", request_id, "--json").json["runs"]
    assert run["exit"] == "ok", run
    fields = cli("result", "show", run["result"], "--json").json["fields"]
    assert fields["isolation"] == engine
    assert fields["stderr"]["bytes"] == 0, "nothing of the libraries' own came out"
    files = {item["name"]: item["sha256"] for item in fields["files"]}
    blobs = cli.workspace / states.BLOBS
    with (blobs / files["means.csv"]).open(encoding="ascii") as file:
        found = {row["group"]: float(row["mean"]) for row in csv.DictReader(file)}
    assert found == pytest.approx(means)
    assert (blobs / files["means.png"]).read_bytes().startswith(b"\x89PNG\r\n")
    assert os.path.getsize(blobs / files["means.png"]) > 1000
    shown_in_reports(cli, run["result"], means)


def shown_in_reports(cli: Cli, result: str, means: dict[str, float]) -> None:
    """Ask about the result, and look for table and plot in a report of each format."""
    words = ("ask", "What is the mean of each group?", "--packets", result, "--extractive")
    answer = cli(*words, "--json").json["id"]
    page = LexborHTMLParser(cli("report", answer, "--format", "html").out)
    rows = [[cell.text() for cell in row.css("th, td")] for row in page.css("table.foreign tr")]
    assert rows[0] == ["group", "mean", "std", "count"]
    assert {row[0]: float(row[1]) for row in rows[1:]} == pytest.approx(means)
    (image,) = page.css("img.foreign")
    plot = (image.attributes["src"] or "").removeprefix("data:image/png;base64,")
    assert base64.b64decode(plot).startswith(b"\x89PNG\r\n")
    assert "re-encoded from its points" in cli("report", answer).out
    cli("report", answer, "--output", "answer.md")
    assert "![an image a run left](./answer-1.png)" in (cli.base / "answer.md").read_text("utf-8")
    assert (cli.base / "answer-1.png").read_bytes() == base64.b64decode(plot)
    assert pdf_images(cli("report", answer, "--format", "pdf").raw_out) == 1
