"""`threegate replay`: run an old request again and compare how it ends."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.run.replay import Replayed

_ABOUT = """\
The same code on the same inputs within the same limits, in a fresh interpreter. Exit state,
value and output are compared by digest with what the result recorded; nothing is stored but
the verdict, in the audit log, and no approval is spent. Runs that ended at a time or memory
limit, or crashed, cannot be compared: the verdict is not-reproducible. An outcome that is not
the same is different, or not-comparable if the interpreter, the C library's libm or the kind of
processor is another one: numbers may then end in other digits, and nobody lied.
The exit code is 0 if every outcome that was compared is the same, 65 if one is not."""


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "replay",
        "run what led to a result again and compare",
        run=run,
        about=_ABOUT,
        examples=("replay res-0123456789ab", "replay res-0123456789ab --json"),
    )
    parser.add_argument("ids", nargs="+", metavar="RES", help="a tool result")


def run(args: argparse.Namespace, context: Context) -> int:
    """Replay each result."""
    from threegate.artifacts.ids import prefix_of
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.run.replay import UNLIKE, replay
    from threegate.host.workspace.places import refuse_absent, resolve

    code, told = 0, []
    with context.workspace(args) as ws, context.out.progress("replaying", len(args.ids)) as show:
        for number, text in enumerate(args.ids, 1):
            result_id = resolve(ws.store, text)
            if prefix_of(result_id) != "res":
                hint = "`threegate result list` shows them"
                raise UsageError(f"{quote(text)} is not a result", hint=hint)
            refuse_absent(ws.store, result_id)
            found = replay(ws, result_id)
            show(number)
            if found.verdict in UNLIKE:
                code = os.EX_DATAERR
            if args.json:
                told.append(_plain(found))
            else:
                _tell(context, found)
    if args.json:
        context.out.document({"replays": told})
    return code


def _plain(found: "Replayed") -> dict[str, Any]:
    again = found.again
    return {
        "result": found.result_id,
        "verdict": found.verdict,
        "why": found.why,
        "recorded": {"exit": found.recorded.exit, "outcome": found.recorded.outcome_sha256},
        "again": None if again is None else {"exit": again.exit, "outcome": again.outcome_sha256},
        "other_versions": list(found.other_versions),
    }


def _tell(context: Context, found: "Replayed") -> None:
    from threegate.artifacts.ids import short

    out = context.out
    out.line(f"{found.verdict} {short(found.result_id)}" + (f": {found.why}" if found.why else ""))
    if found.again is not None and found.verdict != "same":
        for word, result in (("recorded", found.recorded), ("this time", found.again)):
            out.line(f"  {word:<9} {result.exit} {result.outcome_sha256}")
    if found.other_versions:
        out.line(f"  other versions: {', '.join(found.other_versions)}")
