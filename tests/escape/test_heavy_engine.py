"""An owned engine: a program of the attacker's in QEMU's place, in QEMU's box.

It has what QEMU has: the snapshot, the layers, the channels, and the calls that are left.
Each act is tried in a process of its own, and outside of any box as a control.
"""

import hashlib
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.boxes import said
from tests.support.heavy import Lab, Task, backend_for, image, lab
from threegate.host.run.heavy import channels
from threegate.host.run.heavy.backend import Want
from threegate.host.run.heavy.qemu import QemuBackend
from threegate.host.run.heavy.snapshots import STATE, Snapshot
from threegate.sandbox.box import Start
from threegate.sandbox.doctor import stand_ins
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import ENGINE
from threegate.sandbox.session import run_gate

INSIDE = "/usr/bin/qemu-system-x86_64"
PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
/* argv: act, descriptor, 3 inside a box or 1 outside */
static long act(const char *name, int fd) {
  char *words[] = {"x", 0}, *none[] = {0};
  if (!strcmp(name, "nothing")) return 0;
  if (!strcmp(name, "write")) return pwrite(fd, "EVIL", 4, 0);
  if (!strcmp(name, "vector")) { return write(fd, "EVIL", 4); }
  if (!strcmp(name, "truncate")) return syscall(SYS_ftruncate, fd, 0);
  if (!strcmp(name, "map")) {
    char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return -1;
    memcpy(p, "EVIL", 4);
    return 0;
  }
  if (!strcmp(name, "reopen")) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR);
  }
  if (!strcmp(name, "socket")) return socket(AF_INET, SOCK_STREAM, 0);
  if (!strcmp(name, "vsock")) return socket(40, SOCK_STREAM, 0);
  if (!strcmp(name, "fork")) { int p = fork(); if (p == 0) _exit(0); return p; }
  if (!strcmp(name, "exec")) { execve("/rt/bin/PYTHON", words, none); return -1; }
  if (!strcmp(name, "kill")) return kill(1, 0);
  if (!strcmp(name, "unshare")) return syscall(SYS_unshare, 0x10000000);
  if (!strcmp(name, "ptrace")) return syscall(SYS_ptrace, 0, 0, 0, 0);
  if (!strcmp(name, "passwd")) return open("/etc/passwd", O_RDONLY);
  if (!strcmp(name, "canary")) return open("/canary", O_RDONLY);
  if (!strcmp(name, "kernel")) return open("/in/kernel", O_WRONLY);
  if (!strcmp(name, "memfd")) return syscall(SYS_memfd_create, "x", 0);
  if (!strcmp(name, "pipe")) { int p[2]; return pipe(p); }
  return -1;
}
int main(int count, char **words) {
  int out = atoi(words[3]);
  errno = 0;
  long found = act(words[1], atoi(words[2]));
  char text[8];
  int size = snprintf(text, sizeof text, "%d", found < 0 ? errno : 0);
  char frame[32] = {1, 0, 0, 0, (char)size};
  memcpy(frame + 5, text, size);
  char end[5] = {2, 0, 0, 0, 0};
  memcpy(frame + 5 + size, end, 5);
  if (out == 3) return write(3, frame, 10 + size) < 0;
  return write(1, text, size) < 0;
}
"""
KILLED = f"signal {signal.SIGSYS.value}"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("engine")
    place.chmod(0o755)
    version = "python" + ".".join(map(str, sys.version_info[:2]))
    (place / "engine.c").write_text(PROGRAM.replace("PYTHON", version))
    found = place / "engine"
    subprocess.run(["cc", "-static", "-o", found, place / "engine.c"], check=True)
    return found


@pytest.fixture
def snapshot(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "state"
    found.write_bytes(b"TEMPLATE" * 1024)
    yield found


def inside(program: Path, act: str, snapshot: Path) -> str:
    """Return the errno of an act in the engine's box with its filter, or the signal it got."""
    with stand_ins() as given, ExitStack() as stack:
        fd = channels.read_only(stack, snapshot)
        words = (INSIDE, act, str(fd), "3")
        start = Start(ENGINE, "exec", given | {"engine": str(program)}, words, keep_fds=(fd,))
        answer = run_gate(find_machine(), start, b"")
    heard, code = said(answer), answer.ended.exit_code
    if code > 128:
        return f"signal {code - 128}"
    assert answer.ended.why == "done", answer.ended
    return heard.decode()


def outside(program: Path, act: str, snapshot: Path) -> str:
    """Return the errno of the same act without a box, on a file that may be written."""
    fd = os.open(snapshot, os.O_RDWR)
    try:
        words = [str(program), act, str(fd), "1"]
        done = subprocess.run(words, capture_output=True, pass_fds=(fd,), check=False)
    finally:
        os.close(fd)
    return done.stdout.decode()


EBADF, EPERM, EACCES, ENOENT = "9", "1", "13", "2"


# claim TG-C-237
def test_an_owned_engine_cannot_change_the_snapshot_it_was_given(
    program: Path, snapshot: Path
) -> None:
    before = snapshot.read_bytes()
    assert inside(program, "nothing", snapshot) == "0", "control: the program runs there"
    # Calls that write at a place, or cut, are not among those it has.
    expected = {"write": KILLED, "vector": EBADF, "truncate": KILLED, "map": EACCES}
    for act, reason in {**expected, "reopen": ENOENT}.items():
        assert inside(program, act, snapshot) == reason, act
        assert snapshot.read_bytes() == before
        assert outside(program, act, snapshot) == "0", f"control: {act} works outside"
        snapshot.write_bytes(before)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("socket", KILLED),
        ("vsock", KILLED),
        ("fork", KILLED),
        ("kill", KILLED),
        ("unshare", KILLED),
        ("ptrace", KILLED),
        ("pipe", KILLED),
        ("memfd", EPERM),
        ("exec", EACCES),
        ("passwd", ENOENT),
        ("canary", EACCES),
        ("kernel", EACCES),
    ],
)
# claim TG-C-231
def test_an_owned_engine_reaches_nothing(
    program: Path, snapshot: Path, act: str, reason: str
) -> None:
    assert inside(program, act, snapshot) == reason
    without = {"vsock", "exec", "canary", "kernel"}  # not there outside, under these names
    assert act in without or outside(program, act, snapshot) == "0", "control: it works outside"


def _template(lane: Lab, want: Want) -> Snapshot:
    assert isinstance(lane.backend, QemuBackend)
    return lane.backend._template(want)


# claim TG-C-237
def test_a_run_whatever_it_does_leaves_the_snapshot_and_the_next_run_as_they_were() -> None:
    lane: Lab = lab()
    want = lane.want(Task("1"))
    lane.backend.prepare(want)
    state = _template(lane, want).place / STATE
    before = hashlib.sha256(state.read_bytes()).hexdigest()
    fill = "x = bytearray(2**26)\nfor n in range(0, len(x), 4096): x[n] = 255\nprint(len(x))"
    assert lane.run(fill).outcome.stdout == b"67108864\n", "control: it changed its memory"
    assert hashlib.sha256(state.read_bytes()).hexdigest() == before
    assert lane.run("print('next')").outcome.stdout == b"next\n"


# claim TG-C-230
def test_a_damaged_snapshot_is_made_anew(tmp_path: Path) -> None:
    lane = Lab(backend_for(image(), cache_home=tmp_path))
    want = lane.want(Task("1"))
    lane.backend.prepare(want)
    state = _template(lane, want).place / STATE
    first = state.read_bytes()
    state.chmod(0o644)
    with state.open("r+b") as file:
        file.seek(len(first) // 2)
        file.write(struct.pack(">Q", 0xDEADBEEF))
    again = Lab(backend_for(image(), cache_home=tmp_path))
    again.backend.prepare(want)
    assert hashlib.sha256(state.read_bytes()).hexdigest() == _template(again, want).sha256
    assert again.run("print('fine')").outcome.stdout == b"fine\n"
