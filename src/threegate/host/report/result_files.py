"""The files that a run left: named, and written where the operator says.

SECURITY
    Writes bytes of attacker-influenced code under names it chose.  The format of results admits
    plain file names alone; none reaches outside the directory or begins with a dot.  Nothing
    is written over a file without `over`, through a link, or into the workspace's own parts.
"""

import os
from pathlib import Path
from typing import Any

from threegate.artifacts.ids import short
from threegate.artifacts.tool_result import ToolResult
from threegate.base.errors import StorageFailed, UsageError
from threegate.base.text import quote
from threegate.handoff import states
from threegate.host.atomic_file import write_together
from threegate.host.workspace.setup import OURS
from threegate.host.workspace.workspace import Workspace
from threegate.policy.leaves import sized


def plain_files(result: ToolResult) -> list[dict[str, Any]]:
    """Return name, size and digest of each file."""
    return [{"name": one.name, "bytes": one.bytes, "sha256": one.sha256} for one in result.files]


def file_lines(result_id: str, result: ToolResult) -> list[str]:
    """Return a line for each file a run left, and one that says how to get them."""
    if not result.files:
        return []
    lines = [f"left {one.name}, {sized(one.bytes)}" for one in result.files]
    return [*lines, f"`threegate result export {short(result_id)} DIRECTORY` writes them"]


def export_files(ws: Workspace, result_id: str, directory: Path, *, over: bool) -> ToolResult:
    """Write every file of a result into `directory`, or none of them; return the result."""
    result = ws.store.read(result_id)
    assert isinstance(result, ToolResult)
    if not result.files:
        hint = f"`threegate result show {short(result_id)}` shows what it printed"
        raise UsageError(f"{short(result_id)} left no files", hint=hint)
    _refuse_ours(ws.root, directory)
    files = {directory / one.name: _bytes_of(ws, one.name, one.sha256) for one in result.files}
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as exc:
        why = (getattr(exc, "strerror", None) or "no such name").lower()
        raise StorageFailed(f"cannot make {quote(str(directory))}: {why}") from exc
    write_together(files, over=over)
    return result


def _bytes_of(ws: Workspace, name: str, digest: str) -> bytes:
    if not ws.store.has_blob(digest):
        raise UsageError(f"the bytes of {name} are not here any more")
    return ws.store.read_file(states.BLOBS, digest)


def _refuse_ours(root: Path, directory: Path) -> None:
    """Refuse the workspace itself: a file called like one of its own would take its place."""
    try:
        inside = Path(os.path.realpath(directory)).relative_to(os.path.realpath(root)).parts
    except ValueError:
        return
    if not inside or inside[0] in OURS:
        hint = "name a directory of its own"
        raise UsageError(f"{quote(str(directory))} belongs to the workspace", hint=hint)
