"""The image built as an operator builds it, from Debian's packages, and what starts in it."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.internet import ROOT, python
from threegate import __version__
from threegate.sandbox.profiles import PROFILES

# Minutes, and the network: the packages of the base come from where this machine's came from.
pytestmark = pytest.mark.slow

Told = dict[str, Any]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with tempfile.TemporaryDirectory(prefix="threegate-image-") as directory:
        command = ["unshare", "--mount", *python("tests.support.containers"), directory]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=1200, check=False)
        assert ran.returncode == 0, ran.stderr[-4000:].decode("utf-8", "replace")
        yield json.loads((Path(directory) / "told.json").read_text("utf-8"))


def test_every_box_starts_in_the_image(told: Told) -> None:
    assert told["version"] == f"threegate {__version__}\n"
    checks = {check["name"]: check for check in told["doctor"]["checks"]}
    for name in (*(f"gate {profile}" for profile in PROFILES), "monty worker"):
        assert checks[name]["state"] == "in-force", checks[name]


def test_compose_confines_as_the_script_does(told: Told) -> None:
    found = told["compose"]
    assert found["tried"]["workspace"] == "written", "control: what it may write, it writes"
    assert found["tried"]["direct"] == found["tried"]["datagram"] == "ENETUNREACH"
    assert found["tried"]["resolving"] == "gaierror -3"
    assert found["tried"]["root file"] == found["tried"]["program"] == "EROFS"
    assert found["tried"]["vsock"] == "EAFNOSUPPORT"
    assert found["interfaces"] == ["lo"]
    assert set(found["capabilities"]) == {"0"}
    assert (found["no new privileges"], found["filter"]) == ("1", "2")
