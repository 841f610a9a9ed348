"""`threegate fetch`: retrieve works and pages as research packets."""

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from threegate.base.errors import EX_INTERRUPTED, ThreeGateError
from threegate.base.forms import CONFIDENTIALITY
from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threegate.host.fetch.dry_run import PlannedQuestion
    from threegate.host.fetch.items import FetchReport
    from threegate.host.fetch.session import FetchWork
    from threegate.host.fetch.targets import FetchTarget, NamedTargets, UnusableEntry
    from threegate.host.workspace.workspace import Workspace

_ABOUT = """\
REF is doi:, arxiv:, pmid:, pmcid: or openalex: with an identifier, a link to one of these, any
https:// URL whose host policy lists, or the id of an approved fetch request. -f reads them from
a file: BibTeX, RIS, CSL-JSON, or one to a line. `fetch search WORDS --source S` lists
candidates without fetching them.

Everything leaves through the proxy, which connects to listed hosts only; what comes back is
read in a box without any network and kept with its raw bytes. Hosts are asked as often as
policy says and no more. What was asked in vain stands in the packet as a gap.

The exit code is that of the first reference that was refused or failed; else 75 if something
waits for approval; else 65 if an entry of a file names nothing to fetch. A dry run has the code
that policy would give the run: 77 as soon as one reference would be refused.

A reference that was fetched less than --max-age ago is already here. So the same command
again goes on where it was interrupted: what failed is tried again. Ctrl-C keeps what is
complete; a second one stops at once."""
ROWS = 20
_AGAIN = "the same command again goes on from here"


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "fetch",
        "retrieve works and pages as research packets",
        run=run,
        about=_ABOUT,
        examples=(
            "fetch doi:10.5555/12345678",
            "fetch arxiv:1706.03762 --want full-text",
            "fetch -f library.bib --dry-run",
            "fetch search sea ice thickness --source crossref",
            "fetch --approved",
        ),
    )
    parser.add_argument("refs", nargs="*", metavar="REF", help="what to retrieve; or `search`")
    parser.add_argument(
        "-f", "--file", action="append", default=[], metavar="FILE", help="a list; - is stdin"
    )
    parser.add_argument(
        "--want",
        choices=("metadata", "full-text"),
        default="metadata",
        help="metadata, if not said",
    )
    parser.add_argument(
        "--enrich", metavar="LIST", help="sources to ask besides the first; none, all, or names"
    )
    parser.add_argument(
        "--max-age", default="24h", metavar="AGE", help="ask again for what is older (24h)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be contacted, contact nobody"
    )
    parser.add_argument("--approved", action="store_true", help="every approved fetch request")
    named, level = "--confidentiality", CONFIDENTIALITY[0]
    about = f"of the packets; {level}"
    parser.add_argument(named, choices=CONFIDENTIALITY, default=level, help=about)
    of = "of a search: crossref, arxiv, openalex or europepmc"
    parser.add_argument("--source", metavar="S", help=of)
    parser.add_argument("--rows", type=int, metavar="N", help=f"of a search: {ROWS}, if not said")


def run(args: argparse.Namespace, context: Context) -> int:
    """Retrieve what was named, and tell what became of each."""
    from threegate.host.fetch.session import dry_run_work

    age, note = _max_age(args), context.out.note
    with context.workspace(args) as ws:
        ws.refuse_wrong_clock()
        named = _named(args, context, ws)
        own, requests = named.own, named.requests
        if args.dry_run:
            work = dry_run_work(ws, own, requests, note)
            return _rehearse(args, context, ws, (work, named.unusable), age)
        if named.held and not requests:
            return _tell_held(args, context, named)
        done = _fetch(args, context, ws, (own, requests), age)
        code = _tell_end(args, context, done, named)
        if not done.stopped and any(report.status == "made" for report in done.reports):
            _prepare(context, ws)
    if done.error is not None:
        raise done.error
    if done.stopped:
        note(f"interrupted: {_AGAIN}")
        return EX_INTERRUPTED
    return code


def _prepare(context: Context, ws: "Workspace") -> None:
    """Let new packets be found by meaning, where that can be told on this machine."""
    from threegate.host.ask.nearness import prepare_new

    prepare_new(context, ws)


@dataclass(frozen=True, slots=True)
class _Named:
    """What the command line asks for."""

    own: "list[FetchTarget]"  # of the operator, without a request
    requests: list[str]  # that were approved
    held: list[str]  # that were made just now, and wait for approval
    unusable: "Sequence[UnusableEntry]" = ()


def _named(args: argparse.Namespace, context: Context, ws: "Workspace") -> _Named:
    from threegate.host.fetch.targets import (
        hold,
        must_be_held,
        read_enrich,
        search_target,
        target_for,
    )

    level = args.confidentiality
    if args.refs[:1] == ["search"]:
        query = " ".join(args.refs[1:])
        source, rows = _source(args), ROWS if args.rows is None else args.rows
        target = search_target(query, ws.bundle, source=source, rows=rows, confidentiality=level)
        return _Named([target], [], [])
    _refuse_search_options(args)
    enrich = read_enrich(args.enrich)
    chosen = _chosen(args, context, ws)
    if chosen.references and must_be_held(ws) and not args.dry_run:
        held = hold(ws, chosen.references, want=args.want, confidentiality=level)
        return _Named([], list(chosen.requests), held, chosen.unusable)
    targets = [
        target_for(item, ws.bundle, want=args.want, enrich=enrich, confidentiality=level)
        for item in chosen.references
    ]
    return _Named(targets, list(chosen.requests), [], chosen.unusable)


def _source(args: argparse.Namespace) -> str:
    from threegate.artifacts.references import SEARCHABLE
    from threegate.base.errors import UsageError

    if args.source is None:
        raise UsageError("a search needs --source", hint=f"one of {', '.join(SEARCHABLE)}")
    return str(args.source)


def _refuse_search_options(args: argparse.Namespace) -> None:
    from threegate.base.errors import UsageError

    if args.source is not None or args.rows is not None:
        hint = "`threegate fetch search WORDS --source S`; --enrich names the sources of a work"
        raise UsageError("--source and --rows belong to a search", hint=hint)


def _chosen(args: argparse.Namespace, context: Context, ws: "Workspace") -> "NamedTargets":
    from threegate.base.errors import UsageError
    from threegate.host.fetch.session import all_approved
    from threegate.host.fetch.targets import read_targets
    from threegate.host.review.decisions import settle
    from threegate.host.workspace.places import resolve

    chosen = read_targets(
        args.refs,
        args.file,
        stdin=context.stdin,
        resolve=lambda text: resolve(ws.store, text),
        note=context.out.note,
    )
    if args.approved or chosen.requests:
        settle(ws, context.out.note)
    if args.approved:
        requests = dict.fromkeys([*chosen.requests, *all_approved(ws)])
        return replace(chosen, requests=tuple(requests))
    if not (chosen.references or chosen.requests or args.file):
        hint = "`threegate fetch --help` shows every kind of reference"
        raise UsageError("name what to fetch, or say --approved", hint=hint)
    return chosen


def _max_age(args: argparse.Namespace) -> int:
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.policy.leaves import SECONDS

    try:
        return SECONDS.parse(args.max_age)
    except ValueError as exc:
        hint = "such as 90s, 30m, 24h or 7d; 0s asks in any case"
        raise UsageError(f"{quote(args.max_age)} is no age: {exc}", hint=hint) from exc


def _rehearse(
    args: argparse.Namespace,
    context: Context,
    ws: "Workspace",
    planned: "tuple[FetchWork, Sequence[UnusableEntry]]",
    age: int,
) -> int:
    from threegate.host.fetch import dry_run
    from threegate.host.fetch.budgets import budgets_of

    settings, out = context.settings, context.out
    work, unusable = planned
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
class _Done:
    """What a run came to, without the texts of its packets."""

    work: "FetchWork"
    reports: "list[FetchReport]" = field(default_factory=list)
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    stopped: bool = False
    error: ThreeGateError | None = None


def _fetch(
    args: argparse.Namespace,
    context: Context,
    ws: "Workspace",
    named: "tuple[list[FetchTarget], list[str]]",
    age: int,
) -> _Done:
    from threegate.host.fetch import text_form
    from threegate.host.fetch.session import fetch

    with _patience(context) as stop, context.out.board(context.environ) as draw:
        progress = text_form.FetchProgress(draw, note=context.out.note)
        work, reports = fetch(
            ws,
            context.settings,
            *named,
            max_age_seconds=age,
            stop=stop.is_set,
            show=progress.moment,
            note=context.out.note,
        )
        done, progress.total = _Done(work), len(work.targets)
        try:
            for report in reports:
                if args.json:
                    done.documents[report.number] = text_form.document(report)
                else:
                    for text in text_form.lines(report):
                        context.out.line(text)
                progress.ended(report)
                done.reports.append(replace(report, packet=None))
        except ThreeGateError as exc:  # said when everything before it is
            done.error = exc
        done.stopped = stop.is_set()
    return done


def _tell_end(args: argparse.Namespace, context: Context, done: _Done, named: _Named) -> int:
    """Say what all came to, and return the exit code."""
    from threegate.host.fetch import text_form

    work = done.work
    if args.json:
        items = [done.documents[number] for number in sorted(done.documents)]
        context.out.document({"items": items, "requests": _refused(work), **_rest(named)})
    else:
        _tell_refused(context, work)
        for request_id in named.held:
            context.out.line(f"held {request_id}")
        _tell_unusable(context, named.unusable)
        if len(work.targets) > 1:
            context.out.note(text_form.totals(done.reports, len(work.targets)))
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


def _rest(named: _Named) -> dict[str, Any]:
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


def _tell_held(args: argparse.Namespace, context: Context, named: _Named) -> int:
    from threegate.base.errors import WaitingForHuman

    if args.json:
        context.out.document({"items": [], "requests": [], **_rest(named)})
    else:
        for request_id in named.held:
            context.out.line(f"held {request_id}")
        _tell_unusable(context, named.unusable)
    hint = "`threegate review`, then `threegate fetch --approved`"
    raise WaitingForHuman("policy asks for your approval first", hint=hint)


@contextmanager
def _patience(context: Context) -> Iterator[threading.Event]:
    """Let an interrupt end the run after what is complete, and a second one end it at once."""
    stop = threading.Event()

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            context.out.urgent(f"stopped: {_AGAIN}")
            os._exit(EX_INTERRUPTED)  # boxes end with us
        stop.set()
        context.out.urgent("interrupted: storing what is complete; again to stop at once")

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
