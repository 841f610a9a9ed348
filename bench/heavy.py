"""The heavy lane: starts next to a bare QEMU and to no virtual machine at all, memory, growth.

Everything takes turns.  Guests run by emulation, which works on every machine; the figures
say what boxes, approval and snapshot cost, and not how fast a guest computes.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Final

from bench.figures import Plain, Sizes, alone, compare, memory_rows, missing
from bench.heavy_machines import Bench, bench_for
from bench.heavy_peers import Peer, peers, unpacked
from bench.measure import Memory, Watch, descendants, noise, pss, say
from threegate.gates.tool_exec.era.messages import Channels, HeavyAsk

MOST_OF_COLD: Final = 0.15
MOST_TIMES_BARE: Final = 1.3
SOAK_RUNS: Final = 50
COLD_EVERY: Final = 4  # rounds
AT_ONCE: Final = 2
PROGRAMS: Final = (
    ("hello", "print('hello')", 192, ("base",)),
    ("import pandas", "import pandas\nprint('hello')", 512, ("base", "science")),
)
BUSY: Final = "n = 0\nwhile n < 3_000_000: n += 1\nprint('hello')"
LOOK_SECONDS: Final = 0.05
SETTLED_LOOKS: Final = 6


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    rounds = max(1, sizes.singles // 40)
    rows: list[Plain] = []
    kept: list[Bench] = []
    for name, code, memory_mib, layers in PROGRAMS:
        say(f"heavy: the guest for {name}")
        place = directory / name.replace(" ", "-")
        guest = bench_for(place, code, memory_mib, *layers)
        kept.append(guest)
        others = peers(unpacked(guest.backend.image, place / "tree"), code, place / "runsc")
        say(f"heavy: {name}, {rounds} rounds")
        rows += _start_rows(name, _rounds(guest, others, rounds), others)
        rows.append(_first(name, guest))
    for (name, *_), guest in zip(PROGRAMS, kept, strict=True):
        rows += _memory_rows(name, guest)
    say("heavy: many runs")
    small = kept[0].doing(PROGRAMS[0][1])  # approved anew: what was before may be over
    rows += _soak_rows(small, min(SOAK_RUNS, max(2, sizes.singles // 8)))
    rows.append(_throughput(small, max(AT_ONCE, sizes.singles // 20)))
    return {"rows": rows, "curves": []}


def _rounds(guest: Bench, others: Sequence[Peer], rounds: int) -> dict[str, list[float]]:
    """Return seconds of every act, all in turns; the slow ones not in every round."""
    acts: dict[str, Callable[[], None]] = {"warm": guest.warm, "bare warm": guest.bare_warm}
    acts["bare job"] = guest.bare_job
    acts |= {peer.name: peer.once for peer in others if not peer.missing}
    slow = {"cold": guest.cold, "bare cold": guest.bare_cold}
    watches = {name: Watch() for name in (*acts, *slow)}
    for act in acts.values():
        act()  # what is read into memory or made once is not a run's cost
    for number in range(rounds):
        for name, act in {**acts, **(slow if number % COLD_EVERY == 0 else {})}.items():
            with watches[name].lap():
                act()
    return {name: watch.seconds for name, watch in watches.items()}


def _start_rows(name: str, found: Mapping[str, list[float]], others: Sequence[Peer]) -> list[Plain]:
    warm, cold = f"{name} in a clone of the snapshot", f"{name} in a guest booted for it"
    of_cold = statistics.median(found["warm"]) / statistics.median(found["cold"])
    rows = [
        _row(
            warm,
            found["warm"],
            "the same sandboxes, cold boot",
            found["cold"],
            target=f"at most {MOST_OF_COLD:.0%} of cold (here {of_cold:.0%})",
            most_times=MOST_OF_COLD,
        ),
        _row(
            warm,
            found["warm"],
            "bare QEMU, same image and snapshot, no sandbox",
            found["bare warm"],
            target=f"at most {MOST_TIMES_BARE:g} times the peer's time",
            most_times=MOST_TIMES_BARE,
        ),
        _row(warm, found["warm"], "the same, asked for nothing but the job", found["bare job"]),
        _row(cold, found["cold"], "bare QEMU, same image, no sandbox", found["bare cold"]),
    ]
    for peer in others:
        if peer.missing:
            middle = statistics.median(found["warm"]) * 1e3
            rows.append(missing(warm, middle, "ms", peer=peer.name, why=peer.missing))
        else:
            rows.append(_row(warm, found["warm"], peer.name, found[peer.name]))
    return rows


def _row(
    what: str,
    ours: Sequence[float],
    peer: str,
    theirs: Sequence[float],
    *,
    target: str = "",
    most_times: float | None = None,
) -> Plain:
    mine, other = statistics.median(ours), statistics.median(theirs)
    return compare(
        what,
        mine * 1e3,
        peer=peer,
        theirs=other * 1e3,
        unit="ms",
        smaller_is_better=True,
        target=target,
        met=None if most_times is None else mine <= most_times * other,
        noise=(noise(ours), noise(theirs)),
    )


def _first(name: str, guest: Bench) -> Plain:
    """Return what the first run of a command pays besides: its snapshot against its digest."""
    watch = Watch()
    for _ in range(3):
        with watch.lap():
            guest.backend.prepare(guest.want)
    state = guest.backend._template(guest.want).place / "state"
    size = state.stat().st_size / 2**20
    what = f"{name}: comparing a snapshot of {size:.0f} MiB with its digest, once in a command"
    return alone(what, statistics.median(watch.seconds) * 1e3, "ms")


def _memory_rows(name: str, guest: Bench) -> list[Plain]:
    """Return the memory of one machine with both its boxes: waiting for its job, and at work."""
    guest_mib = f"{guest.want.memory_mib} MiB"
    idle = _idle(guest) / 2**20
    return [
        alone(
            f"{name}: memory of an idle machine of {guest_mib}, sandboxes and all", idle, "MiB PSS"
        ),
        alone(f"{name}: memory of a running one, at most", _running(guest) / 2**20, "MiB PSS"),
    ]


def _idle(guest: Bench) -> int:
    """Return the memory of a clone that stands ready, seen before its gate is given the job."""
    seen: list[int] = []

    def look(ends: Channels, disk: int) -> HeavyAsk:
        while len(seen) < SETTLED_LOOKS or len(set(seen[-SETTLED_LOOKS:])) > 1:
            seen.append(_all_pss() >> 20)
            time.sleep(LOOK_SECONDS)
        return guest.ask(ends, disk)

    with ExitStack() as stack:
        guest.conversation(look, guest.backend._template(guest.want).open(stack))
    return seen[-1] << 20


def _running(guest: Bench) -> int:
    done, most = Event(), 0
    busy = guest.doing(BUSY)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(busy.warm)
        running.add_done_callback(lambda _: done.set())
        while not done.wait(LOOK_SECONDS):
            most = max(most, _all_pss())
        running.result()
    return most


def _all_pss() -> int:
    total = 0
    for pid in descendants():
        try:
            total += pss(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended while we looked
    return total


def _soak_rows(guest: Bench, count: int) -> list[Plain]:
    """Return what many runs in a row leave behind."""
    cache = guest.backend._templates.root.parent
    memory, seen = Memory(), []
    before = {*descendants()}  # what peers left: it came to us, as what a box leaves does
    for _ in range(count):
        guest.warm()
        memory.look()
        fds = len(os.listdir("/proc/self/fd"))
        left = {*descendants()} - before
        seen.append((fds, len(left), sum(1 for _ in cache.rglob("*"))))
    first, last = seen[0], seen[-1]
    what = f"{count} runs in a row"
    rows = memory_rows(what, memory)
    for at, name in enumerate(("descriptors", "processes", "files in the cache")):
        grown = last[at] - first[at]
        label = f"{what}: growth of {name}, from {first[at]} after the first run"
        rows.append(alone(label, grown, "more", target="none", met=grown <= 0))
    return rows


def _throughput(guest: Bench, count: int) -> Plain:
    rates = {}
    for width in (1, AT_ONCE):
        watch = Watch()
        with ThreadPoolExecutor(width) as pool, watch.lap(count):
            for _ in pool.map(lambda _: guest.warm(), range(count)):
                pass
        rates[width] = watch.rate() * 60
    return compare(
        f"hello in clones, {AT_ONCE} at once",
        rates[AT_ONCE],
        peer="one at a time",
        theirs=rates[1],
        unit="runs a minute",
    )
