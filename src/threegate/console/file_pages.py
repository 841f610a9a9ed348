"""Files that a run left: pictures and tables for the page of its result, and downloads.

The last few pictures are kept: a page and its `<img>` elements are separate requests, and each
would start a sandbox.

SECURITY
    Sends bytes that attacker-influenced code wrote.  The browser gets them as an attachment
    without a type, so it neither renders nor runs them.  A picture is decoded in the
    image-reader sandbox and drawn again; no byte of the file itself is shown, and this process
    opens the bytes only for their digest.  A file is named by its number in the result, so no
    name is ever a path here.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from typing import Final, Generic, TypeVar
from weakref import WeakSet

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_result import OutputFile, ToolResult
from threegate.base.errors import UsageError
from threegate.base.untrusted import Untrusted
from threegate.console.messages import Malformed, Response, plain
from threegate.console.page import Call, ConsolePage
from threegate.handoff import states
from threegate.host.report.facts import LeftFile, ReportImage
from threegate.host.report.outputs import MAX_SHOWN_BYTES, See, Viewer, computed_behind
from threegate.host.report.pdf_file import as_png
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.places import refuse_absent
from threegate.policy.bundle import Bundle

# -- downloads ---------------------------------------------------------------------------


PIECE_BYTES: Final = 256 * 1024  # each has SEND_SECONDS, so a large file may take long
MAX_SENDING_BYTES: Final = 512 * 1024 * 1024  # twice the largest file


class Download(AsyncIterator[bytes]):
    """The rest of a file that is being sent."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data, self._at = data, 0

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        piece = self._data[self._at : self._at + PIECE_BYTES]
        if not piece:
            raise StopAsyncIteration
        self._at += len(piece)
        return piece


class Downloads:
    """Every download under way; one that ended or was cut off is gone from the set."""

    def __init__(self) -> None:
        self._sending: WeakSet[Download] = WeakSet()

    def refuse_more(self, size: int) -> None:
        """Raise `Malformed` if there is no room for `size` bytes now."""
        if size + sum(one.size for one in self._sending) > MAX_SENDING_BYTES:
            raise Malformed("other files are being sent, wait for those")

    def send(self, data: bytes) -> Download:
        """Return a download of these bytes."""
        found = Download(data)
        self._sending.add(found)
        return found


# -- pictures ----------------------------------------------------------------------------


MAX_KEPT: Final = 16  # twice what one page shows


T = TypeVar("T")


class LastFew(Generic[T]):
    """The last few values by key; used in one thread only."""

    def __init__(self, most: int) -> None:
        self._kept: OrderedDict[tuple[str, ...], T] = OrderedDict()
        self._most = most

    def get(self, key: tuple[str, ...]) -> T | None:
        """Return a value that was used now."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: tuple[str, ...], value: T) -> None:
        """Keep a value instead of the one that was not used for the longest time."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)


class Pictures:
    """Decoded pictures by policy and digest; used in one thread only."""

    def __init__(self) -> None:
        self._kept: LastFew[ReportImage] = LastFew(MAX_KEPT)

    def viewer(self, bundle: Bundle) -> See:
        """Return a function that decodes an image, unless it was decoded under this policy."""
        decode = Viewer(bundle)

        def see(data: Untrusted[bytes]) -> ReportImage | str:
            key = bundle.digest, sha256_hex(data.open_for_validation())
            found = self._kept.get(key) or decode(data)
            if isinstance(found, ReportImage):  # a refusal may be that of a busy machine
                self._kept.put(key, found)
            return found

        return see


# Should a browser render it after all: no origin, no script, nothing loaded, no frame.
POLICY: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"
NAVIGATION: Final = "document"  # `Sec-Fetch-Dest` of a clicked link
_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


async def left_by(call: Call, result: ToolResult) -> tuple[LeftFile, ...]:
    """Return every file of a result, with what is shown of it."""
    if not result.files:
        return ()
    return await call.app.slow.do(partial(_left_by, call.subject, call.app.pictures))


def _left_by(result_id: str, pictures: Pictures, live: LiveWorkspace) -> tuple[LeftFile, ...]:
    see = pictures.viewer(live.ws.bundle)
    (found,) = computed_behind(live.ws.store, (result_id,), see)
    return found.files


async def picture(call: Call) -> Response:
    """Send a picture that a run left, drawn again, or say why there is none."""
    act = partial(_picture, call.subject, _number(call), call.app.pictures)
    found = await call.app.slow.do(act)
    if isinstance(found, str):
        return plain(HTTPStatus.UNPROCESSABLE_ENTITY, f"not shown: {found}")
    return Response(body=as_png(found), kind="image/png", policy=POLICY)


def _picture(
    result_id: str, number: int, pictures: Pictures, live: LiveWorkspace
) -> ReportImage | str:
    file = _file(result_id, number, live)
    if file.bytes > MAX_SHOWN_BYTES:
        return f"it has more than {MAX_SHOWN_BYTES} bytes"
    return pictures.viewer(live.ws.bundle)(Untrusted(_bytes(file, live)))


async def download(call: Call) -> Response:
    """Send a file that a run left; the browser keeps it and shows nothing of it."""
    # Only navigation gets a file: an `img` element would ignore `Content-Disposition`.
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


def _file(result_id: str, number: int, live: LiveWorkspace) -> OutputFile:
    refuse_absent(live.ws.store, result_id)
    result = live.ws.store.read(result_id)
    assert isinstance(result, ToolResult)
    if not 0 < number <= len(result.files):
        raise UsageError(f"this result has no file {number}")
    return result.files[number - 1]


def _bytes(file: OutputFile, live: LiveWorkspace) -> bytes:
    try:
        return live.ws.store.read_file(states.BLOBS, file.sha256)
    except FileNotFoundError as exc:
        raise UsageError(f"the bytes of {file.name} are not here any more") from exc


PAGES: Final = (
    ConsolePage("/file/(res-[0-9a-f]{64})/[0-9]{1,3}", download),
    ConsolePage("/picture/(res-[0-9a-f]{64})/[0-9]{1,3}", picture),
)
