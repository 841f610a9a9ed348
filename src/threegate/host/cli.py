"""The `threegate` command."""

import argparse
from collections.abc import Sequence

from threegate import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="threegate")
    parser.add_argument("--version", action="version", version=f"threegate {__version__}")
    parser.parse_args(argv)
    parser.error("nothing to do yet")
