"""Without one line of protection somebody must notice; a line nobody would miss is listed.

Slow: each mutant starts boxes of its own.  `scripts/mutate_sandbox.py --write` writes the
table for docs/evidence.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mutants import Mutant
from tests.support.mutation import Copy, every, judge, runnable
from threegate.sandbox.filters import FORBIDDEN
from threegate.sandbox.syscalls import architecture

pytestmark = pytest.mark.slow
NOTHING = Mutant("nothing", "control", (), profiles=("fetch-normalize", "tool-lite", "proxy"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    yield Copy(tmp_path_factory.mktemp("mutants"))


def test_unchanged_copy_without_the_self_test_still_holds(copy: Copy) -> None:
    verdict = judge(copy, NOTHING)  # the control: what mutants change is all that is noticed
    assert (verdict.noticed_by, verdict.refused, verdict.proof) == ((), "", "")


@pytest.mark.parametrize("mutant", [m for m in every() if runnable(m)], ids=lambda m: m.name)
def test_removed_protection_is_noticed_or_known_to_be_masked(mutant: Mutant, copy: Copy) -> None:
    verdict = judge(copy, mutant)
    assert verdict.as_told, f"{verdict.noticed_by or 'nobody noticed'} {verdict.refused}"


def test_every_forbidden_call_has_its_mutant() -> None:
    names = {item.name for item in every()}
    assert {f"rule on {n}" for n in FORBIDDEN if n in architecture().numbers} <= names


def test_table_in_the_documents_lists_every_mutant() -> None:
    table = Path(__file__).parent.parent.parent / "docs" / "evidence" / "sandbox-mutations.md"
    text = table.read_text("utf-8")
    missing = [item.name for item in every() if f"| {item.name} |" not in text]
    assert missing == []
