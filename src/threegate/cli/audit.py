"""`threegate audit verify|show|checkpoint|export|clock|graph`."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threegate.cli import graph
from threegate.cli.grammar import CommandGroup, add_paging
from threegate.host.command_context import Context
from threegate.host.output import counted

if TYPE_CHECKING:
    from threegate.audit.entry import Entry
    from threegate.host.workspace.verification import Verification

_VERIFY = """\
Follows the hash chain of the log, compares every file with its record in the log, and checks
who signed each policy and each checkpoint. A log whose end was cut off still chains:
only a checkpoint kept elsewhere (`audit export`) shows that. Exit 76 if anything differs."""
_CHECKPOINT = """\
Signs the number of entries and the Merkle root of the log with your key and keeps both in
audit/checkpoints/. Copy it to another machine: `audit export` does."""
_EXPORT = """\
Makes a checkpoint. Writes it into a directory outside the workspace, with its signature, the
signers and a line that says how to check it with ssh-keygen alone."""


_CLOCK = """\
For a log with entries in the future, which keep you from signing anything, and for a workspace
that nobody used for more than a month. Shows both times, asks, and writes an entry with your
signature: the log continues from the time of the clock. Set the clock first. If the log
goes back, every approval that is not spent ends. A key that has expired or was revoked by the
time of the log cannot sign this."""


MEND_MODES = (
    "find handoff bundles audit/checkpoints -type f ! -name lock ! -path 'handoff/reserve/*' "
    "-exec chmod 444 {} +"
)


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group("audit", "verify, show and export the record of what happened")
    _add_verify(group)
    show = group.command(
        "show",
        "print entries of the log, the newest last",
        run=run_show,
        examples=("audit show", "audit show rp-0123456789ab", "audit show --limit 500"),
    )
    show.add_argument("id", nargs="?", metavar="ID", help="only entries about this artifact")
    add_paging(show)
    group.command(
        "checkpoint",
        "sign what the log looks like now",
        run=run_checkpoint,
        about=_CHECKPOINT,
        examples=("audit checkpoint", "audit checkpoint --key agent"),
        key=True,
    )
    export = group.command(
        "export",
        "write a signed checkpoint to keep elsewhere",
        run=run_export,
        about=_EXPORT,
        examples=("audit export /media/usb/threegate",),
        key=True,
    )
    export.add_argument("directory", metavar="DIR", help="where to; made if need be")
    clock = group.command(
        "clock",
        "sign that the clock is right and the log's last time is not",
        run=run_clock,
        about=_CLOCK,
        examples=("audit clock", "audit clock --yes --key agent"),
        key=True,
    )
    clock.add_argument("--yes", action="store_true", help="do not ask")
    graph.add(group)


def _add_verify(group: CommandGroup) -> None:
    parser = group.command(
        "verify",
        "compare the workspace with its log, and the log with checkpoints",
        run=run_verify,
        about=_VERIFY,
        examples=("audit verify", "audit verify --checkpoint /media/usb/checkpoint-412.txt"),
    )
    parser.add_argument("--checkpoint", metavar="FILE", help="a checkpoint from elsewhere")
    parser.add_argument("--signature", metavar="FILE", help="its signature; else FILE.sig")


def run_verify(args: argparse.Namespace, context: Context) -> int:
    """Verify everything."""
    from threegate.base.errors import EX_TAMPERED
    from threegate.host.settings import unix_now
    from threegate.host.workspace.verification import verify_workspace
    from threegate.host.workspace.workspace import read_marker

    root = context.root(args)
    read_marker(root)
    given = context.checkpoints(args)
    report = verify_workspace(
        root,
        given=given,
        clock=unix_now,
        progress=context.out.progress,
        seals=context.settings.seals,
    )
    if args.json:
        context.out.document(_report(report))
    else:
        _tell(context, report)
    return EX_TAMPERED if report.findings else 0


def _report(report: "Verification") -> dict[str, Any]:
    return {
        "ok": not report.findings,
        "entries": report.log.events,
        "root": report.log.root.hex(),
        "files": report.files,
        "policies": report.policies,
        "checkpoints": report.checkpoints,
        "findings": [asdict(finding) for finding in report.findings],
        "strays": [asdict(finding) for finding in report.strays],
        "modes": [asdict(finding) for finding in report.modes],
        "unfinished": report.unfinished,
    }


def _tell(context: Context, report: "Verification") -> None:
    for finding in report.findings:
        context.out.line(f"differs: {finding.directory}/{finding.name}: {finding.problem}")
    for stray in report.strays:
        context.out.line(f"stray: {stray.directory}/{stray.name}: {stray.problem}")
    for line in report.unfinished:
        context.out.line(f"unfinished: {line}")
    if report.modes:
        files = counted(len(report.modes), "file has another mode", "files have other modes")
        context.out.line(f"{files} than here; their content is what the log recorded")
    if any(finding.mode for finding in report.findings):
        context.out.note(f"hint: in the workspace: {MEND_MODES}")
    seen = (
        counted(report.log.events, "entry", "entries"),
        counted(report.files, "file"),
        counted(report.policies, "policy", "policies"),
        counted(report.checkpoints, "checkpoint"),
    )
    verdict = counted(len(report.findings), "difference") if report.findings else "verified"
    context.out.line(f"{verdict}: {', '.join(seen)}")


def run_show(args: argparse.Namespace, context: Context) -> int:
    """Print entries of the log."""
    from threegate.host.workspace.places import resolve
    from threegate.host.workspace.text_form import history

    with context.workspace(args, reading=True) as ws:
        log = ws.store.journal.log
        wanted = None if args.id is None else resolve(ws.store, args.id)
        skip = (args.page - 1) * args.limit
        with context.out.progress("reading the log, entry", log.size) as show:
            entries, total = history(log, wanted, limit=args.limit, skip=skip, progress=show)
    if args.json:
        items = [asdict(entry) for entry in entries]
        paging = {"page": args.page, "limit": args.limit, "total": total}
        context.out.document({"items": items, **paging})
        return 0
    if entries:
        context.out.table(("SEQ", "TIME", "KIND", "WHAT"), [_cells(entry) for entry in entries])
    context.out.showing(args.page, args.limit, len(entries), total)
    return 0


def _cells(entry: "Entry") -> tuple[str, ...]:
    from threegate.host.workspace.text_form import entry_line

    return str(entry.seq), entry.time, entry.kind, entry_line(entry)


def run_checkpoint(args: argparse.Namespace, context: Context) -> int:
    """Make and keep a checkpoint."""
    from threegate.handoff.states import CHECKPOINTS
    from threegate.host.workspace.log_signatures import make_checkpoint

    with context.workspace(args) as ws:
        kept = make_checkpoint(ws, context.signer(args, ws))
        path = ws.root / CHECKPOINTS / kept.name
    _made(args, context, [path, path.with_name(f"{path.name}.sig")], kept.checkpoint.size)
    return 0


def run_export(args: argparse.Namespace, context: Context) -> int:
    """Make a checkpoint and write it elsewhere."""
    from threegate.host.workspace.log_signatures import (
        export_checkpoint,
        make_checkpoint,
        prepare_export,
    )

    with context.workspace(args) as ws:
        directory = prepare_export(ws, context.settings.cwd / args.directory)
        kept = make_checkpoint(ws, context.signer(args, ws))
        paths = export_checkpoint(ws, kept, directory)
    _made(args, context, paths, kept.checkpoint.size)
    return 0


def run_clock(args: argparse.Namespace, context: Context) -> int:
    """Show both times, ask, sign."""
    from threegate.base.errors import PolicyDenied
    from threegate.host.fetch.budgets import budgets_of
    from threegate.host.workspace.log_signatures import clock_difference, set_clock

    with context.workspace(args) as ws:
        found = clock_difference(ws)
        if found is None:
            context.out.note("the clock agrees with the log; nothing was signed")
            return 0
        context.out.note(f"the clock shows {found.now}, the last log entry is of {found.last}")
        later = counted(found.later, "entry has", "entries have")
        context.out.note(f"{later} a later time than the clock shows")
        if not args.yes and not context.out.confirm("is the clock right?"):
            raise PolicyDenied("not signed: the operator said no", code="TG-ASK-002", hint="")
        entry = set_clock(ws, context.signer(args, ws))
        budgets_of(context.settings, ws).set_clock()
    if args.json:
        document = {"entry": entry.seq, "before": found.last, "time": entry.time}
        context.out.document({**document, "later": found.later})
    else:
        context.out.line(f"entry {entry.seq}: the log goes on from {entry.time}")
    return 0


def _made(args: argparse.Namespace, context: Context, paths: list[Path], size: int) -> None:
    if args.json:
        context.out.document({"size": size, "files": [str(path) for path in paths]})
        return
    context.out.line(f"checkpoint at {counted(size, 'entry', 'entries')}")
    for path in paths:
        context.out.line(f"  {path}")
