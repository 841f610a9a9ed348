"""The PDF behind a packet: only bytes that the log ties to it are drawn."""

from dataclasses import replace

import pytest

from tests.support.normalization import fetched, pdf_retrieval, retrieval
from tests.support.pdfs import line, pdf
from tests.support.workspaces import take_in
from threegate.base.errors import ArtifactRejected, GateUnavailable, ThreeGateError, UsageError
from threegate.base.untrusted import Untrusted
from threegate.host import open_box
from threegate.host.report.page_drawer import PageDrawer, pdf_of
from threegate.host.workspace.index import Index
from threegate.host.workspace.removal import withdraw
from threegate.host.workspace.workspace import Workspace

PDF = pdf(line("The strength of sea ice was 1.31 MPa."), line("The second page."))


def refused(ws: Workspace, index: Index, packet_id: str) -> ThreeGateError:
    index.catch_up()
    with pytest.raises(ThreeGateError) as caught:
        pdf_of(ws.store, index.origin, packet_id)
    return caught.value


def test_the_pdf_of_a_fetched_packet_is_found(ws: Workspace, index: Index) -> None:
    packet_id = fetched(ws.store, pdf_retrieval(PDF))
    index.catch_up()
    assert pdf_of(ws.store, index.origin, packet_id).open_for_validation() == PDF


def test_a_packet_without_a_pdf_has_no_pages(ws: Workspace, index: Index) -> None:
    error = refused(ws, index, fetched(ws.store, retrieval()))
    assert error.message.endswith("was not made from a PDF, so it has no pages")
    assert "threegate packet show rp-" in error.hint


# claim TG-C-532
def test_a_brought_packet_cannot_show_the_bytes_of_another(ws: Workspace, index: Index) -> None:
    one = pdf_retrieval(PDF, confidentiality="confidential")
    own = fetched(ws.store, one)
    forged = replace(
        one.packet, record_sha256=None, confidentiality="public", retrieved="2026-11-17T00:00:00Z"
    )
    (packet_id,) = take_in(ws, forged)
    error = refused(ws, index, packet_id)
    assert error.message.endswith("was brought without its PDF")
    here = pdf_of(ws.store, index.origin, own).open_for_validation()
    assert here == PDF, "control: the bytes are here, and they are shown for their own packet"


def test_a_withdrawn_packet_shows_nothing(ws: Workspace, index: Index) -> None:
    packet_id = fetched(ws.store, pdf_retrieval(PDF))
    index.catch_up()
    withdraw(ws, index, packet_id, reason="wrong")
    assert "withdrawn" in refused(ws, index, packet_id).message


def drawn_page(ws: Workspace, page: str, words: str = "") -> str:
    return PageDrawer(ws.bundle).draw(Untrusted(PDF), page, words, 100).words


def test_the_words_say_what_the_picture_shows(ws: Workspace) -> None:
    assert drawn_page(ws, "2") == "page 2 of 2"
    assert drawn_page(ws, "1", "sea ice was") == "page 1 of 2; the words are marked"
    assert drawn_page(ws, "1", "zebra") == "page 1 of 2; the words were not found on it"
    long = "strength of sea ice was higher than that of any other"
    assert drawn_page(ws, "1", long) == "page 1 of 2; a part of the words is marked"


@pytest.mark.parametrize(
    ("page", "words"), [("3", 'there is no page "3"'), ("i\nv", "cannot draw page"), ("", "cannot")]
)
def test_a_page_that_is_not_there_is_a_usage_error(ws: Workspace, page: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        drawn_page(ws, page)
    assert caught.value.message.startswith(words)
    assert caught.value.hint


def test_a_damaged_pdf_is_refused(ws: Workspace) -> None:
    with pytest.raises(ArtifactRejected, match='page "1": PDFium cannot draw it'):
        PageDrawer(ws.bundle).draw(Untrusted(b"%PDF-1.7"), "1")


def test_without_the_signed_sandbox_nothing_is_drawn(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise GateUnavailable("the sandbox is another", hint="`threegate policy apply`")

    assert drawn_page(ws, "1"), "control"
    monkeypatch.setattr(open_box, "refuse_unapplied_profile", refuse)
    with pytest.raises(GateUnavailable, match="the sandbox is another"):
        drawn_page(ws, "1")
