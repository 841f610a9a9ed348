"""What every test shares: no silent skips in CI, one hypothesis profile, the outside corpus."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

IN_CI = os.environ.get("CI") == "true"

# A shell without job control starts background jobs with Ctrl-C ignored, and children inherit it.
# The commands under test respect that, as scripts expect, so the tests must not pass it on.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is not a bug, so no deadline.  In CI the verdict depends on the commit alone.
settings.register_profile(
    "threegate", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=IN_CI
)
settings.load_profile("threegate")


_OWN_PLACE = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give every run a directory of its own for temporary files.

    pytest puts the runs of one account into one directory, and each that starts closes it to other
    accounts: the gates of a run that is under way could not read their files any more.
    """
    if config.option.basetemp is None:
        place = Path(tempfile.mkdtemp(prefix="threegate-tests-"))
        place.chmod(0o755)
        config.stash[_OWN_PLACE] = place
        config.option.basetemp = str(place / "run")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    place = session.config.stash.get(_OWN_PLACE, None)
    if place is not None and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        shutil.rmtree(place, ignore_errors=True)  # after a failure they are there to be looked at


@pytest.fixture(autouse=True)
def _closed_workspaces() -> Generator[None]:
    """Close what a test opened: a workspace holds thirty descriptors, and tests are many."""
    before = len(_opened())  # those of a module's fixtures, which are made before this one
    yield
    while len(_opened()) > before:
        _opened().pop().close()


def _opened() -> list[Any]:
    """Return the workspaces that are open, if any test here makes workspaces."""
    module = sys.modules.get("tests.support.workspaces")
    return [] if module is None else module.OPEN


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip or an expected failure into a failure: a check that did not run is not green."""
    if report.outcome == "skipped":
        why = getattr(report, "wasxfail", report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {why}"
        if hasattr(report, "wasxfail"):
            del report.wasxfail  # pytest would go on counting it as expected


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if IN_CI:
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if IN_CI:
        _refuse_skip(report)
    return report


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the directory of outside inputs; a missing or empty one fails, it never skips."""
    named = os.environ.get("THREEGATE_CORPUS", "")
    if not named:
        pytest.fail("THREEGATE_CORPUS does not name the corpus directory")
    directory = Path(named)
    if not (directory / "manifest.jsonl").is_file():
        pytest.fail(f"no corpus with a manifest.jsonl at {directory}")
    return directory
