"""Commands under the ring, in a real guest: what a rule refuses never has a process.

The guest's agent is the real one; root beside it has the guest's kernel trace every process.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import ring_commands
from tests.support.heavy import Task, asked_for, lab, rules, runsc_lab
from tests.support.ring_commands import COLUMNS, DRIVER, attempt, bypasses, drive, ring

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "ring-commands.md"
BY = "policy/tool-exec.policy.md:"

# One of each kind, and of each layer that alone is left to stop it.
SOME = (
    *("a copy with an allowed name", "find -exec", "git -c core.sshCommand", "options apart"),
    *("a hole: exec", "a hole: a static program", "a hole: the loader with a copy"),
    "a hole: another user's namespace and a mount that executes",
    "a hole: the loader with a program among the libraries",
)

# The guest's kernel writes down every process that is made and every program that is started.
TRACED = f"""{DRIVER}
place = "/run/proof"
os.makedirs(place)
kernel.mount("trace", place, "tracefs", 0)
top = f"{{place}}/instances/proof"
os.mkdir(top)
for event in ("sched_process_fork", "sched_process_exec"):
    with open(f"{{top}}/events/sched/{{event}}/enable", "w") as file: file.write("1")

def traced():
    with open(f"{{top}}/trace") as file: lines = file.read().splitlines()
    with open(f"{{top}}/trace", "w"): pass
    ours = f" pid={{os.getpid()}} "
    forks = [line for line in lines if "sched_process_fork: " in line and ours in line]
    started = [line.partition("filename=")[2].split()[0] for line in lines if "filename=" in line]
    return [len(forks), started]

answer = []
for argv in GIVEN["commands"]:
    traced()
    frames = command(executor, argv)
    answer.append([frames, *traced()])
answer = [answer, executor.prove()]
"""


# claim TG-C-263, TG-C-283
def test_a_denied_command_never_has_a_process_by_the_kernels_own_trace() -> None:
    denied = {
        ("/usr/bin/sort", "--compress-prog=sh", "/etc/passwd"): "denied_patterns",
        ("sort", "/etc/passwd", "curl"): "denied_patterns",
        ("rm", "-f", "-r", "/out/x"): "denied_patterns",
        ("find", "/etc", "-exec", "id", ";"): "argument_rules",
        ("/usr/bin/dash", "-c", "true"): "allowed_binaries",
    }
    controls = [("/usr/bin/sort", "/etc/passwd"), ("sort", "/etc/passwd")]
    given = {"ring": ring(), "commands": [*controls, *denied]}
    found, proved = drive(TRACED, given)
    for frames, forks, started in found[:2]:  # control: by path and by name, it is traced
        assert [kind for kind, _ in frames] == [13, 17], frames
        assert (forks, started) == (1, ["/usr/bin/sort"])
    for rule, (frames, forks, started) in zip(denied.values(), found[2:], strict=True):
        assert (forks, started) == (0, []), "no process, not even one that is refused"
        (_, violation), (_, told), (_, ended) = frames
        assert violation["rule"] == rule
        assert told.startswith(f"threegate: not started, refused by {rule} ({BY}")
        assert ended["code"] == 126
    assert {*proved} == {"commands", "exec", "socket"}, "prober is no program it was built with"


# claim TG-C-284
def test_no_way_around_the_command_rules_gets_what_it_is_for() -> None:
    found = attempt(SOME)
    assert {state for state, _ in found["none"].values()} == {"done"}, f"control: {found['none']}"
    assert {state for state, _ in found["all"].values()} == {"refused", "stopped"}, found["all"]
    reasons = {name: why for name, (_, why) in found["all"].items()}
    assert "refused by argument_rules" in reasons["find -exec"]
    assert "refused by denied_patterns" in reasons["options apart"]
    assert "refused by allowed_binaries" in reasons["a copy with an allowed name"]
    assert "No such file" in reasons["a hole: exec"], "by the view"
    assert "Permission denied" in reasons["a hole: a static program"], "by the kernel"
    assert "failed to map segment" in reasons["a hole: the loader with a copy"], "by the kernel"
    among = reasons["a hole: the loader with a program among the libraries"]
    assert "no program is among the libraries" in among, "by what the image has"
    # What the kernel refused a running command is seen by its own trace.
    assert "['/tmp/bin/busybox']" in reasons["a hole: a static program"]


# By the words of this profile the program may do anything; the kernel sees what it starts.
TRIES = """\
import os, subprocess
for path in ('/etc/passwd', '/tmp/none', '/usr/bin/sort', '/dev/shm/x'):
    if path == '/dev/shm/x':
        open(path, 'w').write('#!/usr/bin/sort')
        os.chmod(path, 0o755)
    try:
        subprocess.run([path, '/dev/null'])
    except OSError as exc:
        print(path, exc.strerror, flush=True)
"""


# claim TG-C-285
def test_what_the_kernel_refused_a_running_command_stands_in_its_result() -> None:
    commands = [("prober", "-I", "-S", "-c", TRIES), ("sort", "/dev/null")]
    code = f"{DRIVER}\nanswer = [command(executor, argv) for argv in GIVEN['commands']]\n"
    tried, control = drive(code, {"ring": ring(), "commands": commands})
    told = "".join(body for kind, body in tried if kind == 13).splitlines()
    assert told == [
        *("/etc/passwd Permission denied", "/tmp/none No such file or directory"),
        "/dev/shm/x Permission denied",
    ]
    violations = [body for kind, body in tried if kind == 18]
    assert [(one["rule"], one["argument"]) for one in violations] == [
        ("allowed_binaries", "/etc/passwd"),
        ("allowed_binaries", "/dev/shm/x"),
    ], "what was not there, and what is allowed, is none"
    assert tried[-1] == [17, {"code": 0, "oom": False, "signal": 0}], "and it went on to its end"
    assert [kind for kind, _ in control] == [17]


@pytest.mark.slow
# claim TG-C-284
def test_the_table_says_which_layer_alone_would_have_held() -> None:
    found = attempt(columns=tuple(COLUMNS))
    assert len(found["none"]) == len(bypasses()) >= 60
    assert {state for state, _ in found["none"].values()} == {"done"}, "control"
    assert "done" not in {state for state, _ in found["all"].values()}
    assert ring_commands.table(found) == EVIDENCE.read_text("utf-8"), (
        "write it anew: python -m tests.support.ring_commands"
    )


# The same guest, with one mechanism of the kernel taken out at a time.
LACKING = f"""{DRIVER}
PARTS = {{"noexec": (view, "MS_NOEXEC", 0),
         "landlock": (kernel, "only_execute", lambda paths: None),
         "seccomp": (kernel, "refuse_calls", lambda: None)}}
answer = {{"": executor.prove()}}
for part, (module, name, other) in PARTS.items():
    usual = getattr(module, name)
    setattr(module, name, other)
    answer[part] = executor.prove()
    setattr(module, name, usual)
"""


# claim TG-C-380
def test_commands_prove_each_mechanism_of_the_kernel_and_not_what_is_gone() -> None:
    found = drive(LACKING, {"ring": ring()})
    assert {"exec", "socket"} <= {*found[""]}, "control"
    gone = {part: {*found[""]} - {*proved} for part, proved in found.items() if part}
    # Without Landlock the process that tries becomes what it executes, and says no more.
    assert gone == {"noexec": {"exec"}, "landlock": {"exec", "socket"}, "seccomp": {"socket"}}


# claim TG-C-264
def test_a_command_as_deployed_brings_its_proofs() -> None:
    ran = lab().run(Task(argv=("sha256sum", "/in/data"), inputs={"data": b"hello"}))
    assert ran.outcome.exit == "ok", ran.outcome.stderr
    assert ran.outcome.violations == ()
    proofs = {f"guest-ring-{name}" for name in ("commands", "exec", "programs", "socket")}
    assert proofs <= {*ran.outcome.probes}


@pytest.mark.slow
# claim TG-C-264
def test_so_it_does_under_a_user_space_kernel() -> None:
    ran = runsc_lab().run(Task(argv=("sha256sum", "/in/data"), inputs={"data": b"hello"}))
    assert ran.outcome.exit == "ok", ran.outcome.stderr
    assert "guest-ring-programs" in ran.outcome.probes


@pytest.mark.parametrize("argv", [("/usr/bin/sort", "--compress-prog=sh"), ("sort", "/in/curl")])
# claim TG-C-261
def test_the_gate_refuses_what_no_reviewer_should_have_seen(argv: tuple[str, ...]) -> None:
    outcome = lab().run(Task(argv=argv)).outcome
    assert outcome.exit == "refused:approval"
    assert outcome.code == "TG-RNG-004"
    assert BY in (outcome.message or "")


# claim TG-C-245
def test_the_gate_starts_nothing_under_a_profile_the_executor_cannot_enforce() -> None:
    fine = Task("print('ran')")
    want = lab().want(fine)
    control = lab().backend.run(want, asked_for(fine, rules())).outcome
    assert (control.exit, control.stdout) == ("ok", b"ran\n"), "control: under its own profile"
    # The host that would have refused it lies: request and approval are signed as they are.
    outcome = lab().backend.run(want, asked_for(replace(fine, profile="tools"), rules())).outcome
    assert (outcome.exit, outcome.code) == ("refused:approval", "TG-RNG-001")
    assert (outcome.stdout, outcome.stderr) == (b"", b"")
    assert "heavy-python does not see the commands of its code" in (outcome.message or "")
    assert BY in (outcome.message or "")
