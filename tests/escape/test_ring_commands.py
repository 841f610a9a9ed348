"""Commands under the ring, in a real guest: what a rule refuses never has a process.

The guest's agent is the real one; root beside it reads the kernel's own count of processes.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.guests_owned import ANY
from tests.support.heavy import Task, hostile, lab, request_for, rules
from threegate.policy.approvals import executor_for
from threegate.policy.ring.compiling import compile_ring

# What the guest is asked to run, one after the other, each as a job of its own.
_DRIVER = """
import os
from threegate.tool_exec.era.guest import commanding

class Said:
    def __init__(self): self.frames = []
    def hear(self): return DATA, b""
    def tell(self, kind, message): self.frames.append((kind, message))
    def say(self, kind, body=b""): self.tell(kind, bytes(body).decode("utf-8", "replace"))

def forks():
    return int(open("/proc/stat").read().partition("\\nprocesses ")[2].split()[0])

found = []
commanding.lay_path(RING["binaries"])
for argv in COMMANDS:
    said, before = Said(), forks()
    one = {**job, "argv": argv, "ring": RING, "inputs": False, "outputs": []}
    not_used(said, one, None, clone=True)
    found.append([said.frames, forks() - before])
proved = commanding.prove(RING, commanding.read_digests())
port.say(STDOUT, json.dumps([found, proved]).encode())
port.tell(EXIT, {"code": 0, "oom": False, "signal": 0})
"""


def run_each(tmp_path: Path, ring: dict[str, Any], commands: list[list[str]]) -> Any:
    given = f"RING = json.loads({json.dumps(ring)!r})\nCOMMANDS = {commands!r}\n"
    ran = hostile(ANY, tmp_path).run(Task(code=given + _DRIVER))
    assert ran.outcome.exit == "ok", ran.outcome.stderr.decode()
    return json.loads(ran.outcome.stdout)


# claim TG-C-263
def test_a_denied_command_never_has_a_process(tmp_path: Path) -> None:
    task = Task(argv=("/usr/bin/sort", "/etc/passwd"))
    ring = compile_ring(rules(), executor_for(request_for(task)), "tools").plain()
    denied = [
        ["/usr/bin/sort", "--compress-prog=sh", "/etc/passwd"],
        ["/usr/bin/head", "curl"],
        ["/usr/bin/dash", "-c", "true"],
    ]
    control = ["/usr/bin/sort", "/etc/passwd"]
    found, proved = run_each(tmp_path, ring, [control, ["sort", "/etc/passwd"], *denied])
    for frames, processes in found[:2]:  # control: by path and by name, it runs and is counted
        assert [kind for kind, _ in frames] == [13, 17], frames
        assert processes > 0
    wanted = ["denied_patterns", "denied_patterns", "allowed_binaries"]
    for rule, (frames, processes) in zip(wanted, found[2:], strict=True):
        assert processes == 0, "no process, not even one that is refused"
        (_, violation), (_, told), (_, ended) = frames
        assert violation["rule"] == rule
        assert told.startswith(f"threegate: not started, refused by {rule} (policy/tool-exec")
        assert ended["code"] == 126
    assert proved == ["commands", "programs"]


# claim TG-C-264
def test_a_command_as_deployed_brings_its_proofs() -> None:
    ran = lab().run(Task(argv=("sha256sum", "/in/data"), inputs={"data": b"hello"}))
    assert ran.outcome.exit == "ok", ran.outcome.stderr
    assert {"guest-ring-commands", "guest-ring-exec", "guest-ring-programs"} <= {
        *ran.outcome.probes
    }


@pytest.mark.parametrize("argv", [("/usr/bin/sort", "--compress-prog=sh"), ("sort", "/in/curl")])
# claim TG-C-261
def test_the_gate_refuses_what_no_reviewer_should_have_seen(argv: tuple[str, ...]) -> None:
    outcome = lab().run(Task(argv=argv)).outcome
    assert outcome.exit == "refused:approval"
    assert outcome.code == "TG-RNG-004"
    assert "policy/tool-exec.policy.md:" in (outcome.message or "")
