"""The embedding model of a policy: that one, or none."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.policies import altered, policy
from threegate.base.errors import GateUnavailable
from threegate.host.models.catalogue import MINILM
from threegate.host.models.embedder import Embedder
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine


def naming(sha256: str) -> Bundle:
    def change(sections: dict[str, Any]) -> None:
        sections["core"]["embedder"]["sha256"] = sha256

    return altered(policy(), change).bundle()


@pytest.mark.parametrize(
    ("sha256", "code"), [("0" * 64, "TG-EMB-020"), (MINILM.sha256, "TG-MDL-021")]
)
def test_another_model_or_none_is_an_error_and_no_other_model(
    sha256: str, code: str, tmp_path: Path
) -> None:
    with (
        pytest.raises(GateUnavailable) as caught,
        Embedder.start(naming(sha256), find_machine(), tmp_path),
    ):
        raise AssertionError("nothing is there")
    assert caught.value.code == code
    assert caught.value.hint
