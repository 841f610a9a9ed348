"""Attacks on whoever approves in the browser, in a real one: other pages, and what is shown."""

import json
from collections.abc import Callable
from html import escape

import pytest

from tests.escape.test_report_browser import ESCAPES, GOES_ELSEWHERE, LOADS, MARKS, SCRIPTS
from tests.support.browser import BASE, PageError, Tab
from tests.support.console import (
    ELSEWHERE,
    REBOUND,
    Canary,
    Scene,
    form_of,
    fresh,
    is_disabled,
    now,
    post,
    read_all,
    settled,
)
from tests.support.holdings import paper
from tests.support.samples import box, fetch_request
from threegate.base.text import FORBIDDEN
from threegate.console.access import POLICY

pytestmark = pytest.mark.usefixtures("closed_tabs")


_ALL_MARKS = (
    f"{json.dumps(sorted(MARKS))}.every((m) => document.documentElement.outerHTML.includes(m))"
)


def marks(tab: Tab) -> set[str]:
    return {mark for mark in MARKS if mark in tab.html()}


def sends_away(served: Scene, enemy: Canary) -> str:
    """Return markup that leads a page elsewhere, having seen it do so."""
    found = GOES_ELSEWHERE.replace(BASE, enemy.base)
    icon = '<link rel="icon" href="data:,">'  # so that the browser asks for none of its own accord
    enemy.pages["/leaves"] = f"<!DOCTYPE html><html><head>{icon}</head><body>{found}</body></html>"
    enemy.pages["/refresh"] = f"<!DOCTYPE html><html><head>{icon}</head><body></body></html>"
    tab = served.chrome.tab()
    tab.call("Page.navigate", url=f"{enemy.base}/leaves")
    tab.wait(f"location.href === '{enemy.base}/refresh'")  # control: elsewhere it does
    return found


# claim TG-C-270
def test_hostile_text_is_inert_in_the_console(served: Scene, enemy: Canary) -> None:
    parts = [*LOADS.values(), *SCRIPTS.values()]
    text = "\n".join(parts).replace(BASE, enemy.base)
    enemy.pages["/plain"] = f"<!DOCTYPE html><html><body>{text}</body></html>"
    plain = served.chrome.tab().open(f"{enemy.base}/plain")
    plain.wait(_ALL_MARKS)
    settled(plain)
    assert set(enemy.asked) >= {f"/{name}" for name in LOADS}, "control: elsewhere it acts"
    leaves = sends_away(served, enemy)
    enemy.asked.clear()

    text += f"\n{leaves}"
    said = f"{ESCAPES}\n{text}\njavascript:alert(1) data:text/html,<script>1</script> <math><mi>"
    written = FORBIDDEN.sub("", said)  # what no artifact can hold
    request = fresh(f"# {written}\nx = 1\n".replace("\n", "\n# ") + "\n", purpose=box(written))
    (request_id,) = served.hold(request)
    for path in ("/inbox", f"/request/{request_id}", f"/request/{request_id}/bytes"):
        tab = served.tab(path)
        settled(tab)
        assert marks(tab) == set(), path
        assert tab.url == served.console.base + path
        found = "document.querySelectorAll('main :is(img,svg,iframe,object,video,style,math)')"
        assert tab.js(f"{found}.length") == 0
        assert tab.js("[...document.links].every((a) => a.origin === location.origin)")
    assert written.split("\n")[1] in served.tab(f"/request/{request_id}").text()
    assert enemy.asked == []


# claim TG-C-270
def test_the_policy_of_the_pages_would_hold_without_escaping(served: Scene, enemy: Canary) -> None:
    """The second wall alone: a real page in which the text is markup, with the policy and without.

    What it does not stop is a page that sends itself elsewhere; that is left to the escaping.
    """
    text = "\n".join([*LOADS.values(), *SCRIPTS.values()]).replace(BASE, enemy.base)
    (result,) = served.result(f"x {text}")
    page = served.tab(f"/artifact/{result}").html()
    spelled = "".join(
        f'<bdi dir="auto">{escape(one, quote=False)}</bdi><br>' for one in text.split("\n")
    )
    broken = page.replace(
        spelled.removesuffix("<br>").removeprefix('<bdi dir="auto">'), f"{text}</bdi>"
    )
    assert text in broken, "control: the text is markup now"
    # From another name than that of what it asks for, as a page of the console would.
    base = f"http://{ELSEWHERE}:{enemy.port}"
    for path in ("/with", "/without"):
        enemy.pages[path] = broken
    enemy.headers["/with"] = {"Content-Security-Policy": POLICY}
    acting = served.chrome.tab().open(f"{base}/without")
    acting.wait(_ALL_MARKS)
    settled(acting)
    assert set(enemy.asked) >= {f"/{name}" for name in LOADS}, "control: without it all of it acts"
    enemy.asked.clear()
    held = served.chrome.tab().open(f"{base}/with")
    settled(held)
    assert marks(held) == set()
    ours = {"/with", "/static/console.css", "/static/console.js", "/static/icon.svg"}
    assert set(enemy.asked) <= ours, "nothing but what our pages are made of"
    assert "/static/console.css" in enemy.asked, "control: that is allowed"
    with pytest.raises(PageError, match="TrustedHTML"):
        served.tab().js("document.body.innerHTML = '<b>x</b>'")
    acting.js("document.body.innerHTML = '<b>x</b>'")


# claim TG-C-81
def test_a_page_elsewhere_approves_nothing(served: Scene, enemy: Canary) -> None:
    """The other page even knows the tokens of the form; what gives it away is where it is."""
    before = served.approvals()
    (request_id,) = served.hold(fresh())
    tab = served.tab(f"/request/{request_id}")
    read_all(tab)
    fields = "".join(f'<input name="{k}" value="{v}">' for k, v in form_of(tab).items())
    action = f"{served.console.base}/request/{request_id}/approve"
    enemy.pages["/lure"] = (
        f'<form id="f" method="post" action="{action}">{fields}</form>'
        "<script>document.getElementById('f').submit()</script>"
    )
    for base in (enemy.base, f"http://{ELSEWHERE}:{enemy.port}"):
        other = served.chrome.tab()
        other.call("Page.navigate", url=f"{base}/lure")
        other.wait("document.body && document.body.innerText.includes('TG-CON-002')")
    assert served.console.base in action
    sent = [cookie for cookie in enemy.cookies if "threegate-" in cookie]
    assert sent, "control: the browser sends the cookie to every port of this name"
    assert served.state(request_id) == "held"
    assert served.approvals() == before
    tab.acts(lambda: tab.click("#approve-button"))
    assert "approved " in tab.text(), "control: the same form, from its own page"
    assert served.state(request_id) == "approved"


def refusals(served: Scene) -> list[str]:
    return [one["code"] for one in served.console.events if one["event"] == "refused"]


# claim TG-C-81
def test_a_page_elsewhere_reads_nothing(served: Scene, enemy: Canary) -> None:
    enemy.pages["/reader"] = "<!DOCTYPE html><html><body></body></html>"
    url = f"{served.console.base}/inbox"
    read = f"fetch('{url}', {{credentials: 'include'}}).then((r) => r.text(), () => 'refused')"
    assert "Inbox" in served.tab().js(read), "control: a page of the console can"
    other = served.chrome.tab().open(f"{enemy.base}/reader")
    before = refusals(served)
    assert other.js(read) == "refused"
    served.console.wait_for("refused", len(before) + 1)
    assert refusals(served)[len(before) :] == ["TG-CON-002"], "for this one, and this reason"


# claim TG-C-272
def test_a_name_that_was_made_to_point_here_is_refused(served: Scene) -> None:
    tab = served.chrome.tab()
    tab.call("Page.navigate", url=f"http://{REBOUND}:{served.console.port}/inbox")
    tab.wait("document.body && document.body.innerText.includes('TG-CON-001')")
    tab.open(f"{served.console.base}/inbox")
    assert "Inbox" in tab.text(), "control: by its own name it answers"


# claim TG-C-273
def test_no_page_can_frame_the_console(served: Scene, enemy: Canary) -> None:
    enemy.pages["/inner"] = "<p>inner</p>"
    enemy.pages["/own"] = f'<iframe src="{enemy.base}/inner"></iframe>'
    enemy.pages["/frame"] = f'<iframe src="{served.console.base}/inbox"></iframe>'

    def framed(path: str) -> str:
        tab = served.chrome.tab().open(f"{enemy.base}{path}")
        settled(tab)
        (child,) = tab.call("Page.getFrameTree")["frameTree"]["childFrames"]
        return str(child["frame"]["url"])

    assert framed("/own") == f"{enemy.base}/inner", "control: others can be framed"
    assert framed("/frame").startswith("chrome-error://")


# claim TG-C-276
def test_a_yes_takes_a_look_at_all_of_it(served: Scene) -> None:
    long = fresh("\n".join(f"x{n} = {n}" for n in range(200)) + "\nx1\n")
    fetch = fetch_request(created=now(), references=(box("10.1000/182"),))
    wide = fresh(f"x = '{'a' * 200_000}'\n")
    long_id, fetch_id, wide_id = served.hold(long, fetch, wide)
    tab = served.tab(f"/request/{long_id}")
    tab.wait("document.getElementById('seen').innerText.startsWith('seen ')")
    for _ in range(3):
        tab.press("End")  # the end alone is not all of it
        tab.js("window.scrollTo(0, document.body.scrollHeight)")
        settled(tab)
    assert is_disabled(tab)
    read_all(tab)
    tab.wait("!document.getElementById('approve-button').disabled")  # control: now it was
    tab.size(1000, 900)
    tab.wait("document.getElementById('approve-button').disabled")
    tab.open(f"{served.console.base}/request/{fetch_id}")
    read_all(tab)
    assert is_disabled(tab)
    tab.js("document.getElementById('typed').value = ''")
    tab.click("#typed")
    tab.type(fetch_id.removeprefix("fr-")[:8])
    tab.wait("!document.getElementById('approve-button').disabled")
    tab.open(f"{served.console.base}/request/{wide_id}")
    tab.wait("document.documentElement.scrollWidth <= innerWidth")  # a long line is broken
    over = "document.elementFromPoint(...(({x, y}) => [x + 5, y + 5])"
    button = "document.getElementById('approve-button')"
    tab.wait(f"{over}({button}.getBoundingClientRect())) === {button}")


# claim TG-C-275
def test_a_form_works_once_and_a_second_tab_is_told(served: Scene) -> None:
    (request_id,) = served.hold(fresh())
    first, second = (served.tab(f"/request/{request_id}") for _ in range(2))
    read_all(first)
    read_all(second)
    fields, path = form_of(first), f"/request/{request_id}/approve"
    before = served.approvals()
    first.acts(lambda: first.click("#approve-button"))
    assert "approved " in first.text(), "control"
    second.acts(lambda: second.click("#approve-button"))
    assert "TG-CON-010" in second.text()
    status, words = post(first, path, fields)
    assert (status, "TG-CON-009" in words) == (409, True)
    assert len(served.approvals() - before) == 1


def refused(served: Scene, request_id: str, meanwhile: Callable[[], object]) -> str:
    """Look at a request, let something happen, say yes; return what the page says then."""
    tab = served.tab(f"/request/{request_id}")
    read_all(tab)
    before = served.approvals()
    meanwhile()
    tab.acts(lambda: tab.click("#approve-button"))
    assert served.approvals() == before
    return tab.text()


# claim TG-C-274
def test_bytes_swapped_between_the_look_and_the_yes(served: Scene) -> None:
    (request_id,) = served.hold(fresh())
    (path,) = served.root.rglob(f"{request_id}.md")
    data = path.read_bytes()

    def swap(other: bytes) -> None:
        path.chmod(0o644)
        path.write_bytes(other)
        path.chmod(0o444)

    assert "TG-HND-008" in refused(
        served, request_id, lambda: swap(data.replace(b"total", b"tutal"))
    )
    swap(data)
    tab = served.tab(f"/request/{request_id}")
    read_all(tab)
    tab.acts(lambda: tab.click("#approve-button"))
    assert "approved " in tab.text(), "control: with its own bytes it can be approved"


# claim TG-C-274
def test_a_decision_or_a_policy_between_the_look_and_the_yes(served: Scene) -> None:
    decided, other = served.hold(fresh(), fresh("x = 2\nx\n"))
    no = ("review", "deny", decided, "--reason", "no")
    assert "TG-CON-010" in refused(served, decided, lambda: served.cli(*no))

    def change() -> None:
        page = served.root / "policy" / "handoff.policy.md"
        text = page.read_text("utf-8")
        assert "lifetime_seconds: 1h" in text
        page.write_text(text.replace("lifetime_seconds: 1h", "lifetime_seconds: 50m", 1), "utf-8")
        served.cli("policy", "apply", "--yes")

    assert "TG-CON-010" in refused(served, other, change)
    assert served.state(other) == "held"


# claim TG-C-215
def test_what_a_form_asks_for_waits_and_no_form_names_a_file(served: Scene) -> None:
    """Whoever gets a form posted in the operator's name gains a request in the inbox, no more."""
    secret = served.cli.base / "secret.txt"
    secret.write_text("a file of the operator's", "utf-8")
    (packet,) = served.hold(paper(3, "Ice floats."))
    tab = served.tab("/run")
    csrf = str(tab.js("document.querySelector('main [name=csrf]').value"))
    program = {"csrf": csrf, "purpose": "see", "code": "secret\n", "confidentiality": ""}
    for named in (str(secret), "secret.txt", "../secret.txt", packet[:15]):
        status, words = post(tab, "/run", {**program, "inputs": f"secret={named}"})
        assert (status, "an input is a name" in words) == (422, True), named
    before = set(served.root.rglob("tr-*.md"))
    status, words = post(tab, "/run", {**program, "inputs": f"secret={packet}"})
    assert (status, "Approve" in words) == (200, True), "control: an artifact is an input"
    (made,) = set(served.root.rglob("tr-*.md")) - before
    assert made.parent.name == "held"
    fetch = {"csrf": csrf, "references": "doi:10.1000/182", "want": "metadata"}
    before = set(served.root.rglob("fr-*.md"))
    status, _ = post(tab, "/fetch", {**fetch, "confidentiality": "public"})
    assert status == 200
    (asked,) = set(served.root.rglob("fr-*.md")) - before
    assert asked.parent.name == "held"
    for path, fields in (("/run", program), ("/fetch", fetch)):
        status, words = post(tab, path, {**fields, "csrf": "x"})
        assert (status, "TG-CON-007" in words) == (403, True), "without the session's token"
