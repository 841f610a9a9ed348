"""Every gate under attack: claim by claim, an owned gate tries to get out and does not.

Each attempt is made inside the box and, in the same run and as the same ordinary uid,
outside it.  An attempt that does not work outside proves nothing by failing inside: it is
listed with its reason, and there may be few.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.support.boxes import STARTERS, attacked_as
from threegate.sandbox import attacks
from threegate.sandbox.attacks.base import ARCH, WORKER, AttackResult
from threegate.sandbox.attacks.payload import ATTEMPTS
from threegate.sandbox.attacks.runner import EVERY_PROFILE, applicable
from threegate.sandbox.filters import FORBIDDEN
from threegate.sandbox.profiles import PROFILES

MIN_ATTEMPTS = 150
MIN_COUNTED_SHARE = 0.8


# Boxes that no policy needs by default: attacked by `make slow`, and by what owns them in
# `test_runsc.py` and `test_run_held.py`.
OPTIONAL = ("runsc-kernel", "runsc-files", "run-proxy")
USUAL = tuple(name for name in EVERY_PROFILE if name not in OPTIONAL)
BOXES = [*USUAL, *(pytest.param(name, marks=pytest.mark.slow) for name in OPTIONAL)]


@cache
def _attacked(who: str, profiles: tuple[str, ...]) -> list[AttackResult]:
    """Attack every profile once for each starter; the tests below look at one each.

    Without a default: the cache takes a call that leaves it out for another one.
    """
    return attacked_as(who, ",".join(profiles))


def _of(who: str, profile: str) -> list[AttackResult]:
    found = _attacked(who, OPTIONAL if profile in OPTIONAL else USUAL)
    return [item for item in found if item.profile == profile]


@pytest.mark.parametrize("who", STARTERS)
@pytest.mark.parametrize("profile", BOXES)
# claim TG-C-01, TG-C-02, TG-C-05, TG-C-60
def test_no_attempt_gets_out_of(profile: str, who: str) -> None:
    results = _of(who, profile)
    made = {item.name for item in results}
    assert made == {item.name for item in applicable(profile)}, "every attempt was made"
    escaped = [item for item in results if not item.held]
    assert not escaped, "\n".join(
        f"{item.name}: {item.outcome} {item.reason or item.detail}" for item in escaped
    )


@pytest.mark.parametrize("who", STARTERS)
@pytest.mark.parametrize("profile", BOXES)
# claim TG-C-60
def test_attempts_work_outside_so_their_failure_means_something(profile: str, who: str) -> None:
    results = _of(who, profile)
    unexplained = [item for item in results if item.control.startswith("FAILED")]
    assert not unexplained, "\n".join(f"{item.name}: {item.control}" for item in unexplained)
    toothless = sorted(f"{item.name}: {item.control}" for item in results if not item.counted)
    print(f"\n{profile} as {who}: {len(toothless)} attempts an ordinary user cannot make anywhere:")
    print("\n".join(f"  {line}" for line in toothless))
    assert len(toothless) <= (1 - MIN_COUNTED_SHARE) * len(results)


def test_there_are_enough_distinct_attempts_with_teeth() -> None:
    counted = {item.name for who in STARTERS for item in _attacked(who, USUAL) if item.counted}
    assert len(counted) >= MIN_ATTEMPTS
    groups = Counter(ATTEMPTS[name].group for name in counted)
    assert min(groups.values()) >= 5, groups


def test_every_profile_is_attacked() -> None:
    assert set(EVERY_PROFILE) == {*PROFILES, WORKER}


# claim TG-C-60
def test_every_forbidden_call_is_made_by_an_attempt() -> None:
    """Read the attempts' own code: a call on the list that nobody tries is untested."""
    modules = Path(attacks.__file__).parent.glob("*.py")
    text = "\n".join(path.read_text("utf-8") for path in modules)
    made = set(re.findall(r"call\([\"']([a-z0-9_]+)[\"']", text))
    indirect = {"mknodat", "utimensat"}  # by functions of the standard library
    assert len(made) > 80, "control: calls are found"
    assert set(FORBIDDEN) & set(ARCH.numbers) <= made | indirect
