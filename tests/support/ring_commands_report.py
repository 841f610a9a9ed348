"""The table of command bypasses: `python -m tests.support.ring_commands_report` writes it anew."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support import ring_table
from tests.support.ring_commands import COLUMNS, LAYERS, attempt
from tests.support.ring_table import Found

PLACE: Final = Path(__file__).parents[2] / "docs" / "evidence" / "ring-commands.md"

HEAD: Final = """\
# Ways around the command rules

Written by `python -m tests.support.ring_commands_report` on 2026-11-17; `make slow` compares. Each
way is a command in a real guest, under a profile that offers every program by which others
can be started. What it is for: `id`, which the profile does not name, runs; or a directory is
deleted as a denied pattern forbids. The ways are in `tests/vectors/ring/commands.txt`. In the same
guest, with the ring taken out, each of them works. A column says whether that layer alone would
have kept the way from its end; the last says what stopped it with all of them.

- **words**: the program by its path or name, denied patterns, argument rules. Nothing is started.
- **view**: programs beyond the profile are not there; PATH holds those of the profile.
- **kernel**: nothing but the profile's programs can be executed or mapped as code, by Landlock and
  by mounts that execute nothing; a filter refuses files without a place and new mounts.

Ways called a hole are what an allowed program could do if it were made to do anything: no rule
about words sees them. The loader runs whatever program it can map, and libraries must be mapped: a
program among them is in no image, so the column of the view stands for what the image has; in
the other columns one is put there. Deleting is something else: the program that deletes is allowed,
only the words are not, so no other layer has anything to say.

"""


def table(found: dict[str, Found]) -> str:
    """Return the document."""
    return ring_table.table(HEAD, LAYERS, found, stopped)


def stopped(state: str, why: str, alone: Sequence[bool]) -> str:
    """Return the layer whose refusal it was, by its words; of a silent one, the first to hold."""
    if state == "refused":
        return "words"
    if any(words in why for words in ("not permitted", "ermission denied", "failed to map")):
        return "kernel"
    if any(words in why for words in ("No such file", "not found")):
        return "view"
    return dict(zip(alone[::-1], LAYERS[::-1], strict=True)).get(True, state)


def main() -> None:
    """Try everything, and write the table."""
    PLACE.write_text(table(attempt(columns=tuple(COLUMNS))), "utf-8")


if __name__ == "__main__":
    main()
