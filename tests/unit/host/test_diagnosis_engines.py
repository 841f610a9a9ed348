"""What the doctor says of an engine that cannot be had."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.policies import policy
from threegate.base.errors import GateUnavailable, StorageFailed, ThreeGateError
from threegate.host import diagnosis
from threegate.host.run.heavy import lane


class Places:
    """As much of a context as is looked at."""

    def __init__(self, home: Path) -> None:
        self.settings = self
        self.config_home = self.cache_home = home


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("qemu-emulation", "a guest of image 0123456789ab answered; 2 promises held"),
        ("runsc", "user-space kernel, not a microVM; a guest of image 0123456789ab answered; 2"),
    ],
)
# claim TG-C-323
def test_an_engine_that_answers_is_told_as_what_it_is(
    engine: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Answers:
        """An engine whose guests answer."""

        image = SimpleNamespace(digest="0123456789abcdef", manifest=SimpleNamespace(layers=()))

        def prepare(self, want: object) -> None:
            assert want is not None

        def probe(self, want: object) -> tuple[str, ...]:
            assert want is not None
            return ("guest-cpus", "guest-memory")

    monkeypatch.setattr(lane, "open_backend", lambda *_: Answers())
    context: Any = Places(tmp_path)
    check = diagnosis._engine(context, policy().bundle(), engine)
    assert (check.name, check.state) == (f"engine {engine}", "in-force")
    assert check.detail.startswith(said)


@pytest.mark.parametrize(
    "error",
    [
        GateUnavailable("no engine", hint="install it"),
        StorageFailed("cannot make a disk without a name in the cache: Operation not supported"),
    ],
)
def test_an_engine_without_its_files_is_missing_and_not_a_crash(
    error: ThreeGateError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(lane, "open_backend", refuse)
    context: Any = Places(tmp_path)
    check = diagnosis._engine(context, policy().bundle(), "qemu-emulation")
    assert (check.name, check.state) == ("engine qemu-emulation", "missing")
    assert error.message in check.detail
