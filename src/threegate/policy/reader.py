"""Where a value stands while a section is read: the file, the lines, the examples."""

from dataclasses import dataclass, field

from threegate.base.errors import PolicyInvalid
from threegate.policy.nodes import Path, Scalar
from threegate.policy.reasons import Reason, invalid, place


@dataclass(slots=True)
class Reader:
    """Collects the line of every rule in one file, and the examples rules carry."""

    file: str
    stored: bool = False  # a bundle, which carries no examples
    lines: dict[Path, int] = field(default_factory=dict)
    examples: dict[Path, tuple[Scalar, ...]] = field(default_factory=dict)

    def fail(self, reason: Reason, line: int, message: str) -> PolicyInvalid:
        """Return the error for a mistake in this file."""
        return invalid(reason, place(self.file, line), message)

    def fail_at(self, reason: Reason, path: Path, message: str) -> PolicyInvalid:
        """Return the error for a rule that was read already."""
        return self.fail(reason, self.lines[path], message)
