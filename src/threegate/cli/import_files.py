"""`threegate import`: files and folders become research packets."""

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from threegate.base.errors import EX_INTERRUPTED
from threegate.base.forms import CONFIDENTIALITY
from threegate.cli import import_git, import_zotero
from threegate.cli.grammar import CommandGroup
from threegate.cli.import_form import NEXT_TIME, perform, prepare, scans_of, totals
from threegate.cli.interrupt import patience
from threegate.cli.packet_lookup import look_up
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.importing.selection import FileSelection, Identity
    from threegate.host.workspace.workspace import Workspace

_ABOUT = """\
PATH is a file or a folder. Each file is read in a sandbox without network, one file per
process, and becomes a research packet. The file itself stays as it is; a copy of its bytes is
kept beside the packet. The format is detected from the content. A file that cannot be read is
refused with the reason, and its bytes are in quarantine. A PDF whose pages are pictures (a scan
without text) is read by Tesseract, if it is installed; its parts state the confidence.

Bytes that were imported before are already here. A changed file becomes a new packet that names
the one it replaces; a removed file is named, and its packet stays. The same command again goes on
where it was interrupted.

Symbolic links are not followed, and names that begin with a dot are left out. The files of a
workspace and private keys are never imported. Packets hold paths
relative to PATH, never absolute ones. What a file says about itself (title, authors) is a claim.

`import git DIR` takes the text files of a commit (a folder of that name is `./git`). A sandbox
reads the objects; no program, hook, filter or configuration of the repository is used. Vendored
and generated files are skipped and counted; --include takes them.

`import zotero [DIR]` takes the items of a Zotero library: files, with annotations and notes; DIR is
~/Zotero, if not said (a folder of that name is `./zotero`). A sandbox reads a copy of its database,
so Zotero may be running. `import zotero FILE.bib` takes an export with files.

The exit code is 0 if every file is here, 65 if one was refused."""
_WATCH_SECONDS = 2.0


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "import",
        "turn files and folders into research packets",
        run=run,
        about=_ABOUT,
        examples=(
            "import paper.pdf notes.md",
            "import ~/papers --recursive",
            "import ~/papers -r --include '*.pdf' --exclude 'drafts/*' --dry-run",
            "import ~/notes -r --watch",
            "import git ~/project --rev v2.1 --paths 'src/*'",
            "import git ~/project --diff v2.0 --rev v2.1",
            "import zotero --collection 'Thesis/Chapter 1'",
            "import zotero export/library.bib",
        ),
    )
    _add_options(parser)
    import_git.add_options(parser)
    import_zotero.add_options(parser)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
    parser.add_argument("-r", "--recursive", action="store_true", help="folders in folders too")
    for name, words in (("include", "only files like this"), ("exclude", "no files like this")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="GLOB",
            help=f"{words}: a name or a path below PATH",
        )
    parser.add_argument("--dry-run", action="store_true", help="show what would be read")
    parser.add_argument(
        "--lookup",
        action="store_true",
        help="then ask registries about identifiers that the files name; see `packet lookup`",
    )
    _add_scans(parser)
    parser.add_argument("--again", action="store_true", help="try files that were refused before")
    parser.add_argument(
        "--watch", action="store_true", help="go on importing what changes, until Ctrl-C"
    )
    parser.add_argument(
        "--confidentiality",
        choices=CONFIDENTIALITY,
        default=CONFIDENTIALITY[1],
        help=f"of the packets; {CONFIDENTIALITY[1]}, if not said",
    )


def _add_scans(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ocr-language",
        default="eng",
        metavar="LANG",
        help="languages of scans without text, such as deu or eng+deu; eng, if not said",
    )
    parser.add_argument("--no-ocr", action="store_true", help="refuse scans without text")


def run(args: argparse.Namespace, context: Context) -> int:
    """Import what was named."""
    if import_git.is_git(args):
        return import_git.run(args, context)
    import_git.refuse_options(args)
    if import_zotero.is_library(args):
        return import_zotero.run(args, context)
    return _run(args, context)


def _run(args: argparse.Namespace, context: Context) -> int:
    """Import files and folders."""
    from threegate.base.errors import UsageError

    if args.watch and (args.dry_run or args.json):
        raise UsageError("--watch goes with neither --dry-run nor --json")
    scans_of(args)  # before anything is read
    if args.lookup and args.json:
        hint = "`threegate packet lookup --json` after it"
        raise UsageError("--lookup does not go with --json", hint=hint)
    selection = _selected(args, context)
    if args.dry_run:
        return _rehearse(args, context, selection)
    with context.workspace(args) as ws:
        ws.refuse_wrong_clock()
        with patience(context, first="storing what is complete", second=NEXT_TIME) as stop:
            code, made = _import(args, context, ws, selection, stop.is_set)
            while args.watch and not stop.wait(_WATCH_SECONDS):
                fresh = _changed(selection, selection := _selected(args, context))
                if fresh.files:
                    more, new = _import(args, context, ws, fresh, stop.is_set)
                    code, made = code or more, made + new
        if made and args.lookup and not stop.is_set():
            code = look_up(args, context, ws, made) or code
        if made and not stop.is_set():
            prepare(context, ws)
    if stop.is_set() and not args.watch:
        context.out.note(f"interrupted: {NEXT_TIME}")
        return EX_INTERRUPTED
    return code


def _selected(args: argparse.Namespace, context: Context) -> "FileSelection":
    from threegate.host.importing.selection import select

    return select(
        args.paths,
        context.settings.cwd,
        recursive=args.recursive,
        include=args.include,
        exclude=args.exclude,
        closed=(context.settings.config_home, context.settings.state_home),
    )


def _changed(before: "FileSelection", now: "FileSelection") -> "FileSelection":
    """Return the files that are new or changed since the last look."""
    from dataclasses import replace

    known: set[tuple[str, tuple[str, ...], Identity]] = {
        (file.root.key, file.parts, file.identity) for file in before.files
    }
    fresh = [f for f in now.files if (f.root.key, f.parts, f.identity) not in known]
    return replace(now, files=fresh, unusable=[], whole_roots=[])


def _rehearse(args: argparse.Namespace, context: Context, selection: "FileSelection") -> int:
    from threegate.base.errors import ArtifactRejected
    from threegate.host.importing.selection import MAX_FILE_BYTES, read
    from threegate.host.importing.types import detect

    told: list[dict[str, Any]] = []
    for file in selection.files:
        found: dict[str, Any] = {"file": file.reference, "bytes": file.identity[2]}
        try:
            found |= {"type": detect(file.parts[-1], read(file, MAX_FILE_BYTES)), "reason": None}
        except ArtifactRejected as exc:
            found |= {"type": None, "reason": exc.message}
        told.append(found)
    refused = [{"file": name, "type": None, "reason": e.message} for name, e in selection.unusable]
    told += refused
    if args.json:
        context.out.document({"files": told})
        return 0
    for one in told:
        what = one["type"] or f"refused: {one['reason']}"
        context.out.line(f"{what}  {one['file']}")
    _tell_left_out(context, selection)
    context.out.note("dry run: nothing was imported")
    return 0


def _import(
    args: argparse.Namespace,
    context: Context,
    ws: "Workspace",
    selection: "FileSelection",
    stop: Callable[[], bool],
) -> tuple[int, list[str]]:
    """Import a selection, print it, and return the exit code and the new packets."""
    done = perform(args, context, ws, selection, stop)
    if args.json:
        context.out.document({"files": done.told})
    elif len(selection.files) != 1 or selection.folders:
        _tell_left_out(context, selection)
        context.out.note(totals(done.counts))
    return done.code, done.made


def _tell_left_out(context: Context, selection: "FileSelection") -> None:
    from threegate.host.output import counted

    for text in _left_out(selection, counted):
        context.out.note(text)


def _left_out(selection: "FileSelection", counted: Callable[..., str]) -> Iterator[str]:
    if selection.folders:
        yield f"{counted(selection.folders, 'folder')} not entered: --recursive does"
    if selection.hidden:
        yield f"{counted(selection.hidden, 'name')} with a dot in front left out"
    if selection.left_out:
        yield f"{counted(selection.left_out, 'name')} left out by --include or --exclude"
    if selection.own:
        yield f"{counted(selection.own, 'name')} of a workspace or of your keys left out"
