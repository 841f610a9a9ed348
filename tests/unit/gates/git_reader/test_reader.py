"""Objects, trees and changes as the git-reader sandbox reads them, in this process."""

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repositories import (
    commit,
    commit_of,
    entry,
    git,
    loose,
    number,
    pack,
    repository,
    tree,
)
from threegate.base.untrusted import Untrusted
from threegate.gates.git_reader import messages, objects
from threegate.gates.git_reader.gate import GitReader
from threegate.gates.git_reader.messages import (
    BlobsRead,
    CommitListed,
    CommitNotListed,
    CompareBlobs,
    ListCommit,
    ReadBlobs,
)
from threegate.gates.git_reader.objects import ObjectRefused, ObjectStore


@pytest.fixture(autouse=True)
def packs_are_left_open() -> Iterator[None]:
    """Collect packs that a gate leaves open, because they end with its process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


FILES = {"a.txt": "one\ntwo\n", "src/b.py": "print(1)\n" * 200}


def reader(place: Path) -> GitReader:
    return GitReader(str(place / "objects"))


def listed(
    one: GitReader, revision: str, *, sha256: bool = False
) -> CommitListed | CommitNotListed:
    return messages.parse_listed(Untrusted(one.answer(ListCommit(revision, sha256).to_bytes())))


def blobs(one: GitReader, *ids: str) -> BlobsRead:
    return messages.parse_blobs(Untrusted(one.answer(ReadBlobs(ids).to_bytes())))


def names(found: CommitListed | CommitNotListed) -> dict[str, str]:
    assert isinstance(found, CommitListed)
    return {path: kind for path, kind, _ in found.files}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    repository(tmp_path / "r", FILES)
    return tmp_path / "r" / ".git"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_files_and_bytes_of_a_commit(tmp_path: Path, kind: str, packed: bool) -> None:
    top = tmp_path / "r"
    first = repository(top, FILES, f"--object-format={kind}")
    second = commit(top, {"a.txt": "one\nzwei\n", "src/b.py": "print(1)\n" * 200 + "x = 1\n"})
    if packed:
        git(top, "gc", "-q", "--aggressive", "--prune=now")
        assert not list((top / ".git" / "objects").glob("[0-9a-f][0-9a-f]/*")), "all are packed"
    one = reader(top / ".git")
    for revision, text in ((first, b"one\ntwo\n"), (second, b"one\nzwei\n")):
        found = listed(one, revision[:9], sha256=kind == "sha256")
        assert isinstance(found, CommitListed)
        assert found.commit == revision
        assert names(found) == {"a.txt": "file", "src/b.py": "file"}
        read = blobs(one, *(blob for _, _, blob in found.files))
        assert read.blobs[0] == text


def test_a_tag_leads_to_its_commit_and_a_blob_does_not(place: Path) -> None:
    git(place, "tag", "-a", "v1", "-m", "x")
    one, tag = reader(place), git(place, "rev-parse", "v1")
    assert names(listed(one, tag))
    assert listed(one, git(place, "rev-parse", "v1:a.txt")) == CommitNotListed("not-a-commit")
    assert listed(one, "0" * 40) == CommitNotListed("missing")


# claim TG-C-593
def test_links_submodules_and_hostile_names_are_marked(place: Path) -> None:
    blob = loose(place, "blob", b"x")
    bad = (
        b"..",
        b".git",
        b".GIT",
        b"git~1",
        b".git ",
        b"a/b",
        b"a\nb",
        b"\x7f",
        ".g\u200cit".encode(),
    )
    root = tree(
        place,
        ("100644", b"good name", blob),
        ("120000", b"link", blob),
        ("160000", b"sub", "a" * 40),
        *(("100644", name, blob) for name in bad),
    )
    found = names(listed(reader(place), commit_of(place, root)))
    assert found.pop("good%20name") == "file"
    assert (found.pop("link"), found.pop("sub")) == ("link", "submodule")
    assert set(found.values()) == {"bad-name"}
    assert len(found) == len(bad)


def test_a_folder_of_a_hostile_name_is_not_entered(place: Path) -> None:
    inner = tree(place, ("100644", b"hooks", loose(place, "blob", b"x")))
    root = tree(place, ("40000", b"..", inner), ("40000", b"fine", inner))
    found = names(listed(reader(place), commit_of(place, root)))
    assert found == {"%2E.": "bad-name", "fine/hooks": "file"}


# claim TG-C-593
def test_a_tree_that_is_ten_to_the_ten_files_is_refused(place: Path) -> None:
    one = loose(place, "blob", b"x")
    level = tree(place, *(("100644", b"f%d" % n, one) for n in range(10)))
    assert len(names(listed(reader(place), commit_of(place, level)))) == 10
    for _ in range(9):
        level = tree(place, *(("40000", b"d%d" % n, level) for n in range(10)))
    assert listed(reader(place), commit_of(place, level)) == CommitNotListed("too-many")


# claim TG-C-593
def test_folders_without_files_and_deep_ones_are_counted_too(place: Path) -> None:
    level = tree(place)
    for _ in range(6):
        level = tree(place, *(("40000", b"d%d" % n, level) for n in range(10)))
    assert listed(reader(place), commit_of(place, level)) == CommitNotListed("too-many")
    level = tree(place)
    for _ in range(100):
        level = tree(place, ("40000", b"d", level))
    assert listed(reader(place), commit_of(place, level)) == CommitNotListed("too-deep")


def test_damaged_trees_are_refused(place: Path) -> None:
    for data in (b"100644 a", b"x a\0" + b"1" * 20, b"100644 a\0short", b"\0" * 40):
        found = listed(reader(place), commit_of(place, loose(place, "tree", data)))
        assert found == CommitNotListed("damaged"), data


# claim TG-C-593
def test_a_loose_bomb_is_too_large(place: Path) -> None:
    bomb = loose(place, "blob", b"\0" * (messages.MAX_BLOB_BYTES + 1))
    liar = loose(place, "blob", b"\0" * 1000, said=10)
    good = loose(place, "blob", b"good")
    one = reader(place)
    assert names(listed(one, git(place, "rev-parse", "HEAD")))
    found = blobs(one, bomb, liar, good, "0" * 40)
    assert found.states == ("too-large", "damaged", "read", "missing")
    assert found.blobs == (b"good",)


# claim TG-C-593
def test_deltas_that_promise_too_much_are_refused(place: Path) -> None:
    base = b"x" * 70_000
    copy = b"\xf0\x70\x11\x01"  # 70,000 bytes from the start
    grow = number(len(base)) + number(objects.MAX_OBJECT_BYTES * 64) + copy * 4000
    lies = number(len(base)) + number(10) + copy
    good = number(len(base)) + number(len(base)) + copy
    entries = [("a" * 40, entry(3, base))]
    for name, delta in (("b", grow), ("c", lies), ("d", good)):
        entries.append((name * 40, entry(7, delta, base=bytes.fromhex("a" * 40))))
    entries += [
        ("e" * 40, entry(3, b"x", size=1 << 40)),
        ("f" * 40, entry(7, good, base=bytes.fromhex("f" * 40))),  # a delta on itself
        ("1" * 40, entry(6, good, base=number(1 << 20))),  # a base before the pack
        ("2" * 40, entry(5, b"x")),  # no type has this number
    ]
    pack(place, entries)
    store = ObjectStore(str(place / "objects"), sha256=False)
    assert store.get("d" * 40).data == base, "control: a delta within its bounds"
    why = {}
    for name in "bcef12":
        with pytest.raises(ObjectRefused) as refused:
            store.get(name * 40)
        why[name] = refused.value.reason
    expected = {"b": "too-large", "c": "damaged", "e": "too-large", "f": "too-large"}
    assert why == {**expected, "1": "damaged", "2": "damaged"}


@pytest.mark.parametrize("cut", [20, 40, 200])
# claim TG-C-593
def test_cut_packs_and_indexes_are_refused(place: Path, cut: int) -> None:
    head = git(place, "rev-parse", "HEAD")
    git(place, "gc", "-q", "--prune=now")
    assert names(listed(reader(place), head)), "control: the whole pack is read"
    for ending in ("pack", "idx"):
        (path,) = (place / "objects" / "pack").glob(f"*.{ending}")
        whole = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(whole[:cut])
        found = listed(reader(place), head)
        assert isinstance(found, CommitNotListed), ending
        path.write_bytes(whole)


# claim TG-C-591
def test_alternates_are_not_followed(tmp_path: Path, place: Path) -> None:
    top = tmp_path / "shared"
    git(tmp_path, "clone", "-q", "--shared", str(place.parent), str(top))
    assert git(top, "show", "HEAD:a.txt"), "control: git follows them"
    assert listed(reader(top / ".git"), git(top, "rev-parse", "HEAD")) == CommitNotListed("missing")


def test_changes_have_the_lines_of_both_sides(place: Path) -> None:
    top = place.parent
    before = git(top, "rev-parse", "HEAD:a.txt")
    commit(top, {"a.txt": "one\nzwei", "bin": b"\0\1"})
    after, binary = git(top, "rev-parse", "HEAD:a.txt"), git(top, "rev-parse", "HEAD:bin")
    one = reader(place)
    assert names(listed(one, git(top, "rev-parse", "HEAD")))
    asked = CompareBlobs((("a.txt", before, after), ("bin", None, binary), ("n", None, after)))
    found = messages.parse_compared(Untrusted(one.answer(asked.to_bytes())))
    assert found.states == ("read", "binary", "read")
    expected = git(top, "diff", "HEAD~1", "--", "a.txt").partition("--- ")[2]
    shown, _, new = found.diff.decode().partition("diff --git a/n b/n\n")
    assert shown == f"diff --git a/a.txt b/a.txt\n--- {expected}\n"
    assert new.startswith("--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+one\n+zwei\n\\ No newline")


def test_special_files_among_the_objects_do_not_block(place: Path) -> None:
    name = "ab" + "c" * 38
    (place / "objects" / "ab").mkdir(exist_ok=True)
    os.mkfifo(place / "objects" / "ab" / name[2:])
    one = reader(place)
    assert names(listed(one, git(place, "rev-parse", "HEAD")))
    assert blobs(one, name).states == ("damaged",)
