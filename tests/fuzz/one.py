"""Fuzz one target: `python -m tests.fuzz.one TARGET [libFuzzer options] [corpus directories]`."""

import sys

import atheris

with atheris.instrument_imports(include=["threegate", "tests.fuzz.targets"]):
    from tests.fuzz.targets import PLANTED, TARGETS


def main() -> None:
    target = {**TARGETS, **PLANTED}[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
