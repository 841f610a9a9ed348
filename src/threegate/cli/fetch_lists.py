"""`threegate fetch search`, `references` and `cited-by`: list candidates, and fetch chosen ones."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from threegate.base.errors import UsageError
from threegate.cli.fetch_run import (
    FetchDone,
    FetchNamed,
    name_references,
    perform,
    rehearse,
    tell_end,
)
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.artifacts.research_packet import ResearchPacket
    from threegate.host.fetch.targets import FetchTarget
    from threegate.host.workspace.index import Index
    from threegate.host.workspace.workspace import Workspace

SEARCH: Final = "search"
LISTS: Final = (SEARCH, "references", "cited-by")
ROWS: Final = 20  # of a search
RELATED_ROWS: Final = 100  # of references and cited-by, from each source


def is_list(args: argparse.Namespace) -> bool:
    """Tell whether the command line asks for a list of candidates."""
    return bool(args.refs) and args.refs[0] in LISTS


def refuse_options(args: argparse.Namespace) -> None:
    """Raise `UsageError` for options that only lists have."""
    if args.source is not None or args.rows is not None or args.get is not None:
        hint = "`threegate fetch search WORDS --source S`; --enrich names the sources of a work"
        raise UsageError("--source, --rows and --get belong to a list", hint=hint)


def run(
    args: argparse.Namespace, context: Context, ws: "Workspace", age: int
) -> tuple[FetchDone | None, int]:
    """List candidates and fetch the chosen ones; return the results and the exit code."""
    from threegate.host.fetch.candidates import (
        candidates,
        chosen,
        packets_here,
        read_numbers,
    )

    numbers = () if args.get is None else read_numbers(args.get)
    if args.file or args.approved:
        raise UsageError(f"-f and --approved do not go with `fetch {args.refs[0]}`")
    if numbers and args.dry_run:
        hint = "without --get a dry run shows whom the list would ask"
        raise UsageError("a dry run has no list to choose from", hint=hint)
    with context.index(ws) as index:
        first, target_of = _planned(args, ws, index)
        if args.dry_run:
            return None, _rehearse(args, context, ws, (first, target_of), age)
        done = None if first is None else perform(args, context, ws, _own(first), age)
        if done is not None and (done.ended_early or done.reports[-1].status == "refused"):
            return done, tell_end(args, context, done, _own())
        target = target_of(_packet(ws, done))
        listed = perform(args, context, ws, _own(target), age, here=packets_here(index))
    done = listed if done is None else done.then(listed)
    packet = _packet(ws, listed)
    named = _own()
    if numbers and packet is not None and not done.ended_early:
        references = chosen(candidates(packet), numbers)
        named = name_references(args, ws, references)
        done = done.then(perform(args, context, ws, named, age))
    return done, tell_end(args, context, done, named)


def _own(*targets: "FetchTarget") -> FetchNamed:
    return FetchNamed(list(targets), [], [])


def _packet(ws: "Workspace", done: FetchDone | None) -> "ResearchPacket | None":
    """Return the packet that a run of one target led to, if it did."""
    from threegate.artifacts.research_packet import ResearchPacket

    ids = [] if done is None else [one.packet_id for one in done.reports]
    packet = ws.store.read(ids[-1]) if ids and ids[-1] is not None else None
    return packet if isinstance(packet, ResearchPacket) else None


# What to fetch first, if anything, and the target of the list once that is here.
Planned = tuple["FetchTarget | None", Callable[["ResearchPacket | None"], "FetchTarget"]]


def _planned(args: argparse.Namespace, ws: "Workspace", index: "Index") -> Planned:
    from threegate.host.fetch import related

    relation, words, level = args.refs[0], args.refs[1:], args.confidentiality
    if relation == SEARCH:
        target = _search(args, ws)
        return None, lambda _: target
    if len(words) != 1:
        hint = f"`threegate fetch {relation} doi:10.5555/12345678`, or the id of its packet"
        raise UsageError(f"`fetch {relation}` takes one work", hint=hint)
    sources = related.sources_for(relation, args.source)
    work = related.known_work(ws.store, index, words[0])

    def target_of(packet: "ResearchPacket | None") -> "FetchTarget":
        return related.related_target(
            relation,
            work if packet is None else work.with_names_of(packet),
            ws.bundle,
            sources=sources,
            rows=RELATED_ROWS if args.rows is None else args.rows,
            confidentiality=level,
        )

    first = related.lookup_target(work, ws.bundle, sources=sources, confidentiality=level)
    return first, target_of


def _search(args: argparse.Namespace, ws: "Workspace") -> "FetchTarget":
    from threegate.artifacts.references import SEARCHABLE
    from threegate.host.fetch.targets import search_target

    if args.source is None:
        raise UsageError("a search needs --source", hint=f"one of {', '.join(SEARCHABLE)}")
    rows = ROWS if args.rows is None else args.rows
    query, level = " ".join(args.refs[1:]), args.confidentiality
    return search_target(query, ws.bundle, source=args.source, rows=rows, confidentiality=level)


def _rehearse(
    args: argparse.Namespace, context: Context, ws: "Workspace", planned: Planned, age: int
) -> int:
    """Show the questions that are known before anything is fetched."""
    first, target_of = planned
    if first is None:
        return rehearse(args, context, ws, _own(target_of(None)), age)
    try:
        own = _own(first, target_of(None))
    except UsageError:  # nobody but OpenAlex is to be asked
        own = _own(first)
    code = rehearse(args, context, ws, own, age)
    context.out.note("openalex is asked for the list if the first answer has its identifier")
    return code
