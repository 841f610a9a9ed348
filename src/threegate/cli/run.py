"""`threegate run`: execute what a human approved."""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from threegate.base.errors import EX_INTERRUPTED, HandoffTampered
from threegate.cli.grammar import CommandGroup
from threegate.cli.interrupt import patience
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.artifacts.tool_result import ToolResult
    from threegate.host.run.lifecycle import Report
    from threegate.host.workspace.workspace import Workspace

_ABOUT = """\
Each request runs once, in a fresh interpreter inside the sandbox, and leaves a result that never
changes. One use of its approval is spent before that. A request that a crash interrupted does not
run again automatically: it waits for you in `threegate review`, or for the next run if its approval
has a use left. Ctrl-C lets the claimed requests, up to 64 at a time, finish, keeps their results
and claims no more; a second Ctrl-C stops at once. If a policy is applied meanwhile, its
`push.running` decides whether running requests are stopped (`limit:policy`) or finish; no more are
claimed under the old rules.

The exit code is 0 if every request left a result, also for a program that failed. A request whose
file was moved or changed by hand is named
and left alone; the others run, and the exit code is 76."""
_WAITS = "what was under way waits in `threegate review`"


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "run",
        "run approved requests",
        run=run,
        about=_ABOUT,
        examples=("run tr-0123456789ab", "run --all", "run --all --json"),
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="an approved request")
    parser.add_argument("--all", action="store_true", help="every approved request")


def run(args: argparse.Namespace, context: Context) -> int:
    """Run the requests and print the outcome of each."""
    from threegate.host.images.choice import current
    from threegate.host.review.decisions import settle
    from threegate.host.run.heavy.gateway import outward_of
    from threegate.host.run.heavy.lane import HeavyLane
    from threegate.host.run.lifecycle import run_requests

    told: list[dict[str, Any]] = []
    aside: dict[str, HandoffTampered] = {}
    with context.workspace(args) as ws:
        settle(ws, context.out.note, aside)
        found = _chosen(args, ws)
        code = _tell_aside(args, context, aside, found, told)
        chosen = [request_id for request_id in found if request_id not in aside]
        places = context.settings
        heavy = partial(
            HeavyLane,
            ws.bundle,
            places.cache_home,
            partial(current, config_home=places.config_home),
            say=context.out.note,
            outward=outward_of(ws.root, places, ws.clock),
        )
        with (
            context.out.progress("running", len(chosen)) as show,
            patience(context, first="ending what was begun", second=_WAITS) as stop,
        ):
            reports = run_requests(ws, chosen, stop=stop.is_set, heavy=heavy)
            for number, report in enumerate(reports, 1):
                show(number)
                code = code or (report.error.exit_code if report.error is not None else 0)
                if args.json:
                    told.append(_plain(report))
                else:
                    _tell(context, report, alone=len(chosen) == 1)
    if args.json:
        context.out.document({"runs": told})
    elif not found:
        context.out.line("nothing is approved")
    return EX_INTERRUPTED if stop.is_set() else code


def _chosen(args: argparse.Namespace, ws: "Workspace") -> list[str]:
    from threegate.base.errors import UsageError
    from threegate.handoff import states
    from threegate.host.workspace.places import resolve

    if bool(args.ids) == args.all:
        hint = "`threegate review list --state approved` shows them"
        raise UsageError("name requests, or say --all, not both", hint=hint)
    if args.ids:
        return list(dict.fromkeys(resolve(ws.store, text) for text in args.ids))
    approved = ws.store.names(states.directory_of("tr", "approved"))
    return sorted(name.removesuffix(".md") for name in approved if name.startswith("tr-"))


def _tell_aside(
    args: argparse.Namespace,
    context: Context,
    aside: dict[str, HandoffTampered],
    found: list[str],
    told: list[dict[str, Any]],
) -> int:
    """Name the requests that were tampered with; they do not run, and the others do."""
    from threegate.host.run.lifecycle import Report

    for request_id, error in aside.items():
        if args.json and request_id in found:
            told.append(_plain(Report(request_id, None, error)))
        else:
            context.out.error(error)
    return max((error.exit_code for error in aside.values()), default=0)


def _plain(report: "Report") -> dict[str, Any]:
    from threegate.host.report.outputs import plain_files

    plain: dict[str, Any] = {"request": report.request_id, "result": None, "error": None}
    if report.error is not None:
        error = report.error
        plain["error"] = {"code": error.code, "reason": error.message, "hint": error.hint}
    if report.made is not None:
        result = report.made.result
        plain |= {"result": report.made.id, "exit": result.exit}
        plain |= {"outcome_sha256": result.outcome_sha256, "wall_ms": result.resources.wall_ms}
        plain |= {"files": plain_files(result)}
    return plain


def _tell(context: Context, report: "Report", *, alone: bool) -> None:
    from threegate.artifacts.ids import short
    from threegate.host.output import counted
    from threegate.host.report.outputs import file_lines

    name, out = short(report.request_id), context.out
    if report.error is not None:
        out.line(f"refused {name} {report.error.code}: {report.error.message}")
        if report.error.hint:
            out.line(f"  hint: {report.error.hint}")
    if report.made is None:
        return
    result = report.made.result
    out.line(f"{result.exit} {name} {short(report.made.id)} {result.resources.wall_ms} ms")
    for words in _why(result):
        out.line(f"  {words}")
    for row in result.carried:
        passed = f"{row.up_bytes} bytes sent, {row.down_bytes} received"
        out.line(f"  spoke to {row.host}: {counted(row.requests, 'request')}, {passed}")
    for words in file_lines(report.made.id, result):
        out.line(f"  {words}")
    if alone:
        texts = {"value": result.value_text, "stdout": result.stdout_text}
        for word, text in {**texts, "stderr": result.stderr_text}.items():
            if text.open_for_display():
                out.line(word)
                out.foreign(text.open_for_display())


def _why(result: "ToolResult") -> list[str]:
    """Return why a run was ended from outside, in the host's and the gate's own words."""
    from threegate.host.run.heavy.lane import ENDED
    from threegate.host.run.results import STOPPED

    if result.exit == STOPPED:
        return ["a policy was applied that replaces its rules and stops what ran under them"]
    return [item.version.replace("-", " ") for item in result.versions if item.name == ENDED]
