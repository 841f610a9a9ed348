"""The accelerated path for real: the contract again, where a processor does offer acceleration.

That processor is emulated, so it works on every machine, takes long, and says nothing about
speed.
"""

import re
from pathlib import Path

import pytest

from tests.support import guests, heavy
from tests.support.guests import ANY, IMAGES, run_nested
from threegate.host.run.heavy.backend import KVM

SUITES = ("contract", "approval", "guest")


@pytest.mark.slow
# claim TG-C-214
def test_the_same_contract_holds_by_acceleration(tmp_path: Path) -> None:
    outer = guests.built(tmp_path / "outer-images", "base")
    agent = heavy.agent_at(tmp_path / "agent", ANY)
    images = (heavy.built(tmp_path), heavy.built(tmp_path / "owned", agent=agent))
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=short")
    files = [f"tests/escape/test_heavy_{name}.py" for name in SUITES]
    environment = {"THREEGATE_TEST_ENGINE": KVM, "THREEGATE_TEST_IMAGES": IMAGES}
    ended = run_nested(tmp_path, outer, images, (*words, *files), **environment)
    told = ended.said.decode("utf-8", "replace")
    print(told)
    # Control: `test_the_processor_is_what_the_engine_says` is among those that passed.
    assert "::test_the_processor_is_what_the_engine_says[qemu-kvm] PASSED" in told, told
    assert "::test_an_ordinary_user_gets_the_same[qemu-kvm] PASSED" in told, told
    assert re.search(r"^=+ \d+ passed, \d+ deselected", told, re.MULTILINE), told
