"""What is typed into the console, or said about it, in a real browser: forms that come back,
questions, verdicts, addresses, rules; and lines as long as a form or a program may have."""

import json

import pytest

from tests.escape.test_console_shown import FRAME, MIB, STYLE, hostile
from tests.escape.test_report_browser import GOES_ELSEWHERE, LOADS, MARKS
from tests.support.browser import BASE, Tab
from tests.support.console import Canary, Scene, fresh, now, post, refuse_live, settled
from tests.support.samples import box, fetch_request

pytestmark = pytest.mark.usefixtures("closed_tabs")
_ODD = "\u202eexe.txt\u200b\x1b[31m"  # a form can hold what no artifact can


@pytest.fixture
def text(served: Scene, enemy: Canary) -> str:
    """Return a text that acts wherever it becomes markup, on the enemy's own page for a start."""
    acting = hostile(enemy.base)
    enemy.pages["/plain"] = f"<!DOCTYPE html><html><body>{acting}</body></html>"
    plain = served.chrome.tab().open(f"{enemy.base}/plain")
    wanted = json.dumps(sorted(MARKS))
    plain.wait(f"{wanted}.every((m) => document.documentElement.outerHTML.includes(m))")
    settled(plain)
    assert set(enemy.asked) >= {f"/{name}" for name in LOADS}, "control: elsewhere it acts"
    leaving = GOES_ELSEWHERE.replace(BASE, enemy.base)
    enemy.pages["/leaving"] = f"<!DOCTYPE html><html><body>{leaving}</body></html>"
    plain.call("Page.navigate", url=f"{enemy.base}/leaving")
    plain.wait("location.pathname === '/refresh'")
    settled(plain)
    enemy.asked.clear()
    served.chrome.close_tabs()
    return "\n".join([hostile(enemy.base, STYLE, FRAME), leaving])


def refuse_acting(served: Scene, enemy: Canary, tab: Tab, path: str) -> None:
    """Raise if a text on this page acted, is markup, or sent the browser anywhere."""
    settled(tab)
    assert not {mark for mark in MARKS if mark in tab.html()}, path
    refuse_live(served, tab, path)
    # The icon of the enemy's own page may be asked for late.
    assert set(enemy.asked) <= {"/favicon.ico"}, path


def fill(tab: Tab, fields: dict[str, str]) -> None:
    """Put texts into a form as they are, and send it; the browser's own checks are passed by."""
    for name, value in fields.items():
        field = f"document.querySelector('main [name={name}]')"
        tab.js(f"{field}.removeAttribute('maxlength')")
        tab.js(f"{field}.value = {json.dumps(value)}")
    send = "document.querySelector('main form.ask').submit()"
    tab.acts(lambda: tab.js(f"setTimeout(() => {send}, 0)"))


# claim TG-C-270
def test_a_form_that_comes_back_holds_what_was_typed_as_text(
    served: Scene, enemy: Canary, text: str
) -> None:
    said = f"</textarea>\">'>{text}\n{_ODD}"
    line = said.replace("\n", " ")
    typed = {
        "/fetch": {"references": said, "purpose": line},
        "/run": {"code": said, "purpose": line, "inputs": f"x={said}"},
    }
    for path, fields in typed.items():
        tab = served.tab(path)
        forms = "document.querySelectorAll('form, button, input, textarea').length"
        there = tab.js(forms)
        fill(tab, fields)
        refuse_acting(served, enemy, tab, path)
        assert "Nothing was asked for" in tab.text(), path
        for name in fields:
            value = str(tab.js(f"document.querySelector('main [name={name}]').value"))
            assert "<img src=" in value, "control: it is there, as text"
            assert not set(value) & set("\u202e\u200b\x1b"), "and nothing in it hides"
        boxes = "document.querySelectorAll('main input[type=checkbox]:checked').length"
        assert tab.js(boxes) == 0
        assert tab.js(forms) == there, "nothing more can be filled in or clicked on"
    tab = served.tab("/run")
    fill(tab, {"code": text, "purpose": "see"})
    assert "[TG-REQ-001]" in tab.text(), "what the lane says to it is about its own words"
    refuse_acting(served, enemy, tab, "/run")


# claim TG-C-270
def test_a_question_is_inert_while_it_is_asked_and_when_it_failed(
    served: Scene, enemy: Canary, text: str
) -> None:
    question = text[:3900]
    tab = served.tab("/ask")
    tab.js("document.querySelector('[name=extractive]').checked = true")
    fill(tab, {"question": question})
    tab.wait("document.body.innerText.includes('not answered')")
    assert "TG-USE-001" in tab.text(), "there is nothing to answer it from"
    refuse_acting(served, enemy, tab, "/ask")
    assert question.split("\n")[1] in tab.text(), "control: it is shown, as text"
    assert tab.js("document.querySelectorAll('main form').length") == 1


# claim TG-C-270
def test_a_verdict_an_address_and_a_rule_are_inert(served: Scene, enemy: Canary, text: str) -> None:
    markup = "<img src=x onerror=alert(1)>"
    name = "\u05d0\u05d1"  # letters that turn a line around
    code = f"class {name}(dict):  # {markup}\n    pass\n"
    (request,) = served.hold(fresh(code, purpose=box(text)))
    path = f"/request/{request}"
    tab = served.tab(path)
    tab.wait("document.getElementById('verdict').innerText.startsWith('refuses line 1')")
    assert tab.js("document.querySelectorAll('#verdict *').length") == 0
    refuse_acting(served, enemy, tab, path)

    addresses = (
        f"{enemy.base}/wanted",
        "https://elsewhere.test/<script>1</script>",
        "javascript:alert(1)",
        "data:text/html,<script>1</script>",
        "https://\u0430pi.crossref.org/works/10.5555/1",
    )
    wanted = fetch_request(created=now(), references=tuple(map(box, addresses)))
    (request,) = served.hold(wanted)
    path = f"/request/{request}"
    tab = served.tab(path)
    refuse_acting(served, enemy, tab, path)
    for one in addresses[:4]:
        assert one in tab.text().replace("\n", ""), "control: it is shown, and is no link"
    assert tab.js("[...document.querySelectorAll('#sheet a')].length") == 0

    page = served.root / "policy" / "core.policy.md"
    before = page.read_text("utf-8")
    for changed in (
        before.replace("name: qwen2.5", f'name: "{markup}{_ODD[:1]}"  # qwen', 1),
        before.replace("```yaml threegate-policy", f"```yaml threegate-policy\n{markup}: [", 1),
    ):
        assert changed != before
        page.write_text(changed, "utf-8")
        tab = served.tab("/policy")
        assert "no difference" not in tab.text(), "control: it was read"
        refuse_acting(served, enemy, tab, "/policy")
    page.write_text(before, "utf-8")


def test_a_form_of_ten_megabytes_is_not_read_and_a_long_line_covers_nothing(
    served: Scene,
) -> None:
    tab = served.tab("/fetch")
    csrf = str(tab.js("document.querySelector('main [name=csrf]').value"))
    status, _ = post(tab, "/fetch", {"csrf": csrf, "references": "a" * 10_000})
    assert status == 422, "control: a short one is read"
    send = (
        "fetch('/fetch', {method: 'POST', headers: {'Content-Type':"
        f" 'application/x-www-form-urlencoded'}}, body: 'csrf={csrf}&references=' +"
        f" 'a'.repeat({10 * MIB})}}).then((r) => r.status,"
        "() => 0)"
    )
    assert tab.js(send) in (0, 400, 413), "hung up on, or told so"
    assert served.tab("/inbox").url.endswith("/inbox"), "control: and the console goes on"
    (request_id,) = served.hold(fresh(f"x = '{'a' * 200_000}'\n"))
    tab = served.tab(f"/request/{request_id}")
    tab.call("Page.bringToFront")
    assert tab.js("document.documentElement.scrollWidth <= innerWidth")
    over = "document.elementFromPoint(...(({x, y}) => [x + 5, y + 5])"
    for name in ("approve-button", "reason", "help-button"):
        one = f"document.getElementById('{name}')"
        assert tab.js(f"{over}({one}.getBoundingClientRect())) === {one}"), name
