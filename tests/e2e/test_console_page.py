"""A quote on its page, in the console and a real browser."""

import io
from collections.abc import Iterator

import pytest
from PIL import Image

from tests.e2e.test_cli_page import PDF, is_marked
from tests.support.cli import made
from tests.support.console import Scene, opened, scene_of, settled
from tests.support.normalization import fetched, pdf_retrieval, retrieval
from threegate.artifacts.ids import sha256_hex
from threegate.console.file_pages import POLICY


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, str, str, str]]:
    """A console with a packet of a PDF, one without, and an answer that quotes the first."""
    cli = made(tmp_path_factory.mktemp("pages"))
    with opened(cli) as ws:
        packet = fetched(ws.store, pdf_retrieval(PDF))
    answer = cli("ask", "--extractive", "What was the strength of sea ice?", "--json").json
    with opened(cli) as ws:
        other = fetched(ws.store, retrieval())
    with scene_of(cli, "--no-run") as scene:
        yield scene, packet, other, str(answer["id"])


def known_of(scene: Scene) -> dict[str, str]:
    """Return what a request of the browser that was let in sends."""
    tab = scene.tab()
    (cookie,) = [one for one in tab.cookies() if one["name"].startswith("threegate-")]
    agent = str(tab.js("navigator.userAgent"))
    return {"User_Agent": agent, "Cookie": f"{cookie['name']}={cookie['value']}"}


def test_a_quote_of_an_answer_leads_to_its_page(served: tuple[Scene, str, str, str]) -> None:
    scene, packet, _, answer = served
    tab = scene.tab(f"/artifact/{answer}")
    link = "[...document.querySelectorAll('main a')].find((a) => a.innerText === 'on its page')"
    path = str(tab.js(f"{link}.getAttribute('href')"))
    assert path.startswith(f"/packet/{packet}/page/1?text=1&offset=")
    tab.open(scene.console.base + path)
    settled(tab)
    assert "Page 1 of 2" in tab.text()
    assert "the quote is marked" in tab.text()
    image = "document.querySelector('main img')"
    tab.wait(f"{image}.complete")
    assert tab.js(f"[{image}.naturalWidth, {image}.naturalHeight]") == [918, 1188], (
        "the picture is loaded under the policy of the page"
    )
    assert tab.js(f"{image}.getAttribute('src')") == path.replace("/page/1?", "/page/1/picture?")
    back = "[...document.querySelectorAll('main a')].map((a) => a.getAttribute('href'))"
    links = list(tab.js(back))
    assert f"/packet/{packet}/page/2" in links
    assert path.replace(f"/packet/{packet}/page/1", f"/artifact/{packet}") + "#quote" in links


def test_a_packet_leads_to_its_pages_if_it_has_some(served: tuple[Scene, str, str, str]) -> None:
    scene, packet, other, _ = served
    known = known_of(scene)

    def ask(path: str) -> tuple[int, dict[str, str], bytes]:
        return scene.console.ask("GET", path, **known)

    link = f'<a href="/packet/{packet}/page/1">Pages of its PDF</a>'
    assert link.encode() in ask(f"/artifact/{packet}")[2]
    assert b"of its PDF" not in ask(f"/artifact/{other}")[2]
    place = "text=1&offset=4&length=20"
    quote = f'<a href="/packet/{packet}/page/1?{place.replace("&", "&amp;")}">The quote on its page'
    assert quote.encode() in ask(f"/artifact/{packet}?{place}")[2]


# claim TG-C-533
def test_the_picture_is_a_file_that_the_host_wrote(served: tuple[Scene, str, str, str]) -> None:
    scene, packet, other, _ = served
    known = known_of(scene)
    page = f"/packet/{packet}/page"
    status, headers, body = scene.console.ask("GET", f"{page}/1/picture", **known)
    assert (status, headers["Content-Type"]) == (200, "image/png")
    assert headers["Content-Security-Policy"] == POLICY
    assert Image.open(io.BytesIO(body)).size == (918, 1188)
    assert not is_marked(body)
    place = "text=1&offset=4&length=20"
    assert is_marked(scene.console.ask("GET", f"{page}/1/picture?{place}", **known)[2])
    missing = scene.console.ask("GET", f"{page}/2?{place}", **known)[2]
    assert b"The words of the quote were not found on this page." in missing
    for path, words in (
        (f"{page}/3", b"there is no page"),
        (f"{page}/0/picture", b"there is no page"),
        (f"{page}/1?text=9&amp;offset=0&length=3", b"Page 1 of 2"),  # no place: no quote
        (f"{page}/1?text=9&offset=0&length=3", b"there is no such place in the packet"),
        (f"{page}/1?text=1&offset=x&length=3", b"that is not a place in a text"),
        (f"/packet/{other}/page/1", b"was not made from a PDF"),
    ):
        assert words in scene.console.ask("GET", path, **known)[2]


# claim TG-C-533
def test_a_picture_that_was_shown_is_gone_with_its_pdf(
    served: tuple[Scene, str, str, str],
) -> None:
    scene, _, _, _ = served
    known = known_of(scene)
    data = PDF.replace(b"1.31", b"2.62")
    with opened(scene.cli) as ws:
        packet = fetched(ws.store, pdf_retrieval(data))
    path = f"/packet/{packet}/page/1/picture"
    assert scene.console.ask("GET", path, **known)[0] == 200, "control: it is kept from now on"
    scene.cli("forget", f"blob-{sha256_hex(data)}", "--reason", "licence", "--yes")
    status, _, body = scene.console.ask("GET", path, **known)
    assert status != 200
    assert b"is not here any more" in body
