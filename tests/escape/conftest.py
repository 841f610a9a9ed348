"""A console and a browser for the tests that attack it, one of each for a module."""

from collections.abc import Iterator

import pytest

from tests.support.console import Canary, Scene, canary, scene


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A console that runs nothing, and a browser that was let in."""
    with scene(tmp_path_factory.mktemp("console"), "--no-run") as found:
        yield found


@pytest.fixture
def closed_tabs(served: Scene) -> Iterator[None]:
    """Close what a test opened."""
    yield
    served.chrome.close_tabs()


@pytest.fixture
def enemy() -> Iterator[Canary]:
    """A server of the attacker's."""
    with canary() as found:
        yield found
