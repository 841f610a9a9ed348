"""`threegate completion`: a script with which a shell completes commands and options."""

import argparse

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

_ABOUT = """\
Put the output where your shell looks for completions, for example
~/.local/share/bash-completion/completions/threegate."""


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "completion",
        "print a completion script for a shell",
        run=run,
        about=_ABOUT,
        examples=("completion bash", "completion zsh > ~/.zfunc/_threegate"),
        workspace=False,
        json=False,
    )
    parser.add_argument("shell", choices=("bash", "zsh"), metavar="SHELL", help="bash or zsh")


def run(args: argparse.Namespace, context: Context) -> int:
    """Print the script."""
    import shtab

    from threegate.cli.parser import build

    context.out.text(shtab.complete(build(), args.shell))
    return 0
