"""`threegate packet lookup`: ask registries about imported files."""

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from threegate.base.errors import EX_INTERRUPTED
from threegate.cli.grammar import CommandGroup
from threegate.cli.interrupt import patience
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.importing.lookup import LookupReport
    from threegate.host.workspace.workspace import Workspace

_ABOUT: Final = """\
A DOI, an arXiv id or a PubMed id that an imported file names is asked for as by `threegate fetch`,
and nothing else of the file leaves this machine. If the title of that work is at the beginning
of the file, the packet is made again with the metadata and the retraction status that the
registries give; it replaces the old packet. If it is not, the identifier is not believed. Nobody
is asked about a confidential file."""
_AGAIN: Final = "the same command again goes on from here"
_WORDS: Final = {
    "known": "a registry was asked before",
    "unnamed": "the file names no identifier",
    "confidential": "nobody is asked about a confidential file",
    "failed": "no registry answered",
}


def add(group: CommandGroup) -> None:
    """Add the command."""
    parser = group.command(
        "lookup",
        "ask registries about imported files",
        run=run,
        about=_ABOUT,
        examples=("packet lookup", "packet lookup rp-0123456789ab"),
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="which packets; else all imported")


def run(args: argparse.Namespace, context: Context) -> int:
    """Look the packets up and print the result of each."""
    from threegate.host.importing.lookup import imported_packets
    from threegate.host.workspace.packets import logged_origins
    from threegate.host.workspace.places import resolve

    with context.workspace(args) as ws:
        ws.refuse_wrong_clock()
        ids = [resolve(ws.store, text) for text in args.ids] or imported_packets(
            ws, logged_origins(ws.store)
        )
        return look_up(args, context, ws, ids)


def look_up(args: argparse.Namespace, context: Context, ws: "Workspace", ids: list[str]) -> int:
    """Look packets up; return the exit code."""
    from threegate.host.importing.lookup import lookup
    from threegate.host.workspace.packets import logged_origins

    origins = logged_origins(ws.store)
    told: list[dict[str, Any]] = []
    code = 0
    with (
        patience(context, first="ending the question under way", second=_AGAIN) as stop,
        context.out.progress("asking registries about", len(ids)) as show,
    ):
        for number, packet_id in enumerate(ids, 1):
            if stop.is_set():
                break
            report = lookup(ws, context.settings, packet_id, origins=origins, stop=stop.is_set)
            show(number)
            code = code or _code(report)
            if args.json:
                told.append(_document(report))
            else:
                for text in _lines(report):
                    context.out.line(text)
                context.out.flush()
    if args.json:
        context.out.document({"packets": told})
    elif not ids:
        context.out.line("no imported file waits for a lookup")
    return EX_INTERRUPTED if stop.is_set() else code


def _code(report: "LookupReport") -> int:
    if report.status == "held":
        return os.EX_TEMPFAIL
    if report.status == "failed":
        return os.EX_UNAVAILABLE if report.error is None else report.error.exit_code
    return 0


def _lines(report: "LookupReport") -> Iterator[str]:
    from threegate.artifacts.ids import short
    from threegate.host.provenance.headlines import cautions
    from threegate.host.workspace.packets import IMPORTED_HERE

    name = short(report.packet_id)
    if report.status == "joined":
        assert report.new_id is not None
        assert report.packet is not None
        yield f"joined {short(report.new_id)}, replaces {name}, {report.reference}: {report.title}"
        for caution in cautions(report.packet, IMPORTED_HERE):
            yield f"  ! {caution}"
    elif report.status == "not-believed":
        yield f"not believed {name}: the file names {report.reference}, which is another work:"
        yield f"  {report.title}"
    elif report.status == "held":
        yield f"held {', '.join(map(short, report.held))} for {name}: {report.reference}"
        yield "  hint: `threegate review`, then `threegate fetch --approved`, then this again"
    else:
        why = f": {report.error.message}" if report.error is not None else ""
        yield f"{report.status} {name}: {_WORDS[report.status]} {report.reference}{why}".rstrip()
        if report.error is not None and report.error.hint:
            yield f"  hint: {report.error.hint}"


def _document(report: "LookupReport") -> dict[str, Any]:
    error = report.error
    return {
        "id": report.packet_id,
        "status": report.status,
        "reference": report.reference or None,
        "title": report.title or None,
        "new_id": report.new_id,
        "retraction": None if report.packet is None else report.packet.retraction,
        "held": list(report.held),
        "code": None if error is None else error.code,
        "reason": None if error is None else error.message,
    }
