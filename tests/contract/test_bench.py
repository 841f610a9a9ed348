"""The benchmarks run, compare what they say they compare, and the document shows their figures.

Nothing here asserts a time.
"""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import report, run, verify
from bench.data import prose_packets, season_of, serial_of
from bench.figures import Sizes, curve
from bench.measure import Memory, Watch, slope
from bench.svg import plot
from scripts import docs_sync
from threegate.artifacts import registry
from threegate.audit.limits import SEGMENT_EVENTS
from threegate.untrusted import Untrusted

TINY = Sizes(
    "tiny",
    packets_to_validate=40,
    batches=1,
    singles=3,
    events=(100, 1200, 2400),
    packets=(10, 130, 150),
    queries=3,
)


@pytest.mark.parametrize("topic", run.TOPICS)
def test_every_topic_measures_something_and_says_it(topic: str, tmp_path: Path) -> None:
    found = run.measure(topic, TINY, tmp_path)
    assert json.loads(json.dumps(found)) == found, "figures are plain JSON"
    assert found["rows"]
    assert any(row["times"] is not None for row in found["rows"]), "nothing was compared"
    assert all(row["ours"] > 0 for row in found["rows"] if "growth" not in row["what"])
    figures = {topic: found}
    assert found["rows"][0]["what"] in report.terminal(figures)
    assert set(report.pictures(figures)) == {f"{item['of']}.svg" for item in found["curves"]}


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
