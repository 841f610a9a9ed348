"""Vectors from the embedder's box, next to the same arithmetic in a bare process.

Both read the same files and take turns, so that a busy machine is as busy for each; what they
compute is compared: it may differ by rounding, as BLAS adds in another order with more threads.
What is measured is the way around the arithmetic: box, channel, checks of the host.
"""

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.figures import Plain, Sizes, compare
from bench.measure import noise, say
from tests.support import models
from tests.support.policies import policy
from threegate.base.untrusted import Untrusted
from threegate.gates.model.embedder.messages import VECTOR_BYTES, nearness, numbers_of
from threegate.host.models.embedder import Embedder
from threegate.sandbox.machine import find_machine

LEAST_SHARE: Final = 0.9
ALIKE: Final = 0.99999  # cosine of two vectors that differ by rounding alone
TEXTS: Final = 8
PEER: Final = "numpy in a bare process"
BARE: Final = """
import sys
from pathlib import Path
from threegate.gates.model.embedder.minilm import MiniLm
from threegate.gates.model.embedder.pieces import Pieces, read_vocabulary
from threegate.gates.model.embedder.minilm import read_tensors
weights, words = (Path(name).read_bytes() for name in sys.argv[1:3])
model = MiniLm(read_tensors(weights), Pieces(read_vocabulary(words)))
sys.stdout.buffer.write(b"ready\\n")
sys.stdout.buffer.flush()
for line in sys.stdin:
    sys.stdout.buffer.write(b"".join(model.vector(text) for text in line[:-1].split("\\t")))
    sys.stdout.buffer.flush()
"""
_TEXT: Final = (
    "sea ice fracture toughness was measured at several temperatures and compared with earlier "
    "results of other groups which used smaller samples under laboratory conditions"
)

Compute = Callable[[list[str]], list[bytes]]


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    del directory
    rounds = max(3, sizes.queries // 5)
    say("embed: loading, in the box and bare")
    with ExitStack() as stack:
        model = stack.enter_context(
            Embedder.start(policy().bundle(), find_machine(), models.minilm()[0].parent)
        )
        began = time.perf_counter()
        model.vectors([Untrusted("warm")])
        boxed = time.perf_counter() - began
        bare = stack.enter_context(_bare())
        bare(["warm"])
        loaded = time.perf_counter() - began - boxed

        def ours(texts: list[str]) -> list[bytes]:
            return model.vectors([Untrusted(text) for text in texts])

        say("embed: short and long texts, in turns")
        rows = [
            _row("texts of 12 words, to vectors", rounds, 12, (ours, bare)),
            _row("texts of 200 words, to vectors", rounds, 200, (ours, bare)),
            compare(
                "starting the embedder until the first vector, digests taken (bare: not taken)",
                boxed * 1000,
                peer=PEER,
                theirs=loaded * 1000,
                unit="ms",
                smaller_is_better=True,
            ),
        ]
    return {"rows": rows, "curves": []}


def _row(what: str, rounds: int, words: int, both: tuple[Compute, Compute]) -> Plain:
    laps: tuple[list[float], list[float]] = ([], [])
    chance = random.Random(words)
    for number in range(rounds):
        texts = [" ".join(chance.choices(_TEXT.split(), k=words)) for _ in range(TEXTS)]
        pairs = list(zip(laps, both, strict=True))
        found = []
        for lap, compute in pairs if number % 2 else pairs[::-1]:
            began = time.perf_counter()
            found.append(compute(texts))
            lap.append((time.perf_counter() - began) / TEXTS)
        for one, other in zip(*found, strict=True):
            alike = nearness(numbers_of(one), numbers_of(other))
            assert alike > ALIKE, "both compute the same vectors"
    ours, theirs = map(statistics.median, laps)
    return compare(
        what,
        1 / ours,
        peer=PEER,
        theirs=1 / theirs,
        unit="texts/s",
        target=f"at least {LEAST_SHARE:.0%} of bare numpy",
        met=theirs / ours >= LEAST_SHARE,
        noise=(noise(laps[0]), noise(laps[1])),
    )


@contextmanager
def _bare() -> Iterator[Compute]:
    """Start the same arithmetic in a process of its own, and return a way to ask it."""
    argv = [sys.executable, "-c", BARE, *map(str, models.minilm())]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        asking, answers = process.stdin, process.stdout

        def compute(texts: list[str]) -> list[bytes]:
            asking.write("\t".join(texts).encode() + b"\n")
            asking.flush()
            return [answers.read(VECTOR_BYTES) for _ in texts]

        try:
            yield compute
        finally:
            process.kill()
