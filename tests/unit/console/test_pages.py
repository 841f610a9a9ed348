"""No value a template prints is markup, and none hides; what a digest is of, and what is typed."""

from dataclasses import replace
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from tests.support.requests import held, program
from tests.support.samples import escalated, fetch_request
from tests.support.workspaces import make_workspace
from threegate.base.errors import PolicyDenied
from threegate.console.page import PLACE, PageTemplates
from threegate.console.request_page import digest_of, needs_typing
from threegate.host.workspace.workspace import Workspace

HOSTILE = "<script>x</script>\u202e\u200b\x1b[31m\"'&\n<b>"


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def test_a_value_is_spelled_out_and_escaped_whatever_the_template() -> None:
    error = PolicyDenied(HOSTILE, hint=HOSTILE)
    text = PageTemplates("ws").page("failed", None, error=error, back="").body.decode()
    assert "<script>x" not in text
    assert "&lt;script&gt;x&lt;/script&gt;\\u{202e}\\u{200b}\\u{1b}[31m&#34;&#39;&amp;" in text
    assert not {"\u202e", "\u200b", "\x1b"} & set(text)


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        PageTemplates("ws").page("failed", None)


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


def test_the_digest_is_of_what_is_shown_and_not_of_its_age(ws: Workspace) -> None:
    sheet = held(ws)
    again = held(ws, program("x = 1\nx\n"))
    assert digest_of(sheet) != digest_of(again)
    assert digest_of(replace(sheet, now=sheet.now + 60)) == digest_of(sheet)
    assert digest_of(replace(sheet, state="denied")) != digest_of(sheet)
    assert digest_of(replace(sheet, policy="0" * 64)) != digest_of(sheet)
    assert digest_of(replace(sheet, flags=())) != digest_of(sheet), "a flag less"


# claim TG-C-276
def test_what_leaves_the_machine_or_the_lite_lane_takes_typing(ws: Workspace) -> None:
    assert not needs_typing(held(ws)), "control: the lite lane, without network"
    assert needs_typing(held(ws, fetch_request()))
    heavy = held(ws, escalated("files", inputs=(), profile="python"))
    assert not heavy.rule_of_two.network
    assert needs_typing(heavy), "the heavy lane does by itself"
