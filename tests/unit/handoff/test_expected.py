"""What the log says of files, kept outside memory."""

import os
import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from threegate.base.errors import StorageFailed
from threegate.handoff.verify import Expected

PACKETS, BLOBS = "handoff/packets/accepted", "handoff/blobs"


def test_the_last_word_on_a_place_counts_and_a_place_can_be_given_up() -> None:
    expected = Expected()
    expected.put((PACKETS, "b"), "1")
    expected.put((PACKETS, "a"), "2")
    expected.put((BLOBS, "b"), "3")
    expected.put((PACKETS, "b"), "4")
    assert expected.get((PACKETS, "b")) == "4"
    assert list(expected.names(PACKETS)) == ["a", "b"]
    assert (len(expected), expected.count(PACKETS)) == (3, 2)
    assert expected.pop((PACKETS, "a")) == "2"
    assert (expected.get((PACKETS, "a")), expected.pop((PACKETS, "a"))) == (None, "")
    assert list(expected.items()) == [((BLOBS, "b"), "3"), ((PACKETS, "b"), "4")]


def test_it_is_on_the_disk_and_has_no_name_there() -> None:
    def deleted() -> set[str]:
        links = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
        return {link for link in links if link.endswith(" (deleted)")}

    before, expected = deleted(), Expected()
    for number in range(40_000):  # more than the cache holds
        expected.put((PACKETS, f"{number:064x}"), "0" * 64)
    (found,) = deleted() - before
    assert not Path(found.removesuffix(" (deleted)")).exists()
    assert len(expected) == 40_000


def test_python_holds_none_of_it() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        expected = Expected()
        for number in range(count):
            expected.put((PACKETS, f"{number:064x}"), "0" * 64)
        assert sum(1 for _ in expected.items()) == count
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(10)
    assert peak(5_000) < 2 * peak(500)


def test_a_failure_is_said_in_our_words() -> None:
    expected = Expected()
    expected.put((PACKETS, "a"), "1")
    assert len(expected) == 1, "control"
    expected._db.close()
    for act in (lambda: len(expected), lambda: expected.get((PACKETS, "a"))):
        with pytest.raises(StorageFailed, match="cannot keep the list of files") as raised:
            act()
        assert isinstance(raised.value.__cause__, sqlite3.Error)
