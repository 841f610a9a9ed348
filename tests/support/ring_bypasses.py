"""Ways around the import rules of the ring: each obtains something denied and uses it.

A way is Python that leaves in `found` what it obtained; an act is what code would want it
for: an internet socket, or a program that runs.  Without the ring every one of them works, which
is the control; with it none does, and what stopped it is recorded.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

VECTORS: Final = Path(__file__).parents[1] / "vectors" / "ring" / "imports.txt"
TITLE: Final = "=== "

_ENDED = "assert os.waitstatus_to_exitcode(os.waitpid(found, 0)[1]) == 0, 'not executed'"
ACTS: Final = {
    "socket": "found.socket(2, 1)",
    "run": "found.run(['/usr/bin/true'], check=True)",
    "ctypes": "assert found.CDLL(None).socket(2, 1, 0) >= 0, 'no socket by ctypes'",
    "spawn": f"import os\nfound = found('/usr/bin/true', ['true'], {{}})\n{_ENDED}",
    "forked": f"import os\n{_ENDED}",
    "zero": "assert found == 0, 'not executed'",
}


@dataclass(frozen=True)
class Bypass:
    """One way, and what is done with what it finds."""

    name: str
    way: str
    act: str


def bypasses() -> tuple[Bypass, ...]:
    """Return every way there is a vector of."""
    _, *blocks = VECTORS.read_text("utf-8").split(f"\n{TITLE}")
    found = []
    for block in blocks:
        title, _, way = block.partition("\n")
        act, _, name = title.partition(": ")
        found.append(Bypass(name, way, ACTS[act]))
    assert len({one.name for one in found}) == len(found) >= 60
    return tuple(found)


# Runs in the guest, as the request's code: each way in a process of its own.
HARNESS: Final = """\
import json, os, sys
out = {}
for name, way, act in json.load(open('/in/ways')):
    read, write = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        stage, space = 'refused', {'__name__': '__main__'}
        try:
            exec(way, space)
            stage = 'harmless'
            exec(act, space)
            said = ['done', '']
        except BaseException as exc:
            said = [stage, f'{type(exc).__name__}: {exc}'[:200]]
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    data = b''
    while piece := os.read(read, 65536):
        data += piece
    os.close(read)
    os.waitpid(pid, 0)
    out[name] = json.loads(data) if data else ['died', '']
json.dump(out, open('/out/found', 'w'))
"""
