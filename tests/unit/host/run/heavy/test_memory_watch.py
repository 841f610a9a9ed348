"""The memory of a guest, looked at from outside: a process of the test's in its place."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from threegate.host.run.heavy import memory_watch
from threegate.host.run.heavy.memory_watch import MemoryWatch

MIB = 2**20
# What a kernel does: memory in a file without a name, which a child shares.
PROGRAM = """
import os, sys
shared, own = (int(word) for word in sys.argv[1:])
fd = os.memfd_create("x")
for _ in range(shared):
    os.write(fd, bytes(2**20))
held = b"x" * own * 2**20
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def kernel(shared: int, own: int) -> Iterator[list[int]]:
    words = [sys.executable, "-c", PROGRAM, str(shared), str(own)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield [os.getpid(), process.pid]
        process.kill()


def test_memory_of_guest_and_kernel_is_seen_and_held_to_its_limit() -> None:
    with kernel(40, 10) as processes:
        enough, little = MemoryWatch(40 * MIB), MemoryWatch(40 * MIB - 1)
        processes[0] = 2**22 + 1  # nobody: this process is not part of it
        assert enough.look(processes), "control: what it may have, it may have"
        assert 50 * MIB <= enough.largest_bytes < 90 * MIB
        assert not little.look(processes)
        assert (enough.over, little.over) == (False, True)


def test_a_kernel_that_takes_memory_of_its_own_is_ended_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with kernel(1, 30) as processes:
        processes[0] = 2**22 + 1
        assert MemoryWatch(MIB).look(processes), "control"
        monkeypatch.setattr(memory_watch, "OWN_BYTES", 20 * MIB)
        assert not MemoryWatch(MIB).look(processes)


def test_one_that_is_gone_has_nothing_and_one_that_cannot_be_seen_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MemoryWatch(0).look([2**22 + 1, 2**22 + 2])

    def hidden(_: int) -> bytes:
        raise PermissionError

    monkeypatch.setattr(memory_watch, "_memory_files", hidden)
    watch = MemoryWatch(2**40)
    # A process of its own: that of the tests may have more memory than a kernel may.
    nobody = 2**22 + 1
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    me = child.pid
    assert [watch.look([nobody, me]) for _ in range(memory_watch.HIDDEN_LOOKS)] == [True] * 1500
    assert (watch.look([nobody, me]), watch.over) == (False, True), "it never showed itself"
    monkeypatch.undo()
    watch = MemoryWatch(2**40)
    assert watch.look([nobody, me]), "control: it can be seen"
    monkeypatch.setattr(memory_watch, "_memory_files", hidden)
    assert (watch.look([nobody, me]), watch.over) == (False, True), "it hid"
    child.communicate()
