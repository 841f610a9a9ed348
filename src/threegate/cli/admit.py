"""`threegate admit`: the operator brings artifacts in, through the same validation as a gate."""

import argparse
import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.base.errors import ArtifactRejected
    from threegate.base.untrusted import Untrusted
    from threegate.handoff.admission import Compare, Packets, Vouched
    from threegate.host.workspace.offered_files import OfferedFile
    from threegate.host.workspace.workspace import Workspace

_ABOUT = """\
The host parses each file itself and stores its own copy; yours stays as it is. A file that breaks
a rule is kept in quarantine with the reason. A draft of a request gets its time and nonce and
then waits for review. The sources of an artifact must be in the workspace, or come before it.

A packet whose retrieval record is here is remade in a sandbox; a difference is refused. Any
other packet is `brought`: lists, answers and reports say that it was not retrieved here. A file
of `packet export --complete` is remade from the record and raw bytes in it, and its packets are
`retrieved` if it is signed by a key that is listed for threegate-packet."""


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "admit",
        "bring artifacts and drafts of requests in",
        run=run,
        about=_ABOUT,
        examples=(
            "admit packet.md",
            "admit papers/*.md",
            "admit - < draft.md",
            "admit colleague.packets",
        ),
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
    from threegate.host.ask.nearness import prepare_new

    prepare_new(context, ws)


def _admitted(names: list[str], context: Context, ws: "Workspace") -> Iterator[dict[str, Any]]:
    from itertools import groupby

    from threegate.host.workspace.offered_files import is_complete_export

    for complete, run in groupby(names, is_complete_export):
        if complete:
            for name in run:
                yield from _delivered(name, context, ws)
        else:
            yield from _offered(list(run), context, ws)


def _delivered(name: str, context: Context, ws: "Workspace") -> Iterator[dict[str, Any]]:
    """Admit the packets of a complete export."""
    from threegate.host.fetch.delivery import admit_complete
    from threegate.host.workspace.offered_files import open_regular

    with open_regular(name) as file, context.index(ws) as index:
        for answer in admit_complete(ws, index, file):
            yield {"file": name, **asdict(answer), "state": _state(ws, answer.id)}


def _offered(names: list[str], context: Context, ws: "Workspace") -> Iterator[dict[str, Any]]:
    from threegate.handoff.admission import admit
    from threegate.host.workspace.drafts import completer
    from threegate.host.workspace.offered_files import read_offered

    waiting: deque[OfferedFile] = deque()

    def readable() -> "Iterator[Untrusted[bytes]]":
        for offered in read_offered(names, context.stdin):
            waiting.append(offered)
            if offered.error is None:
                yield offered.data

    complete, compare = completer(ws), _comparer(ws)
    for answer in admit(ws.store, readable(), now=ws.now, complete=complete, compare=compare):
        yield from _unreadable(waiting)
        found = {"file": waiting.popleft().name, **asdict(answer)}
        yield {**found, "state": _state(ws, answer.id)}
    yield from _unreadable(waiting)


def _comparer(ws: "Workspace") -> "Compare":
    def compare(packets: "Packets") -> "Mapping[str, Vouched | ArtifactRejected]":
        if not packets:
            return {}
        from threegate.host.fetch.remake import compare_with_records

        return compare_with_records(ws, packets)

    return compare


def _unreadable(waiting: "deque[OfferedFile]") -> Iterator[dict[str, Any]]:
    """Yield the unreadable files before the next file that was read."""
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
        how = f": {found['reason']}" if found["reason"] else ""
        context.out.line(f"{found['status']}{state} {found['id']} {found['file']}{how}")
        return
    kept = f" {found['sha256'][:12]}" if found["status"] == "quarantined" else ""
    what = f"{found['status']} {found['code']}{kept}"
    context.out.line(f"{what} {found['file']}: {found['reason']}")
    if found["hint"]:
        context.out.line(f"  hint: {found['hint']}")
