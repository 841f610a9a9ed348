"""Files on their way to a browser: their names, their pieces, and how many there are at once."""

import asyncio
import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.policies import policy
from threegate.base.untrusted import Untrusted
from threegate.console import file_pages
from threegate.console.access import BrowserSession
from threegate.console.file_pages import (
    MAX_SENDING_BYTES,
    PIECE_BYTES,
    Download,
    Downloads,
    header_name,
)
from threegate.console.messages import Malformed
from threegate.host.report.facts import ReportImage

FILE_BYTES = MAX_SENDING_BYTES // 2


async def all_of(one: Download) -> list[bytes]:
    return [piece async for piece in one]


def test_a_download_is_every_byte_in_pieces() -> None:
    data = bytes(range(256)) * (PIECE_BYTES // 256) * 2 + b"end"
    found = asyncio.run(all_of(Download(data)))
    assert [len(piece) for piece in found] == [PIECE_BYTES, PIECE_BYTES, 3]
    assert b"".join(found) == data
    assert asyncio.run(all_of(Download(b""))) == []


def test_so_many_bytes_are_sent_at_once_and_a_download_that_ended_leaves_room() -> None:
    downloads = Downloads()
    downloads.refuse_more(MAX_SENDING_BYTES)  # control: alone, it is let go
    first, second = (downloads.send(bytes(FILE_BYTES)) for _ in range(2))
    with pytest.raises(Malformed, match="other files are being sent"):
        downloads.refuse_more(1)
    del second
    gc.collect()
    downloads.refuse_more(FILE_BYTES)
    with pytest.raises(Malformed, match="other files are being sent"):
        downloads.refuse_more(FILE_BYTES + 1)
    assert first.size == FILE_BYTES


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plot-1_a.png", "plot-1_a.png"),
        ("x\"; filename*=UTF-8''y.exe", "x___filename__UTF-8__y.exe"),
        ("x\r\nSet-Cookie: a=b", "x__Set-Cookie__a_b"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("..", "file"),
        (".bashrc", "bashrc"),
        ("\u202etxt.exe", "_txt.exe"),
    ],
)
# claim TG-C-461
def test_a_name_in_a_header_ends_neither_quotes_nor_line(name: str, shown: str) -> None:
    assert header_name(name) == shown


@given(st.text())
def test_no_name_breaks_a_header(name: str) -> None:
    found = header_name(name)
    assert found
    assert found.isascii()
    assert not found.startswith(".")
    assert not set(found) & set('"\\\r\n/;')


def test_a_picture_is_decoded_once_under_each_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    class Viewer:
        def __init__(self, _: object) -> None: ...

        def __call__(self, data: Untrusted[bytes]) -> ReportImage | str:
            decoded.append(data.open_for_validation())
            return "damaged" if decoded[-1] == b"bad" else ReportImage(1, 1, 1, 1, b"")

    monkeypatch.setattr(file_pages, "Viewer", Viewer)
    monkeypatch.setattr(file_pages, "MAX_KEPT", 2)
    bundle, kept = policy().bundle(), file_pages.Pictures()
    for data in (b"a", b"a", b"b", b"a", b"c", b"a", b"b", b"bad", b"bad"):
        kept.viewer(bundle)(Untrusted(data))
    assert decoded == [b"a", b"b", b"c", b"b", b"bad", b"bad"], "the latest are kept, no refusal is"


def test_what_was_done_is_told_again_by_the_same_page_and_by_no_other() -> None:
    session = BrowserSession("", 0.0, 0.0)
    session.said = "approved"
    assert [session.tell("/request/a"), session.tell("/request/a")] == ["approved"] * 2
    assert [session.tell("/inbox"), session.tell("/request/a")] == ["", ""]
    session.said = "denied"
    assert [session.tell(""), session.tell("")] == ["denied", ""], "a page without a path: once"
