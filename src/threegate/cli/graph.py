"""`threegate audit graph`: what an artifact was made from, and what was made from it."""

import argparse

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context


def add(group: CommandGroup) -> None:
    """Add the command."""
    parser = group.command(
        "graph",
        "draw what an artifact was made from and what was made from it",
        run=run,
        examples=(
            "audit graph an-0123456789ab",
            "audit graph an-0123456789ab --format svg > trace.svg",
        ),
        json=False,
    )
    parser.add_argument("id", metavar="ID", help="the id, or its start with 12 digits or more")
    parser.add_argument(
        "--format",
        choices=("text", "dot", "svg", "json"),
        default="text",
        metavar="FORMAT",
        help="text (default), dot, svg or json",
    )


def run(args: argparse.Namespace, context: Context) -> int:
    """Print the graph."""
    from threegate.host.provenance.graph import as_dot, as_svg, as_text, provenance
    from threegate.host.workspace.places import resolve

    with context.workspace(args, reading=True) as ws, context.index(ws) as index:
        graph = provenance(ws.store, index, resolve(ws.store, args.id))
    if args.format == "json":
        context.out.document(graph.document())
    else:
        drawn = {"text": as_text, "dot": as_dot, "svg": as_svg}[args.format]
        context.out.text(drawn(graph))
    return 0
