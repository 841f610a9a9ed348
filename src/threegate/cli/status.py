"""`threegate status`: an overview of the workspace."""

import argparse
import os
from collections.abc import Iterator
from typing import Any

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context
from threegate.host.output import counted

_MOST_NAMED = 5
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def add(commands: CommandGroup) -> None:
    """Add the command."""
    commands.command(
        "status",
        "show policy, log, what waits and how much room is left",
        run=run,
        examples=("status", "status --json", "-w ~/research status"),
    )


def run(args: argparse.Namespace, context: Context) -> int:
    """Print the overview."""
    from threegate.host.status import overview

    with context.workspace(args, reading=True) as ws, context.index(ws) as index:
        found = overview(ws, index)
    if args.json:
        context.out.document(found)
        return 0
    context.out.fields(_fields(found))
    _tell_retracted(context, found["answers_on_retracted"])
    for stray in found["strays"]:
        context.out.line(f"  {stray}")
    context.out.line()
    head = ("FILES", "OF", "BYTES", "OF", "DIRECTORY")
    rows = [_row(row) for row in found["usage"] if row["files"]]
    if rows:
        context.out.table(head, rows)
    else:
        context.out.line("no artifacts yet: `threegate fetch` and `threegate admit` bring some in")
    return os.EX_OK


def _fields(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "workspace", found["workspace"]
    yield "id", f"{found['id']}, made {found['created']}"
    policy = found["policy"]
    place = f"generation {policy['generation']}, {policy['digest'][:12]}"
    yield "policy", f"{place}, applied {policy['applied']}"
    yield "policy/", _files(policy)
    yield (
        "log",
        f"{counted(found['log']['entries'], 'entry', 'entries')}, last {found['log']['last']}",
    )
    size = found["checkpoint"]
    since = found["log"]["entries"] - (size or 0)
    yield "checkpoint", "none" if size is None else f"{counted(since, 'entry', 'entries')} ago"
    behind = found["clock_behind_seconds"]
    yield "clock", f"{behind} seconds behind the log" if behind else "not behind the log"
    waiting = found["waiting"]
    held = counted(waiting["held"], "request")
    yield "waiting", f"{held} held, {counted(waiting['draft'], 'draft')}"
    claims = found["claims"]
    dead = ", ".join(claims["dead"])
    yield "claims", f"{len(claims['alive'])} running" + (f", abandoned: {dead}" if dead else "")
    answers = found["answers_on_retracted"]
    if answers:
        yield "RETRACTED", f"{counted(len(answers), 'answer')} on retracted works, see below"
    yield "stray files", str(len(found["strays"]) or "none")


def _tell_retracted(context: Context, answers: list[dict[str, str]]) -> None:
    """Print the questions of answers that rest on retracted works, foreign text last."""
    from threegate.artifacts.ids import short

    for one in answers[:_MOST_NAMED]:
        context.out.line(f'  RETRACTED {short(one["id"])} "{one["question"]}"')
    if len(answers) > _MOST_NAMED:
        context.out.line(
            f"  RETRACTED {len(answers) - _MOST_NAMED} more: `threegate analysis list`"
        )


def _files(policy: dict[str, Any]) -> str:
    if policy["files"] == "invalid":
        return f"edited and invalid, not in force: {policy['problem']}"
    if policy["files"] == "edited":
        count = f"{counted(policy['changes'], 'rule')}, {policy['widening']} wider"
        return f"edited, not in force: {count}; `threegate policy diff`"
    words = {"as applied": "as applied", "reworded": "as applied, but for prose"}
    return words[policy["files"]]


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    files = (str(row["files"]), str(row["max_files"]))
    return (*files, size(row["bytes"]), size(row["max_bytes"]), row["directory"])


def size(count: int) -> str:
    """Return a number of bytes for people."""
    shown, unit = float(count), 0
    while shown >= 1024 and unit < len(_UNITS) - 1:
        shown, unit = shown / 1024, unit + 1
    return f"{shown:.0f} {_UNITS[unit]}" if shown == int(shown) else f"{shown:.1f} {_UNITS[unit]}"
