"""Pages of the PDF behind a packet, drawn with a quote marked.

The page and its picture are separate requests; the last few pictures are kept.

SECURITY
    Sends pictures that a sandbox drew from a stranger's PDF.  A link names a text of the stored
    packet by number and place, so no words of a URL are sought or shown.
"""

from functools import partial
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import UsageError
from threegate.console.file_pages import POLICY, LastFew
from threegate.console.messages import Response
from threegate.console.page import Call, ConsolePage, TextPlace, at_place, text_place
from threegate.host.report.page_drawer import PageDrawer, PagePicture, pdf_of
from threegate.host.report.pdf_file import as_png
from threegate.host.workspace.live import LiveWorkspace

SCALE_PERCENT: Final = 150
MAX_DRAWN: Final = 8


class DrawnPages:
    """Pages that were drawn last, by policy, packet, page and words; used in one thread only."""

    def __init__(self) -> None:
        self._kept: LastFew[PagePicture] = LastFew(MAX_DRAWN)

    def draw(
        self, packet_id: str, page: str, place: TextPlace | None, live: LiveWorkspace
    ) -> PagePicture:
        """Return a page; raise a `ThreeGateError` if there is none."""
        # What is kept may be withdrawn or forgotten by now, so the PDF is always asked for.
        pdf = pdf_of(live.ws.store, live.index.origin, packet_id)
        words = "" if place is None else _words(packet_id, place, live)
        key = live.ws.bundle.digest, packet_id, page, sha256_hex(words.encode("utf-8"))
        found = self._kept.get(key)
        if found is None:
            found = PageDrawer(live.ws.bundle).draw(pdf, page, words, SCALE_PERCENT)
            self._kept.put(key, found)
        return found


def _words(packet_id: str, place: TextPlace, live: LiveWorkspace) -> str:
    packet = live.ws.store.read(packet_id)
    assert isinstance(packet, ResearchPacket)
    number, offset, length = place
    text = ""
    if 0 < number <= len(packet.texts):
        text = packet.texts[number - 1].open_for_display()[offset : offset + length]
    if not text:
        raise UsageError("there is no such place in the packet")
    return text


async def page(call: Call) -> Response:
    """Show a page of a packet's PDF."""
    path, place = call.request.path, text_place(call)
    found = await _drawn(call, path.rpartition("/")[2])
    return call.show(
        "packet_page",
        here="/packets",
        id=call.subject,
        drawn=found,
        picture=at_place(f"{path}/picture", place),
        quote=at_place(f"/artifact/{call.subject}", place) + ("#quote" if place else ""),
    )


async def picture(call: Call) -> Response:
    """Send the picture of a page."""
    found = await _drawn(call, call.request.path.split("/")[-2])
    return Response(body=as_png(found.image), kind="image/png", policy=POLICY)


async def _drawn(call: Call, number: str) -> PagePicture:
    act = partial(call.app.drawn.draw, call.subject, number, text_place(call))
    return await call.app.slow.do(act)


_PATH: Final = "/packet/(rp-[0-9a-f]{64})/page/[0-9]{1,7}"

PAGES: Final = (
    ConsolePage(_PATH, page, title="A page"),
    ConsolePage(f"{_PATH}/picture", picture),
)
