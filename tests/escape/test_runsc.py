"""The user-space kernel under attack: by its guest's root, and by whoever owns the kernel itself.

The suite that every engine passes is `test_heavy_contract.py`; all of it runs on this one with
`make slow`.  Here is one attack for each claim about it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.boxes import said
from tests.support.guests import ANY
from tests.support.heavy import Lab, Task, hostile_runsc, runsc_lab
from threegate.base.errors import GateUnavailable
from threegate.host.run.heavy.runsc import BINARY, find_runsc
from threegate.sandbox.box import Start
from threegate.sandbox.doctor import stand_ins
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import RUNSC_FILES, RUNSC_KERNEL, Profile
from threegate.sandbox.session import run_gate

MIB = 2**20
DONE = "port.tell(EXIT, {'code': 0, 'oom': False, 'signal': 0})\n"


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return hostile_runsc(ANY, tmp_path_factory.mktemp("owned"))


# claim TG-C-207
def test_an_engine_that_is_not_here_is_refused_with_what_to_install(tmp_path: Path) -> None:
    assert find_runsc().binary == BINARY, "control: it is here"
    with pytest.raises(GateUnavailable, match="is not here") as caught:
        find_runsc(tmp_path / "runsc")
    assert (caught.value.code, "apt install" in (caught.value.hint or "")) == ("TG-ERA-001", True)
    assert caught.value.exit_code == os.EX_UNAVAILABLE


# claim TG-C-208, TG-C-211
def test_a_job_runs_and_its_result_says_under_what(owned: Lab) -> None:
    lane = runsc_lab()
    ran = lane.run(Task("print(open('/in/a').read())", inputs={"a": b"hello"}))
    assert (ran.outcome.exit, ran.outcome.stdout) == ("ok", b"hello\n"), ran.outcome
    assert lane.backend.versions()["engine-kind"] == "user-space-kernel-not-a-microVM"
    assert [item.profile for item in ran.evidence] == ["tool-heavy", "runsc-kernel", "runsc-files"]
    assert "guest-only-its-image" in ran.outcome.probes
    assert "guest-no-shared-folder" not in ran.outcome.probes, "it is none of a machine"
    # One whose first process ends, or that lies, ends with the reason.
    fine = owned.run(Task(f"port.say(STDOUT, b'fine'); {DONE}")).outcome
    assert (fine.exit, fine.stdout) == ("ok", b"fine"), "control"
    ended = owned.run("os._exit(3)").outcome
    assert (ended.exit, "the guest stopped" in (ended.note or "")) == ("crashed", True), ended
    lied = owned.run("port.tell(FILE, {'bytes': 1, 'name': '../x'})").outcome
    assert (lied.exit, "plain file name" in (lied.note or "")) == ("crashed", True), lied


LOOK = """
import json, socket
found = {}
def tried(name, act):
    try:
        found[name] = repr(act())
    except OSError as exc:
        found[name] = exc.strerror
def to(family, kind, where):
    with socket.socket(family, kind) as s:
        s.settimeout(5); s.connect(where)
        return "connected"
tried("inet", lambda: to(socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 443)))
tried("metadata", lambda: to(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)))
tried("inet6", lambda: to(socket.AF_INET6, socket.SOCK_STREAM, ("2606:4700:4700::1111", 443)))
tried("vsock", lambda: to(40, socket.SOCK_STREAM, (2, 1024)))
tried("abstract", lambda: to(socket.AF_UNIX, socket.SOCK_STREAM, "\\0NAME"))
tried("host file", lambda: os.stat("FILE"))
tried("host root", lambda: os.listdir("/proc/1/root/root"))
tried("image", lambda: open("/usr/lib/python3.11/os.py", "r+b"))
tried("new", lambda: open("/usr/bin/new", "wb"))
tried("node", lambda: os.close(os.open("/dev/vda", os.O_RDONLY)))
tried("own", lambda: os.getuid())
found["kernel"] = os.uname().release
port.say(STDOUT, json.dumps(found).encode())
"""


# claim TG-C-209
def test_root_in_the_guest_finds_no_network_no_file_of_the_host_and_changes_no_image(
    owned: Lab, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    name = f"threegate-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        code = LOOK.replace("FILE", str(secret)).replace("NAME", name)
        outcome = owned.run(code + DONE).outcome
    assert outcome.exit == "ok", outcome
    found = json.loads(outcome.stdout)
    assert found.pop("own") == "0", "control: it is root there"
    assert found.pop("kernel") != os.uname().release, "control: the kernel is another one"
    assert found.pop("host root") in ("No such file or directory", "[]"), found
    assert found == {
        "inet": "No route to host",
        "metadata": "No route to host",
        "inet6": "No route to host",
        "vsock": "Address family not supported by protocol",
        "abstract": "Connection refused",
        "host file": "No such file or directory",
        "image": "Read-only file system",
        "new": "Read-only file system",
        "node": "No such file or directory",
    }


# claim TG-C-210
def test_a_memory_bomb_is_ended_from_outside_even_by_root_in_the_guest(owned: Lab) -> None:
    bomb = "x = []\nwhile True: x.append(b'x' * 2**20)\n"
    within = f"x = b'x' * {64 * MIB}\nport.say(STDOUT, b'%d' % len(x))\n{DONE}"
    outcome = owned.run(within).outcome
    assert (outcome.exit, outcome.stdout) == ("ok", b"67108864"), "control: it may have as much"
    ran = owned.run(bomb)
    assert ran.outcome.exit == "limit:memory", ran.outcome
    assert 192 * MIB < ran.peak_memory_bytes < 1024 * MIB, "ended at its limit, or soon after"


# Without a C library, whose start makes calls that a program in Go has no use for.
PROGRAM = r"""
#include <asm/unistd.h>
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
static long sys(long n, long a, long b, long c, long d) {
  register long r10 __asm__("r10") = d;
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return r;
}
static int is(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}
static char all[128];
static long act(const char *name) {
  char *words[] = {"x", 0}, *none[] = {0};
  for (int at = 0; at < 128; at++) all[at] = (char)255;
  if (is(name, "nothing")) return 0;
  if (is(name, "socket")) return sys(__NR_socket, 2, 1, 0, 0);
  if (is(name, "unix")) return sys(__NR_socket, 1, 1, 0, 0);
  if (is(name, "unshare")) return sys(__NR_unshare, 0x10000000, 0, 0, 0);
  if (is(name, "mount")) return sys(__NR_mount, 0, 0, 0, 0);
  if (is(name, "processors")) return sys(__NR_sched_setaffinity, 0, 128, (long)all, 0);
  if (is(name, "limits")) return sys(__NR_prlimit64, sys(__NR_getppid, 0, 0, 0, 0), 7, 0, 0);
  if (is(name, "parent"))
    return sys(__NR_ptrace, 0x4206, sys(__NR_getppid, 0, 0, 0, 0), 0, 0);
  if (is(name, "root")) return sys(__NR_chroot, (long)"/", 0, 0, 0);
  if (is(name, "exec")) return sys(__NR_execve, (long)"/rt/bin/PYTHON", (long)words, (long)none, 0);
  if (is(name, "passwd")) return sys(__NR_openat, -100, (long)"/etc/passwd", 0, 0);
  if (is(name, "canary")) return sys(__NR_openat, -100, (long)"/canary", 0, 0);
  if (is(name, "write")) return sys(__NR_openat, -100, (long)"/image/new", 0101, 0600);
  return -1;
}
/* argv: act, 3 inside a box or 1 outside */
__attribute__((used)) void begin(long *stack) {
  char **words = (char **)(stack + 1);
  long found = act(words[1]), code = found < 0 ? -found : 0;
  char frame[13] = {1, 0, 0, 0, 3, '0' + code / 100, '0' + code / 10 % 10, '0' + code % 10, 2};
  if (words[2][0] == '3') sys(__NR_write, 3, (long)frame, 13, 0);
  else sys(__NR_write, 1, (long)frame + 5, 3, 0);
  sys(__NR_exit_group, 0, 0, 0, 0);
}
"""
KILLED = f"signal {signal.SIGSYS.value}"
NONE, EPERM, ENOENT, EACCES, EROFS = "000", "001", "002", "013", "030"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kernel")
    place.chmod(0o755)
    version = "python" + ".".join(map(str, sys.version_info[:2]))
    (place / "kernel.c").write_text(PROGRAM.replace("PYTHON", version))
    flags = ("-static", "-nostdlib", "-fno-stack-protector", "-O1")
    subprocess.run(["cc", *flags, "-o", place / "kernel", place / "kernel.c"], check=True)
    return place / "kernel"


def inside(profile: Profile, program: Path, act: str) -> str:
    """Return the errno of an act in a box with its program's filter, or the signal it got."""
    with stand_ins() as given:
        words = (str(BINARY), act, "3")
        start = Start(profile, "exec", given | {"engine": str(program)}, words)
        answer = run_gate(find_machine(), start, b"")
    heard, code = said(answer), answer.ended.exit_code
    if code > 128:
        return f"signal {code - 128}"
    assert answer.ended.why == "done", answer.ended
    return heard.decode()


@pytest.mark.parametrize("profile", [RUNSC_KERNEL, RUNSC_FILES], ids=lambda item: item.name)
# claim TG-C-208
def test_an_owned_kernel_reaches_nothing_and_neither_does_what_shows_it_files(
    profile: Profile, program: Path
) -> None:
    shared = dict.fromkeys(("socket", "unix", "unshare", "mount", "processors", "limits"), KILLED)
    expected = {**shared, "exec": EACCES, "passwd": ENOENT, "canary": EACCES, "write": EROFS}
    if profile is RUNSC_KERNEL:  # it may trace its own children; its parent is none of them
        expected |= {"parent": EPERM, "root": KILLED, "write": ENOENT}
    else:
        expected |= {"parent": KILLED}
    assert inside(profile, program, "nothing") == NONE, "control: the program runs there"
    assert {act: inside(profile, program, act) for act in expected} == expected
    works = ("socket", "unix", "unshare", "processors", "limits", "passwd")
    outside = {
        act: subprocess.run([program, act, "1"], capture_output=True, check=True).stdout
        for act in works
    }
    assert outside == dict.fromkeys(works, NONE.encode()), "control: they work outside"
