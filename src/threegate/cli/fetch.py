"""`threegate fetch`: retrieve works and pages as research packets."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from threegate.base.forms import CONFIDENTIALITY
from threegate.cli import fetch_lists, fetch_run
from threegate.cli.fetch_lists import RELATED_ROWS, ROWS
from threegate.cli.fetch_run import FetchDone, FetchNamed
from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.fetch.targets import NamedTargets
    from threegate.host.workspace.workspace import Workspace

_ABOUT = """\
REF is doi:, arxiv:, pmid:, pmcid: or openalex: with an identifier, a link to one of these, any
https:// URL whose host policy lists, or the id of an approved fetch request. -f reads them from
a file: BibTeX, RIS, CSL-JSON, or one to a line.

`fetch search WORDS --source S` lists what a source finds, `fetch references WORK` what a work
cites and `fetch cited-by WORK` what cites it; WORK is a REF or the id of its packet. Nothing of a
list is fetched unless --get names its numbers. Works that are already here are marked. OpenAlex
lists works by its own identifier: where no packet here has it, the work itself is fetched first.

Everything leaves through the proxy, which connects to listed hosts only; what comes back is
read in a box without any network and kept with its raw bytes. Hosts are asked as often as
policy says and no more. What was asked in vain stands in the packet as a gap.

The exit code is that of the first reference that was refused or failed; else 75 if something
waits for approval; else 65 if an entry of a file names nothing to fetch. A dry run has the code
that policy would give the run: 77 as soon as one reference would be refused.

A reference that was fetched less than --max-age ago is already here. So the same command
again goes on where it was interrupted: what failed is tried again. Ctrl-C keeps what is
complete; a second one stops at once."""


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
            "fetch references doi:10.5555/12345678",
            "fetch cited-by rp-1f2e3d4c --get 1,3-5 --want full-text",
            "fetch --approved",
        ),
    )
    parser.add_argument("refs", nargs="*", metavar="REF", help="what to retrieve; or a list")
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
    _add_list_options(parser)


def _add_list_options(parser: argparse.ArgumentParser) -> None:
    search = "crossref, arxiv, openalex or europepmc"
    related = "crossref (references), openalex or semanticscholar, all if not said"
    of = f"of a search: {search}; of other lists: {related}"
    parser.add_argument("--source", metavar="S", help=of)
    rows = f"of a list: {ROWS} for a search, else {RELATED_ROWS} of each source, if not said"
    parser.add_argument("--rows", type=int, metavar="N", help=rows)
    chosen = "fetch these numbers of the list, such as 1,3-5"
    parser.add_argument("--get", metavar="NUMBERS", help=chosen)


def run(args: argparse.Namespace, context: Context) -> int:
    """Retrieve what was named, and report the result of each."""
    age = _max_age(args)
    with context.workspace(args) as ws:
        ws.refuse_wrong_clock()
        if fetch_lists.is_list(args):
            done, code = fetch_lists.run(args, context, ws, age)
        else:
            done, code = _run_named(args, context, ws, age)
        if done is None:
            return code
        if not done.stopped and any(report.status == "made" for report in done.reports):
            _prepare(context, ws)
    return fetch_run.finish(context, done, code)


def _run_named(
    args: argparse.Namespace, context: Context, ws: "Workspace", age: int
) -> "tuple[FetchDone | None, int]":
    named = _named(args, context, ws)
    if args.dry_run:
        return None, fetch_run.rehearse(args, context, ws, named, age)
    if named.held and not named.requests:
        return None, fetch_run.tell_held(args, context, named)
    done = fetch_run.perform(args, context, ws, named, age)
    return done, fetch_run.tell_end(args, context, done, named)


def _prepare(context: Context, ws: "Workspace") -> None:
    """Let new packets be found by meaning, where that can be told on this machine."""
    from threegate.host.ask.nearness import prepare_new

    prepare_new(context, ws)


def _named(args: argparse.Namespace, context: Context, ws: "Workspace") -> FetchNamed:
    fetch_lists.refuse_options(args)
    chosen = _chosen(args, context, ws)
    given = fetch_run.name_references(args, ws, chosen.references)
    return replace(given, requests=list(chosen.requests), unusable=chosen.unusable)


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
