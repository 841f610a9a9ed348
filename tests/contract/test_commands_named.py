"""Commands that messages, documents and examples name must exist, with their options."""

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from threegate.cli.grammar import Parser
from threegate.cli.parser import build

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`threegate(?: -w \S+)? (?P<first>[a-z]+)(?: (?P<second>[a-z]+))?")
EXAMPLE = re.compile(r"^  threegate (.+)$", re.MULTILINE)


def below(parser: argparse.ArgumentParser) -> dict[str, Parser]:
    """Return the commands directly below a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for command in below(parser).values():
        yield command
        yield from commands(command)


def sources() -> list[Path]:
    found = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.md"), *ROOT.glob("*.md")]
    found += (ROOT / "docs").rglob("*.md")
    return [path for path in found if "decisions" not in path.parts]


def test_every_command_that_is_named_exists() -> None:
    known, named, missing = below(build()), 0, []
    for path in sources():
        for match in NAMED.finditer(path.read_text("utf-8")):
            named += 1
            first, second = match["first"], match["second"]
            inner = below(known[first]) if first in known else {}
            if first not in known or (inner and second is not None and second not in inner):
                missing.append(f"{path.relative_to(ROOT)}: {match.group()}")
    assert named > 40, "control: commands were found"
    assert missing == []


@pytest.mark.parametrize("command", [*commands(build())], ids=lambda command: str(command.prog))
def test_help_has_examples_that_parse(command: argparse.ArgumentParser) -> None:
    shown = command.format_help()
    examples = EXAMPLE.findall(shown)
    if below(command):
        return
    assert examples, "a command shows how it is used"
    for example in examples:
        words = shlex.split(example.split(" > ")[0].split(" < ")[0])
        assert build().parse_args(words).run is command.get_default("run"), example


def test_every_command_says_what_it_does() -> None:
    for command in commands(build()):
        assert command.description
        assert re.match(r"[A-Z].*[.]", command.description), command.prog
        for action in command._actions:
            assert action.help or action.nargs == argparse.PARSER, f"{command.prog} {action.dest}"
