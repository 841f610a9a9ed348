"""Scenes that need more than one uid: played by root, in namespaces that are gone afterwards."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.internet import run_inside


@contextmanager
def played(target: str) -> Iterator[dict[str, Any]]:
    """Give what `module:function` returned; for a fixture of a module's scope."""
    if os.geteuid() != 0:
        pytest.fail("needs root: accounts of several gates, podman and nftables")
    with tempfile.TemporaryDirectory(prefix="threegate-scenes-") as directory:
        yield run_inside(target, Path(directory))
