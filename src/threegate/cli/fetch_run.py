"""`threegate fetch`, the part that runs: one run or dry run with its output and exit code."""

import argparse
import os
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from threegate.base.errors import EX_INTERRUPTED, ThreeGateError
from threegate.cli.interrupt import patience
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threegate.artifacts.references import Reference
    from threegate.host.fetch.candidates import Here
    from threegate.host.fetch.dry_run import PlannedQuestion
    from threegate.host.fetch.items import FetchReport
    from threegate.host.fetch.session import FetchWork
    from threegate.host.fetch.targets import FetchTarget, UnusableEntry
    from threegate.host.workspace.workspace import Workspace

_AGAIN = "the same command again goes on from here"


@dataclass(frozen=True, slots=True)
class FetchNamed:
    """What the command line asks for."""

    own: "list[FetchTarget]"  # of the operator, without a request
    requests: list[str]  # that were approved
    held: list[str]  # that were made just now, and wait for approval
    unusable: "Sequence[UnusableEntry]" = ()


def name_references(
    args: argparse.Namespace, ws: "Workspace", references: "Sequence[Reference]"
) -> FetchNamed:
    """Return the targets of references, or the requests that hold them where policy says so."""
    from threegate.host.fetch.targets import hold, must_be_held, read_enrich, target_for

    want, level = args.want, args.confidentiality
    enrich = read_enrich(args.enrich)
    if references and must_be_held(ws) and not args.dry_run:
        return FetchNamed([], [], hold(ws, references, want=want, confidentiality=level))
    targets = [
        target_for(item, ws.bundle, want=want, enrich=enrich, confidentiality=level)
        for item in references
    ]
    return FetchNamed(targets, [], [])


def rehearse(
    args: argparse.Namespace,
    context: Context,
    ws: "Workspace",
    named: FetchNamed,
    age: int,
) -> int:
    """Show what would be contacted; return the exit code that policy would give the run."""
    from threegate.host.fetch import dry_run
    from threegate.host.fetch.budgets import budgets_of
    from threegate.host.fetch.session import dry_run_work

    settings, out, unusable = context.settings, context.out, named.unusable
    work = dry_run_work(ws, named.own, named.requests, out.note)
    found = list(dry_run.plan_questions(ws, settings, work.targets, max_age_seconds=age))
    hosts = list(dry_run.bounds(ws, budgets_of(settings, ws), found))
    ends = dry_run.dry_run_totals(ws.bundle, work.targets)
    codes = [error.exit_code for _, error in work.refused]
    code = _exit_code([*codes, *ends.exit_codes], held=ends.waiting > 0, unusable=unusable)
    if args.json:
        questions = [asdict(item) for item in found]
        told = [dry_run.host_document(item) for item in hosts]
        lists = {"requests": _refused(work), "unusable": [asdict(one) for one in unusable]}
        out.document({"questions": questions, "hosts": told, **lists})
        return code
    _tell_rehearsed(context, found)
    for host in hosts:
        out.line(dry_run.host_line(host))
    _tell_refused(context, work)
    _tell_unusable(context, unusable)
    out.note(f"dry run: nobody was contacted{ends.words}")
    return code


def _tell_rehearsed(context: Context, found: "list[PlannedQuestion]") -> None:
    from threegate.host.fetch import dry_run

    reference, last = "", ""
    for item in found:
        if item.reference != reference:
            reference, last = item.reference, ""
            context.out.line(reference)
        text = dry_run.line(item)
        if text != last:  # a packet that is here answers all questions at once
            context.out.line(f"  {text}")
        last = text


@dataclass
class FetchDone:
    """What a run came to, without the texts of its packets."""

    work: "FetchWork"
    reports: "list[FetchReport]" = field(default_factory=list)
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    stopped: bool = False
    error: ThreeGateError | None = None

    @property
    def ended_early(self) -> bool:
        """Tell whether the run was interrupted or failed as a whole."""
        return self.stopped or self.error is not None

    def then(self, later: "FetchDone") -> "FetchDone":
        """Return the results of this run and of one that followed it."""
        both = (*self.work.targets, *later.work.targets)
        first = len(self.work.targets)
        documents = {first + number: one for number, one in later.documents.items()}
        return FetchDone(
            replace(later.work, targets=both),
            [*self.reports, *later.reports],
            self.documents | documents,
            later.stopped,
            later.error,
        )


def perform(
    args: argparse.Namespace,
    context: Context,
    ws: "Workspace",
    named: FetchNamed,
    age: int,
    *,
    here: "Here | None" = None,
) -> FetchDone:
    """Retrieve what was named and print a report for each; `here` finds what a list names."""
    from threegate.host.fetch import text_form
    from threegate.host.fetch.candidates import nothing_here
    from threegate.host.fetch.session import fetch

    known, words = here or nothing_here, {"first": "storing what is complete", "second": _AGAIN}
    with patience(context, **words) as stop, context.out.board(context.environ) as draw:
        progress = text_form.FetchProgress(draw, note=context.out.note)
        work, reports = fetch(
            ws,
            context.settings,
            named.own,
            named.requests,
            max_age_seconds=age,
            stop=stop.is_set,
            show=progress.moment,
            note=context.out.note,
        )
        done, progress.total = FetchDone(work), len(work.targets)
        try:
            for report in reports:
                if args.json:
                    done.documents[report.number] = text_form.document(report, known)
                else:
                    for text in text_form.lines(report, known):
                        context.out.line(text)
                progress.ended(report)
                done.reports.append(replace(report, packet=None))
        except ThreeGateError as exc:  # said when everything before it is
            done.error = exc
        done.stopped = stop.is_set()
    return done


def tell_end(args: argparse.Namespace, context: Context, done: FetchDone, named: FetchNamed) -> int:
    """Print the totals, and return the exit code."""
    from threegate.host.fetch import text_form
    from threegate.host.fetch.targets import SEARCH

    work = done.work
    if args.json:
        items = [done.documents[number] for number in sorted(done.documents)]
        context.out.document({"items": items, "requests": _refused(work), **_rest(named)})
    else:
        _tell_refused(context, work)
        for request_id in named.held:
            context.out.line(f"held {request_id}")
        _tell_unusable(context, named.unusable)
        works = [target for target in work.targets if target.scheme != SEARCH]
        if len(works) > 1:  # a list is not a reference
            reports = [report for report in done.reports if report.target.scheme != SEARCH]
            context.out.note(text_form.totals(reports, len(works)))
        elif args.approved and not work.targets:
            context.out.line("nothing is approved")
    errors = [item.error for item in done.reports if item.error is not None]
    errors += [error for _, error in work.refused]
    codes = [error.exit_code for error in errors]
    return _exit_code(codes, held=bool(named.held), unusable=named.unusable)


def _exit_code(codes: "Sequence[int]", *, held: bool, unusable: "Sequence[UnusableEntry]") -> int:
    """Return the first code of a failure; else that of what waits, or of a file's bad entry."""
    if codes:
        return codes[0]
    if held:
        return os.EX_TEMPFAIL
    return os.EX_DATAERR if unusable else 0


def _rest(named: FetchNamed) -> dict[str, Any]:
    return {"held": named.held, "unusable": [asdict(one) for one in named.unusable]}


def _tell_unusable(context: Context, unusable: "Sequence[UnusableEntry]") -> None:
    """Say how many entries of files name nothing; each was told with its line before."""
    from threegate.host.output import counted

    if unusable:
        entries = counted(len(unusable), "entry", "entries")
        context.out.line(f"not fetched: {entries} without a usable identifier")


def _refused(work: "FetchWork") -> list[dict[str, Any]]:
    return [
        {"request": request_id, "code": error.code, "reason": error.message, "hint": error.hint}
        for request_id, error in work.refused
    ]


def _tell_refused(context: Context, work: "FetchWork") -> None:
    from threegate.artifacts.ids import short

    for request_id, error in work.refused:
        context.out.line(f"refused {error.code} {short(request_id)}: {error.message}")
        if error.hint:
            context.out.line(f"  hint: {error.hint}")


def tell_held(args: argparse.Namespace, context: Context, named: FetchNamed) -> int:
    """Print the requests that wait for approval, and raise `WaitingForHuman`."""
    from threegate.base.errors import WaitingForHuman

    if args.json:
        context.out.document({"items": [], "requests": [], **_rest(named)})
    else:
        for request_id in named.held:
            context.out.line(f"held {request_id}")
        _tell_unusable(context, named.unusable)
    hint = "`threegate review`, then `threegate fetch --approved`"
    raise WaitingForHuman("policy asks for your approval first", hint=hint)


def finish(context: Context, done: FetchDone, code: int) -> int:
    """Return the exit code of a run whose results were told, or raise what ended it."""
    if done.error is not None:
        raise done.error
    if done.stopped:
        context.out.note(f"interrupted: {_AGAIN}")
        return EX_INTERRUPTED
    return code
