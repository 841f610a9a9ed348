"""`threegate schema`: the JSON Schema of a format."""

import argparse

from threegate.base.forms import KINDS
from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context
from threegate.host.workspace.kinds import prefix_named


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "schema",
        "print the JSON Schema of a format's front matter",
        run=run,
        examples=("schema tool-request", "schema rp > rp.schema.json"),
        workspace=False,
        json=False,
    )
    parser.add_argument("kind", metavar="KIND", help=f"one of {', '.join(KINDS.values())}")


def run(args: argparse.Namespace, context: Context) -> int:
    """Print the schema."""
    from threegate.artifacts.registry import schema_of

    context.out.document(schema_of(prefix_named(args.kind)))
    return 0
