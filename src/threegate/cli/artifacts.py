"""`threegate packet|request|result|analysis list|show|search`."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from threegate.base.errors import HandoffTampered
from threegate.cli import packet, packet_lookup, request, result
from threegate.cli.grammar import CommandGroup, Parser, add_paging
from threegate.host.command_context import Context
from threegate.host.workspace.kinds import LISTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from threegate.artifacts.analysis import Analysis
    from threegate.artifacts.research_packet import ResearchPacket
    from threegate.artifacts.tool_result import ToolResult
    from threegate.host.ask.text_form import Brought
    from threegate.host.provenance.headlines import Headline, Lookup
    from threegate.host.workspace.index import Index, IndexRow
    from threegate.host.workspace.workspace import Workspace

# The headline is foreign text and stays the last column.
_COLUMNS: Final = ("ID", "STATE", "MADE", "BYTES", "INTEGRITY", "CONFIDENTIALITY", "TITLE")
_PACKET_COLUMNS: Final = (*_COLUMNS[:2], "ORIGIN", *_COLUMNS[2:])
_STATES = ("draft", "held", "approved", "claimed", "done", "denied", "expired")
# Fields of a brought packet that would read as facts about a retrieval.
_CLAIMED = {"source": "source it names", "retrieved": "time it names", "url": "url it names"}
_SUMMARIES = {
    "packet": "list, show, search and export research packets",
    "request": "make, check, list, show and search requests",
    "result": "list, show, search and export tool results",
    "analysis": "list, show and search analyses",
}


def add(commands: CommandGroup) -> None:
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
            packet_lookup.add(group)
        if word == "result":
            result.add(group)


def _add_list(group: CommandGroup, word: str) -> None:
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


def _add_show(group: CommandGroup, word: str) -> None:
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


def _add_search(group: CommandGroup, word: str) -> None:
    parser = group.command(
        "search",
        'find all that hold every word and "phrase"',
        run=run_search,
        examples=(f"{word} search sea ice", f"{word} search '\"sea ice\" thickness'"),
    )
    parser.add_argument(
        "words", nargs="+", metavar="WORD", help="a word, in any of its forms, or a quoted phrase"
    )
    add_paging(parser)
    _about(parser, word)


def _about(parser: Parser, word: str) -> None:
    parser.set_defaults(word=word, state=None)


def run_list(args: argparse.Namespace, context: Context) -> int:
    """Print a page of a listing."""
    kinds, skip = LISTINGS[args.word], (args.page - 1) * args.limit
    with context.workspace(args, reading=True) as ws, context.index(ws) as index:
        rows = index.page(kinds, state=args.state, limit=args.limit, skip=skip)
        total = index.count(kinds, state=args.state)
        return _tell(args, context, ws, index, rows=rows, total=total)


def run_search(args: argparse.Namespace, context: Context) -> int:
    """Print a page of what was found."""
    kinds, skip = LISTINGS[args.word], (args.page - 1) * args.limit
    words = " ".join(args.words)
    with context.workspace(args, reading=True) as ws, context.index(ws) as index:
        rows = index.search(words, kinds, limit=args.limit, skip=skip)
        total = index.count_found(words, kinds)
        return _tell(args, context, ws, index, rows=rows, total=total)


def _tell(
    args: argparse.Namespace,
    context: Context,
    ws: "Workspace",
    index: "Index",
    *,
    rows: "list[IndexRow]",
    total: int,
) -> int:
    from threegate.handoff.store import set_aside
    from threegate.host.provenance.headlines import (
        Headline,
        headline_of,
        lookup,
        marked,
        repeats_noted,
        retractions,
    )
    from threegate.host.workspace.places import ArtifactReader

    read, aside = ArtifactReader(ws.store), dict[str, HandoffTampered]()
    look, retracted = lookup(read, index), retractions(ws.store, index)
    headlines = {row.id: Headline(row.id, note="tampered with") for row in rows}
    for row in rows:
        with set_aside(aside, row.id):  # one file must not hide the others
            headlines[row.id] = marked(headline_of(row.id, look), read(row.id), retracted)
    packets = args.word == "packet"
    headlines = repeats_noted(index, headlines) if packets else headlines
    origins = {row.id: index.origin(row.id).name if packets else None for row in rows}
    listed = [(row, headlines[row.id], origins[row.id]) for row in rows]
    if args.json:
        items = [_item(*one) for one in listed]
        paging = {"page": args.page, "limit": args.limit, "total": total}
        context.out.document({"items": items, **paging})
        return _name_tampered(aside, context)
    if rows:
        columns = _PACKET_COLUMNS if packets else _COLUMNS
        context.out.table(columns, [_cells(*one) for one in listed])
    context.out.showing(args.page, args.limit, len(rows), total)
    return _name_tampered(aside, context)


def _name_tampered(aside: dict[str, HandoffTampered], context: Context) -> int:
    """Name the files that differ, if there are any; return the exit code."""
    if not aside:
        return 0
    # Review imports the sandbox: only a listing with a finding pays for it.
    from threegate.host.review.requests import report_tampered

    return report_tampered(aside, context.out.error)


def _item(row: "IndexRow", headline: "Headline", origin: str | None) -> "dict[str, object]":
    """Return one row for scripts; what is said of the artifact is read from its file."""
    said = {"title": headline.title, "by": headline.by, "note": headline.note}
    return {**asdict(row), **said, "cautions": list(headline.marks), "origin": origin}


def _cells(row: "IndexRow", headline: "Headline", origin: str | None) -> tuple[str, ...]:
    """Return one row for people, in the order of the columns."""
    from threegate.artifacts.ids import short

    state = ", ".join([row.state, *headline.ours])
    labels = (row.integrity, row.confidentiality)
    came = () if origin is None else (origin,)
    return (short(row.id), state, *came, row.made, str(row.bytes), *labels, headline.text)


def run_show(args: argparse.Namespace, context: Context) -> int:
    """Print one artifact."""
    from threegate.artifacts.ids import prefix_of
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.workspace.places import refuse_absent, resolve

    with context.workspace(args, reading=True) as ws, context.index(ws) as index:
        artifact_id = resolve(ws.store, args.id)
        if prefix_of(artifact_id) not in LISTINGS[args.word]:
            raise UsageError(
                f"{quote(args.id)} is not the id of a {args.word}", hint=_other(artifact_id)
            )
        refuse_absent(ws.store, artifact_id)
        if args.raw:
            context.out.bytes(ws.store.read_bytes(artifact_id))
        else:
            _show(args, context, ws, index, artifact_id)
    return 0


def _other(artifact_id: str) -> str:
    from threegate.artifacts.ids import prefix_of, short

    found = [word for word, kinds in LISTINGS.items() if prefix_of(artifact_id) in kinds]
    return f"`threegate {found[0]} show {short(artifact_id)}`" if found else ""


def _show(
    args: argparse.Namespace, context: Context, ws: "Workspace", index: "Index", artifact_id: str
) -> None:
    from threegate.artifacts.analysis import Analysis
    from threegate.artifacts.research_packet import ResearchPacket
    from threegate.artifacts.tool_result import ToolResult
    from threegate.handoff.states import state_of
    from threegate.host.provenance.headlines import brought, brought_cites, lookup
    from threegate.host.report.sources import relabelled
    from threegate.host.workspace.places import ArtifactReader
    from threegate.host.workspace.text_form import field_lines, section_texts, shown

    artifact = ws.store.read(artifact_id)
    if isinstance(artifact, Analysis):
        found = relabelled(ws.store, index, artifact)
        resting = brought_cites(found, brought(ws.store, index.origin))
        look = lookup(ArtifactReader(ws.store), index)
        _show_analysis(args, context, (artifact_id, found), look, resting)
        return
    state = state_of(ws.store.locate(artifact_id) or "")
    if isinstance(artifact, ResearchPacket):
        _show_packet(args, context, index, (artifact_id, artifact), state)
        return
    view = shown(artifact)
    if args.json:
        parts = {"cautions": [], "fields": view.fields, "sections": view.sections}
        context.out.document({"id": artifact_id, "kind": view.title, "state": state, **parts})
        return
    context.out.line(f"{view.title} {artifact_id}")
    fields = [("state", state), *field_lines(view.fields)]
    if isinstance(artifact, ToolResult):
        _show_result(context, artifact_id, artifact, fields)
        return
    context.out.fields(fields)
    _show_texts(context, section_texts(view.sections))


def _show_result(
    context: Context, artifact_id: str, result: "ToolResult", fields: "list[tuple[str, str]]"
) -> None:
    """Print the output first; how the run was confined comes last."""
    from threegate.host.report.outputs import file_lines
    from threegate.host.workspace.text_form import section_texts, shown

    view = shown(result)
    context.out.fields([("exit", str(view.fields["exit"]))])
    _show_texts(context, section_texts(view.sections))
    context.out.line()
    for words in file_lines(artifact_id, result):
        context.out.line(words)
    context.out.fields(fields)


def _show_packet(
    args: argparse.Namespace,
    context: Context,
    index: "Index",
    one: "tuple[str, ResearchPacket]",
    state: str,
) -> None:
    from threegate.host.provenance.headlines import warnings
    from threegate.host.workspace.text_form import field_lines, section_texts, shown

    (artifact_id, packet), view = one, shown(one[1])
    origin, warned = index.origin(artifact_id), warnings(index, artifact_id, packet)
    if args.json:
        head = {"id": artifact_id, "kind": view.title, "state": state}
        came = {"origin": origin.name, "origin_words": origin.words, "cautions": list(warned)}
        parts = {"fields": view.fields, "sections": view.sections}
        context.out.document({**head, **came, **parts})
        return
    context.out.line(f"{view.title} {artifact_id}")
    for caution in warned:
        context.out.line(f"! {caution}")
    context.out.fields([("state", state), ("origin", origin.words)])
    fields = view.fields
    if origin.is_brought:
        context.out.line("Claims of the packet; none was compared with a source:")
        fields = {_CLAIMED.get(key, key): value for key, value in fields.items()}
    context.out.fields(field_lines(fields))
    _show_texts(context, section_texts(view.sections))


def _show_analysis(
    args: argparse.Namespace,
    context: Context,
    one: "tuple[str, Analysis]",
    look: "Lookup",
    brought: "Brought",
) -> None:
    from threegate.host.ask.text_form import checked, tell
    from threegate.host.workspace.text_form import field_lines, shown

    (artifact_id, analysis), view = one, shown(one[1])
    if args.json:
        parts = {"cautions": [], "fields": view.fields, "sections": view.sections}
        head = {"id": artifact_id, "kind": view.title, **checked(analysis), "state": "accepted"}
        context.out.document({**head, "brought": list(map(list, brought)), **parts})
        return
    tell(context.out, artifact_id, analysis, look, brought)
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
