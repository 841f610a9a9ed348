"""Files that a run left: pictures and tables on the page of its result, and downloads of all.

SECURITY
    Sends bytes that attacker-influenced code wrote.  The browser gets them as an attachment
    without a type, so it neither renders nor runs them.  A picture is decoded in the
    image-reader sandbox and drawn again; no byte of the file itself is shown.  A file is
    named by its number in the result, so no name is ever a path here.
"""

from functools import partial
from http import HTTPStatus
from typing import Final

from threegate.artifacts.tool_result import OutputFile, ToolResult
from threegate.base.errors import UsageError
from threegate.base.untrusted import Untrusted
from threegate.console.application import Call
from threegate.console.messages import Malformed, Response, plain
from threegate.console.pictures import Pictures
from threegate.console.workspace_threads import Desk
from threegate.handoff import states
from threegate.host.report.facts import Image, LeftFile
from threegate.host.report.outputs import MAX_SHOWN_BYTES, computed_behind
from threegate.host.report.png import as_png
from threegate.host.workspace.places import refuse_absent

# Should a browser render it after all: no origin, no script, nothing loaded, no frame.
POLICY: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"
NAVIGATION: Final = "document"  # what a browser says of a link that somebody clicked
_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


async def left_by(call: Call, result: ToolResult) -> tuple[LeftFile, ...]:
    """Return every file of a result, with what is shown of it."""
    if not result.files:
        return ()
    return await call.app.slow.do(partial(_left_by, call.subject, call.app.pictures))


def _left_by(result_id: str, pictures: Pictures, desk: Desk) -> tuple[LeftFile, ...]:
    see = pictures.viewer(desk.ws.bundle)
    (found,) = computed_behind(desk.ws.store, (result_id,), see)
    return found.files


async def picture(call: Call) -> Response:
    """Send a picture that a run left, drawn again, or say why there is none."""
    act = partial(_picture, call.subject, _number(call), call.app.pictures)
    found = await call.app.slow.do(act)
    if isinstance(found, str):
        return plain(HTTPStatus.UNPROCESSABLE_ENTITY, f"not shown: {found}")
    return Response(body=as_png(found), kind="image/png", policy=POLICY)


def _picture(result_id: str, number: int, pictures: Pictures, desk: Desk) -> Image | str:
    file = _file(result_id, number, desk)
    if file.bytes > MAX_SHOWN_BYTES:
        return f"it has more than {MAX_SHOWN_BYTES} bytes"
    return pictures.viewer(desk.ws.bundle)(Untrusted(_bytes(file, desk)))


async def download(call: Call) -> Response:
    """Send a file that a run left; the browser keeps it and shows nothing of it."""
    # No element of a page, ours included, may take a file in: an `img` ignores the disposition.
    if call.request.headers.get("sec-fetch-dest", NAVIGATION) != NAVIGATION:
        raise Malformed("a file is downloaded and never shown")
    file = await call.app.slow.do(partial(_file, call.subject, _number(call)))
    call.app.downloads.refuse_more(file.bytes)
    data = await call.app.slow.do(partial(_bytes, file))
    headers = (
        ("Content-Disposition", f'attachment; filename="{header_name(file.name)}"'),
        ("Content-Length", str(len(data))),
    )
    sent = call.app.downloads.send(data)
    return Response(kind="application/octet-stream", headers=headers, policy=POLICY, stream=sent)


def header_name(name: str) -> str:
    """Return a file's name for a header: no character in it ends the quotes or the line."""
    return "".join(one if one in _NAME else "_" for one in name).lstrip(".") or "file"


def _number(call: Call) -> int:
    return int(call.request.path.rpartition("/")[2])


def _file(result_id: str, number: int, desk: Desk) -> OutputFile:
    refuse_absent(desk.ws.store, result_id)
    result = desk.ws.store.read(result_id)
    assert isinstance(result, ToolResult)
    if not 0 < number <= len(result.files):
        raise UsageError(f"this result has no file {number}")
    return result.files[number - 1]


def _bytes(file: OutputFile, desk: Desk) -> bytes:
    try:
        return desk.ws.store.read_file(states.BLOBS, file.sha256)
    except FileNotFoundError as exc:
        raise UsageError(f"the bytes of {file.name} are not here any more") from exc
