"""The benchmarks run, compare what they say they compare, and the document shows their figures.

Nothing here asserts a time.
"""

import hashlib
import json
import math
import os
import random
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import lite_packages, report, ring, run, verify
from bench.data import prose_packets, season_of, serial_of
from bench.figures import Sizes, alone, compare, curve, missing
from bench.lite_packages import Package
from bench.lite_raw import RawSyncs, recorded_syncs
from bench.measure import Memory, Watch, noise, slope
from bench.svg import plot
from scripts import docs_sync
from threegate.artifacts import registry
from threegate.audit.entry import SEGMENT_EVENTS
from threegate.base.untrusted import Untrusted
from threegate.handoff import sync

TINY = Sizes(
    "tiny",
    packets_to_validate=40,
    batches=1,
    singles=3,
    events=(100, 1200, 2400),
    packets=(10, 130, 150),
    queries=3,
    requests=6,
    rows=200,
)


# Guests are booted for it: minutes.
GUESTS = ("heavy", "ring", "executors")  # what boots one
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in GUESTS]


@pytest.mark.parametrize("topic", [*(name for name in run.TOPICS if name not in GUESTS), *SLOW])
def test_every_topic_measures_something_and_says_it(topic: str, tmp_path: Path) -> None:
    found = run.measure(topic, TINY, tmp_path)
    assert json.loads(json.dumps(found)) == found, "figures are plain JSON"
    assert found["rows"]
    assert any(row["times"] is not None for row in found["rows"]), "nothing was compared"
    assert all(row["ours"] > 0 for row in found["rows"] if "growth" not in row["what"])
    figures = {topic: found}
    assert found["rows"][0]["what"] in report.terminal(figures)
    assert set(report.pictures(figures)) == {f"{item['of']}.svg" for item in found["curves"]}


def pairs(middle: float, spread: float, count: int = 200) -> list[float]:
    drawn = random.Random(7)  # the same noise every time
    return [middle * math.exp(drawn.gauss(0.0, spread)) for _ in range(count)]


@pytest.mark.parametrize(
    ("ratios", "met"),
    [
        (pairs(1.01, 0.1), True),
        (pairs(1.12, 0.2), False),
        (pairs(1.05, 0.1), None),
        (pairs(1.01, 0.2, count=12), None),  # too few for so much noise
        (pairs(1.08, 0.2, count=12), None),
        ([*pairs(1.01, 0.02), 1000.0], True),  # one lap that had to wait
        ([*pairs(1.12, 0.02), 0.0001], False),
        ([1.0] * 5, None),  # too few for anything
        ([1.0] * 6, True),
        ([1.05] * 6, True),
        ([1.06] * 6, False),
        ([], None),
    ],
)
def test_the_rings_target_is_met_or_missed_only_if_all_of_the_interval_is(
    ratios: list[float], met: bool | None
) -> None:
    assert ring.verdict(ratios) is met


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    drawn = random.Random(11)
    missed = 0
    for _ in range(2000):
        found = ring.interval([drawn.paretovariate(3) for _ in range(25)])
        assert found is not None
        missed += not found[0] <= 2 ** (1 / 3) <= found[1]
    assert 0 < missed <= 2000 * (1 - ring.CONFIDENCE)


@pytest.mark.parametrize("power", [0, 1, 2])
def test_the_slope_is_the_power_that_cost_grows_with(power: int) -> None:
    points = [(size, 0.003 * size**power) for size in (1_000, 10_000, 100_000)]
    assert slope(points) == pytest.approx(power)


def test_a_curve_steeper_than_expected_is_called_missed() -> None:
    quadratic = [(size, size**2 / 1e6) for size in (10, 100, 1000)]
    linear = [(size, size / 1e6) for size in (10, 100, 1000)]
    assert curve("x", linear, of="events", expect="linear", picture="p")["met"] is True
    assert curve("x", quadratic, of="events", expect="linear", picture="p")["met"] is False
    assert curve("x", linear, of="events", expect="flat", picture="p")["met"] is False


def test_memory_that_grows_is_seen() -> None:
    memory = Memory()
    memory.samples = [2**20 * size for size in (5, 9, 10, 10, 10, 10, 10, 30)]
    assert memory.growth() == pytest.approx(20)
    assert memory.peak() == pytest.approx(30)


def test_a_share_of_laps_is_not_exceeded() -> None:
    watch = Watch([0.1 * lap for lap in range(1, 101)], 100)
    assert watch.at(50) == pytest.approx(5.1)
    assert watch.at(95) == pytest.approx(9.6)
    assert Watch([1.0], 1).at(95) == 1.0


@pytest.mark.parametrize("size", [1, 1000, 1001, 10_000, 1_000_000])
def test_opening_is_measured_with_an_almost_full_segment(size: int) -> None:
    grown = verify.almost_full(size)
    assert size <= grown < size + SEGMENT_EVENTS
    assert grown % SEGMENT_EVENTS == SEGMENT_EVENTS - verify.ROOM


def test_packets_of_prose_are_packets_and_hold_the_words_searched_for() -> None:
    (data,) = prose_packets(7, 1)
    registry.parse(Untrusted(data))
    assert 4000 < len(data) < 6500
    assert season_of(7).encode() in data
    assert re.search(rb"\b" + serial_of(7).encode() + rb"\b", data)


def test_noise_is_half_the_distance_of_the_quartiles() -> None:
    assert noise([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(100 / 3)
    assert noise([2.0, 2.0]) == 0
    assert noise([2.0]) is None


def test_a_row_shows_its_noise_where_it_is_known() -> None:
    known = compare("x", 2.0, peer="p", theirs=3.0, unit="ms", noise=(4.0, None))
    _, *rows = report.comparison_rows({"t": {"rows": [known, alone("y", 1.0, "ms")]}})
    assert rows[0][1:3] == ("2.00 ms ± 4 %", "3.00 ms")
    assert rows[1][1:3] == ("1.00 ms", "–")


def test_a_peer_that_cannot_be_had_is_named_with_the_reason() -> None:
    row = missing("x", 2.0, "ms", peer="Pyodide in Node", why="no Node here")
    shown = report.terminal({"t": {"rows": [row], "curves": []}})
    assert "Pyodide in Node" in shown
    assert "peer not measured: no Node here" in shown


def test_raw_flushes_are_those_that_were_recorded(tmp_path: Path) -> None:
    raw, file = RawSyncs(tmp_path / "raw"), tmp_path / "file"
    file.write_bytes(b"x" * 700)
    with recorded_syncs() as syncs:
        for path in (file, tmp_path):
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        with file.open("ab") as grown:
            os.fdatasync(grown.fileno())
            grown.write(b"more")
            grown.flush()
            os.fdatasync(grown.fileno())
            sync.sync_filesystem(grown.fileno())
    assert [(item.kind, item.size) for item in syncs] == [
        ("file", 700),
        ("directory", 0),
        ("data", 0),
        ("data", 4),
        ("filesystem", 0),
    ]
    with recorded_syncs() as again:
        raw.make(syncs)
    assert [item.kind for item in again] == [item.kind for item in syncs]


def test_a_package_with_another_digest_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheel = tmp_path / "peer.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("peer/code.py", "x = 1")
        packed.writestr("other/code.py", "x = 2")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for sha256, found in (("0" * 64, []), (digest, ["peer", "peer/code.py"])):
        package = Package("peer", "1", sha256, ("cp", str(wheel), "."), "peer/")
        lite_packages.fetch(package)
        below = sorted(str(path.relative_to(package.place)) for path in package.place.rglob("*"))
        assert below == found


def test_a_picture_is_well_formed_and_shows_every_point() -> None:
    drawn = plot("<cost>", x_label="n", curves=[("a & b", [(10, 0.001), (1000, 2.5)])])
    tree = ET.fromstring(drawn)  # noqa: S314  # drawn by us
    assert len(tree.findall("{*}circle")) == 2
    assert {"<cost>", "a & b"} <= {item.text for item in tree.findall("{*}text")}


def test_the_document_shows_the_figures_that_were_kept() -> None:
    figures = report.load(run.FIGURES)
    assert list(figures) == list(run.TOPICS), "a topic has never been written down"
    for name, picture in report.pictures(figures).items():
        assert (run.PICTURES / name).read_text("utf-8") == picture
    text = run.DOCUMENT.read_text("utf-8")
    blocks = {"bench": lambda argument: report.BLOCKS[argument](figures)}
    assert docs_sync.render(text, blocks) == text
