"""Kill -9, and power cuts, at every call that changes the disk.

Invariant: every entry whose append returned is there, nothing is there twice, what is
there is a prefix of what was attempted, and the log verifies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.support.auditlab import (
    Machine,
    Point,
    clock,
    copy_log,
    die,
    ids,
    lose_power,
    new_log,
    numbered,
    run_child,
    segment_files,
)
from threegate.audit import AuditLog, verify_log
from threegate.audit.chain import LAST
from threegate.audit.entry import SEGMENT_EVENTS

KILLED = -9
FIRST_ID = 50_000


@dataclass(frozen=True)
class Scenario:
    """A log of `size` lines with `tail` torn off, opened, then appended to batch by batch."""

    size: int
    batches: tuple[int, ...]
    tail: bytes = b""
    next_segment: bytes | None = None


SCENARIOS = {
    "inside a segment": Scenario(10, (1, 3, 2)),
    "filling a segment": Scenario(SEGMENT_EVENTS - 4, (3, 1)),
    "crossing a segment": Scenario(SEGMENT_EVENTS - 4, (2, 5, 1)),
    "spanning segments": Scenario(SEGMENT_EVENTS - 4, (2100, 1)),
    "beginning a segment": Scenario(SEGMENT_EVENTS, (1, 1)),
    "seal torn off": Scenario(LAST, (1,), tail=b'{"data":{"ev'),
    "torn before the last event": Scenario(LAST - 1, (1, 1), tail=b'{"data"'),
    "torn and zeros": Scenario(10, (1,), tail=b'{"data":' + b"\0" * 600),
    "next segment empty": Scenario(SEGMENT_EVENTS, (1,), next_segment=b""),
    "next segment torn": Scenario(SEGMENT_EVENTS, (1,), next_segment=b'{"data":{"form'),
}


def prepare(directory: Path, scenario: Scenario) -> None:
    new_log(directory, size=scenario.size).close()
    newest = max(directory.glob("segment-*.jsonl"))
    with newest.open("ab") as file:
        file.write(scenario.tail)
    if scenario.next_segment is not None:
        (directory / "segment-00000001.jsonl").write_bytes(scenario.next_segment)


def work_on(directory: Path, scenario: Scenario, machine: Machine) -> Callable[[Connection], None]:
    def work(pipe: Connection) -> None:
        with machine.installed():
            log = AuditLog.open(directory, clock=clock)
            number = FIRST_ID
            for count in scenario.batches:
                entries = log.append(numbered(number, count))
                number += count
                pipe.send([entry.digest for entry in entries])
        pipe.send(machine)

    return work


def check(directory: Path, scenario: Scenario, acknowledged: list[str], *, crash: str) -> None:
    log = AuditLog.open(directory, clock=clock)
    entries = list(log.entries())
    digests = [entry.digest for entry in entries]
    assert set(acknowledged) <= set(digests), f"{crash}: an acknowledged entry is lost"
    there = [number for number in ids(entries) if number >= FIRST_ID]
    assert there == list(range(FIRST_ID, FIRST_ID + len(there))), (
        f"{crash}: doubled or out of order"
    )
    assert len(there) >= len(acknowledged)
    _check_torn(directory, scenario, [dict(e.data) for e in entries if e.kind == "log.recovered"])
    log.append(numbered(FIRST_ID + len(there), 1))
    report = verify_log(directory, checkpoints=[log.checkpoint()])
    assert report.problem is None, f"{crash}: {report.problem}"


def _check_torn(directory: Path, scenario: Scenario, recovered: list[dict[str, object]]) -> None:
    """What was torn is kept, recorded once, and nothing else is kept or recorded."""
    kept = sorted((directory / "torn").iterdir())
    assert [path.suffix for path in kept] == [""] * len(kept)
    described = [
        {"bytes": path.stat().st_size, "sha256": sha256(path.read_bytes()).hexdigest()}
        for path in kept
    ]
    assert described == recovered
    torn = scenario.tail if scenario.next_segment is None else scenario.next_segment
    if scenario.tail or scenario.next_segment is not None:
        assert sum(row["sha256"] == sha256(torn).hexdigest() for row in recovered) == 1


def flat(batches: list[list[str]]) -> list[str]:
    return [digest for batch in batches for digest in batch]


def points_of(base: Path, scenario: Scenario) -> list[Point]:
    directory = copy_log(base, base.with_name("counting"))
    ended, sent = run_child(work_on(directory, scenario, Machine()))
    assert ended == 0, "control: without a crash everything is appended"
    machine = sent.pop()
    assert [len(batch) for batch in sent] == list(scenario.batches)
    check(directory, scenario, flat(sent), crash="none")
    points: list[Point] = machine.crashes()
    return points


@pytest.mark.parametrize("happen", [die, lose_power])
@pytest.mark.parametrize("name", SCENARIOS)
def test_crash_at_every_call(tmp_path: Path, name: str, happen: Callable[[Machine], None]) -> None:
    scenario, base = SCENARIOS[name], tmp_path / "base"
    prepare(base, scenario)
    points = points_of(base, scenario)
    assert len(points) >= 6
    for point in points:
        directory = copy_log(base, tmp_path / "work")
        ended, sent = run_child(work_on(directory, scenario, Machine(point, happen)))
        assert ended == KILLED, f"{point} was never reached"
        check(directory, scenario, flat(sent), crash=f"{name}, {point}")


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_crash_while_recovering_from_a_crash(tmp_path: Path, step: int) -> None:
    """Two crashes: the second strikes while the first is being recovered from."""
    scenario, base = SCENARIOS["seal torn off"], tmp_path / "base"
    prepare(base, scenario)
    for first in points_of(base, scenario)[::step]:
        once = copy_log(base, tmp_path / "once")
        ended, sent = run_child(work_on(once, scenario, Machine(first, die)))
        assert ended == KILLED
        again = Scenario(scenario.size, (), tail=scenario.tail)
        counting = copy_log(once, tmp_path / "counting")
        _, (machine,) = run_child(work_on(counting, again, Machine()))
        for second in machine.crashes()[:: min(step, 3)]:
            twice = copy_log(once, tmp_path / "twice")
            ended, _ = run_child(work_on(twice, again, Machine(second, die)))
            assert ended == KILLED
            check(twice, scenario, flat(sent), crash=f"{first}, then {second}")


@pytest.mark.parametrize("happen", [die, lose_power])
def test_crash_at_every_call_of_creation(tmp_path: Path, happen: Callable[[Machine], None]) -> None:
    def creating(directory: Path, machine: Machine) -> Callable[[Connection], None]:
        def work(pipe: Connection) -> None:
            with machine.installed():
                new_log(directory)
            pipe.send(machine)

        return work

    ended, (machine,) = run_child(creating(tmp_path / "counting", Machine()))
    assert ended == 0, "control"
    points = machine.crashes()
    assert len(points) > 10
    for number, point in enumerate(points):
        directory = tmp_path / str(number)
        ended, _ = run_child(creating(directory, Machine(point, happen)))
        assert ended == KILLED
        if not (directory.is_dir() and segment_files(directory)):
            new_log(directory)  # nothing was promised yet: init is simply run again
        assert AuditLog.open(directory, clock=clock).size == 1
        assert verify_log(directory).problem is None
