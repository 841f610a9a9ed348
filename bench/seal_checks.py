"""What the checks of the sealed index cost: search, status and whole commands, with and without.

The control is the same code over a copy of the same file, without the checks
(`bench/unchecked.py`).  Both take turns, so that a busy machine slows both.
"""

import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from bench import unchecked
from bench.data import prose_packets, season_of, serial_of
from bench.figures import Plain, Sizes, compare
from bench.measure import Watch, noise
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import admit
from threegate.host.status import overview
from threegate.host.workspace import index as index_module
from threegate.host.workspace.derived import Derived
from threegate.host.workspace.index import FILE, Index
from threegate.host.workspace.workspace import Workspace

PEER = "the same with the checks switched off"
MOST = 1.1  # issue 16, F2
ROUNDS = 11
SEARCHES = 20  # rounds of searches for each round of anything else
STATE = "state"  # XDG_STATE_HOME of the commands

Act = Callable[[bool, int], object]  # with the checks or without; the number of the round


def seals_of(directory: Path) -> Path:
    """Return where a command keeps seals whose state is below `directory`."""
    return directory / STATE / "threegate" / "derived"


def rows(ws: Workspace, size: int, sizes: Sizes, directory: Path) -> list[Plain]:
    """Measure a workspace of `size` packets whose index is up to date."""
    shutil.copyfile(ws.root / FILE, unchecked.control_file(ws.root / FILE))
    rounds = min(ROUNDS, sizes.queries)
    words = [serial_of(number * size // rounds) for number in range(rounds)]
    phrases = [f'"{season_of(number)}"' for number in range(rounds)]
    with closing(_opened(ws, checked=True)) as one, closing(_opened(ws, checked=False)) as other:
        both = {True: one, False: other}

        def search(queries: Sequence[str]) -> Act:
            return lambda checked, number: both[checked].search(
                queries[number % rounds], ("rp",), limit=50, skip=0
            )

        what = f"search {size:,} packets for"
        found = [
            _row(f"{what} a word of one packet", search(words), SEARCHES * rounds),
            _row(f"{what} a phrase of one in a hundred", search(phrases), SEARCHES * rounds),
        ]

    def status(checked: bool, _: int) -> object:
        with closing(_opened(ws, checked=checked)) as index:
            return overview(ws, index)

    def command(*arguments: str) -> Act:
        return lambda checked, _: _run(ws.root, directory, arguments, checked=checked)

    found += [
        _row(
            f"status of {size:,} packets, processor time", status, rounds, clock=time.process_time
        ),
        _row(
            f"`threegate packet search` of {size:,} packets, processor time",
            command("packet", "search", words[0]),
            rounds,
            clock=_cpu_of_children,
        ),
        _row(
            f"`threegate status` of {size:,} packets, processor time",
            command("status"),
            rounds,
            clock=_cpu_of_children,
        ),
    ]
    new = prose_packets(size, rounds)
    before = lambda: _admit(ws, next(new))  # noqa: E731
    return [
        *found,
        _row(
            f"status of {size:,} packets after one more, processor time",
            status,
            rounds,
            clock=time.process_time,
            before=before,
        ),
    ]


def _opened(ws: Workspace, *, checked: bool) -> Index:
    derived = Derived if checked else unchecked.Unchecked
    with patch.object(index_module, "Derived", derived):
        index = Index(ws.store, ws.seals)
    index.catch_up()
    assert index.rebuilt is None, "something else than a check was measured"
    return index


def _row(
    what: str,
    act: Act,
    rounds: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    before: Callable[[], object] = lambda: None,
) -> Plain:
    """Measure both in turns; each is first in every other round."""
    watches = {True: Watch(clock=clock), False: Watch(clock=clock)}
    act(True, 0), act(False, 0)
    for number in range(rounds):
        before()
        for checked in (True, False) if number % 2 else (False, True):
            with watches[checked].lap():
                act(checked, number)
    ours, theirs = (statistics.median(watches[checked].seconds) for checked in (True, False))
    scale, unit = (1e6, "µs") if ours < 1e-3 else (1e3, "ms")
    return compare(
        what,
        ours * scale,
        peer=PEER,
        theirs=theirs * scale,
        unit=unit,
        smaller_is_better=True,
        target="at most 10 % more",
        met=ours <= MOST * theirs,
        noise=(noise(watches[True].seconds), noise(watches[False].seconds)),
    )


def _admit(ws: Workspace, data: bytes) -> None:
    (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    assert answer.status == "accepted"


def _run(root: Path, directory: Path, arguments: Sequence[str], *, checked: bool) -> None:
    how = "checked" if checked else "unchecked"
    program = [sys.executable, "-I", unchecked.__file__, how]
    environ = {"HOME": str(directory), "XDG_STATE_HOME": str(directory / STATE)}
    done = subprocess.run(
        [*program, "-w", str(root), *arguments], env=environ, capture_output=True, check=True
    )
    assert b"rebuilt" not in done.stderr, done.stderr


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
