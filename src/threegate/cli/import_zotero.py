"""`threegate import zotero`: the items of a Zotero library become research packets."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threegate.base.errors import EX_INTERRUPTED, ArtifactRejected, UsageError
from threegate.cli.import_form import NEXT_TIME, perform, prepare, totals
from threegate.cli.interrupt import patience
from threegate.cli.packet_lookup import look_up
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.importing.zotero import ZoteroSelection
    from threegate.host.workspace.workspace import Workspace

WORD: Final = "zotero"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only a library has."""
    for name, metavar, words in (
        ("collection", "NAME", "only items of this collection, and of those inside it"),
        ("tag", "TAG", "only items with this tag"),
        ("base", "DIR", "the folder of linked files"),
    ):
        parser.add_argument(f"--{name}", metavar=metavar, help=f"of a Zotero library: {words}")


def is_library(args: argparse.Namespace) -> bool:
    """Tell whether a library is named; raise `UsageError` for options that do not go with it."""
    chosen: bool = args.paths[0] == WORD
    for name in ("collection", "tag", "base"):
        if getattr(args, name) and not chosen:
            raise UsageError(f"--{name} is for `threegate import zotero`")
    for name in ("recursive", "include", "exclude", "watch"):
        if getattr(args, name) and chosen:
            raise UsageError(f"--{name} is for files and folders, not for a Zotero library")
    if chosen and len(args.paths) > 2:
        raise UsageError("one Zotero library at a time: `threegate import zotero DIR`")
    return chosen


def run(args: argparse.Namespace, context: Context) -> int:
    """Import the items that were asked for."""
    if args.lookup and args.json:
        hint = "`threegate packet lookup --json` after it"
        raise UsageError("--lookup does not go with --json", hint=hint)
    with context.workspace(args) as ws:
        ws.refuse_wrong_clock()
        selection = _selected(args, context, ws)
        if args.dry_run:
            return _rehearse(args, context, selection)
        with patience(context, first="storing what is complete", second=NEXT_TIME) as stop:
            done = perform(args, context, ws, selection, stop.is_set)
        if args.json:
            context.out.document({"files": done.told})
        else:
            context.out.note(totals(done.counts))
        code = done.code
        if done.made and args.lookup and not stop.is_set():
            code = look_up(args, context, ws, done.made) or code
        if done.made and not stop.is_set():
            prepare(context, ws)
    if stop.is_set():
        context.out.note(f"interrupted: {NEXT_TIME}")
        return EX_INTERRUPTED
    return code


def _selected(args: argparse.Namespace, context: Context, ws: "Workspace") -> "ZoteroSelection":
    from threegate.host.importing.zotero import Wanted, select_library
    from threegate.host.importing.zotero_export import is_export, select_export

    home = context.environ.get("HOME", "/")
    named = args.paths[1] if len(args.paths) > 1 else Path(home, "Zotero")
    cwd = context.settings.cwd
    if is_export(cwd / named):
        if args.collection or args.tag or args.base:
            raise UsageError("an export has neither collections nor tags to choose from")
        return select_export(cwd / named)
    base = None if args.base is None else cwd / args.base
    wanted = Wanted(args.collection or "", args.tag or "")
    return select_library(cwd / named, ws.bundle, wanted, base)


def _rehearse(args: argparse.Namespace, context: Context, selection: "ZoteroSelection") -> int:
    told: list[dict[str, Any]] = []
    for item in selection.files:
        found: dict[str, Any] = {"file": item.reference, "type": None, "reason": None}
        try:
            material = item.material()
        except ArtifactRejected as exc:
            found["reason"] = exc.message
        else:
            missing = [one.detail for one in material.misses]
            found |= {"type": material.pieces[0].read_as, "reason": (*missing, None)[0]}
        told.append(found)
    if args.json:
        context.out.document({"files": told})
        return 0
    for one in told:
        why = "" if one["reason"] is None else f": {one['reason']}"
        context.out.line(f"{one['type'] or 'refused'}{why}  {one['file']}")
    context.out.note("dry run: nothing was imported")
    return 0
