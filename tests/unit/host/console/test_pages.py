"""No value a template prints is markup, and none hides; and the page shows what review shows."""

from dataclasses import replace
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from tests.support.reviewing import drafted, held, printed, program
from tests.support.samples import box, fetch_request
from tests.support.workspaces import make_workspace
from threegate.errors import PolicyDenied
from threegate.host.console.pages import PLACE, Pages
from threegate.host.console.showing import digest_of, needs_typing, parts_of
from threegate.host.workspace import Workspace
from threegate.text import visible

HOSTILE = "<script>x</script>\u202e\u200b\x1b[31m\"'&\n<b>"


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def test_a_value_is_spelled_out_and_escaped_whatever_the_template() -> None:
    error = PolicyDenied(HOSTILE, hint=HOSTILE)
    text = Pages("ws").page("failed", None, error=error).body.decode()
    assert "<script>x" not in text
    assert "&lt;script&gt;x&lt;/script&gt;\\u{202e}\\u{200b}\\u{1b}[31m&#34;&#39;&amp;" in text
    assert not {"\u202e", "\u200b", "\x1b"} & set(text)


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        Pages("ws").page("failed", None)


def test_no_template_prints_anything_as_it_is() -> None:
    found = list((PLACE / "templates").glob("*.html"))
    assert found
    for path in found:
        text = path.read_text("utf-8")
        for word in (
            "|safe",
            "| safe",
            "autoescape",
            "style=",
            " onclick",
            "<style",
            "javascript:",
        ):
            assert word not in text, (path.name, word)
        assert text.count("<script") == (1 if path.name == "base.html" else 0)


# claim TG-C-276
def test_the_page_has_every_line_that_review_prints(ws: Workspace) -> None:
    code = "c\u043fde = 1  # \u05d0\u200d\ny = 2" + " " * 200 + "; z = 3\n"
    sheet = held(ws, drafted(program(code, purpose=box("why\n<b>not</b>"))))
    rows = [row for part in parts_of(sheet) for row in part.rows]
    shown = [visible(row.margin + "".join(span.text for span in row.spans)) for row in rows]
    titles = [part.title for part in parts_of(sheet)]
    whole = [row for row in printed(sheet) if row and not row.startswith(("      : ", "    : "))]
    for row in whole:
        assert any(one.startswith(row) for one in shown) or row in titles, row
    assert len(shown) + len(titles) - 1 >= len(whole)


def test_the_digest_is_of_what_is_shown_and_not_of_its_age(ws: Workspace) -> None:
    sheet = held(ws)
    again = held(ws, program("x = 1\nx\n"))
    assert digest_of(sheet) != digest_of(again)
    assert digest_of(replace(sheet, now=sheet.now + 60)) == digest_of(sheet)
    assert digest_of(replace(sheet, state="denied")) != digest_of(sheet)
    assert digest_of(replace(sheet, policy="0" * 64)) != digest_of(sheet)
    assert digest_of(replace(sheet, flags=())) != digest_of(sheet), "a flag less"


def test_what_leaves_the_machine_takes_typing(ws: Workspace) -> None:
    assert not needs_typing(held(ws))
    assert needs_typing(held(ws, fetch_request()))
