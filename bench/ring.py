"""The interpreter ring: scripts under it next to plain ones in the same guest, and its compiler.

Both kinds run in one guest, by emulation, which works on every machine.  What counts is what
comes after the start: imports are timed by scripts that were started before and stop themselves
between laps, and of programs that start others the time of one that starts none is taken away.

Emulation on a machine that does other things is slowed down by any factor, for seconds at a
time: a lap under the ring and a plain one right beside it are slowed alike, laps far apart are not.
So the ratio of each such pair counts, who is first changes from pair to pair, and the verdict
is that of an interval for their median.  The interval is one of order statistics: it needs no
shape of the noise, nothing drawn by chance, and no single lap moves it.  The fastest lap of each
kind, which counted before, is one lap that may have had the machine to itself.

The same laps are counted in a second guest whose clock ticks once for every instruction that its
processor executes: what others do on the machine does not move it.  It knows nothing of what an
instruction costs, so time has rows of its own.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest import mock

from bench.figures import Plain, Sizes, alone, compare
from bench.measure import noise, say, seconds_of
from tests.support.heavy import rules
from tests.support.policies import GATES, policy_files
from tests.support.ring_commands import DRIVER, armed, drive, ring
from threegate.host.run.heavy import qemu
from threegate.host.run.heavy.qemu import QemuBackend
from threegate.policy.compiler import compile_policy
from threegate.policy.ring.compiler import HEAVY_PYTHON, HEAVY_SHELL, compile_ring

MOST_TIMES_PLAIN: Final = 1.05
CONFIDENCE: Final = 0.95
LEAST_PAIRS: Final = 6  # fewer say nothing, whatever they say
MOST_SECONDS: Final = 45  # for each kind of script
COUNTED: Final = ", instructions of the guest"
STARTS: Final = 10  # programs that one script starts
PROFILE: Final = "wide"

IMPORTS: Final = """\
import os, sys, time
names = ('argparse base64 bisect calendar copy csv dataclasses datetime decimal fractions glob '
         'gzip hashlib heapq json random statistics string textwrap zipfile').split()
def once():
    for name in list(sys.modules):
        if name.partition('.')[0] in names:
            del sys.modules[name]
    begin = time.perf_counter()
    for name in names:
        __import__(name)
    return time.perf_counter() - begin
once()
while True:
    os.kill(os.getpid(), 19)  # SIGSTOP: whoever takes turns lets it go on
    os.write(1, f'{sum(once() for _ in range(5))}\\n'.encode())  # the collector comes by in each
"""
IN_GUEST: Final = f"""{DRIVER}
from threegate.gates.tool_exec.era.guest import interpreter_process
interpreter_process.ExecTrace = lambda _: None  # the agent already has the one trace

def drained(pid, streams):
    said = dict.fromkeys(streams.values(), b"")
    for fd, name in streams.items():
        while piece := os.read(fd, 65536):
            said[name] += piece
        os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL, said
    return [float(word) for word in said["stdout"].split()]

def ringed(code):
    leave(("words", "view", "kernel"))
    for layer in ("/run/ring/0", "/run/ring/1"):  # of the one before
        shutil.rmtree(layer, ignore_errors=True)
    rules = GIVEN["python"]
    plain = {{name: rule for name, rule in rules.items() if name != "rules"}}
    one = interpreter_process.Interpreter(plain, partial(_become, landlock=True), own_view=True)
    one.load(rules["imports"], PACKAGES)  # as before a snapshot
    streams = one.run({{**job, "ring": rules}}, code.encode())
    return one.pid, streams

def plain(code):
    leave(())
    out, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become((write, write), (), landlock=False)
        os.execve("/usr/bin/python3.11", ["python3.11", "-I", "-S", "-B", "-c", code], {{}})
    os.close(write)
    return pid, {{out: "stdout"}}

def turns():
    both = [ringed(GIVEN["code"]), plain(GIVEN["code"])]
    for pid, _ in both:
        assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]), drained(*both[0])
    for number in in_time(GIVEN["laps"]):
        for pid, _ in both if number % 2 else both[::-1]:
            os.kill(pid, signal.SIGCONT)
            assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]), number
    for pid, _ in both:
        os.kill(pid, signal.SIGKILL)
    return [drained(*one) for one in both]

def in_time(count):
    end = time.monotonic() + GIVEN["seconds"]
    return (number for number in range(count) if number < GIVEN["least"] or time.monotonic() < end)

def starts(layers, count):
    leave(layers)
    loop = f"i=0; while [ $i -lt {{count}} ]; do /usr/bin/true; i=$((i+1)); done"
    begin = time.perf_counter()
    frames = command(executor, ["/usr/bin/dash", "-c", loop])
    took = time.perf_counter() - begin
    assert frames[-1][1] == {{"code": 0, "oom": False, "signal": 0}}, frames
    return took

names = ("shell", "plain shell", "shell of none", "plain shell of none")
answer = {{name: [] for name in names}}
answer["ringed"], answer["plain"] = turns()
for number in in_time(GIVEN["rounds"]):
    kinds = [("shell", ("view", "kernel")), ("plain shell", ())]
    for name, layers in kinds if number % 2 else kinds[::-1]:
        answer[name].append(starts(layers, GIVEN["starts"]))
        answer[f"{{name}} of none"].append(starts(layers, 0))
"""


def run(sizes: Sizes, _: Path) -> Plain:
    """Measure and return rows."""
    say("ring: one guest")
    timed = _rows(sizes.singles, sizes.singles // 8, Unit("ms", 1e3, ""))
    say("ring: one guest that counts instructions")
    with counting():
        counted = _rows(sizes.singles // 10, sizes.singles // 25, Unit("million", 1e3, COUNTED))
    say("ring: compiling")
    return {"rows": [*timed, *counted, *_compiler_rows()], "curves": []}


@contextmanager
def counting() -> Iterator[None]:
    """Start guests whose clock says a nanosecond for every instruction that they execute."""
    accel = f"tcg,thread=single,tb-size={qemu.CODE_CACHE_MIB}"
    words = ("-accel", accel, "-icount", "shift=0,sleep=off", "-cpu", "max,la57=off")
    armed.cache_clear()
    with (
        mock.patch.object(qemu, "_processor", lambda _: words),
        mock.patch.object(QemuBackend, "_rate", lambda _: 1_000_000),
    ):
        yield
    armed.cache_clear()


@dataclass(frozen=True)
class Unit:
    """What laps are given in, how many to a second of the guest, and what is said of it."""

    name: str
    to_a_second: float
    note: str


def _rows(laps: int, rounds: int, unit: Unit) -> list[Plain]:
    given = {
        # A profile with a shell in it, which the words of its own rules would refuse.
        "ring": {**ring(), "binaries": ["/usr/bin/dash", "/usr/bin/true"], "patterns": []},
        "python": compile_ring(rules(), HEAVY_PYTHON, "python").plain(),
        "code": IMPORTS,
        "starts": STARTS,
        "laps": max(LEAST_PAIRS, laps),
        "rounds": max(LEAST_PAIRS, rounds),
        "least": LEAST_PAIRS,
        "seconds": MOST_SECONDS,
    }
    found = drive(IN_GUEST, given)
    what = f"{STARTS} programs that a shell starts"
    return [
        _row("100 imports under the ring", found, ("ringed", "plain"), "plain Python", unit),
        _row(what, found, ("shell", "plain shell"), "plain shell", unit),
    ]


def _row(
    what: str, found: dict[str, list[float]], names: tuple[str, str], peer: str, unit: Unit
) -> Plain:
    mine, other = (_laps(found, name) for name in names)
    ratios = [one / beside for one, beside in zip(mine, other, strict=True)]
    met = verdict(ratios)
    return compare(
        f"{what}{unit.note}",
        statistics.median(mine) * unit.to_a_second,
        peer=f"{peer}, same guest",
        theirs=statistics.median(other) * unit.to_a_second,
        unit=unit.name,
        smaller_is_better=True,
        target=f"≤ {MOST_TIMES_PLAIN}× ({_said(ratios)}{', no verdict' if met is None else ''})",
        met=met,
        noise=(noise(mine), noise(other)),
    )


def _laps(found: dict[str, list[float]], name: str) -> list[float]:
    """Return the laps, less the middle of those that start nothing."""
    nothing = statistics.median(found.get(f"{name} of none", [0.0]))
    return [lap - nothing for lap in found[name]]


def interval(ratios: Sequence[float]) -> tuple[float, float] | None:
    """Return between which two of them their median lies; nothing if there are too few to say.

    With a probability of at least `CONFIDENCE`, whatever they are spread like.
    """
    count, ordered = len(ratios), sorted(ratios)
    outside, tail = 0, 0.0
    while (tail := tail + math.comb(count, outside) / 2**count) <= (1 - CONFIDENCE) / 2:
        outside += 1
    return (ordered[outside - 1], ordered[count - outside]) if outside else None


def verdict(ratios: Sequence[float]) -> bool | None:
    """Return whether the target is met; nothing if their interval is on both sides of it."""
    found = interval(ratios)
    if found is None or found[0] <= MOST_TIMES_PLAIN < found[1]:
        return None
    return found[1] <= MOST_TIMES_PLAIN


def _said(ratios: Sequence[float]) -> str:
    found = interval(ratios)
    between = f", between {found[0]:.3f} and {found[1]:.3f}" if found else ""
    return f"median of {len(ratios)} pairs {statistics.median(ratios):.3f}{between}"


def wide() -> str:
    """Return a profile of a thousand rules."""
    items = {
        "allowed_imports": [f"module{number}" for number in range(300)],
        "denied_imports": [f"other{number}" for number in range(300)],
        "allowed_binaries": [f"/usr/bin/program{number}" for number in range(200)],
        "denied_patterns": [f'"program{number} --never"' for number in range(200)],
    }
    assert sum(map(len, items.values())) == 1000
    lines = [f"    {field}: [{', '.join(words)}]\n" for field, words in items.items()]
    return f"  {PROFILE}:\n    executor_network: off\n{''.join(lines)}"


def _compiler_rows() -> list[Plain]:
    files = _files()
    policy = compile_policy(files, gates=GATES)
    whole = seconds_of(lambda: compile_policy(files, gates=GATES))
    one = seconds_of(lambda: compile_ring(policy, HEAVY_SHELL, PROFILE))
    return [
        alone("a policy of 1,000 rules in the ring, from text", whole * 1000, "ms"),
        alone("its profile for one executor", one * 1000, "ms"),
    ]


def _files() -> dict[str, bytes]:
    files = policy_files(tool_exec=("\ninterpreter_ring:\n", f"\ninterpreter_ring:\n{wide()}"))
    name = "tool-exec.policy.md"
    text = files[name].decode("utf-8")
    old = "profiles: [python, tools]"
    assert old in text
    return {**files, name: text.replace(old, f"profiles: [python, tools, {PROFILE}]").encode()}
