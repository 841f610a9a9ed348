"""The interpreter ring: scripts under it next to plain ones in the same guest, and its compiler.

Both kinds take turns in one guest, by emulation, which works on every machine.  What counts is
what comes after the start: imports are timed by the script itself, and of programs that start
others the time of one that starts none is taken away.  Of several laps the fastest counts.
"""

from pathlib import Path
from typing import Final

from bench.figures import Plain, Sizes, alone, compare
from bench.measure import noise, say, seconds_of
from tests.support.heavy import rules
from tests.support.policies import GATES, policy_files
from tests.support.ring_commands import DRIVER, drive, ring
from threegate.policy.compiler import compile_policy
from threegate.policy.ring.compiling import compile_ring
from threegate.policy.ring.executors import HEAVY_PYTHON, HEAVY_SHELL

MOST_TIMES_PLAIN: Final = 1.05
STARTS: Final = 30  # programs that one script starts
PROFILE: Final = "wide"

IMPORTS: Final = """\
import sys, time
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
print(*(once() for _ in range(10)))
"""
IN_GUEST: Final = f"""{DRIVER}
from threegate.tool_exec.era.guest import interpreting

def drained(pid, streams):
    said = dict.fromkeys(streams.values(), b"")
    for fd, name in streams.items():
        while piece := os.read(fd, 65536):
            said[name] += piece
        os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, said
    return [float(word) for word in said["stdout"].split()]

def ringed(code):
    leave(("words", "view", "kernel"))
    for layer in ("/run/ring/0", "/run/ring/1"):  # of the one before
        shutil.rmtree(layer, ignore_errors=True)
    rules = GIVEN["python"]
    plain = {{name: rule for name, rule in rules.items() if name != "rules"}}
    one = interpreting.Interpreter(plain, partial(_become, landlock=True), own_view=True)
    one.load(rules["imports"], PACKAGES)  # as before a snapshot
    streams = one.run({{**job, "ring": rules}}, code.encode())
    return drained(one.pid, streams)

def plain(code):
    leave(())
    out, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become((write, write), (), landlock=False)
        os.execve("/usr/bin/python3.11", ["python3.11", "-I", "-S", "-B", "-c", code], {{}})
    os.close(write)
    return drained(pid, {{out: "stdout"}})

def starts(layers, count):
    leave(layers)
    loop = f"i=0; while [ $i -lt {{count}} ]; do /usr/bin/true; i=$((i+1)); done"
    begin = time.perf_counter()
    frames = command(executor, ["/usr/bin/dash", "-c", loop])
    took = time.perf_counter() - begin
    assert frames[-1][1] == {{"code": 0, "oom": False, "signal": 0}}, frames
    return took

names = ("ringed", "plain", "shell", "plain shell", "shell of none", "plain shell of none")
answer = {{name: [] for name in names}}
for _ in range(GIVEN["rounds"]):
    answer["ringed"] += ringed(GIVEN["code"])
    answer["plain"] += plain(GIVEN["code"])
    for name, layers in (("shell", ("view", "kernel")), ("plain shell", ())):
        answer[name].append(starts(layers, GIVEN["starts"]))
        answer[f"{{name}} of none"].append(starts(layers, 0))
"""


def run(sizes: Sizes, _: Path) -> Plain:
    """Measure and return rows."""
    rounds = max(3, sizes.singles // 60)
    say(f"ring: one guest, {rounds} rounds")
    given = {
        # A profile with a shell in it, which the words of its own rules would refuse.
        "ring": {**ring(), "binaries": ["/usr/bin/dash", "/usr/bin/true"], "patterns": []},
        "python": compile_ring(rules(), HEAVY_PYTHON, "python").plain(),
        "code": IMPORTS,
        "starts": STARTS,
        "rounds": rounds,
    }
    found = drive(IN_GUEST, given)
    what = f"{STARTS} programs that a shell starts"
    rows = [
        _row("20 imports under the ring", found, "ringed", "plain Python", "plain"),
        _row(what, found, "shell", "plain shell", "plain shell"),
    ]
    say("ring: compiling")
    return {"rows": [*rows, *_compiler_rows()], "curves": []}


def _row(what: str, found: dict[str, list[float]], ours: str, peer: str, theirs: str) -> Plain:
    mine, other = _fastest(found, ours), _fastest(found, theirs)
    unrest = (noise(found[ours]), noise(found[theirs]))
    return compare(
        what,
        mine * 1000,
        peer=f"{peer}, same guest",
        theirs=other * 1000,
        unit="ms",
        smaller_is_better=True,
        target=f"≤ {MOST_TIMES_PLAIN}×",
        met=verdict(mine / other, unrest),
        noise=unrest,
    )


def verdict(times: float, unrest: tuple[float | None, float | None]) -> bool | None:
    """Return whether the target is met; nothing if laps differ by more than the target allows."""
    most = (MOST_TIMES_PLAIN - 1) * 100
    if any(percent is None or percent > most for percent in unrest):
        return None
    return times <= MOST_TIMES_PLAIN


def _fastest(found: dict[str, list[float]], name: str) -> float:
    """Return the fastest lap, less the fastest of those that start nothing.

    Emulation on a machine that does other things is only ever slowed down.  Each part has a
    fastest of its own: that of a difference would be the lap whose empty half was slowest.
    """
    return min(found[name]) - min(found.get(f"{name} of none", [0.0]))


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
