"""Data files: imported, described, and computed on by their packet's id, through real sandboxes."""

import shutil
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.support.cli import Cli, made, write
from tests.support.tables import XLSX
from threegate.artifacts.ids import sha256_hex

MEASUREMENTS = Path(__file__).parents[2] / "examples" / "library" / "measurements.csv"
MEAN = b"""import csv
rows = list(csv.reader(data.splitlines()))
place = rows[0].index("strength_mpa")
values = [float(row[place]) for row in rows[1:]]
round(sum(values) / len(values), 6)
"""
PURPOSE = ("--purpose", "The mean strength.")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    place.mkdir()
    shutil.copy(MEASUREMENTS, place)
    return place


def imported(cli: Cli, path: Path, *options: str) -> str:
    (found,) = cli("import", path, *options, "--json").json["files"]
    return str(found["id"])


def requested(cli: Cli, tmp_path: Path, value: str, *options: str) -> str:
    code = write(tmp_path / "mean.py", MEAN)
    words = ("--input", f"data={value}", *options, "--json")
    return str(cli("request", "new", *PURPOSE, "--code", code, *words).json["id"])


def fields(cli: Cli, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] = cli("request", "show", request_id, "--json").json["fields"]
    return found


def expected() -> float:
    lines = MEASUREMENTS.read_text("utf-8").splitlines()[1:]
    return round(mean(float(line.split(",")[3]) for line in lines), 6)


# claim TG-C-607
def test_a_column_of_an_imported_table_is_averaged_in_the_lite_lane(
    cli: Cli, folder: Path, tmp_path: Path
) -> None:
    packet_id = imported(cli, folder / "measurements.csv")
    shown = cli("packet", "show", packet_id).out
    assert "36 rows, 4 columns." in shown
    assert "4. strength_mpa: number; 36 values; 0 empty" in shown
    request_id = requested(cli, tmp_path, f"{packet_id[:15]}:raw")
    given = fields(cli, request_id)
    assert given["derived_from"] == [packet_id]
    assert (given["integrity"], given["confidentiality"]) == ("external", "internal")
    assert given["inputs"][0]["file"] == "measurements.csv"
    sheet = cli("review", "show", request_id).out
    assert f"the raw bytes of {packet_id[:15]}" in sheet
    assert "file:measurements.csv" in sheet
    assert "reads data from outside (data)" in sheet
    cli("review", "approve", request_id, "--yes")
    (ran,) = cli("run", request_id, "--json").json["runs"]
    assert ran["exit"] == "ok"
    result = cli("result", "show", ran["result"], "--json").json
    assert str(expected()) in str(result["sections"])
    assert "verified" in cli("audit", "verify").out


# claim TG-C-607
def test_raw_bytes_keep_the_labels_of_their_packet_and_go_with_it(
    cli: Cli, folder: Path, tmp_path: Path
) -> None:
    plain = requested(cli, tmp_path, str(folder / "measurements.csv"))
    assert fields(cli, plain)["confidentiality"] == "internal", "control: a file has no labels"
    packet_id = imported(cli, folder / "measurements.csv", "--confidentiality", "confidential")
    request_id = requested(cli, tmp_path, f"{packet_id}:raw")
    assert fields(cli, request_id)["confidentiality"] == "confidential"
    code = tmp_path / "mean.py"
    words = ("--code", code, "--input", f"data={packet_id}:raw", "--confidentiality", "public")
    done = cli("request", "new", *PURPOSE, *words, code=65)
    assert "input data is confidential, so the request is not public" in done.err
    cli("withdraw", packet_id, "--yes", "--reason", "not ours")
    states = {one["id"]: one for one in cli("request", "list", "--json").json["items"]}
    assert request_id not in states, "withdrawn with its packet"
    assert plain in states, "control: the other request stays"
    done = cli("request", "new", *PURPOSE, "--code", code, "--input", words[3], code=2)
    assert "was withdrawn here" in done.err


def test_the_heavy_lane_gets_the_very_bytes(cli: Cli, folder: Path, tmp_path: Path) -> None:
    assert cli.workspace is not None
    policy = cli.workspace / "policy" / "tool-exec.policy.md"
    text = policy.read_text("utf-8")
    assert "  era:\n    enabled: no" in text
    policy.write_text(text.replace("  era:\n    enabled: no", "  era:\n    enabled: yes"), "utf-8")
    cli("policy", "apply", "--yes")
    (folder / "ice.xlsx").write_bytes(XLSX)
    packet_id = imported(cli, folder / "ice.xlsx")
    options = ("--backend", "era", "--why", "files", "--output", "a.csv=1KiB")
    request_id = requested(cli, tmp_path, f"{packet_id}:raw", *options)
    given = fields(cli, request_id)
    assert given["inputs"][0] == {
        "name": "data",
        "artifact": f"blob-{sha256_hex(XLSX)}",
        "bytes": len(XLSX),
        "file": "ice.xlsx",
    }
    assert given["derived_from"] == [packet_id]
    assert f"the raw bytes of {packet_id[:15]}" in cli("review", "show", request_id).out
    code = tmp_path / "mean.py"
    done = cli(
        "request", "new", *PURPOSE, "--code", code, "--input", f"data={packet_id}:raw", code=65
    )
    assert "not UTF-8" in done.err
    assert "use the heavy lane" in done.err


def test_a_format_that_is_not_read_is_refused_by_name(cli: Cli, folder: Path) -> None:
    (folder / "ice.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    done = cli("import", folder / "ice.parquet", code=65)
    assert "Parquet is not read" in done.out
    assert "convert it to CSV" in done.out
