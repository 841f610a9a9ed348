"""Ways around the command rules of the ring, tried one after another in one guest.

The guest's agent is the real one, and root beside it is ours: it starts each command as the
agent would, with all of the ring or with layers of it taken out.  So each way has its control
in the same guest, a moment before.
"""

import json
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support import ring as ring_support
from tests.support.guests import ANY
from tests.support.heavy import MIB, Lab, Task, backend_for, image, place, with_sources
from tests.support.policies import policy
from tests.support.ring import Found
from threegate.host.images.choice import Sources
from threegate.host.images.contents import tree_of
from threegate.policy.ring.compiler import HEAVY_SHELL, compile_ring

VECTORS: Final = Path(__file__).parents[1] / "vectors" / "ring" / "commands.txt"
TITLE: Final = "=== "
LAYERS: Final = ("words", "view", "kernel")
COLUMNS: Final = {"none": (), **{layer: (layer,) for layer in LAYERS}, "all": LAYERS}

# Programs that start others when they are told to, and one that does whatever it is told: it
# stands for an allowed program with a hole.
PROGRAMS: Final = (
    *("cp", "diff3", "env", "find", "git", "install", "mawk", "nice", "nohup", "prober", "rm"),
    *("sdiff", "sed", "sort", "split", "tar", "timeout", "xargs"),
)
_TOOLS: Final = """\
    allowed_binaries: [/usr/bin/cmp, /usr/bin/comm, /usr/bin/cut, /usr/bin/diff, /usr/bin/head,
                       /usr/bin/join, /usr/bin/sha256sum, /usr/bin/sort, /usr/bin/tail,
                       /usr/bin/uniq, /usr/bin/wc]
"""
_ARMED: Final = f"    allowed_binaries: [{', '.join(f'/usr/bin/{name}' for name in PROGRAMS)}]\n"
# What those of them that the image does not have are taken from on this machine.
_FROM_HERE: Final = ("git", "tar", "busybox")


@dataclass(frozen=True)
class Bypass:
    """One command, and what it is for: a program that is not allowed, or a deletion."""

    name: str
    end: str
    argv: tuple[str, ...]


def bypasses() -> tuple[Bypass, ...]:
    """Return every way there is a vector of."""

    first, *blocks = VECTORS.read_text("utf-8").split(f"\n{TITLE}")
    prelude = first.partition("\n\n")[2]
    found = []
    for block in blocks:
        title, _, body = block.partition("\n")
        end, _, name = title.partition(": ")
        words = ["prober", "-I", "-S", "-c", f"{prelude}\n{body}"]
        if body.startswith("$ "):
            words = shlex.split(body[2:])
        found.append(Bypass(name, end, tuple(words)))
    assert len({one.name for one in found}) == len(found) >= 60
    return tuple(found)


@cache
def ring() -> dict[str, Any]:
    """Return a profile that offers every program by which others can be started."""
    return compile_ring(policy(tool_exec=(_TOOLS, _ARMED)), HEAVY_SHELL, "tools").plain()


@cache
def armed() -> Lab:
    """Return the lane with a guest that has these programs, and whose root is ours."""
    sources = {**Sources.usual().read().agent, "__main__.py": ANY.encode()}
    cache_home = place() / "cache-armed"
    made = with_sources(sources, cache_home / "images", _programs())
    return Lab(backend_for(made, cache_home=cache_home))


def _programs() -> dict[str, bytes]:
    root, _ = tree_of(image(), ("base",))
    found = {"usr/bin/prober": (root / "usr/bin/python3.11").read_bytes()}
    for name in _FROM_HERE:
        program = Path("/usr/bin") / name
        found[f"usr/bin/{name}"] = program.read_bytes()
        for library in _libraries(program):
            at = f"usr/lib/x86_64-linux-gnu/{library.name}"
            if not (root / at).exists():
                found[at] = library.read_bytes()
    return {**found, "usr/lib/among.so": b"no program yet", "usr/lib/preload.so": _library()}


def _libraries(program: Path) -> list[Path]:
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [Path(line.split()[2]) for line in told.splitlines() if " => /" in line]


def _library() -> bytes:
    with tempfile.TemporaryDirectory() as work:
        made = Path(work) / "preload.so"
        source = Path(__file__).with_name("ring_preload.c")
        words = ["cc", "-shared", "-fPIC", "-o", str(made), str(source)]
        subprocess.run(words, check=True)
        return made.read_bytes()


def attempt(names: tuple[str, ...] = (), columns: tuple[str, ...] = ("none", "all")) -> Any:
    """Try ways in one guest, each with these sets of layers; return a `Found` for each set."""
    ways = [[one.name, one.end, one.argv] for one in bypasses() if one.name in names or not names]
    assert len(ways) == len(names or bypasses())
    given = {"ring": ring(), "ways": ways, "columns": {name: COLUMNS[name] for name in columns}}
    told = drive(f"{ATTEMPT}\nanswer = attempt_all()\n", given)
    return {
        column: {name: (state, why) for name, (state, why) in rows.items()}
        for column, rows in told.items()
    }


def drive(code: str, given: Any) -> Any:
    """Run code as root of the guest, with `GIVEN`; return what it leaves in `answer`."""
    text = f"GIVEN = json.loads({json.dumps(given)!r})\n{code}\n{ANSWER}"
    task = Task(code=text).limited(wall_ms=3_000_000, output_bytes=MIB)
    outcome = armed().run(task).outcome
    assert outcome.exit == "ok", outcome.stderr.decode()
    return json.loads(outcome.stdout)


ANSWER: Final = """\
port.say(STDOUT, json.dumps(answer).encode())
port.tell(EXIT, {"code": 0, "oom": False, "signal": 0})
"""
# The agent's own functions, each of which stands for a layer.
DRIVER: Final = """\
import os, shutil, signal, tarfile
from functools import partial
from threegate.gates.tool_exec.era.guest import commands, kernel, view

class Said:
    def __init__(self): self.frames = []
    def hear(self): return DATA, b""
    def tell(self, kind, message): self.frames.append((kind, message))
    def say(self, kind, body=b""): self.tell(kind, bytes(body).decode("utf-8", "replace"))

def anywhere(ring, word):
    return word if "/" in word else f"/usr/bin/{word}"

OUT = {
    "words": {(commands, "judge"): lambda ring, argv: None, (commands, "program"): anywhere},
    "view": {(view, "lay_programs"): lambda: None,
             (commands, "environment"): lambda: {"PATH": "/usr/bin"},
             (view, "MS_BIND"): kernel.MS_BIND | kernel.MS_REC},
    "kernel": {(view, "MS_NOEXEC"): 0, (kernel, "only_execute"): lambda paths: None,
               (kernel, "refuse_calls"): lambda: None},
}
USUAL = {place: getattr(*place) for parts in OUT.values() for place in parts}
# No image has a program there; without a view this one is put there.
AMONG, PUT = "/usr/lib/among.so", []

def leave(layers):
    changed = {place: new for layer, parts in OUT.items() if layer not in layers
               for place, new in parts.items()}
    for (module, name), usual in USUAL.items():
        setattr(module, name, changed.get((module, name), usual))
    while PUT: kernel.let_go(PUT.pop())
    if "view" not in layers:
        kernel.mount("/usr/bin/id", AMONG, "", kernel.MS_BIND)
        PUT.append(AMONG)
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0" if "kernel" in layers else "100")

def command(executor, argv):
    said = Said()
    one = {**job, "argv": argv, "ring": GIVEN["ring"], "inputs": False, "outputs": []}
    not_used(said, one, executor)
    return said.frames

# The guest was made ready for code, and traces that: one trace is all a kernel has.
os.makedirs("/run/first")
kernel.mount("trace", "/run/first", "tracefs", 0)
with open("/run/first/events/enable", "w") as file: file.write("0")
kernel.let_go("/run/first")
for fd in map(int, os.listdir("/proc/self/fd")):
    at = f"/proc/self/fd/{fd}"
    if os.path.lexists(at) and "trace_pipe" in os.readlink(at):
        os.close(fd)
executor = commands.Commands(GIVEN["ring"], partial(_become, landlock=True), own_view=True)
"""
ATTEMPT: Final = f"""{DRIVER}
SCRIPT = "#!/bin/sh\\nid >/out/ran\\nid >&2\\n"
TEXTS = {{"list": "id\\n", "words": "-rf /out/victim\\n", "plain": "id >/out/ran\\n",
         "awk": 'BEGIN{{system("id")}}\\n', "sed": "1e id\\n", "rows": "id\\n" * 12000,
         "deletes": "rm -rf /out/victim\\n", "mark": SCRIPT + "cat\\n", "git-x": SCRIPT,
         "once": SCRIPT,
         "shebang": "#!/usr/bin/dash\\nid\\n", "by-env": "#!/usr/bin/env -S dash\\nid\\n"}}

def state():
    found = {{}}
    for top in ("/tmp", "/out"):
        for where, _, names in os.walk(top):
            for path in (where, *(f"{{where}}/{{name}}" for name in names)):
                told = os.lstat(path)
                found[path] = told.st_ino, told.st_size, told.st_mtime_ns, told.st_mode
    return found

def prepare():
    if state() != LEFT:
        LEFT.clear()
        put_all()
        LEFT.update(state())

LEFT = {{}}

def put_all():
    for top in ("/tmp", "/out"):
        for name in os.listdir(top):
            path = f"{{top}}/{{name}}"
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    for name, text in TEXTS.items():
        with open(f"/tmp/{{name}}", "w") as file: file.write(text)
    for place in ("/tmp/copy", "/tmp/sort", "/out/copy"): shutil.copy("/usr/bin/id", place)
    shutil.copy("/usr/bin/busybox", "/tmp/busybox")
    shutil.copy("/usr/lib/preload.so", "/tmp/preload.so")
    for link in ("/tmp/link", "/tmp/\\u0455ort"): os.symlink("/usr/bin/id", link)
    os.link("/tmp/copy", "/tmp/hard")
    with tarfile.open("/tmp/a.tar", "w") as made: made.add("/tmp/list", "list")
    os.makedirs("/out/victim/deeper")
    for top in ("/tmp", "/out"):
        for where, _, names in os.walk(top):
            for path in (where, *(f"{{where}}/{{name}}" for name in names)):
                os.chown(path, JOB_UID, JOB_UID, follow_symlinks=False)
                if not os.path.islink(path): os.chmod(path, 0o755)
    os.chmod("/tmp", 0o1777)

def reached(end, frames):
    if end == "deleted": return not os.path.exists("/out/victim")
    told = "".join(body for kind, body in frames if kind in (STDOUT, STDERR))
    ran = os.path.exists("/out/ran") and "uid=1000" in open("/out/ran").read()
    return "uid=1000" in told or ran

SECONDS = 120  # a program that waits for another for ever has not reached its end

def late(*_):
    raise TimeoutError("still running")

signal.signal(signal.SIGALRM, late)

def one_way(end, argv):
    prepare()
    signal.alarm(SECONDS)
    try:
        frames = command(executor, argv)
    except (OSError, ValueError) as exc:
        signal.alarm(0)
        end_all()
        return "stopped", f"{{type(exc).__name__}}: {{exc}}"
    signal.alarm(0)
    told = " / ".join(" ".join(body.split()) for kind, body in frames if kind == STDERR)
    by_words = frames[-1][1]["code"] == commands.REFUSED and "not started" in told
    state = "done" if reached(end, frames) else "refused" if by_words else "stopped"
    seen = [body["argument"] for kind, body in frames if kind == VIOLATION]
    return state, f"{{told[-300:]}} {{seen}}"

def attempt_all():
    found = {{column: {{}} for column in GIVEN["columns"]}}
    for name, end, argv in GIVEN["ways"]:
        for column, layers in GIVEN["columns"].items():
            leave(layers)
            found[column][name] = one_way(end, argv)
    return found
"""


# -- The table of command bypasses: `python -m tests.support.ring_commands` writes it anew.

PLACE: Final = Path(__file__).parents[2] / "docs" / "evidence" / "ring-commands.md"

HEAD: Final = """\
# Ways around the command rules

Written by `python -m tests.support.ring_commands` on 2026-11-17; `make slow` compares. Each
way is a command in a real guest, under a profile that offers every program by which others
can be started. What it is for: `id`, which the profile does not name, runs; or a directory is
deleted as a denied pattern forbids. The ways are in `tests/vectors/ring/commands.txt`. In the same
guest, with the ring taken out, each of them works. A column says whether that layer alone would
have kept the way from its end; the last says what stopped it with all of them.

- **words**: the program by its path or name, denied patterns, argument rules. Nothing is started.
- **view**: programs beyond the profile are not there; PATH holds those of the profile.
- **kernel**: nothing but the profile's programs can be executed or mapped as code, by Landlock and
  by mounts that execute nothing; a filter refuses files without a place and new mounts.

Ways called a hole are what an allowed program could do if it were made to do anything: no rule
about words sees them. The loader runs whatever program it can map, and libraries must be mapped: a
program among them is in no image, so the column of the view stands for what the image has; in
the other columns one is put there. Deleting is something else: the program that deletes is allowed,
only the words are not, so no other layer has anything to say.

"""


def table(found: dict[str, Found]) -> str:
    """Return the document."""
    return ring_support.table(HEAD, LAYERS, found, stopped)


def stopped(state: str, why: str, alone: Sequence[bool]) -> str:
    """Return the layer whose refusal it was, by its words; of a silent one, the first to hold."""
    if state == "refused":
        return "words"
    if any(words in why for words in ("not permitted", "ermission denied", "failed to map")):
        return "kernel"
    if any(words in why for words in ("No such file", "not found")):
        return "view"
    return dict(zip(alone[::-1], LAYERS[::-1], strict=True)).get(True, state)


def main() -> None:
    """Try everything, and write the table."""
    PLACE.write_text(table(attempt(columns=tuple(COLUMNS))), "utf-8")


if __name__ == "__main__":
    main()
