"""The file and line of a quote."""

from collections.abc import Callable

import pytest

from tests.support.normalization import got, made
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.provenance.lines import line_of

COMMIT = "ab" * 20
TEXT = "\n\n" + "".join(f"value_{n} = {n}\n" for n in range(3, 500))


def reader(packet: ResearchPacket) -> Callable[[str], Artifact | None]:
    return lambda _: packet


def imported(url: str, source: str) -> ResearchPacket:
    one = got(source, TEXT.encode(), "text/plain", role="document", url=url, media_type="")
    return made(one)


@pytest.mark.parametrize("number", [3, 4, 199, 200, 201, 202, 499])
def test_a_quote_of_a_commit_names_its_line(number: int) -> None:
    packet = imported(f"git:{COMMIT}/src/%2Eice%20core.py", "git")
    words = f"value_{number} ="
    for text_number, text in enumerate(packet.texts, 1):
        offset = text.open_for_display().find(words)
        if offset >= 0:
            found = line_of("rp-x", text_number, offset, reader(packet))
            assert found == f"src/.ice core.py:{number}"
            return
    raise AssertionError("not found")


def test_a_text_file_of_the_operator_has_lines_too() -> None:
    assert line_of("rp-x", 1, 0, reader(imported("file:notes.txt", "file"))) == "notes.txt:3"


def test_a_name_cannot_pass_for_two_lines_or_colour_a_terminal() -> None:
    packet = imported(f"git:{COMMIT}/a%0A%1B%5B31m.py", "git")
    shown = line_of("rp-x", 1, 0, reader(packet))
    assert shown is not None
    assert shown.isprintable()


def test_other_sources_have_no_lines() -> None:
    page = made(got("url", TEXT.encode(), "text/plain", role="document"))
    assert line_of("rp-x", 1, 0, reader(page)) is None
    assert line_of("rp-x", 9, 0, reader(imported("file:notes.txt", "file"))) is None
    assert line_of("rp-x", 1, 0, lambda _: None) is None
