"""A page of the PDF behind a packet as a picture, with a quote marked on it.

Each page is drawn by a fresh sandbox; the host writes the image file.

SECURITY
    Hands a stranger's PDF to a process without network and takes numbers and pixels from it, within
    bounds.  Only bytes that the log ties to the packet are drawn: a brought packet may name the
    digest of any file in this workspace.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from threegate.artifacts.ids import short
from threegate.artifacts.limits import MAX_EXCERPT_CHARS
from threegate.artifacts.media_types import is_pdf
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ArtifactRejected, ProtocolBroken, ThreeGateError, UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.page_drawer.messages import (
    ALL,
    DAMAGED,
    ENCRYPTED,
    MAX_LABEL_CHARS,
    MAX_PDF_BYTES,
    NONE,
    DrawnPage,
    DrawPage,
    PageNotDrawn,
    parse_drawn,
)
from threegate.handoff import states
from threegate.handoff.store import Store
from threegate.host.open_box import ended, open_box
from threegate.host.output import counted
from threegate.host.report.facts import Quote, QuotePage, ReportFacts, ReportImage
from threegate.host.report.pdf_file import packed
from threegate.host.report.sources import FOUND
from threegate.host.workspace.packets import BROUGHT, Origins, PacketOrigin
from threegate.host.workspace.places import read_anywhere, refuse_absent
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import PAGE_DRAWER
from threegate.sandbox.session import run_gate

DEFAULT_SCALE_PERCENT: Final = 200
_WHY: Final = {DAMAGED: "PDFium cannot draw it", ENCRYPTED: "the PDF needs a password"}


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A drawn page; `found` is None where no words were sought."""

    image: ReportImage
    page: int
    pages: int
    found: bool | None
    whole: bool  # all of the words were found

    @property
    def words(self) -> str:
        """Return what the picture shows, for people."""
        shown = f"page {self.page} of {self.pages}"
        if self.found is None:
            return shown
        if not self.found:
            return f"{shown}; the words were not found on it"
        marked = "the words are marked" if self.whole else "a part of the words is marked"
        return f"{shown}; {marked}"


def has_pdf(packet: ResearchPacket) -> bool:
    """Tell whether a packet was made from a PDF."""
    return is_pdf(packet.media_type)


def can_draw(artifact: Artifact | None, artifact_id: str, origins: Origins) -> bool:
    """Tell whether an artifact is a packet whose PDF may be drawn, if it is still here."""
    is_pdf = isinstance(artifact, ResearchPacket) and has_pdf(artifact)
    return is_pdf and _is_tied(origins(artifact_id))


def _is_tied(origin: PacketOrigin) -> bool:
    """Tell whether the log ties the raw bytes to the packet."""
    return origin.name != BROUGHT or origin.consistent


def pdf_of(store: Store, origins: Origins, packet_id: str) -> Untrusted[bytes]:
    """Return the stored PDF of a packet; raise `UsageError` if there is none."""
    refuse_absent(store, packet_id)
    packet = store.read(packet_id)
    name = short(packet_id)
    if not isinstance(packet, ResearchPacket) or not has_pdf(packet):
        hint = f"`threegate packet show {name}` shows its text"
        raise UsageError(f"{name} was not made from a PDF, so it has no pages", hint=hint)
    if not _is_tied(origins(packet_id)):
        hint = "fetch the work here, or admit the packet with its raw bytes"
        raise UsageError(f"{name} was brought without its PDF", hint=hint)
    if not store.has_blob(packet.raw_sha256):
        hint = f"`threegate packet show {name}` shows its text"
        raise UsageError(f"the PDF of {name} is not here any more", hint=hint)
    if packet.raw_bytes > MAX_PDF_BYTES:
        raise UsageError(f"the PDF of {name} has more than {MAX_PDF_BYTES} bytes")
    return Untrusted(store.read_file(states.BLOBS, packet.raw_sha256))


class PageDrawer:
    """Draws pages under one policy; no sandbox starts before the first one."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._machine: Machine | None = None

    def draw(
        self,
        pdf: Untrusted[bytes],
        page: str,
        words: str = "",
        scale_percent: int = DEFAULT_SCALE_PERCENT,
    ) -> PagePicture:
        """Return the picture of a page that is named by its number or label.

        Raises `UsageError` for a page that is not there, `ArtifactRejected` for a PDF that cannot
        be drawn and `GateUnavailable` for a sandbox that ends without an answer.
        """
        asked = _asked(pdf, page, words[:MAX_EXCERPT_CHARS], scale_percent)
        self._machine = self._machine or find_machine()
        kind = partial(run_gate, request=asked.to_bytes())
        answer = open_box(kind, self._machine, self._bundle, PAGE_DRAWER)
        with answer.message as file:
            said = file.read()
        if answer.ended.why != "done":
            raise ended(PAGE_DRAWER, answer.ended.why)
        try:
            found = parse_drawn(Untrusted(said))
        except ProtocolBroken as exc:
            raise ended(PAGE_DRAWER, "protocol") from exc
        if isinstance(found, PageNotDrawn):
            raise _refusal(found, page)
        return _picture(found, sought=bool(words))


def _asked(pdf: Untrusted[bytes], page: str, words: str, scale_percent: int) -> DrawPage:
    try:
        return DrawPage(page.strip(), scale_percent, words, pdf.open_for_validation())
    except ProtocolBroken as exc:
        hint = f"a number, or a label of at most {MAX_LABEL_CHARS} characters such as iv"
        raise UsageError(f"cannot draw page {quote(page)}: {exc.message}", hint=hint) from exc


def _refusal(found: PageNotDrawn, page: str) -> UsageError | ArtifactRejected:
    if found.reason in _WHY:
        hint = "its text is unchanged: `threegate packet show` shows it"
        return ArtifactRejected(f"page {quote(page)}: {_WHY[found.reason]}", hint=hint)
    hint = f"the PDF has {counted(found.pages, 'page')}; name one by its number or its label"
    return UsageError(f"there is no page {quote(page)}", hint=hint)


def _picture(found: DrawnPage, *, sought: bool) -> PagePicture:
    sides = (found.width, found.height) * 2
    image = ReportImage(*sides, packed(found.width, found.points))
    hit = found.marked != NONE if sought else None
    return PagePicture(image, found.page, found.pages, hit, found.marked == ALL)


# Pictures for a report: one for each quote that was found in a packet with a PDF.

MOST_REPORT_PAGES: Final = 40
REPORT_SCALE_PERCENT: Final = 150
NO_PICTURE: Final = "No picture of the page"


def with_pages(ws: Workspace, origins: Origins, report: ReportFacts) -> ReportFacts:
    """Return a report with the page of each quote; a page that cannot be drawn is said in words."""
    pages = _ReportPages(ws, origins)
    claims = tuple(
        replace(claim, quotes=tuple(replace(one, drawn=pages.of(one)) for one in claim.quotes))
        for claim in report.claims
    )
    return replace(report, claims=claims)


class _ReportPages:
    """Pages of quotes, each drawn once."""

    def __init__(self, ws: Workspace, origins: Origins) -> None:
        self._store, self._origins, self._drawer = ws.store, origins, PageDrawer(ws.bundle)
        self._kept: dict[tuple[str, int, str], QuotePage] = {}

    def of(self, one: Quote) -> QuotePage | None:
        packet = read_anywhere(self._store, one.artifact)
        if not isinstance(packet, ResearchPacket) or not has_pdf(packet):
            return None
        if one.page is None or one.standing != FOUND:
            return None
        key = one.artifact, one.page, one.text
        if key not in self._kept:
            if len(self._kept) >= MOST_REPORT_PAGES:
                return QuotePage(f"{NO_PICTURE}: a report has {MOST_REPORT_PAGES} at most")
            self._kept[key] = self._drawn(*key)
        return self._kept[key]

    def _drawn(self, packet_id: str, page: int, text: str) -> QuotePage:
        try:
            pdf = pdf_of(self._store, self._origins, packet_id)
            found = self._drawer.draw(pdf, str(page), text, REPORT_SCALE_PERCENT)
        except ThreeGateError as exc:
            return QuotePage(f"{NO_PICTURE}: {exc.message}")
        return QuotePage(f"The stored PDF, {found.words}", found.image)
