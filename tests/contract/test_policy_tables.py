"""The field tables hold every key of the schema, so that no rule is undocumented."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from scripts.docs_sync import policy_field_table, policy_reason_table
from tests.support.policies import plain_sections, policy
from threegate.policy.nodes import PolicyReason
from threegate.policy.sections import BY_NAME

SECTIONS = plain_sections(policy())


def leaf_keys(value: Any, prefix: str = "") -> Iterator[str]:
    if not isinstance(value, dict):
        yield prefix.removesuffix(".")
        return
    for key, below in value.items():
        yield from leaf_keys(below, f"{prefix}{key}.")


def documented(table: str) -> list[re.Pattern[str]]:
    """Return a pattern for each row; `NAME` stands for any name, `*` for what is above."""
    keys = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    return [
        re.compile(re.escape(key).replace("NAME", "[^/]+").replace(r"\*", ".+") + r"\Z")
        for key in keys
    ]


@pytest.mark.parametrize("section", BY_NAME)
def test_every_key_of_the_shipped_policy_stands_in_its_table(section: str) -> None:
    rows = documented(policy_field_table(section))
    assert rows
    for key in leaf_keys(SECTIONS[section]):
        assert any(row.match(key) for row in rows), key


@pytest.mark.parametrize("section", BY_NAME)
def test_tables_are_well_formed(section: str) -> None:
    head, rule, *rows = policy_field_table(section).splitlines()
    assert (head.count("|"), rule.count("|")) == (5, 5)
    for row in rows:
        assert row.replace("\\|", "").count("|") == 5, row
        assert row.startswith("| `")


def test_every_reason_has_its_own_code_and_stands_in_the_table() -> None:
    codes = [reason.code for reason in PolicyReason]
    assert len(set(codes)) == len(codes)
    for code in codes:
        assert f"| {code} |" in policy_reason_table()
