"""`instruction-hierarchy.md`: whose words count for the model, highest first."""

from typing import Final

from threegate.policy.leaves import Number
from threegate.policy.reader import Reader
from threegate.policy.schema import Field, Order, Record
from threegate.policy.sections.section import Rules, Section

NAME_OF_SECTION: Final = "instruction-hierarchy"
LEVELS: Final = ("invariants", "policy", "role", "question", "artifacts")

RECORD: Final = Record(
    (
        Field("levels", Order(LEVELS), "levels, highest first"),
        Field("data_levels", Order(LEVELS[-1:]), "levels that are quoted data, never instructions"),
        Field(
            "marker_bytes",
            Number(16, 64, widens="down"),
            "random bytes in the marker around quoted data",
        ),
    )
)


def _check(rules: Rules, reader: Reader) -> None:
    """Accept: the order is fixed by its type."""


SECTION: Final = Section(NAME_OF_SECTION, "instruction-hierarchy.md", RECORD, _check)
