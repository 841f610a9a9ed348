"""`argument_rules` of `tool-exec.policy.md`: what programs may not be told by their arguments.

Some programs start others for whoever words it right: `find -exec`, `tar --to-command`.  A rule
names them and the words; it carries the commands it must refuse and those it must not, and
a policy with a rule that does not keep to its own examples is no policy.

| a denied word | refuses |
|---|---|
| `--name` | this option, `--name=value`, and what it may be abbreviated to |
| `-x` | this letter in any cluster of options, also one without its dash where `tar` takes one |
| `-name` | exactly this word, and `-name=value` |
| `*` | the program, with whatever words or none |
| anything else | a word it covers, with `*` for any characters |

A rule speaks of its programs in every version and variant: `vim` also of `vim.tiny`.
"""

import shlex
from typing import Final

from threegate.base.text import quote
from threegate.policy.leaves import NAME, Word
from threegate.policy.nodes import Scalar
from threegate.policy.reader import Reader
from threegate.policy.reasons import Reason
from threegate.policy.ring.commands import ArgumentRule, told
from threegate.policy.schema import Examples, Field, Group, Record, Table
from threegate.policy.sections.section import Rules, block_of, words_of

ARGUMENT_RULES: Final = "argument_rules"
MOST_RULES: Final = 1024

PROGRAM: Final = Word(r"[A-Za-z0-9_][A-Za-z0-9._+-]*", "the last part of a path", most=64)
ARGUMENT: Final = Word(r"[!-~]+", "a word, or a part of one with `*`", most=128)

RULE: Final = Record(
    (
        Field("programs", Group(PROGRAM, "removed"), "programs an argument rule is for"),
        Field("denied", Group(ARGUMENT, "removed"), "arguments they may not be given"),
        Field("required", Group(ARGUMENT, "removed", most=1), "their first argument"),
        Field("match", Examples("commands it refuses", needed=True), "examples"),
        Field(
            "not_match", Examples("commands it does not refuse", needed=True), "counter-examples"
        ),
    )
)
TABLE: Final = Table(NAME, RULE, most=MOST_RULES, widens="removed")


def rule_of(name: str, rules: Rules) -> ArgumentRule:
    """Return one rule as commands are judged by it."""
    lists = (tuple(sorted(words_of(rules, key))) for key in ("programs", "denied", "required"))
    return ArgumentRule(name, *lists)


def check_rules(rules: Rules, section: str, reader: Reader) -> None:
    """Hold every rule against its own examples, or raise `PolicyInvalid` with the line."""
    for name in block_of(rules, ARGUMENT_RULES):
        rule = rule_of(name, block_of(rules, ARGUMENT_RULES, name))
        path = (section, ARGUMENT_RULES, name)
        for key, expected in (("match", True), ("not_match", False)):
            examples = reader.examples[(*path, key)]
            if not examples and not reader.stored:
                message = f"rule {name} has no {key} example"
                raise reader.fail_at(Reason.EXAMPLE, path, message)
            for example in examples:
                _hold(rule, example, key, expected, reader)


def _hold(rule: ArgumentRule, example: Scalar, key: str, expected: bool, reader: Reader) -> None:  # noqa: FBT001
    try:
        argv = shlex.split(example.text)
    except ValueError as exc:
        message = f"{key} example {quote(example.text)}: {exc}"
        raise reader.fail(Reason.EXAMPLE, example.line, message) from exc
    if (told(rule, argv) is not None) != expected:
        verb = "does not refuse" if expected else "refuses"
        message = f"rule {rule.name} {verb} its {key} example {quote(example.text)}"
        raise reader.fail(Reason.EXAMPLE, example.line, message)
