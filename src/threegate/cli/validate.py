"""`threegate validate`: checks files against the artifact formats."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.base.errors import ThreeGateError
    from threegate.base.untrusted import Untrusted

_ABOUT = """\
Prints kind and id of each file, or the rule it breaks. Nothing is stored and no workspace is
needed. A draft of a request has no id before `admit` stamps it. If a file name is an id, the
content must have that id."""


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "validate",
        "check files against the artifact formats",
        run=run,
        about=_ABOUT,
        examples=("validate packet.md", "validate --json *.md", "validate - < packet.md"),
        workspace=False,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file, or - for standard input")


def run(args: argparse.Namespace, context: Context) -> int:
    """Check every file."""
    from threegate.base.errors import ArtifactRejected
    from threegate.host.workspace.offered_files import read_offered

    results: list[dict[str, Any]] = []
    code = 0
    for offered in read_offered(args.files, context.stdin):
        error = offered.error
        found: dict[str, Any] = {"file": offered.name, "ok": True}
        if error is None:
            try:
                found |= _identify(offered.data)
            except ArtifactRejected as exc:
                error = exc
        if error is not None:
            found |= refusal(error)
            code = os.EX_DATAERR if os.EX_DATAERR in (code, error.exit_code) else error.exit_code
        results.append(found)
        if not args.json:
            _tell(context, found)
    if args.json:
        context.out.document({"files": results})
    return code


def refusal(error: "ThreeGateError") -> dict[str, Any]:
    """Return an error as a document has it."""
    return {"ok": False, "code": error.code, "reason": error.message, "hint": error.hint}


def _identify(data: "Untrusted[bytes]") -> dict[str, Any]:
    from threegate.artifacts import registry
    from threegate.artifacts.draft import complete_draft, is_draft
    from threegate.artifacts.ids import prefix_of
    from threegate.base.forms import KINDS

    if is_draft(data):
        request = complete_draft(data, created="2000-01-01T00:00:00Z", nonce="0" * 32)
        return {"kind": KINDS[prefix_of(registry.id_of(request))], "id": None, "draft": True}
    artifact_id = registry.id_of(registry.parse(data))
    return {"kind": KINDS[prefix_of(artifact_id)], "id": artifact_id, "draft": False}


def _tell(context: Context, found: dict[str, Any]) -> None:
    if found["ok"]:
        context.out.line(f"{found['kind']} {found['id'] or '(draft)'} {found['file']}")
        return
    context.out.line(f"rejected {found['code']} {found['file']}: {found['reason']}")
    if found["hint"]:
        context.out.line(f"  hint: {found['hint']}")
