"""Attacks on the audit log: thousands of random edits, and the clever ones by name.

Whoever can write the log's directory tries to change what happened.  Held against a
checkpoint from another machine, every change is found.  Without one, every change is
found but those the documentation names: a cut at a line, another last line, and a
history rewritten from some line to the end.
"""

import json
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.auditlab import (
    WORKSPACE,
    clock,
    copy_log,
    new_log,
    segment_files,
    write_files,
)
from threegate.audit import AuditLog, Checkpoint, LogFault, LogReport, verify_log
from threegate.audit.entry import SEGMENT_EVENTS, emit_line
from threegate.base.errors import AuditTampered

Files = dict[str, bytes]

FIRST, SECOND, THIRD = (f"segment-{number:08d}.jsonl" for number in range(3))


class Lab:
    """One log to attack: its bytes, the checkpoint kept elsewhere, a directory to work in."""

    def __init__(self, root: Path, size: int) -> None:
        self.base = root / f"base-{size}"
        log = new_log(self.base, size=size)
        self.checkpoint: Checkpoint = log.checkpoint()
        log.close()
        self.files: Files = segment_files(self.base)
        self.work = copy_log(self.base, root / f"work-{size}")
        self.last_line_at = self.files[max(self.files)].rindex(b"\n", 0, -1) + 1

    def verify(self, files: Files) -> tuple[LogReport, LogReport]:
        """Return the reports on `files`, with the checkpoint and without."""
        write_files(self.work, files)
        return verify_log(self.work, checkpoints=[self.checkpoint]), verify_log(self.work)

    def only_the_end_differs(self, files: Files) -> bool:
        """Return whether the edit is one of those only a checkpoint can show."""
        names = sorted(self.files)
        if sorted(files) != names[: len(files)]:
            return False
        whole, edited = (
            b"".join(some[name] for name in sorted(some)) for some in (self.files, files)
        )
        cut_at_a_line = whole.startswith(edited) and edited.endswith(b"\n")
        keep = sum(len(self.files[name]) for name in names[:-1]) + self.last_line_at
        return cut_at_a_line or edited[:keep] == whole[:keep]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("small"), 40)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("large"), 2 * SEGMENT_EVENTS + 20)


# -- random edits: each takes the bytes of one file and returns others ---------------

Edit = Callable[[bytes, random.Random], bytes]


def flip_a_bit(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def change_a_byte(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([chance.choice(b'0123456789abcdef"{},:\n\0 ')]) + data[at + 1 :]


def insert_bytes(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.randint(1, 20)) + data[at:]


def remove_bytes(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + data[at + chance.randint(1, 400) :]


def swap_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    one, two = chance.sample(range(len(lines)), 2)
    lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def repeat_a_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    return b"".join([*lines[:at], lines[at], *lines[at:]])


def remove_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    return b"".join(lines[:at] + lines[at + chance.randint(1, 5) :])


def cut_anywhere(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def cut_at_a_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: chance.randrange(len(lines))])


def write_zeros(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    length = min(chance.choice([1, 100, 512, 4096]), len(data) - at)
    return data[:at] + b"\0" * length + data[at + length :]


def change_a_value(data: bytes, chance: random.Random) -> bytes:
    """Canonical, with the right number and link: only the digest of the line differs."""
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    value = json.loads(lines[at])
    value["data"]["forged"] = chance.randrange(10**6)
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return b"".join([*lines[:at], text.encode() + b"\n", *lines[at + 1 :]])


EDITS: list[Edit] = [
    flip_a_bit,
    change_a_byte,
    insert_bytes,
    remove_bytes,
    swap_lines,
    repeat_a_line,
    remove_lines,
    cut_anywhere,
    cut_at_a_line,
    write_zeros,
    change_a_value,
]


def attack(lab: Lab, edit: Edit, times: int) -> tuple[int, int]:
    """Return how many edits were made, and how many of them needed the checkpoint."""
    chance = random.Random(edit.__name__)
    made = needed = 0
    for _ in range(times):
        name = chance.choice(sorted(lab.files))
        edited = {**lab.files, name: edit(lab.files[name], chance)}
        if edited == lab.files:
            continue
        made += 1
        with_checkpoint, alone = lab.verify(edited)
        assert with_checkpoint.problem is not None, f"{edit.__name__} of {name} went unnoticed"
        if alone.problem is None:
            assert lab.only_the_end_differs(edited), f"{edit.__name__} of {name}"
            needed += 1
    return made, needed


def test_control_the_untouched_logs_verify(small: Lab, large: Lab) -> None:
    for lab in (small, large):
        for report in lab.verify(lab.files):
            assert report.problem is None
            assert (report.events, report.root) == (lab.checkpoint.size, lab.checkpoint.root)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
# claim TG-C-40
def test_thousands_of_edits_are_all_detected(small: Lab, edit: Edit) -> None:
    made, needed = attack(small, edit, 300)
    assert made >= 250
    if edit is cut_at_a_line:
        assert needed == made - _cuts_to_nothing(small)
    else:
        assert needed < made / 10, "the chain alone finds nearly all of them"


def _cuts_to_nothing(lab: Lab) -> int:
    """Return how often the seeded cut leaves an empty file, which is noticed without help."""
    chance = random.Random(cut_at_a_line.__name__)
    count = 0
    for _ in range(300):
        name = chance.choice(sorted(lab.files))
        count += not cut_at_a_line(lab.files[name], chance)
    return count


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_edits_anywhere_in_several_segments_are_all_detected(large: Lab, edit: Edit) -> None:
    made, _ = attack(large, edit, 25)
    assert made >= 20


def test_a_cut_at_every_byte_is_detected(small: Lab) -> None:
    whole = small.files[FIRST]
    start = len(b"".join(whole.splitlines(keepends=True)[:-3]))
    for end in range(start, len(whole)):
        with_checkpoint, alone = small.verify({FIRST: whole[:end]})
        at_a_line = whole[:end].endswith(b"\n")
        assert with_checkpoint.problem is not None
        assert (alone.problem is None) == at_a_line
        expected = LogFault.TRUNCATED if at_a_line else LogFault.TORN
        assert with_checkpoint.problem.reason is expected


# -- the clever ones -----------------------------------------------------------------


def rewritten(files: Files, *, from_seq: int, change: Callable[[dict[str, object]], None]) -> Files:
    """Return a log that is in itself perfect, with entry `from_seq` changed."""
    lines = files[FIRST].splitlines()
    for seq in range(from_seq, len(lines)):
        value = json.loads(lines[seq])
        if seq == from_seq:
            change(value["data"])
        prev = sha256(lines[seq - 1]).hexdigest()
        lines[seq] = emit_line(value["kind"], value["data"], prev=prev, seq=seq, time=value["time"])
    return {FIRST: b"".join(line + b"\n" for line in lines)}


@pytest.mark.parametrize("seq", [1, 20, 39])
# claim TG-C-41
def test_history_rewritten_to_the_end_is_found_by_a_checkpoint(small: Lab, seq: int) -> None:
    forged = rewritten(small.files, from_seq=seq, change=lambda data: data.update(id=0))
    with_checkpoint, alone = small.verify(forged)
    assert alone.problem is None, "control: the forgery is perfect in itself"
    assert with_checkpoint.problem is not None
    assert (with_checkpoint.problem.reason, with_checkpoint.problem.seq) == (LogFault.FORK, 39)


def test_an_earlier_checkpoint_tells_when_it_was_rewritten(small: Lab) -> None:
    earlier = AuditLog.open(small.base, clock=clock).checkpoint()
    assert earlier == small.checkpoint, "control"
    lines = small.files[FIRST].splitlines(keepends=True)
    write_files(small.work, {FIRST: b"".join(lines[:15])})
    at_15 = AuditLog.open(small.work, clock=clock).checkpoint()
    forged = rewritten(small.files, from_seq=20, change=lambda data: data.update(id=0))
    write_files(small.work, forged)
    assert verify_log(small.work, checkpoints=[at_15]).problem is None
    report = verify_log(small.work, checkpoints=[at_15, small.checkpoint])
    assert report.problem is not None
    assert report.problem.reason is LogFault.FORK


# claim TG-C-41
def test_cut_and_grown_again_is_found_by_a_checkpoint(small: Lab) -> None:
    """Truncation covered up by new entries: same size, other root."""
    lines = small.files[FIRST].splitlines(keepends=True)
    write_files(small.work, {FIRST: b"".join(lines[:-5])})
    with AuditLog.open(small.work, clock=clock) as log:
        log.append([("test.event", {"id": number}) for number in range(5)])
        assert log.size == small.checkpoint.size
    assert verify_log(small.work).problem is None, "control: the forgery is perfect in itself"
    report = verify_log(small.work, checkpoints=[small.checkpoint])
    assert report.problem is not None
    assert report.problem.reason is LogFault.FORK


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (lambda f: {**f, FIRST: f[SECOND], SECOND: f[FIRST]}, LogFault.ORDER),
        (lambda f: {**f, SECOND: f[FIRST]}, LogFault.ORDER),
        (lambda f: {FIRST: f[FIRST], THIRD: f[THIRD]}, LogFault.MISSING),
        (lambda f: {FIRST: f[FIRST], SECOND: f[THIRD]}, LogFault.ORDER),
        (lambda f: {SECOND: f[SECOND], THIRD: f[THIRD]}, LogFault.MISSING),
        (lambda f: {**f, "segment-00000003.jsonl": f[THIRD]}, LogFault.UNSEALED),
        (lambda f: {**f, "segment-00000003.jsonl": b""}, LogFault.UNSEALED),
        (lambda f: {**f, FIRST: f[FIRST] + f[SECOND]}, LogFault.EXTRA),
        (lambda f: {FIRST: f[FIRST], SECOND: f[SECOND]}, LogFault.TRUNCATED),
        (lambda f: {FIRST: f[FIRST]}, LogFault.TRUNCATED),
        (lambda _: {}, LogFault.MISSING),
    ],
)
# claim TG-C-40
def test_segments_swapped_repeated_or_gone_are_detected(
    large: Lab, files: Callable[[Files], Files], reason: LogFault
) -> None:
    report, _ = large.verify(files(large.files))
    assert report.problem is not None
    assert report.problem.reason is reason


# claim TG-C-40
def test_a_segment_of_another_workspace_is_detected(large: Lab, tmp_path: Path) -> None:
    """Same entries, same times, same sizes; only the workspace differs."""
    other = AuditLog.create(tmp_path / "other", workspace="e" * 32, clock=clock)
    while other.size < large.checkpoint.size:
        other.append([("test.event", {"id": other.size})], durable=False)
    foreign = segment_files(tmp_path / "other")
    assert verify_log(tmp_path / "other").problem is None, "control"
    report, alone = large.verify({**large.files, SECOND: foreign[SECOND]})
    assert alone.problem == report.problem
    assert report.problem is not None
    assert (report.problem.reason, report.problem.seq) == (LogFault.CHAIN, SEGMENT_EVENTS)
    whole, alone = large.verify(foreign)
    assert alone.problem is None, "control: it is a log, but not this one"
    assert alone.workspace != WORKSPACE
    assert whole.problem is not None
    assert whole.problem.reason is LogFault.ORIGIN


def test_a_forged_seal_does_not_cover_an_edit(large: Lab) -> None:
    """The seal is recomputed over edited bytes; the chain before it is still broken."""
    lines = large.files[FIRST].splitlines(keepends=True)
    lines[500] = lines[500].replace(b'"id":500', b'"id":999')
    seal = json.loads(lines[-1])
    seal["data"]["sha256"] = sha256(b"".join(lines[:-1])).hexdigest()
    lines[-1] = json.dumps(seal, separators=(",", ":"), sort_keys=True).encode() + b"\n"
    _, alone = large.verify({**large.files, FIRST: b"".join(lines)})
    assert alone.problem is not None
    assert (alone.problem.reason, alone.problem.seq) == (LogFault.CHAIN, 501)


# claim TG-C-42
def test_tampering_is_never_recovered_as_a_crash(small: Lab) -> None:
    """Opening a tampered log changes nothing: the evidence stays."""
    chance = random.Random(3)
    refused = 0
    for _ in range(200):
        edited = {FIRST: change_a_value(small.files[FIRST], chance)}
        write_files(small.work, edited)
        try:
            AuditLog.open(small.work, clock=clock).close()
        except AuditTampered:
            refused += 1
        assert segment_files(small.work) == edited
        assert not list((small.work / "torn").iterdir())
    assert refused > 190, "all but edits of the last line, which nothing follows"
