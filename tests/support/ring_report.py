"""The table of bypasses and layers: `python -m tests.support.ring_report` writes it anew."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support import ring_table
from tests.support.heavy import lab
from tests.support.ring import LAYERS, attempt, lab_with
from tests.support.ring_table import Found

PLACE: Final = Path(__file__).parents[2] / "docs" / "evidence" / "ring-imports.md"

HEAD: Final = """\
# Ways around the import rules

Written by `python -m tests.support.ring_report`; `make slow` compares. Each way obtains something
that the profile `python` denies, in a real guest, and uses it: an internet socket, or a program
that runs. The ways are in `tests/vectors/ring/imports.txt`. Without the ring each of them works. A
column says whether that layer alone, with the others taken out of the guest, would have kept the
way from its end; the last says what stopped it in the guest as it is.

- **hook**: the import hook of the interpreter. It gives clear errors and is no boundary.
- **view**: files that no allowed package needs are not there.
- **kernel**: nothing but the profile's programs can be executed, by Landlock and by mounts that
  execute nothing; a filter refuses sockets other than Unix ones and files without a place.

The loader runs whatever program it can map, and libraries must be mapped: against a program among
them no rule of the kernel holds. No image has one; a guest without the view is given one.

"""


def table(found: dict[str, Found]) -> str:
    """Return the document."""
    return ring_table.table(HEAD, LAYERS, found, stopped)


def stopped(state: str, why: str, _alone: Sequence[bool]) -> str:
    """Return the layer whose refusal it was, by its words."""
    # The hook takes archives off the path, and looks for a caller.
    if any(words in why for words in ("of profile python)", "'scipy'", "stack is not deep")):
        return "hook"
    if any(words in why for words in ("not permitted", "Permission denied", "not executed")):
        return "kernel"
    absent = ("No module named", "cannot import name", "No such file", "KeyError", "IndexError")
    if any(words in why for words in absent):
        return "view"  # looked for, and not there
    return f"{state}: {why.partition(':')[0]}"


def main() -> None:
    """Try everything in five guests, and write the table."""
    found = {"none": attempt(lab_with()), "all": attempt(lab())}
    found |= {layer: attempt(lab_with(layer)) for layer in LAYERS}
    PLACE.write_text(table(found), "utf-8")


if __name__ == "__main__":
    main()
