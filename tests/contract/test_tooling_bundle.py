"""`make bundle`: an archive that installs with no index, and refuses when a byte has changed."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from scripts import bundle
from threegate import __version__

# Downloads the locked wheels, so it needs the network that the bundle spares its user.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.make_bundle(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def unpacked(archive: Path, tmp_path: Path) -> Path:
    with tarfile.open(archive) as opened:
        # Debian's Python 3.11.2 has no filters; the archive is our own.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(tmp_path)  # noqa: S202
    return tmp_path / f"threegate-{__version__}-bundle"


def install(unpacked: Path, target: Path) -> subprocess.CompletedProcess[str]:
    # An index that cannot answer: whatever asks for one fails instead of passing by luck.
    nowhere = "http://127.0.0.1:9/simple"
    environment = {**os.environ, "PIP_INDEX_URL": nowhere, "PIP_EXTRA_INDEX_URL": nowhere}
    command = ["bash", str(unpacked / "install.sh"), str(target)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_it_installs_without_an_index_and_runs(unpacked: Path, tmp_path: Path) -> None:
    installed = install(unpacked, tmp_path / "venv")
    assert installed.returncode == 0, installed.stderr
    assert installed.stdout == f"threegate {__version__}\n"
    command = [str(tmp_path / "venv" / "bin" / "python"), "-I", "-m", "threegate", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout == f"threegate {__version__}\n"


def test_a_changed_wheel_is_refused_before_anything_is_made(unpacked: Path, tmp_path: Path) -> None:
    wheel = next((unpacked / "wheels").glob("pycparser-*.whl"))
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    refused = install(unpacked, tmp_path / "venv")
    assert refused.returncode == 65
    assert "threegate: error: the bundle is not what was packed" in refused.stderr
    assert wheel.name in refused.stdout + refused.stderr
    assert not (tmp_path / "venv").exists()


def test_a_wheel_of_another_hash_is_refused_by_pip(unpacked: Path, tmp_path: Path) -> None:
    """Whoever rewrites SHA256SUMS too still meets the hashes of the lock."""
    wheel = next((unpacked / "wheels").glob("pycparser-*.whl"))
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    (unpacked / "SHA256SUMS").unlink()
    bundle.write_sums(unpacked)
    refused = install(unpacked, tmp_path / "venv")
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def test_another_interpreter_is_refused_with_its_name(unpacked: Path, tmp_path: Path) -> None:
    (unpacked / "BUILT-FOR").write_text("cpython 3.0 linux-vax glibc\n", "utf-8")
    (unpacked / "SHA256SUMS").unlink()
    bundle.write_sums(unpacked)
    refused = install(unpacked, tmp_path / "venv")
    assert refused.returncode == 69
    assert "threegate: error: built for cpython 3.0 linux-vax glibc, this is" in refused.stderr


def test_a_directory_that_is_in_use_is_left_alone(unpacked: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    refused = install(unpacked, tmp_path / "mine")
    assert refused.returncode == 73
    assert (tmp_path / "mine" / "notes").exists()


def test_the_same_tree_gives_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    shutil.copyfile(archive, tmp_path / "first")
    again = bundle.make_bundle(tmp_path / "dist")
    assert again.read_bytes() == (tmp_path / "first").read_bytes()
