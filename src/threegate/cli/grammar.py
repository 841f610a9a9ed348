"""Parsers of commands: one per command, with examples in its help."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from threegate.base.errors import UsageError
from threegate.base.text import quote
from threegate.host.command_context import Context

PROGRAM: Final = "threegate"
Run = Callable[[argparse.Namespace, Context], int]


class _Help(argparse.HelpFormatter):
    """Help that looks the same in every Python version."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Return paragraphs wrapped and indented lines as they are."""
        parts = text.split("\n\n")
        return "\n\n".join(
            part if "\n  " in part else super(_Help, self)._fill_text(part, width, indent)
            for part in parts
        )

    def _format_action(self, action: argparse.Action) -> str:
        if action.nargs == argparse.PARSER:  # the heading of the list says it already
            below = self._iter_indented_subactions(action)
            return "".join(self._format_action(command) for command in below)
        return super()._format_action(action)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(action.option_strings)
        if action.nargs == 0:
            return names
        default = self._get_default_metavar_for_optional(action)
        return f"{names} {self._format_args(action, default)}"


class Parser(argparse.ArgumentParser):
    """A parser that answers mistakes in the voice of every other error."""

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog or None,
            formatter_class=_Help,
            allow_abbrev=False,  # an abbreviation changes its meaning with the next option
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown command and name similar ones, not all."""
        known = action.choices
        if action.nargs != argparse.PARSER or known is None or value in known:
            super()._check_value(action, value)
            return
        from difflib import get_close_matches

        near = get_close_matches(value, list(known), n=3)
        meant = " or ".join(f"`{self.prog} {name}`" for name in near)
        hint = f"did you mean {meant}?" if meant else f"`{self.prog} --help` lists all"
        raise UsageError(f"no command {quote(value)}", hint=hint)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` instead of printing and exiting."""
        raise UsageError(message, hint=f"`{self.prog} --help` shows what it takes")


class CommandGroup:
    """Commands below one name."""

    def __init__(self, parser: Parser, *, required: bool = True) -> None:
        self._prog = parser.prog
        if required:  # our own check, after unknown options: argparse would report this first
            parser.set_defaults(run=_refuse_no_command, refuse=parser.error)
        self._below = parser.add_subparsers(
            title="commands", metavar="COMMAND", required=False, parser_class=Parser
        )

    def group(self, name: str, summary: str) -> "CommandGroup":
        """Add a name with commands below it."""
        return CommandGroup(self._add(name, summary, ""))

    def group_that_runs(
        self, name: str, summary: str, *, run: Run, about: str = ""
    ) -> "CommandGroup":
        """Add a name with commands below it that is a command itself, with a key."""
        parser = self.command(name, summary, run=run, about=about, json=False, key=True)
        return CommandGroup(parser, required=False)

    def command(
        self,
        name: str,
        summary: str,
        *,
        run: Run,
        about: str = "",
        examples: Sequence[str] = (),
        workspace: bool = True,
        json: bool = True,
        key: bool = False,
    ) -> Parser:
        """Add a command and the options most commands share."""
        shown = "".join(f"  {PROGRAM} {example}\n" for example in examples)
        parser = self._add(
            name, summary, f"examples:\n{shown}" if shown else "", about=f"\n\n{about}"
        )
        parser.set_defaults(run=run, refuse=parser.error)
        if json:
            parser.add_argument("--json", action="store_true", help="print one JSON document")
        if key:
            add_key(parser, "the operator's key: a file, or `agent`; else the one of `init`")
        if workspace:
            add_workspace(parser, below=True)
        return parser

    def _add(self, name: str, summary: str, epilog: str, about: str = "") -> Parser:
        first, rest = summary[:1].upper(), summary[1:]
        return self._below.add_parser(
            name,
            prog=f"{self._prog} {name}",
            description=f"{first}{rest}.{about}".rstrip(),
            epilog=epilog,
            help=summary,
        )


def _refuse_no_command(args: argparse.Namespace, _: Context) -> NoReturn:
    args.refuse("the following arguments are required: COMMAND")
    raise AssertionError("`Parser.error` raises")


def add_key(parser: Parser, words: str, *, below: bool = False) -> None:
    """Add `--key`; below a command that has one, its absence keeps that value."""
    default = argparse.SUPPRESS if below else None
    parser.add_argument("--key", metavar="FILE", default=default, help=words)


def add_yes(parser: Parser, words: str = "do not ask") -> None:
    """Add `--yes`, which every command has that asks through `Context.agree`."""
    parser.add_argument("--yes", action="store_true", help=words)


def add_paging(parser: Parser) -> None:
    """Add `--limit` and `--page`."""
    parser.add_argument("--limit", type=_positive, default=50, metavar="N", help="items on a page")
    parser.add_argument("--page", type=_positive, default=1, metavar="N", help="which page")


def add_workspace(parser: Parser, *, below: bool) -> None:
    """Add `-w`; below a command its absence keeps the value given before the command."""
    parser.add_argument(
        "-w",
        "--workspace",
        metavar="DIR",
        default=argparse.SUPPRESS if below else None,
        help="the workspace; else THREEGATE_WORKSPACE, else here or above",
    )


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:10]) <= 1_000_000):
        raise argparse.ArgumentTypeError("must be a number from 1 to 1000000")
    return int(text)
