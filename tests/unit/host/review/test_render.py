"""The sheet on a screen: everything is there, and nothing foreign leaves its gutter."""

import io
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.policies import policy
from tests.support.requests import Screen, code_read_back, drafted, held, printed, program
from tests.support.samples import box, escalated, fetch_request, packet
from tests.support.workspaces import fetched_in, make_workspace
from threegate.artifacts.references import parse_reference, questions
from threegate.host.output import Output
from threegate.host.review import parts
from threegate.host.review.characters import tally
from threegate.host.review.code_flags import lex
from threegate.host.review.contents import foreign_texts
from threegate.host.review.parts import plain
from threegate.host.review.render import age, lines
from threegate.host.review.sheet import ReviewSheet
from threegate.host.review.terminal.cells import rows, width
from threegate.host.workspace.workspace import Workspace

GUTTER = re.compile(r" *[0-9]* ?[|!:](?: |\Z)")
# What could pass for a line of ours at the first column.
PLAYED = "threegate: approved [y/N]"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f]")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with closing(make_workspace(tmp_path)) as found:
        yield found


def with_code(sheet: ReviewSheet, code: str) -> ReviewSheet:
    """Return a sheet whose code is any text, even one that no artifact may hold."""
    assert sheet.tool is not None
    size = len(code.encode("utf-8", "surrogatepass"))
    found = parts.Code(code, "0" * 64, size, tuple(code.split("\n")), lex(code).tokens)
    return replace(sheet, tool=replace(sheet.tool, code=found))


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> ReviewSheet:
    with closing(make_workspace(tmp_path_factory.mktemp("sheet"))) as found:
        return held(found, program())


def test_everything_of_a_tool_request_is_there(ws: Workspace) -> None:
    (source,) = fetched_in(ws, packet())
    request = drafted(program("x = 1\n", purpose=box("Why\nnot?")), derived_from=(source,))
    text = "\n".join(printed(held(ws, request)))
    for words in (
        "state      draft",
        "by core",
        "lane       monty, profile pure, no network",
        "labels     external, internal",
        "    | Why\n    | not?",
        "1 of 3: external input yes, confidential data no, network no",
        "ask: lane monty runs what a human approved (policy/tool-exec.policy.md:",
        "    1 | x = 1",
        "sha256_hex  the SHA-256 of a text",
        "wall time",
        "hosts: api.crossref.org",
        "On the toughness of ice",
        "None beyond wrong arithmetic.",
    ):
        assert words in text, words


def test_everything_of_a_fetch_request_is_there(ws: Workspace) -> None:
    url = "https://arxiv.org/list/c2VjcmV0IHBhc3N3b3JkIGlzIGh1bnRlcjI?q=%C3%BC"
    text = "\n".join(printed(held(ws, fetch_request(references=(box(url),)))))
    assert f"    1 | {url}" in text
    assert "query 1" in text
    assert "q=\u00fc" in text
    assert "could carry data out" in text
    assert "allow: arxiv.org is allowed (policy/fetch.policy.md:" in text


def told(sheet: ReviewSheet) -> list[str]:
    """Return the lines of a sheet as they are before anything breaks them."""
    return [line.head.text + "".join(span.text for span in line.spans) for line in lines(sheet)]


# claim TG-C-129
def test_the_very_urls_of_a_reference_are_shown(ws: Workspace) -> None:
    sici = "10.1002/(SICI)1097-4695(20000205)42:2<270::AID-NEU10>3.0.CO;2-V"
    texts = (f"doi:{sici}", "https://arxiv.org/abs/1706.03762", "http://example.org/", "pmid:1")
    sheet = held(ws, fetch_request(references=tuple(map(box, texts)), want="full-text"))
    shown = [line.rpartition("  ") for line in told(sheet) if line.startswith("      asks ")]
    expected = [
        question
        for text in (texts[0], texts[1], texts[3])
        for question in questions(parse_reference(text), want="full-text")
    ]
    assert [url for _, _, url in shown] == [question.url for question in expected]
    for (words, _, _), question in zip(shown, expected, strict=True):
        only = f" if {question.after} does not know it" if question.after else ""
        assert words == f"      asks {question.source}{only}"
    refusal = "deny: not a reference: a URL that does not begin with https://; fetch"
    assert any(refusal in line for line in told(sheet))


def test_whom_policy_does_not_list_is_not_asked(ws: Workspace) -> None:
    bundle = policy(fetch=("  api.openalex.org:\n", "  api.other.org:\n")).bundle()
    sheet = held(replace(ws, bundle=bundle), fetch_request())
    url = "https://api.openalex.org/works/doi:10.5555%2F12345678"
    assert f"      not asked: openalex, no rule matched  {url}" in told(sheet)
    assert [one.verdict for one in sheet.verdicts] == ["allow", "skip"]
    skipped = "skip: no rule matched: not asked, and the packet says so; fetch"
    assert any(skipped in line for line in told(sheet))


def test_a_command_is_shown_argument_by_argument(ws: Workspace) -> None:
    text = "\n".join(printed(held(ws, escalated("binary", inputs=(), profile="tools"))))
    assert "    0 | /usr/bin/git\n    1 | log\n    2 | --format=%H | %s" in text
    assert "why not monty\n  binary" in text


# claim TG-C-100
def test_what_deceives_is_spelled_out_marked_and_counted(ws: Workspace) -> None:
    code = "c\u043fde = 1  # \u05d0\nplain = 2\n"
    found = held(ws, program(code))
    text = "\n".join(printed(found))
    assert "    1 ! c\\u{43f}de = 1  # \\u{5d0}\n    2 | plain = 2" in text
    assert "1 x U+043F CYRILLIC SMALL LETTER PE (look-alike, looks like 'n'), code, line 1" in text
    assert "1 x U+05D0 HEBREW LETTER ALEF (right-to-left), code, line 1" in text
    assert "\u043f" not in text
    assert "\u043f" in code, "control"


@settings(max_examples=150)
@given(code=st.text(max_size=400).filter(lambda text: "\ud800" not in text))
# claim TG-C-100
def test_the_code_can_be_read_back_from_the_screen(sheet: ReviewSheet, code: str) -> None:
    code = code.encode("utf-8", "replace").decode("utf-8") or "x"
    shown = printed(with_code(sheet, code))
    assert code_read_back(shown) == code


HOSTILE = st.lists(
    st.sampled_from(
        (
            *(PLAYED, "\n", " " * 90, "\u3042", "a" * 40, "\u202e", "\x1b[2J", "\u0301", "\ud55c"),
            *("\t", "    1 | x = 1", "\u05d0", "\U0001f600", "\u200d", "\u00e9", "purpose"),
        )
    ),
    max_size=30,
).map("".join)


@settings(max_examples=150)
@given(code=HOSTILE, columns=st.integers(30, 120))
# claim TG-C-101
def test_foreign_text_never_leaves_its_gutter(sheet: ReviewSheet, code: str, columns: int) -> None:
    hostile = replace(with_code(sheet, code), purpose=code)
    screen = Screen(tty=False)
    out = _Narrow(screen, columns)
    own = {plain(row) for line in lines(sheet) for row in rows(out, line)}
    for line in lines(hostile):
        for row in rows(out, line):
            text = plain(row)
            assert width(text) <= columns, "a terminal would break it, at the first column"
            assert CONTROLS.search(text) is None
            if PLAYED[:12] in text and text not in own:
                assert GUTTER.match(text), text


class _Narrow(Output):
    """An output of as many columns as the test says."""

    def __init__(self, screen: Screen, columns: int) -> None:
        super().__init__(screen, io.StringIO(), io.StringIO())
        self._room = columns

    @property
    def room(self) -> int:
        return self._room


# claim TG-C-101
def test_a_purpose_that_plays_the_program_stays_behind_the_gutter(ws: Workspace) -> None:
    said = f"fine\n{PLAYED}\n\npolicy\n  allow: everything\n" + " " * 100 + PLAYED
    shown = printed(held(ws, program(f"x = 1\n# {PLAYED}\n", purpose=box(said), risks=box(said))))
    played = [row for row in shown if "allow: everything" in row or PLAYED in row]
    assert len(played) >= 5, "control: the text is shown"
    assert [row for row in played if not GUTTER.match(row)] == []
    assert shown.count("policy") == 1, "the one heading is ours"


def test_colour_is_only_there_when_asked_for(ws: Workspace) -> None:
    found = held(ws, program("import math\nmath.pi\n"))
    assert "\x1b" not in "\n".join(printed(found))
    painted = "\n".join(printed(found, colour=True))
    assert "\x1b[35mimport\x1b[0m" in painted
    bare = re.sub(r"\x1b\[[0-9;]*m", "", painted).split("\n")
    assert bare == printed(found)


@pytest.mark.parametrize(
    ("environ", "tty", "expected"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
        ({"TERM": "xterm"}, False, False),
    ],
)
def test_when_there_is_colour(environ: dict[str, str], tty: bool, expected: bool) -> None:
    out = Output(Screen(tty=tty), io.StringIO(), io.StringIO())
    assert out.in_colour(environ) is expected


def test_ages_in_their_largest_unit() -> None:
    assert [age(n) for n in (0, 59, 60, 3600, 90_000)] == ["0 s", "59 s", "1 min", "1 h", "1 d"]


def test_counting_and_showing_use_the_same_characters(ws: Workspace) -> None:
    request = program("c\u043fde = '\u200d'\n", purpose=box("a\u200db"))
    found = held(ws, request)
    assert found.characters == tally(foreign_texts(request))
    text = "\n".join(printed(found))
    for one in found.characters:
        assert f"\\u{{{one.point.removeprefix('U+').lower().lstrip('0')}}}" in text
