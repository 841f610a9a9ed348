"""`threegate report`: an analysis with all it rests on, or a run, as one document."""

import argparse
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.report.facts import Block
    from threegate.host.workspace.index import Index
    from threegate.host.workspace.workspace import Workspace

_FORMATS = ("md", "html", "pdf")
_ABOUT = """\
The answer claim by claim with its labels and numbered sources, every quote with its place and
digest, a bibliography, files that runs left, what wrote it and where, what was left out, a picture
of where it comes from, the approvals behind it, and the commands that check all of this.

Of a tool result: what ran, on which inputs, who approved it, what it printed and left, how it was
confined, and the commands that check it.

Every quote is looked up again and every label is computed again: a report never says more than is
found now. Foreign text is set apart and is inert in every format. PNG and JPEG images of runs are
decoded in a sandbox and re-encoded; tables are text. Images of a Markdown file are separate files
next to it, named FILE-1.png and so on. The same workspace gives the same bytes.

With --with-pages each quote from a stored PDF is followed by a picture of its page, with the words
marked, at most 40 in a report."""


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "report",
        "write an analysis or a tool result, with all it rests on, as one document",
        run=run,
        about=_ABOUT,
        examples=(
            "report an-0123456789ab",
            "report an-0123456789ab --format html --output ice.html",
            "report an-0123456789ab --format pdf > ice.pdf",
            "report an-0123456789ab --format html --with-pages --output ice.html",
            "report res-0123456789ab --format html --output run.html",
        ),
        json=False,
    )
    parser.add_argument(
        "id", metavar="ID", help="an analysis or a result: its id, or 12 digits or more"
    )
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        default="md",
        metavar="FORMAT",
        help="md (default), html or pdf",
    )
    parser.add_argument(
        "--with-pages", action="store_true", help="show each quote on the page of its PDF"
    )
    parser.add_argument("--output", metavar="FILE", help="a new file; else standard output")
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def run(args: argparse.Namespace, context: Context) -> int:
    """Write a report."""
    if args.force and args.output is None:
        args.refuse("--force goes with --output")
    with context.workspace(args, reading=True) as ws, context.index(ws) as index:
        level, blocks = _blocks(ws, index, _found(ws, args.id), pages=args.with_pages)
    _write(args, context, blocks)
    if level != "public":
        context.out.note(f"this report is {level}")
    return 0


def _blocks(
    ws: "Workspace", index: "Index", artifact_id: str, *, pages: bool
) -> "tuple[str, list[Block]]":
    """Return the confidentiality of a report, and the report."""
    from threegate.artifacts.ids import prefix_of

    if prefix_of(artifact_id) == "res":
        from threegate.base.errors import UsageError
        from threegate.host.report.run_report import gather_run, lay_out_run

        if pages:
            hint = "a run quotes nothing; leave --with-pages out"
            raise UsageError("--with-pages goes with an analysis", hint=hint)
        run = gather_run(ws, index, artifact_id)
        return run.confidentiality, lay_out_run(run)
    from threegate.host.report.collection import gather
    from threegate.host.report.layout import lay_out

    report = gather(ws, index, artifact_id)
    if pages:
        from threegate.host.report.page_drawer import with_pages

        report = with_pages(ws, index.origin, report)
    return report.confidentiality, lay_out(report)


def _found(ws: "Workspace", text: str) -> str:
    from threegate.artifacts.ids import prefix_of
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.workspace.places import refuse_absent, resolve

    found = resolve(ws.store, text)
    if prefix_of(found) not in ("an", "res"):
        hint = "`threegate analysis list` and `threegate result list` show them"
        raise UsageError(f"{quote(text)} is not an analysis or a result", hint=hint)
    refuse_absent(ws.store, found)
    return found


def _drawn(blocks: "list[Block]", form: str, name: str | None) -> tuple[bytes, dict[str, bytes]]:
    """Return a report, and the image files beside it if it is written to this name."""
    if form == "html":
        from threegate.host.report.page import as_page

        return as_page(blocks), {}
    if form == "pdf":
        from threegate.host.report.pdf import as_pdf

        return as_pdf(blocks), {}
    from threegate.host.report.markdown import as_markdown, images_beside

    images = {} if name is None else images_beside(blocks, name)
    return as_markdown(blocks, tuple(images)), images


def _write(args: argparse.Namespace, context: Context, blocks: "list[Block]") -> None:
    """Write a file, or standard output: text to a terminal, bytes elsewhere."""
    from threegate.base.errors import UsageError
    from threegate.host.atomic_file import write_together

    path = None if args.output is None else context.settings.cwd / args.output
    data, beside = _drawn(blocks, args.format, None if path is None else path.name)
    if path is not None:
        images = {path.with_name(name): image for name, image in beside.items()}
        write_together({**images, path: data}, over=args.force)
        for written in (path, *images):
            context.out.note(f"wrote {written}")
        return
    try:
        context.out.bytes(data)
    except UsageError:  # a terminal, which is shown text and nothing else
        if args.format != "md":
            raise
        context.out.text(data.decode("utf-8"))
