"""The sections of a policy, one module each."""

from typing import Final

from threegate.policy.sections import core, fetch, gates, handoff, signers, tool_exec
from threegate.policy.sections import section as hierarchy
from threegate.policy.sections.section import RuleSection

SECTIONS: Final[tuple[RuleSection, ...]] = (
    core.SECTION,
    fetch.SECTION,
    tool_exec.SECTION,
    handoff.SECTION,
    hierarchy.SECTION,
)
BY_NAME: Final = {section.name: section for section in SECTIONS}
SIGNERS: Final = signers.NAME_OF_SECTION
SIGNERS_FILE: Final = signers.FILE
GATES: Final = gates.NAME_OF_SECTION
SECTION_NAMES: Final = (*BY_NAME, SIGNERS, GATES)
FILES: Final = {**{section.name: section.file for section in SECTIONS}, SIGNERS: SIGNERS_FILE}

__all__ = [
    "BY_NAME",
    "FILES",
    "GATES",
    "SECTIONS",
    "SECTION_NAMES",
    "SIGNERS",
    "SIGNERS_FILE",
]
