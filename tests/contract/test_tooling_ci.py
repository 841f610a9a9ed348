"""Green in CI means run: skips, expected failures and a missing corpus are failures there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SKIPS = {
    "skip": "import pytest\n\n\n@pytest.mark.skip(reason='why')\ndef test_it(): ...\n",
    "skip-inside": "import pytest\n\n\ndef test_it():\n    pytest.skip('why')\n",
    "xfail": "import pytest\n\n\n@pytest.mark.xfail(reason='why')\ndef test_it():\n    1 / 0\n",
    "module": "import pytest\n\npytest.skip('why', allow_module_level=True)\n",
    "importorskip": "import pytest\n\npytest.importorskip('no_why')\n",
}


def run_pytest(directory: Path, source: str, *, ci: str) -> subprocess.CompletedProcess[str]:
    """Run `source` as a test module next to a copy of our conftest."""
    shutil.copyfile(ROOT / "tests" / "conftest.py", directory / "conftest.py")
    (directory / "test_sample.py").write_text(source, "utf-8")
    (directory / "pytest.ini").write_text("[pytest]\n", "utf-8")
    environment = {**os.environ, "CI": ci, "THREEGATE_CORPUS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("kind", SKIPS)
def test_a_skip_fails_in_ci_only(tmp_path: Path, kind: str) -> None:
    elsewhere = run_pytest(tmp_path, SKIPS[kind], ci="")
    assert elsewhere.returncode in {0, 5}, f"control: not a failure elsewhere\n{elsewhere.stdout}"
    in_ci = run_pytest(tmp_path, SKIPS[kind], ci="true")
    assert in_ci.returncode in {1, 2}, in_ci.stdout
    assert "skipped in CI" in in_ci.stdout
    assert "why" in in_ci.stdout


def test_what_passes_and_what_fails_is_left_alone_in_ci(tmp_path: Path) -> None:
    passing = run_pytest(tmp_path, "def test_it(): ...\n", ci="true")
    assert passing.returncode == 0
    assert "1 passed" in passing.stdout
    failing = run_pytest(tmp_path, "def test_it():\n    assert 1 == 2\n", ci="true")
    assert failing.returncode == 1
    assert "skipped in CI" not in failing.stdout


def test_a_corpus_test_without_a_corpus_fails(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, "def test_it(corpus): ...\n", ci="")
    assert result.returncode == 1
    assert "THREEGATE_CORPUS does not name the corpus directory" in result.stdout


@pytest.mark.parametrize("there", [False, True], ids=["missing", "empty"])
def test_ci_stops_without_a_corpus(tmp_path: Path, there: bool) -> None:
    corpus = tmp_path / "corpus"
    if there:
        corpus.mkdir()
    environment = {**os.environ, "THREEGATE_CORPUS": str(corpus)}
    result = subprocess.run(
        ["bash", str(ROOT / ".ci" / "run")],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 69
    assert f"threegate: error: no corpus at {corpus}" in result.stderr


@pytest.mark.parametrize(("failing", "ran"), [("test", ["test"]), ("corpus", ["test", "corpus"])])
def test_ci_passes_a_failure_on(tmp_path: Path, failing: str, ran: list[str]) -> None:
    """A `make` of our own records what .ci/run asks for and fails where we say."""
    log = tmp_path / "log"
    fake = tmp_path / "make"
    fake.write_text(f'#!/bin/sh\necho "$1" >>"{log}"\n[ "$1" != {failing} ] || exit 3\n', "utf-8")
    fake.chmod(0o755)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "file").touch()
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "THREEGATE_CORPUS": str(tmp_path / "corpus")}
    command = ["bash", str(ROOT / ".ci" / "run")]
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert result.returncode == 3
    assert log.read_text("utf-8").split() == ran
