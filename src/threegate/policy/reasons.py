"""Why a policy is invalid: one stable code per kind of mistake.

A code is never reused for another mistake.
"""

from enum import Enum

from threegate.base.errors import PolicyInvalid


class Reason(Enum):
    """A mistake a policy can hold; the value is (code, what its author must do)."""

    FILE = (
        "TG-POL-003",
        "put the file back, or take it from a new workspace: `threegate init DIR` writes them all",
    )
    CHARACTERS = ("TG-POL-004", "save the file as UTF-8 with plain line ends, nothing invisible")
    FENCE = (
        "TG-POL-005",
        "write the rules in exactly one block, opened by ```yaml threegate-policy",
    )
    SYNTAX = (
        "TG-POL-006",
        "the block must be YAML: `key: value`, lists in brackets, no tabs, `*.name` in quotes",
    )
    SUBSET = (
        "TG-POL-007",
        "write plain values: no anchors, tags, documents, escapes or text blocks",
    )
    DUPLICATE = ("TG-POL-008", "write each key once")
    TOO_LARGE = ("TG-POL-009", "make the block smaller or flatter")
    UNKNOWN_KEY = ("TG-POL-010", "remove the key; docs/policy.md lists those that exist")
    MISSING_KEY = ("TG-POL-011", "add the key; nothing has a silent default")
    VALUE = ("TG-POL-012", "docs/policy.md lists type and range of every key")
    CONFLICT = ("TG-POL-013", "change one of the two rules")
    EXAMPLE = ("TG-POL-014", "correct the rule or its example")
    SIGNERS = ("TG-POL-015", "`threegate key list` shows who may sign")
    BUNDLE = ("TG-POL-016", "apply the policy again; a bundle is never edited")

    @property
    def code(self) -> str:
        """The stable code."""
        return self.value[0]

    @property
    def hint(self) -> str:
        """What the author must do."""
        return self.value[1]


def invalid(reason: Reason, where: str, detail: str) -> PolicyInvalid:
    """Return the error for `reason`; foreign parts of `detail` are already quoted."""
    return PolicyInvalid(f"{where}: {detail}", code=reason.code, hint=reason.hint)


def place(file: str, line: int) -> str:
    """Return file and line as every message and decision names them."""
    return f"policy/{file}:{line}" if line else f"policy/{file}"
