"""`threegate quarantine list|show`: what was refused, with its bytes and the reason."""

import argparse
from typing import TYPE_CHECKING, Any

from threegate.cli.grammar import CommandGroup, add_paging
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.workspace.places import QuarantinedItem

_LINES = 200


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group("quarantine", "look at what was refused or withdrawn")
    parser = group.command(
        "list", "list it, newest first", run=run_list, examples=("quarantine list",)
    )
    add_paging(parser)
    show = group.command(
        "show",
        "show one, with everything foreign spelled out",
        run=run_show,
        examples=("quarantine show 0123456789ab", "quarantine show --raw 0123456789ab > offered"),
    )
    show.add_argument(
        "digest", metavar="DIGEST", help="its digest or id, or the start with 12 digits or more"
    )
    show.add_argument("--raw", action="store_true", help="write the bytes, not to a terminal")


def run_list(args: argparse.Namespace, context: Context) -> int:
    """Print a page of the quarantine."""
    from threegate.host.workspace.places import list_quarantined

    with context.workspace(args, reading=True) as ws:
        items = list_quarantined(ws.store)
    first = (args.page - 1) * args.limit
    page = items[first : first + args.limit]
    if args.json:
        paging = {"page": args.page, "limit": args.limit, "total": len(items)}
        context.out.document({"items": [_document(item) for item in page], **paging})
        return 0
    if page:
        rows = [(item.short, item.time, str(item.bytes), item.code, item.reason) for item in page]
        context.out.table(("DIGEST", "TIME", "BYTES", "CODE", "REASON"), rows)
    context.out.showing(args.page, args.limit, len(page), len(items))
    return 0


def _document(item: "QuarantinedItem") -> dict[str, Any]:
    return {
        "sha256": item.sha256,
        "id": item.id,
        "bytes": item.bytes,
        "time": item.time,
        "code": item.code,
        "reason": item.reason,
    }


def run_show(args: argparse.Namespace, context: Context) -> int:
    """Print one refused item."""
    from threegate.host.workspace.places import find_quarantined, read_quarantined

    with context.workspace(args, reading=True) as ws:
        item = find_quarantined(ws.store, args.digest)
        data = read_quarantined(ws.store, item).open_for_display()
    if args.raw:
        context.out.bytes(data)
        return 0
    text = data.decode("utf-8", "backslashreplace")
    if args.json:
        context.out.document({**_document(item), "text": text})
        return 0
    context.out.fields((name, str(value)) for name, value in _document(item).items() if value)
    context.out.line()
    lines = text.split("\n")
    context.out.foreign("\n".join(lines[:_LINES]))
    if len(lines) > _LINES:
        context.out.line(f"{len(lines) - _LINES} more lines; --raw writes all bytes")
    return 0
