"""`threegate admit`: the operator brings artifacts in, through the same validation as a gate."""

import argparse
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from threegate.host.context import Context
from threegate.host.grammar import Group

if TYPE_CHECKING:
    from threegate.host.offered import Offered
    from threegate.host.workspace import Workspace
    from threegate.untrusted import Untrusted

_ABOUT = """\
The host parses each file itself and stores its own copy; yours stays as it is. What breaks a
rule is kept in quarantine with the reason. A draft of a request gets its time and nonce and
then waits for review. What an artifact was made from must be there, or come before it."""


def add(commands: Group) -> None:
    """Add the command."""
    parser = commands.command(
        "admit",
        "bring artifacts and drafts of requests in",
        run=run,
        about=_ABOUT,
        examples=("admit packet.md", "admit papers/*.md", "admit - < draft.md"),
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file, or - for standard input")


def run(args: argparse.Namespace, context: Context) -> int:
    """Admit every file."""
    results: list[dict[str, Any]] = []
    code, packets = 0, False
    with (
        context.workspace(args) as ws,
        context.out.progress("admitting", len(args.files)) as show,
    ):
        for number, found in enumerate(_admitted(args.files, context, ws), 1):
            show(number)
            if found["status"] in ("quarantined", "refused"):
                code = os.EX_DATAERR
            packets = packets or (found["status"], str(found["id"])[:3]) == ("accepted", "rp-")
            if args.json:
                results.append(found)
            else:
                _tell(context, found)
        if packets:
            _prepare(context, ws)
    if args.json:
        context.out.document({"files": results})
    return code


def _prepare(context: Context, ws: "Workspace") -> None:
    from threegate.host.asking.preparing import prepare_new

    prepare_new(context, ws)


def _admitted(names: list[str], context: Context, ws: "Workspace") -> Iterator[dict[str, Any]]:
    from threegate.handoff.admission import admit
    from threegate.host.drafts import completer
    from threegate.host.offered import read_offered

    waiting: deque[Offered] = deque()

    def readable() -> "Iterator[Untrusted[bytes]]":
        for offered in read_offered(names, context.stdin):
            waiting.append(offered)
            if offered.error is None:
                yield offered.data

    for answer in admit(ws.store, readable(), now=ws.now, complete=completer(ws)):
        yield from _unreadable(waiting)
        found = {"file": waiting.popleft().name, **asdict(answer)}
        yield {**found, "state": _state(ws, answer.id)}
    yield from _unreadable(waiting)


def _unreadable(waiting: "deque[Offered]") -> Iterator[dict[str, Any]]:
    """Yield what stands before the next file that was read."""
    while waiting and (error := waiting[0].error) is not None:
        name = waiting.popleft().name
        why = {"code": error.code, "reason": error.message, "hint": error.hint}
        yield {"file": name, "status": "refused", "sha256": None, "id": None, **why, "state": None}


def _state(ws: "Workspace", artifact_id: str | None) -> str | None:
    from threegate.handoff.states import state_of

    place = None if artifact_id is None else ws.store.locate(artifact_id)
    return None if place is None else state_of(place)


def _tell(context: Context, found: dict[str, Any]) -> None:
    if found["code"] is None:
        state = "" if found["state"] == "accepted" else f" ({found['state']})"
        context.out.line(f"{found['status']}{state} {found['id']} {found['file']}")
        return
    kept = f" {found['sha256'][:12]}" if found["status"] == "quarantined" else ""
    what = f"{found['status']} {found['code']}{kept}"
    context.out.line(f"{what} {found['file']}: {found['reason']}")
    if found["hint"]:
        context.out.line(f"  hint: {found['hint']}")
