"""`threegate packet export|remake|page`: bibliographies, comparisons and pages of packets."""

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.artifacts.research_packet import ResearchPacket
    from threegate.host.workspace.workspace import Workspace

_FORMATS = ("bibtex", "csl-json", "ris")
_EXPORT = """\
Titles and names come from hostile sources: what could act in the format is escaped.
Retractions and test sources are noted in each entry. Lists of search results are left out.
All packets of one work are one entry, unless you name them.

With --complete the packets that are named go into one file with their retrieval records and raw
bytes, for `threegate admit` in another workspace. You sign that this workspace retrieved them;
there they are `retrieved` if your key is listed for threegate-packet, and `brought` if not."""
_REMAKE = """\
A packet is made from its retrieval record and raw bytes and from nothing else, and both are
kept. Here a fresh box reads them again, without any network, and what it makes is compared
byte for byte. Only the verdict is stored, in the audit log. What was forgotten cannot be
compared; a newer program may read the same bytes better, and then says which fields differ.
The exit code is 0 if every packet is the same, 65 if one is not."""

_PAGE = """\
The page is drawn from the stored PDF in a sandbox without network, and the words of a quote are
marked on it. Line breaks, hyphens and ligatures do not matter. N is the number of the page,
counted from 1; if there is no page with that number, it is the label of a page, such as iv.
Words that are not found are said, and the page is drawn without marks."""


def add(group: CommandGroup) -> None:
    """Add the commands that only packets have."""
    parser = group.command(
        "export",
        "write packets as a bibliography",
        run=run_export,
        about=_EXPORT,
        examples=(
            "packet export --format bibtex > papers.bib",
            "packet export rp-0123456789ab --format ris --output paper.ris",
            "packet export rp-0123456789ab --complete --output for-ada.packets",
        ),
        json=False,
        key=True,
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="which packets; else all")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--format",
        choices=_FORMATS,
        metavar="FORMAT",
        help=f"one of {', '.join(_FORMATS)}",
    )
    how.add_argument(
        "--complete", action="store_true", help="with records and raw bytes, signed; to --output"
    )
    parser.add_argument("--output", metavar="FILE", help="a new file; else standard output")
    parser = group.command(
        "remake",
        "make packets again from their raw bytes and compare",
        run=run_remake,
        about=_REMAKE,
        examples=("packet remake rp-0123456789ab", "packet remake --json"),
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="which packets; else all")

    _add_page(group)


def _add_page(group: CommandGroup) -> None:
    parser = group.command(
        "page",
        "draw a page of a packet's PDF, with a quote marked",
        run=run_page,
        about=_PAGE,
        examples=(
            "packet page rp-0123456789ab 3 --output page.png",
            'packet page rp-0123456789ab iv --quote "the words" --output page.png',
            "packet page rp-0123456789ab --excerpt 2 --output page.png --json",
        ),
    )
    parser.add_argument("id", metavar="ID", help="a packet: its id, or 12 digits or more")
    parser.add_argument(
        "page", nargs="?", metavar="N", help="number or label of the page; else that of --excerpt"
    )
    words = parser.add_mutually_exclusive_group()
    words.add_argument("--quote", metavar="WORDS", help="mark these words")
    words.add_argument("--excerpt", type=int, metavar="K", help="mark the text of excerpt K")
    parser.add_argument(
        "--scale", type=float, default=2.0, metavar="X", help="0.25 to 4; 1 is 72 dpi (default 2)"
    )
    parser.add_argument("--output", metavar="FILE", help="a new PNG file; else standard output")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def run_export(args: argparse.Namespace, context: Context) -> int:
    """Write a bibliography, or packets with all they were made from."""
    return _export_complete(args, context) if args.complete else _export(args, context)


def _export_complete(args: argparse.Namespace, context: Context) -> int:
    from threegate.base.errors import UsageError
    from threegate.host.fetch.delivery import export_complete
    from threegate.host.output import counted

    if args.output is None or not args.ids:
        raise UsageError("--complete needs the packets and --output FILE")
    path = context.settings.cwd / args.output
    with context.workspace(args) as ws, context.index(ws) as index:
        ids = _ids(ws, args.ids)
        private = sum(_read(ws, one).confidentiality != "public" for one in ids)
        signer = context.signer(args, ws)
        count = export_complete(ws, index.origin, ids, signer, path)
    context.out.note(f"wrote {counted(count, 'packet')} with records and raw bytes")
    if private:
        are = "is" if private == 1 else "are"
        context.out.note(f"{counted(private, 'packet')} of these {are} not public")
    return 0


def _export(args: argparse.Namespace, context: Context) -> int:
    from threegate.host.bibliography.works import WRITERS, once_each, work_of
    from threegate.host.output import counted
    from threegate.host.provenance.headlines import warnings
    from threegate.host.workspace.packets import is_search

    works, left, hidden = [], 0, set[str]()
    with context.workspace(args, reading=True) as ws, context.index(ws) as index:
        for packet_id in _ids(ws, args.ids):
            packet = _read(ws, packet_id)
            if is_search(packet):
                left += 1
                continue
            warned = warnings(index, packet_id, packet)
            works.append(work_of(packet_id, packet, index.origin(packet_id), warned))
            if packet.confidentiality != "public":
                hidden.add(works[-1].key)
    chosen = works if args.ids else once_each(works)
    _write(args.output, WRITERS[args.format](chosen), context)
    if len(chosen) < len(works):
        same = counted(len(works) - len(chosen), "packet")
        context.out.note(f"left out {same} of works that have an entry")
    if left:
        lists = counted(left, "list of search results", "lists of search results")
        context.out.note(f"left out {lists}")
    private = sum(work.key in hidden for work in chosen)
    if private:
        are = "is" if private == 1 else "are"
        context.out.note(f"{counted(private, 'packet')} of these {are} not public")
    return 0


def _ids(ws: "Workspace", texts: list[str]) -> list[str]:
    """Return the ids of the packets that were named, each once, or of all."""
    from threegate.artifacts.ids import prefix_of
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.workspace.places import refuse_absent, resolve

    if not texts:
        return sorted(ws.store.ids("rp"))
    found: dict[str, None] = {}
    for text in texts:
        artifact_id = resolve(ws.store, text)
        if prefix_of(artifact_id) != "rp":
            raise UsageError(f"{quote(text)} is no packet", hint="`threegate packet list`")
        refuse_absent(ws.store, artifact_id)
        found[artifact_id] = None
    return list(found)


def _read(ws: "Workspace", packet_id: str) -> "ResearchPacket":
    from threegate.artifacts.research_packet import ResearchPacket

    packet = ws.store.read(packet_id)
    assert isinstance(packet, ResearchPacket)
    return packet


def _write(name: str | None, text: str, context: Context) -> None:
    """Write a new file, or standard output as what is there can take it."""
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.atomic_file import new_file

    data = text.encode("utf-8")
    if name is not None:
        path = context.settings.cwd / name
        if not path.parent.is_dir():
            raise UsageError(f"cannot write {quote(str(path))}: no such directory")
        with new_file(path) as file:
            file.write(data)
        return
    try:
        context.out.bytes(data)
    except UsageError:  # a terminal, which is shown text
        context.out.text(text)


def run_remake(args: argparse.Namespace, context: Context) -> int:
    """Make packets again."""
    from threegate.artifacts.ids import short
    from threegate.host.fetch.remake import DIFFERENT, remake

    code, told = 0, []
    with context.workspace(args) as ws:
        ids = _ids(ws, args.ids)
        with context.out.progress("making again", len(ids)) as show:
            for number, found in enumerate(remake(ws, ids), 1):
                show(number)
                code = os.EX_DATAERR if found.verdict == DIFFERENT else code
                told.append(asdict(found))
                if not args.json:
                    why = f": {found.why}" if found.why else ""
                    context.out.line(f"{found.verdict} {short(found.packet_id)}{why}")
    if args.json:
        context.out.document({"packets": told})
    return code


def run_page(args: argparse.Namespace, context: Context) -> int:
    """Draw a page."""
    from threegate.host.atomic_file import write_together
    from threegate.host.report.page_drawer import PageDrawer, pdf_of
    from threegate.host.report.pdf_file import as_png

    if args.output is None and (args.force or args.json):
        args.refuse("--force and --json go with --output")
    if not 0.25 <= args.scale <= 4:
        args.refuse("--scale is a number from 0.25 to 4")
    with context.workspace(args, reading=True) as ws, context.index(ws) as index:
        (packet_id,) = _ids(ws, [args.id])
        pdf = pdf_of(ws.store, index.origin, packet_id)
        packet = _read(ws, packet_id)
        page, words = _place(args, packet)
        drawn = PageDrawer(ws.bundle).draw(pdf, page, words, round(100 * args.scale))
    if args.output is None:
        context.out.bytes(as_png(drawn.image))
    else:
        path = context.settings.cwd / args.output
        write_together({path: as_png(drawn.image)}, over=args.force)
        context.out.note(f"wrote {path}")
    context.out.note(drawn.words)
    if packet.confidentiality != "public":
        context.out.note(f"this picture is {packet.confidentiality}")
    if args.json:
        told = {"found": drawn.found, "whole": drawn.whole if drawn.found else None}
        sides = {"width": drawn.image.width, "height": drawn.image.height}
        place = {"packet": packet_id, "page": drawn.page, "pages": drawn.pages}
        context.out.document({**place, **told, **sides, "file": args.output})
    return 0


def _place(args: argparse.Namespace, packet: "ResearchPacket") -> tuple[str, str]:
    """Return the page and the words to mark."""
    from threegate.base.errors import UsageError
    from threegate.host.output import counted

    if args.excerpt is None:
        if args.page is None:
            args.refuse("name a page, or an excerpt with --excerpt K")
        return args.page, args.quote or ""
    if not 1 <= args.excerpt <= len(packet.texts):
        have = counted(len(packet.texts), "excerpt")
        raise UsageError(f"there is no excerpt {args.excerpt}", hint=f"the packet has {have}")
    page = packet.excerpts[args.excerpt - 1].page
    if args.page is None and page is None:
        raise UsageError(f"excerpt {args.excerpt} names no page", hint="name the page: N")
    return args.page or str(page), packet.texts[args.excerpt - 1].open_for_display()
