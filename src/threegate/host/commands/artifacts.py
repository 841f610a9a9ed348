"""`threegate packet|request|result|analysis list|show|search`."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from threegate.host.commands import packet, request
from threegate.host.context import Context
from threegate.host.grammar import Group, Parser, add_paging
from threegate.host.kinds import LISTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from threegate.artifacts.analysis import Analysis
    from threegate.host.index import Row
    from threegate.host.workspace import Workspace

_STATES = ("draft", "held", "approved", "claimed", "done", "denied", "expired")
_SUMMARIES = {
    "packet": "list, show, search and export research packets",
    "request": "make, check, list, show and search requests",
    "result": "list, show and search tool results",
    "analysis": "list, show and search analyses",
}


def add(commands: Group) -> None:
    """Add the four groups."""
    for word in LISTINGS:
        group = commands.group(word, _SUMMARIES[word])
        if word == "request":
            request.add(group)
        _add_list(group, word)
        _add_show(group, word)
        _add_search(group, word)
        if word == "packet":
            packet.add(group)


def _add_list(group: Group, word: str) -> None:
    examples = [f"{word} list", f"{word} list --limit 20 --page 2"]
    if word == "request":
        examples.append("request list --state held")
    parser = group.command("list", "list them, newest first", run=run_list, examples=examples)
    add_paging(parser)
    if word == "request":
        parser.add_argument(
            "--state", choices=_STATES, metavar="STATE", help=f"one of {', '.join(_STATES)}"
        )
    _about(parser, word)


def _add_show(group: Group, word: str) -> None:
    prefix = LISTINGS[word][-1]
    parser = group.command(
        "show",
        "show one, with everything foreign spelled out",
        run=run_show,
        examples=(
            f"{word} show {prefix}-0123456789ab",
            f"{word} show --raw {prefix}-0123456789ab > copy.md",
        ),
    )
    parser.add_argument("id", metavar="ID", help="the id, or its start with 12 digits or more")
    parser.add_argument("--raw", action="store_true", help="write the bytes, not to a terminal")
    _about(parser, word)


def _add_search(group: Group, word: str) -> None:
    parser = group.command(
        "search",
        'find all that hold every word and "phrase"',
        run=run_search,
        examples=(f"{word} search sea ice", f"{word} search '\"sea ice\" thickness'"),
    )
    parser.add_argument("words", nargs="+", metavar="WORD", help="a word or a quoted phrase")
    add_paging(parser)
    _about(parser, word)


def _about(parser: Parser, word: str) -> None:
    parser.set_defaults(word=word, state=None)


def run_list(args: argparse.Namespace, context: Context) -> int:
    """Print a page of a listing."""
    kinds, skip = LISTINGS[args.word], (args.page - 1) * args.limit
    with context.workspace(args) as ws, context.index(ws) as index:
        rows = index.page(kinds, state=args.state, limit=args.limit, skip=skip)
        _tell(args, context, ws, rows, index.count(kinds, state=args.state))
    return 0


def run_search(args: argparse.Namespace, context: Context) -> int:
    """Print a page of what was found."""
    kinds, skip = LISTINGS[args.word], (args.page - 1) * args.limit
    words = " ".join(args.words)
    with context.workspace(args) as ws, context.index(ws) as index:
        rows = index.search(words, kinds, limit=args.limit, skip=skip)
        _tell(args, context, ws, rows, index.count_found(words, kinds))
    return 0


def _tell(
    args: argparse.Namespace, context: Context, ws: "Workspace", rows: "list[Row]", total: int
) -> None:
    marks = {row.id: _marks(ws, row) for row in rows}
    if args.json:
        items = [{**asdict(row), "cautions": marks[row.id]} for row in rows]
        paging = {"page": args.page, "limit": args.limit, "total": total}
        context.out.document({"items": items, **paging})
        return
    if rows:
        head = ("ID", "STATE", "MADE", "BYTES", "INTEGRITY", "CONFIDENTIALITY", "TITLE")
        context.out.table(head, [_cells(row, marks[row.id]) for row in rows])
    context.out.showing(args.page, args.limit, len(rows), total)


def _marks(ws: "Workspace", row: "Row") -> list[str]:
    """Return what must be known of a packet before its title; read anew, never indexed."""
    from threegate.artifacts.research_packet import ResearchPacket
    from threegate.host.cautions import words
    from threegate.host.places import read_anywhere

    packet = read_anywhere(ws.store, row.id) if row.id.startswith("rp-") else None
    return list(words(packet)) if isinstance(packet, ResearchPacket) else []


def _cells(row: "Row", marks: list[str]) -> tuple[str, ...]:
    from threegate.artifacts.ids import short

    state = ", ".join([row.state, *marks])
    labels = (row.integrity, row.confidentiality)
    return (short(row.id), state, row.made, str(row.bytes), *labels, row.title)


def run_show(args: argparse.Namespace, context: Context) -> int:
    """Print one artifact."""
    from threegate.artifacts.ids import prefix_of
    from threegate.errors import UsageError
    from threegate.host.places import refuse_absent, resolve
    from threegate.text import quote

    with context.workspace(args) as ws:
        artifact_id = resolve(ws.store, args.id)
        if prefix_of(artifact_id) not in LISTINGS[args.word]:
            raise UsageError(f"{quote(args.id)} is no {args.word}", hint=_other(artifact_id))
        refuse_absent(ws.store, artifact_id)
        if args.raw:
            context.out.bytes(ws.store.read_bytes(artifact_id))
        else:
            _show(args, context, ws, artifact_id)
    return 0


def _other(artifact_id: str) -> str:
    from threegate.artifacts.ids import prefix_of, short

    found = [word for word, kinds in LISTINGS.items() if prefix_of(artifact_id) in kinds]
    return f"`threegate {found[0]} show {short(artifact_id)}`" if found else ""


def _show(args: argparse.Namespace, context: Context, ws: "Workspace", artifact_id: str) -> None:
    from threegate.artifacts.analysis import Analysis
    from threegate.artifacts.research_packet import ResearchPacket
    from threegate.handoff.states import state_of
    from threegate.host.cautions import cautions
    from threegate.host.render import field_lines, section_texts, shown

    artifact = ws.store.read(artifact_id)
    if isinstance(artifact, Analysis):
        _show_analysis(args, context, artifact_id, artifact)
        return
    view = shown(artifact)
    warned = cautions(artifact) if isinstance(artifact, ResearchPacket) else ()
    state = state_of(ws.store.locate(artifact_id) or "")
    if args.json:
        parts = {"cautions": list(warned), "fields": view.fields, "sections": view.sections}
        context.out.document({"id": artifact_id, "kind": view.title, "state": state, **parts})
        return
    context.out.line(f"{view.title} {artifact_id}")
    for caution in warned:
        context.out.line(f"! {caution}")
    fields = [("state", state), *field_lines(view.fields)]
    if args.word == "result":  # what came out first; how it was confined is for later
        context.out.fields([("exit", str(view.fields["exit"]))])
        _show_texts(context, section_texts(view.sections))
        context.out.line()
        context.out.fields(fields)
        return
    context.out.fields(fields)
    _show_texts(context, section_texts(view.sections))


def _show_analysis(
    args: argparse.Namespace, context: Context, artifact_id: str, analysis: "Analysis"
) -> None:
    from threegate.host.asking.showing import checked, tell
    from threegate.host.render import field_lines, shown

    view = shown(analysis)
    if args.json:
        parts = {"cautions": [], "fields": view.fields, "sections": view.sections}
        head = {"id": artifact_id, "kind": view.title, **checked(analysis), "state": "accepted"}
        context.out.document({**head, **parts})
        return
    tell(context.out, artifact_id, analysis)
    for number, note in enumerate(analysis.notes, 1):
        _show_texts(context, [(f"Notes {number}", note.open_for_display())])
    context.out.line()
    rest = {key: value for key, value in view.fields.items() if key != "claims"}
    context.out.fields(field_lines(rest))


def _show_texts(context: Context, texts: "Iterable[tuple[str, str]]") -> None:
    for heading, text in texts:
        context.out.line()
        context.out.line(heading)
        context.out.foreign(text)
