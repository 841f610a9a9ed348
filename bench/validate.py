"""Validating packets on one core, next to PyYAML's C loader and pydantic.

Packets come from a generator in chunks, outside the clock, so that memory shows what the
parser keeps and not what it was given.
"""

from itertools import islice
from pathlib import Path

from bench.data import plain_packets
from bench.figures import Plain, Sizes, compare, memory_rows
from bench.measure import Memory, Watch, say
from bench.peer import front_matter_of, parse_with_yaml
from threegate.artifacts import registry
from threegate.base.untrusted import Untrusted

CHUNK = 500
PEER_READS_ONE_IN = 20  # it is that much slower; every chunk still has both
TARGET_PER_SECOND = 10_000


def run(sizes: Sizes, _directory: Path) -> Plain:
    """Measure and return rows."""
    ours, theirs, memory = Watch(), Watch(), Memory()
    packets = plain_packets(sizes.packets_to_validate)
    while chunk := list(islice(packets, CHUNK)):
        parts = [front_matter_of(data) for data in chunk[::PEER_READS_ONE_IN]]
        with ours.lap(len(chunk)):
            for data in chunk:
                registry.parse(Untrusted(data))
        with theirs.lap(len(parts)):
            for part in parts:
                parse_with_yaml(part)
        memory.look()
        if len(ours.seconds) % 20 == 0:
            say(f"validate: {ours.done} packets, {ours.rate():,.0f}/s")
    row = compare(
        f"validate {ours.done:,} packets of 5 kB, one core",
        ours.rate(),
        peer="PyYAML C loader + pydantic, front matter only",
        theirs=theirs.rate(),
        unit="packets/s",
        target=f"{TARGET_PER_SECOND:,} packets/s",
        met=ours.rate() >= TARGET_PER_SECOND,
    )
    return {"rows": [row, *memory_rows("validate", memory)], "curves": []}
