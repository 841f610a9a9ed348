"""A ring written elsewhere: one `interpreter_ring` block becomes a profile to be reviewed.

    interpreter_ring:
      allowed_imports: [pandas, numpy]
      denied_imports: [requests, urllib3]
      executor_network: tappass-only
      allowed_binaries: [/usr/bin/git]
      denied_patterns: ["rm -rf", "curl"]

All five keys must be there, as in a policy of our own.  `tappass-only` is the word of another
system for a network that leads to one gateway, and becomes `gateway`: the default policy
refuses that, so an import widens nothing by itself.

SECURITY
    Reads a file somebody sent.  The same reader as for policy files types every value; the
    result is text that a human puts into the policy, and nothing is enforced until it is
    signed there.
"""

from dataclasses import replace
from typing import Final

from threegate.base.errors import PolicyInvalid
from threegate.policy.nodes import Block, Node, Scalar, Value
from threegate.policy.reader import Reader
from threegate.policy.reasons import Reason
from threegate.policy.ring.writer import profile_text
from threegate.policy.sections.section import Rules
from threegate.policy.sections.tool_exec import PROFILE, RING
from threegate.policy.source import RuleBlock, decode, read_block

FOREIGN_NETWORKS: Final = {"tappass-only": "gateway"}


def import_ring(file: str, data: bytes) -> Rules:
    """Return the profile in a foreign file, typed, or raise `PolicyInvalid` with file and line."""
    try:
        return _imported(file, data)
    except PolicyInvalid as exc:  # the reader names files of the policy, which this is none of
        message = exc.message.removeprefix("policy/")
        raise PolicyInvalid(message, code=exc.code, hint=exc.hint) from exc


def _imported(file: str, data: bytes) -> Rules:
    reader = Reader(file)
    block = read_block(file, RuleBlock(decode(file, data), 1))
    given = {key.text: (key, node) for key, node in block.entries}
    if set(given) != {RING}:
        message = f"expected the one key {RING}"
        raise reader.fail(Reason.UNKNOWN_KEY, block.line, message)
    key, node = given[RING]
    if not isinstance(node, Block):
        raise reader.fail(Reason.VALUE, key.line, f"{RING}: expected keys and values")
    entries = tuple((name, _translated(name, value)) for name, value in node.entries)
    reader.lines[(RING,)] = key.line
    return PROFILE.read_block(replace(node, entries=entries), (RING,), reader)


def import_text(file: str, data: bytes, name: str) -> str:
    """Return the lines of our own policy that say what a foreign file says."""
    rules = import_ring(file, data)
    return profile_text(name, {key: _words(value) for key, value in rules.items()})


def _words(value: Value) -> str | tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(str(item) for item in value)
    return str(value)


def _translated(name: Scalar, value: Node) -> Node:
    if name.text == "executor_network" and isinstance(value, Scalar):
        return replace(value, text=FOREIGN_NETWORKS.get(value.text, value.text))
    return value
