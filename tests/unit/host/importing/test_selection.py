"""Which files an import takes, and how their paths are spelled."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.errors import ArtifactRejected, UsageError
from threegate.base.forms import LOCATION
from threegate.base.limits import MAX_URL_CHARS
from threegate.gates.fetch.normalize.messages import ReferenceLine
from threegate.host.importing import selection as module
from threegate.host.importing.selection import FileSelection, FoundFile, Root, read, select


def taken(found: FileSelection) -> list[str]:
    return [file.reference for file in found.files]


def refused(found: FileSelection) -> dict[str, str]:
    return {name: error.message for name, error in found.unusable}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "papers"
    (place / "sub").mkdir(parents=True)
    (place / "a.txt").write_text("a")
    (place / "sub" / "b.md").write_text("b")
    (place / ".hidden.txt").write_text("h")
    return place


def test_a_folder_without_recursive_gives_its_own_files_only(folder: Path, tmp_path: Path) -> None:
    found = select([folder.name], tmp_path, recursive=False)
    assert (taken(found), found.folders, found.hidden) == (["file:a.txt"], 1, 1)
    assert not found.whole_roots, "removals are not known without a whole walk"


def test_recursive_enters_folders_and_paths_are_relative(folder: Path, tmp_path: Path) -> None:
    found = select(["papers"], tmp_path, recursive=True)
    assert taken(found) == ["file:a.txt", "file:sub/b.md"]
    assert not any(str(tmp_path) in file.location for file in found.files)
    assert [root.path for root in found.whole_roots] == [folder]


def test_patterns_choose_by_name_and_by_path(folder: Path, tmp_path: Path) -> None:
    assert (folder / "sub" / "b.md").exists(), "control"
    assert taken(select(["papers"], tmp_path, recursive=True, include=["*.md"])) == [
        "file:sub/b.md"
    ]
    assert taken(select(["papers"], tmp_path, recursive=True, exclude=["sub"])) == ["file:a.txt"]
    assert taken(select(["papers"], tmp_path, recursive=True, exclude=["sub/*"])) == ["file:a.txt"]


# claim TG-C-570
def test_links_fifos_and_sockets_are_refused_beside_a_plain_file(
    folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("outside")
    (folder / "link.txt").symlink_to(secret)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    found = select(["papers"], tmp_path, recursive=True)
    assert taken(found) == ["file:a.txt", "file:sub/b.md"], "control: plain files are taken"
    assert refused(found) == {
        "file:folder": "a symbolic link is not followed",
        "file:link.txt": "a symbolic link is not followed",
        "file:pipe": "it is a FIFO, not a file",
    }


def test_a_link_that_is_named_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to("plain.txt")
    found = select(["plain.txt", "link.txt"], tmp_path, recursive=False)
    assert taken(found) == ["file:plain.txt"]
    assert refused(found) == {"file:link.txt": "a symbolic link is not followed"}


# claim TG-C-570
def test_a_folder_exchanged_for_a_link_after_the_walk_is_not_followed(
    folder: Path, tmp_path: Path
) -> None:
    found = select(["papers"], tmp_path, recursive=True)
    inner = found.files[1]
    assert read(inner, 100) == b"b", "control: it is read while it is a folder"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.md").write_text("another file")
    (folder / "sub").rename(folder / "old")
    (folder / "sub").symlink_to(elsewhere)
    with pytest.raises(ArtifactRejected, match="cannot be opened"):
        read(inner, 100)


# claim TG-C-571
def test_a_file_that_grows_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"first half")
    (file,) = select(["a.txt"], tmp_path, recursive=False).files
    assert read(file, 100) == b"first half", "control"
    real = os.fstat
    calls: list[int] = []

    def growing(fd: int) -> os.stat_result:
        if calls:
            path.write_bytes(b"first half and the second")
        calls.append(fd)
        return real(fd)

    monkeypatch.setattr(os, "fstat", growing)
    with pytest.raises(ArtifactRejected, match="changed while it was read"):
        read(file, 100)


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 101)
    (file,) = select(["a.txt"], tmp_path, recursive=False).files
    assert len(read(file, 101)) == 101, "control"
    with pytest.raises(ArtifactRejected, match="101 bytes, limit 100"):
        read(file, 100)


def test_a_path_that_is_missing_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        select(["nowhere"], tmp_path, recursive=False)


def test_a_tree_deeper_than_the_limit_ends_with_a_reason(tmp_path: Path) -> None:
    place = tmp_path / "deep"
    deepest = place.joinpath(*["d"] * (module.MAX_DEPTH + 5))
    deepest.mkdir(parents=True)
    (place / "a.txt").write_text("a")
    found = select(["deep"], tmp_path, recursive=True)
    assert taken(found) == ["file:a.txt"]
    assert list(refused(found).values()) == [f"below {module.MAX_DEPTH} folders"]


# claim TG-C-570
def test_opening_a_fifo_that_replaced_a_file_never_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x")
    (file,) = select(["a.txt"], tmp_path, recursive=False).files
    path.unlink()
    os.mkfifo(path)
    ended = threading.Event()

    def reading() -> None:
        with pytest.raises(ArtifactRejected, match="not a regular file"):
            read(file, 100)
        ended.set()

    thread = threading.Thread(target=reading, daemon=True)
    thread.start()
    thread.join(30)
    assert ended.is_set()


NAMES = st.binary(min_size=1, max_size=40).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_any_name_has_one_location_that_packets_accept(names: list[bytes]) -> None:
    parts = tuple(map(os.fsdecode, names))
    file = FoundFile(Root(Path("/r"), "0" * 64), parts, (0, 0, 0, 0, 0))
    assert LOCATION.fits(file.location), file.location
    assert len(file.location.split("/")) == len(names)
    assert not {".", ".."} & set(file.location.removeprefix("file:").split("/"))
    assert file.reference.startswith("file:")
    # Records refuse references with control or bidi characters, line breaks and markup.
    assert ReferenceLine(MAX_URL_CHARS).build(file.reference) == file.reference


def workspace(place: Path) -> Path:
    for name in ("audit", "bundles", "handoff/packets", "policy", "papers"):
        (place / name).mkdir(parents=True)
        (place / name / "x.md").write_text(name)
    (place / "threegate.json").write_text("{}")
    return place


def test_files_of_a_workspace_are_left_out_of_the_folder_around_it(tmp_path: Path) -> None:
    workspace(tmp_path / "all" / "ws")
    (tmp_path / "all" / "audit").mkdir()
    (tmp_path / "all" / "audit" / "y.md").write_text("not of a workspace")
    found = select(["all"], tmp_path, recursive=True)
    # The operator's own files beside them are taken: `threegate init .` is usual.
    assert taken(found) == ["file:audit/y.md", "file:ws/papers/x.md"]
    assert found.own == 5
    found = select(["all/ws"], tmp_path, recursive=True)
    assert (taken(found), found.own) == (["file:papers/x.md"], 5)


# claim TG-C-577
def test_files_of_a_workspace_are_refused_by_name(tmp_path: Path) -> None:
    place = workspace(tmp_path / "ws")
    (tmp_path / "link").symlink_to(place / "handoff")
    named = ["ws/handoff", "ws/handoff/packets/x.md", "ws/threegate.json", "link/packets"]
    found = select([*named, "ws/papers"], tmp_path, recursive=True)
    assert taken(found) == ["file:x.md"], "control: what the operator put there is taken"
    assert [name for name, _ in found.unusable] == named
    assert {error.code for _, error in found.unusable} == {module.OWN}


def test_closed_folders_are_neither_entered_nor_named(tmp_path: Path) -> None:
    (tmp_path / "config" / "threegate").mkdir(parents=True)
    (tmp_path / "config" / "threegate" / "key").write_text("k")
    (tmp_path / "config" / "other.txt").write_text("o")
    closed = [tmp_path / "config" / "threegate"]
    control = select(["config"], tmp_path, recursive=True)
    assert taken(control) == ["file:other.txt", "file:threegate/key"]
    found = select(["config"], tmp_path, recursive=True, closed=closed)
    assert (taken(found), found.own) == (["file:other.txt"], 1)
    found = select(["config/threegate/key"], tmp_path, recursive=False, closed=closed)
    assert [error.code for _, error in found.unusable] == [module.OWN]


def test_a_file_removed_during_the_walk_does_not_take_the_others_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "c.txt").write_text("c")
    before = os.stat

    def stat_after_a_removal(name: str, **more: object) -> os.stat_result:
        if name == "a.txt":
            (folder / "a.txt").unlink()
        return before(name, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", stat_after_a_removal)
    found = select(["papers"], tmp_path, recursive=True)
    assert taken(found) == ["file:c.txt", "file:sub/b.md"]
    assert not found.unusable


def test_what_is_in_a_folder_that_cannot_be_read_is_not_called_gone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = select(["papers"], tmp_path, recursive=True)
    assert [one.path for one in control.whole_roots] == [folder], "control: all was read"
    before = os.open

    def without_sub(name: str, flags: int, **more: int) -> int:
        if name == "sub":
            raise PermissionError(13, "Permission denied")
        return before(name, flags, **more)

    monkeypatch.setattr(os, "open", without_sub)
    found = select(["papers"], tmp_path, recursive=True)
    assert taken(found) == ["file:a.txt"]
    assert refused(found) == {"sub": "the folder cannot be read: permission denied"}
    assert not found.whole_roots


def test_a_file_in_a_folder_that_cannot_be_listed_is_refused_in_words(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = select([str(folder / "a.txt")], tmp_path, recursive=False)
    assert taken(control) == ["file:a.txt"], "control"

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    found = select(["papers/a.txt"], tmp_path, recursive=False)
    assert list(refused(found).values()) == ["its folder cannot be read: permission denied"]
