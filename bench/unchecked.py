"""The control of `bench/seal_checks.py`: an index whose file nobody compares with its seal.

Started as a file it runs the command line, so that both sides of a comparison start alike:
`unchecked.py checked|unchecked ARGUMENT...`.
"""

import sqlite3
import sys
from pathlib import Path

from threegate.host.workspace import index
from threegate.host.workspace.derived import Derived


def control_file(path: Path) -> Path:
    """Return the copy that the control uses: its writes must not break the seal."""
    return path.with_name(f"control-{path.name}")


class Unchecked(Derived):
    """A derived file that is believed as it is: no seal, no schema, no lock, no side files."""

    def __init__(self, path: Path | None, _: str, __: Path | None) -> None:
        assert path is not None
        self._path = self._seal = self.discarded = None
        self.db = sqlite3.connect(control_file(path), isolation_level=None)
        self.db.executescript("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = NORMAL;")


def switch_off() -> None:
    """Make every index of this process an unchecked one."""
    setattr(index, "Derived", Unchecked)  # noqa: B010  # not a name that the module exports


def main() -> int:
    """Run the command line with or without the checks."""
    from threegate.cli.main import main as run

    if sys.argv[1] == "unchecked":
        switch_off()
    return run(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
