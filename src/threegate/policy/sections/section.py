"""A section of the policy: one file, one record of rules, and its consistency check.

SECURITY
    Reads policy files and stored bundles through one reader: a bundle is turned back
    into nodes and typed again, so that a bundle can hold nothing that could not
    have been written in a file.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import VersionUnsupported
from threegate.base.text import quote
from threegate.policy.leaves import Number, WordChoice
from threegate.policy.nodes import (
    BlockNode,
    Node,
    PolicyReason,
    RuleReader,
    ScalarNode,
    Value,
    node_of,
    place,
)
from threegate.policy.schema import Order, RuleField, RuleRecord

FORMAT: Final = "policy/1"
_NEWER: Final = re.compile(r"policy/[1-9][0-9]{0,8}\Z")

Rules = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class RuleSection:
    """A file of rules; `check` raises `PolicyInvalid` where two of its rules contradict."""

    name: str
    file: str
    record: RuleRecord
    check: Callable[[Rules, RuleReader], None]

    def read_block(self, block: BlockNode) -> tuple[Rules, RuleReader]:
        """Return the rules in the block of a policy file, and the line of each."""
        reader = RuleReader(self.file)
        return self._read(self._without_header(block, reader), reader), reader

    def read_value(self, value: Rules) -> tuple[Rules, RuleReader]:
        """Return the rules in a stored section, typed and checked again."""
        reader = RuleReader(self.file, stored=True)
        return self._read(node_of(value), reader), reader

    def _read(self, node: Node, reader: RuleReader) -> Rules:
        path = (self.name,)
        reader.lines[path] = node.line
        rules = self.record.read_block(node, path, reader)
        self.check(rules, reader)
        return rules

    def _without_header(self, block: BlockNode, reader: RuleReader) -> BlockNode:
        given = {key.text: item for key, item in block.entries}
        _check_format(given.get("format"), block.line, reader)
        section = given.get("section")
        if not isinstance(section, ScalarNode):
            raise reader.fail(PolicyReason.MISSING_KEY, block.line, "key section is missing")
        WordChoice((self.name,)).read(section, ("section",), reader)
        rest = tuple(entry for entry in block.entries if entry[0].text not in {"format", "section"})
        return BlockNode(rest, block.line)


def _check_format(node: Node | None, line: int, reader: RuleReader) -> None:
    if not isinstance(node, ScalarNode):
        raise reader.fail(PolicyReason.MISSING_KEY, line, "key format is missing")
    if node.text != FORMAT and _NEWER.match(node.text):
        where = place(reader.file, node.line)
        raise VersionUnsupported(f"{where}: format {node.text} is newer than {FORMAT}")
    if node.text != FORMAT:
        message = f"format {quote(node.text)}: expected {FORMAT}"
        raise reader.fail(PolicyReason.VALUE, node.line, message)


def block_of(rules: Rules, *keys: str) -> Rules:
    """Return the rules below `keys`."""
    for key in keys:
        below = rules[key]
        assert isinstance(below, Mapping)
        rules = below
    return rules


def words_of(rules: Rules, key: str) -> frozenset[str]:
    """Return the set of words at `key`."""
    values = rules[key]
    assert isinstance(values, tuple)
    return frozenset(value for value in values if isinstance(value, str))


# `instruction-hierarchy.md`: whose instructions the model follows, highest first.

NAME_OF_SECTION: Final = "instruction-hierarchy"
LEVELS: Final = ("invariants", "policy", "role", "question", "artifacts")

RECORD: Final = RuleRecord(
    (
        RuleField("levels", Order(LEVELS), "levels, highest first"),
        RuleField(
            "data_levels", Order(LEVELS[-1:]), "levels that are quoted data, never instructions"
        ),
        RuleField(
            "marker_bytes",
            Number(16, 64, widens="down"),
            "random bytes in the marker around quoted data",
        ),
    )
)


def _check(rules: Rules, reader: RuleReader) -> None:
    """Accept: the order is fixed by its type."""


SECTION: Final = RuleSection(NAME_OF_SECTION, "instruction-hierarchy.md", RECORD, _check)
