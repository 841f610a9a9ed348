"""Admitting packets, durable and audited, next to the plain system calls for the same bytes.

Rounds take turns, so that a busy disk slows all of them alike.
"""

from itertools import islice
from pathlib import Path

from bench.data import RawFiles, plain_packets
from bench.figures import Plain, Sizes, compare
from bench.measure import Watch, say
from tests.support.workspaces import NOW, clock, make_store
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import CHUNK, admit
from threegate.handoff.store import Store

RAW_PER_BATCH = 16


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    make_store(directory / "store")
    store = Store.open(directory / "store", clock=clock)
    raw, limit = RawFiles(directory / "raw"), RawFiles(directory / "limit")
    ours, theirs, together = Watch(), Watch(), Watch()
    one, one_raw = Watch(), Watch()
    packets = plain_packets(sizes.batches * CHUNK + sizes.singles)
    for _ in range(sizes.batches):
        batch = list(islice(packets, CHUNK))
        with ours.lap(len(batch)):
            _admit(store, batch)
        with theirs.lap(RAW_PER_BATCH):
            for data in batch[:RAW_PER_BATCH]:
                raw.put(data)
        with together.lap(len(batch)):
            limit.put_together(batch)
    say(f"admit: {ours.done} packets in batches, {ours.rate():,.0f}/s")
    for data in packets:
        with one.lap():
            _admit(store, [data])
        with one_raw.lap():
            raw.put(data)
    store.close()
    return {"rows": _rows(ours, theirs, together, one, one_raw), "curves": []}


def _admit(store: Store, batch: list[bytes]) -> None:
    items = [Untrusted(data) for data in batch]
    answers = list(admit(store, items, now=lambda: NOW))
    assert all(answer.status == "accepted" for answer in answers)


def _rows(ours: Watch, theirs: Watch, together: Watch, one: Watch, one_raw: Watch) -> list[Plain]:
    return [
        compare(
            f"admit in batches of {CHUNK}: parsed, audited, durable",
            ours.rate(),
            peer="write, fsync, rename, fsync directory, one by one",
            theirs=theirs.rate(),
            unit="packets/s",
            target="faster than the peer",
            met=ours.rate() > theirs.rate(),
        ),
        compare(
            f"admit in batches of {CHUNK}, against the limit",
            ours.rate(),
            peer="write all, syncfs, rename all, fsync directory",
            theirs=together.rate(),
            unit="packets/s",
        ),
        *(_single_row(percent, one, one_raw) for percent in (50, 95)),
    ]


def _single_row(percent: int, one: Watch, one_raw: Watch) -> Plain:
    return compare(
        f"admit a single packet, {percent} % within",
        one.at(percent) * 1e3,
        peer="write, fsync, rename, fsync directory",
        theirs=one_raw.at(percent) * 1e3,
        unit="ms",
        smaller_is_better=True,
    )
