"""`threegate policy status|push`, and the wait of `policy apply`: what executors enforce."""

import argparse
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.run.warm.executors import Row
    from threegate.host.workspace.workspace import Workspace
    from threegate.policy.bundle import Bundle

WAIT_SECONDS = 60
LOOK_SECONDS = 0.1
NOBODY = "no executor is running: `threegate serve` keeps some"
_STATUS = """\
Executors are the sandboxes that wait for approved requests under `threegate serve`. Each row is the
last state of one executor in the log, after it was read back and probed: `applied` with the policy
it enforces; `restart-required`: it gets no work until `serve` has restarted it; `unavailable`, with
the reason."""
_PUSH = """\
An applied policy reaches every executor without this command. This command asks each of them again
to take over the policy in force, to try its lock and to report what it enforces, and waits for the
answers. It also ends a quarantine. Exit code 69 if one of them is not `applied` by then. With
--wait 0 the command does not wait and does not check."""


def add(group: CommandGroup) -> None:
    """Add the commands to the group."""
    group.command(
        "status",
        "show what every running executor enforces",
        run=run_status,
        about=_STATUS,
        examples=("policy status", "policy status --json"),
    )
    push = group.command(
        "push",
        "have every running executor take over what is in force, and prove it",
        run=run_push,
        about=_PUSH,
        examples=("policy push", "policy push --wait 300"),
    )
    add_wait(push)


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how long to wait for executors."""
    parser.add_argument(
        "--wait",
        type=int,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help=f"for the executors, else {WAIT_SECONDS}; 0: do not",
    )


def run_status(args: argparse.Namespace, context: Context) -> int:
    """Print the table."""
    with context.workspace(args, reading=True) as ws:
        rows = look(ws)
        place = {"generation": ws.bundle.generation, "digest": ws.bundle.digest}
    if args.json:
        context.out.document({**place, "executors": plain(rows)})
        return 0
    context.out.line(f"in force: generation {place['generation']}, {place['digest']}")
    show(context, rows)
    return 0


def run_push(args: argparse.Namespace, context: Context) -> int:
    """Ask, wait, print the table."""
    from threegate.host.run.warm.executors import ask_again

    with context.workspace(args) as ws:
        asked = ask_again(ws.store, ws.bundle.generation)
        rows = wait(ws, asked, ws.bundle, args.wait)
    if args.json:
        context.out.document({"generation": ws.bundle.generation, "executors": plain(rows)})
    else:
        show(context, rows)
    return exit_code(rows, asked, ws.bundle, args.wait)


def look(ws: "Workspace") -> "list[Row]":
    """Return every executor as it is now."""
    from threegate.host.run.warm.executors import live_executors

    with ws.store.locked() as journal:
        return live_executors(journal.log)


def wait(ws: "Workspace", asked: int, bundle: "Bundle", seconds: float) -> "list[Row]":
    """Wait until every executor has answered since an entry of the log; return the table."""
    end = time.monotonic() + seconds
    while True:
        rows = look(ws)
        if all(row.has_answered(asked, bundle) for row in rows) or time.monotonic() >= end:
            return rows
        time.sleep(LOOK_SECONDS)


def exit_code(rows: "Sequence[Row]", asked: int, bundle: "Bundle", seconds: float) -> int:
    """Return 69 if an executor does not enforce the policy in force after the wait."""
    if seconds == 0:
        return os.EX_OK  # the command did not wait
    done = all(row.entry >= asked and row.enforces(bundle) for row in rows)
    return os.EX_OK if done else os.EX_UNAVAILABLE


def plain(rows: "Sequence[Row]") -> list[dict[str, Any]]:
    """Return the table for `--json`."""
    return [row.plain() for row in rows]


def show(context: Context, rows: "Sequence[Row]") -> None:
    """Print the table."""
    if not rows:
        context.out.line(NOBODY)
        return
    head = ("EXECUTOR", "STATE", "GENERATION", "POLICY", "SINCE", "WHY")
    context.out.table(head, [_cells(row) for row in rows])


def _cells(row: "Row") -> tuple[str, ...]:
    status = row.status
    why = f"{status.reason} [{status.code}]" if status.code else status.reason
    rules = (str(status.generation or "-"), status.policy[:12] or "-")
    return (status.executor, status.state, *rules, row.time, why or "-")
