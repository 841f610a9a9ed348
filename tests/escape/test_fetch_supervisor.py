"""A proxy that does not speak as it should: nothing is asked through it, and it is ended."""

from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.support.policies import policy
from threegate.base.errors import ThreeGateError
from threegate.host import open_box
from threegate.host.proxy.supervisor import Proxy, listening
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import PROXY


@pytest.fixture
def gone() -> "SimpleQueue[ThreeGateError]":
    return SimpleQueue()


def start(tmp_path: Path, gone: "SimpleQueue[ThreeGateError]") -> None:
    with listening(tmp_path) as place:
        proxy = Proxy(find_machine(), place, decided=lambda _: None, gone=gone.put)
        try:
            proxy.start(policy().bundle())
        finally:
            proxy.close()


def test_the_real_one_takes_the_rules(tmp_path: Path, gone: "SimpleQueue[ThreeGateError]") -> None:
    start(tmp_path, gone)
    assert gone.empty(), "it ended because it was told to"


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ("threegate.sandbox.channel:echo", "TG-PRO-001"),  # says something else than was asked
        ("threegate.gates.fetch.proxy.gate:tell", "TG-FET-064"),  # dies at once
    ],
)
def test_another_one_ends_the_run_before_a_question(
    tmp_path: Path,
    gone: "SimpleQueue[ThreeGateError]",
    monkeypatch: pytest.MonkeyPatch,
    payload: str,
    code: str,
) -> None:
    other = replace(open_box.GATES[PROXY.name], payload=payload)
    monkeypatch.setattr(open_box, "GATES", {**open_box.GATES, PROXY.name: other})
    with pytest.raises(ThreeGateError) as refused:
        start(tmp_path, gone)
    assert refused.value.code == code
