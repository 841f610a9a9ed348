"""`threegate import git`: text files of a commit, or the changes between two, as packets."""

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threegate.base.errors import EX_INTERRUPTED, UsageError
from threegate.cli.import_form import NEXT_TIME, ImportDone, perform, prepare, totals
from threegate.cli.interrupt import patience
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.importing.git_objects import GitObjects
    from threegate.host.importing.git_selection import GitSelection
    from threegate.host.importing.selection import Root
    from threegate.host.workspace.workspace import Workspace

WORD: Final = "git"


def is_git(args: argparse.Namespace) -> bool:
    """Tell whether the command line names a git repository; a folder of that name is `./git`."""
    return bool(args.paths) and args.paths[0] == WORD


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only a repository has."""
    parser.add_argument("--rev", metavar="REV", help="of a repository: a commit; HEAD, if not said")
    diff = "of a repository: the changes since this commit, as one packet"
    parser.add_argument("--diff", metavar="BASE", help=diff)
    only = "of a repository: only files like this"
    parser.add_argument(
        "--paths", dest="only", action="append", default=[], metavar="GLOB", help=only
    )


def refuse_options(args: argparse.Namespace) -> None:
    """Raise `UsageError` for options that only a repository has."""
    if args.rev is not None or args.diff is not None or args.only:
        hint = "`threegate import git DIR --rev REV`"
        raise UsageError("--rev, --diff and --paths belong to a repository", hint=hint)


def run(args: argparse.Namespace, context: Context) -> int:
    """Import files of a commit."""
    from threegate.host.importing.git_objects import GitObjects
    from threegate.host.importing.git_repository import open_repository

    if len(args.paths) != 2 or args.watch or args.recursive or args.lookup:
        hint = "`threegate import git DIR`; a folder named git is `./git`"
        raise UsageError(
            "import git takes one folder, and no --recursive, --watch or --lookup", hint=hint
        )
    repository = open_repository(Path(context.settings.cwd, args.paths[1]))
    with context.workspace(args) as ws:
        ws.refuse_wrong_clock()
        with GitObjects(repository, ws.bundle) as objects:
            selection = _selected(args, objects, repository.root)
            if args.dry_run:
                return _rehearse(args, context, selection)
            with patience(context, first="storing what is complete", second=NEXT_TIME) as stop:
                done = _import(args, context, ws, selection, stop.is_set)
        if done.made and not stop.is_set():
            prepare(context, ws)
    if stop.is_set():
        context.out.note(f"interrupted: {NEXT_TIME}")
        return EX_INTERRUPTED
    return done.code


def _selected(args: argparse.Namespace, objects: "GitObjects", root: "Root") -> "GitSelection":
    from threegate.host.importing.git_selection import (
        GitChanges,
        GitSelection,
        changed_files,
        select_files,
        shown_path,
    )

    names = {"paths": args.only, "include": args.include, "exclude": args.exclude}
    listed = objects.commit(args.rev or "HEAD")
    after = select_files(objects, root, listed, **names)
    if args.diff is None:
        return after
    base = objects.commit(args.diff)
    changed = changed_files(select_files(objects, root, base, **names), after)
    diff, refused = objects.changes(changed)
    if not diff.strip():
        raise UsageError("no text file differs between the two commits")
    return GitSelection(
        files=(GitChanges(root, base.commit, listed.commit, diff),),
        unusable=[(shown_path(path), error) for path, error in refused],
        unwanted=after.unwanted,
    )


def _rehearse(args: argparse.Namespace, context: Context, selection: "GitSelection") -> int:
    told: list[dict[str, Any]] = [
        {"file": one.reference, "reason": None} for one in selection.files
    ]
    told += [{"file": name, "reason": why} for name, why in selection.skipped]
    told += [{"file": name, "reason": error.message} for name, error in selection.unusable]
    if args.json:
        context.out.document({"files": told})
        return 0
    for one in told:
        context.out.line(f"{one['reason'] or 'text'}  {one['file']}")
    context.out.note("dry run: nothing was imported")
    return 0


def _import(
    args: argparse.Namespace,
    context: Context,
    ws: "Workspace",
    selection: "GitSelection",
    stop: Callable[[], bool],
) -> ImportDone:
    """Import a selection and print what became of it."""
    done = perform(args, context, ws, selection, stop)
    done.skipped.update(why for _, why in selection.skipped)
    if args.json:
        done.told += [
            {"file": name, "status": "skipped", "reason": why} for name, why in selection.skipped
        ]
        context.out.document({"files": done.told})
    else:
        _tell_left_out(context, done.skipped, selection.unwanted)
        context.out.note(totals(done.counts | {"skipped": done.skipped.total()}))
    return done


def _tell_left_out(context: Context, skipped: "Counter[str]", unwanted: int) -> None:
    from threegate.host.importing.git_selection import GENERATED, VENDORED
    from threegate.host.output import counted

    for why, count in sorted(skipped.items()):
        hint = "; --include GLOB takes them" if why in (GENERATED, VENDORED) else ""
        context.out.note(f"{counted(count, 'file')} skipped: {why}{hint}")
    if unwanted:
        context.out.note(f"{counted(unwanted, 'file')} left out by --paths or --exclude")
