"""Attacks on the forms that ask for something, in a real browser: candidates, files, lanes."""

import json
import socket
from pathlib import Path

import pytest

from tests.e2e.test_cli_request import enable_era
from tests.escape.test_console_shown import FRAME, STYLE, hostile
from tests.escape.test_report_browser import LOADS, MARKS
from tests.support.browser import Tab
from tests.support.console import Canary, Scene, post, refuse_live, settled
from tests.support.holdings import found_by_search, paper
from tests.support.samples import box
from threegate.gates.fetch.normalize.hazards import Findings, show

pytestmark = pytest.mark.usefixtures("closed_tabs")
MIB = 2**20
PROGRAM = "len(rows)\n"


def held(served: Scene) -> set[str]:
    """Return every request that waits."""
    place = served.root / "handoff" / "requests" / "held"
    return {path.stem for path in place.glob("*.md")}


def shown(served: Scene, request_id: str) -> dict[str, object]:
    return dict(served.cli("request", "show", request_id, "--json").json["fields"])


def csrf_of(tab: Tab) -> str:
    return str(tab.js("document.querySelector('main [name=csrf]').value"))


def send_files(tab: Tab, fields: dict[str, str], files: dict[str, tuple[str, int]]) -> list[object]:
    """Post a form with files from the page itself, whatever its fields allow."""
    script = (
        "(async () => { const form = new FormData();"
        f"for (const [k, v] of Object.entries({json.dumps(fields)})) form.append(k, v);"
        f"for (const [k, [name, size]] of Object.entries({json.dumps(files)}))"
        " form.append(k, new Blob(['a'.repeat(size)]), name);"
        "const r = await fetch('/run', {method: 'POST', body: form});"
        "return [r.status, await r.text(), r.url]; })()"
    )
    return list(tab.js(script))


# claim TG-C-286
def test_hostile_candidates_are_inert_and_only_what_was_ticked_is_asked_for(
    served: Scene, enemy: Canary
) -> None:
    text = hostile(enemy.base)
    enemy.pages["/plain"] = f"<!DOCTYPE html><html><body>{text}</body></html>"
    plain = served.chrome.tab().open(f"{enemy.base}/plain")
    wanted = json.dumps(sorted(MARKS))
    plain.wait(f"{wanted}.every((m) => document.documentElement.outerHTML.includes(m))")
    settled(plain)
    assert set(enemy.asked) >= {f"/{name}" for name in LOADS}, "control: elsewhere it acts"
    enemy.asked.clear()

    more = "</label><input name=pick-2 value=yes checked><button formaction=/logout>Ask</button>"
    lines = [*hostile(enemy.base, STYLE, FRAME, more).split("\n"), "2. doi:10.5555/evil"]
    titles = [show(line, Findings()) for line in lines if line.strip()]
    found = [
        f"title: {title}\npublished: {title[:60]}\nretraction: {title}\ndoi:10.5555/work.{n}"
        for n, title in enumerate(titles)
    ]
    (packet,) = served.hold(found_by_search(*found, "title: nameless", title=box(titles[0])))
    path = f"/candidates/{packet}"
    tab = served.tab(path)
    settled(tab)
    assert not {mark for mark in MARKS if mark in tab.html()}
    refuse_live(served, tab, path)
    fields = "document.querySelectorAll('main input[type=checkbox]')"
    assert tab.js(f"{fields}.length") == len(found)
    assert tab.js(f"[...{fields}].filter((one) => one.checked).length") == 0, "nothing is ticked"
    assert tab.js("document.querySelectorAll('main button').length") == 1
    assert "2. doi:10.5555/evil" in tab.text(), "control: it is shown, as text"
    before = held(served)
    tab.click("label[for=pick-3]")
    tab.click("#pick-5")
    tab.acts(lambda: tab.click("main button"))
    (made,) = held(served) - before
    assert tab.url.endswith(f"/request/{made}"), "it waits like any other request"
    assert shown(served, made)["references"] == ["doi:10.5555/work.2", "doi:10.5555/work.4"]
    assert enemy.asked == []


# claim TG-C-286
def test_a_tick_names_a_candidate_and_nothing_else(served: Scene) -> None:
    named, nameless = "title: a\ndoi:10.5555/a", "title: b"
    packet, other = served.hold(found_by_search(named, nameless), paper(9, named))
    tab, path = served.tab(f"/candidates/{packet}"), f"/candidates/{packet}"
    fields = {"csrf": csrf_of(tab), "want": "metadata", "confidentiality": "public"}
    before = held(served)
    for forged in ("pick-2", "pick-3", "pick-0", "pick-01", "pick-", "pick-doi:10.5555/evil"):
        status, words = post(tab, path, {**fields, "pick-1": "yes", forged: "yes"})
        assert (status, "a ticked item cannot be fetched" in words) == (422, True), forged
    status, words = post(tab, path, fields)
    assert (status, "tick the items to fetch" in words) == (422, True)
    status, words = post(tab, f"/candidates/{other}", {**fields, "pick-1": "yes"})
    assert (status, "not the packet of a list" in words) == (422, True)
    status, words = post(tab, path, {**fields, "pick-1": "yes", "csrf": "x"})
    assert (status, "TG-CON-007" in words) == (403, True)
    assert held(served) == before
    extra = {"references": "doi:10.5555/evil", "pick-1": "doi:10.5555/evil"}
    status, _ = post(tab, path, {**fields, **extra})
    assert status == 200, "control: what was ticked is asked for"
    (made,) = held(served) - before
    assert shown(served, made)["references"] == ["doi:10.5555/a"]


# claim TG-C-287
def test_a_console_that_runs_nothing_searches_nowhere(served: Scene) -> None:
    """That a search leaves at all is the control in `tests/e2e/test_console_search.py`."""
    tab = served.tab("/search")
    assert tab.js("document.querySelector('main form')") is None
    csrf = str(tab.js("document.querySelector('[name=csrf]').value"))
    fields = {"words": "ice", "source": "crossref", "rows": "10", "confidentiality": "public"}
    status, words = post(tab, "/search", {**fields, "csrf": csrf})
    assert (status, "started with --no-run and sends nothing" in words) == (422, True)
    status, words = post(tab, "/search", {**fields, "csrf": "x"})
    assert (status, "TG-CON-007" in words) == (403, True)
    (packet,) = served.hold(paper(9, "x"))
    tab = served.tab(f"/related/{packet}")
    assert "doi:10.5555/tg.9" in tab.text()
    assert tab.js("document.querySelector('main form')") is None
    for relation in ("references", "cited-by"):
        fields = {"relation": relation, "csrf": csrf}
        status, words = post(tab, f"/related/{packet}", fields)
        assert (status, "started with --no-run and sends nothing" in words) == (422, True)
    status, words = post(tab, f"/related/{packet}", {"relation": "everything", "csrf": csrf})
    assert (status, "not one of the choices" in words) == (422, True)
    assert not [one for one in served.console.events if one["event"].startswith("search")]


# claim TG-C-215
def test_files_are_what_the_browser_sends_and_never_a_place_on_this_machine(
    served: Scene, tmp_path: Path
) -> None:
    secret = served.cli.base / "secret.json"
    secret.write_text('["a file of the operator"]', "utf-8")
    sent = tmp_path / "rows of mine.json"
    sent.write_text("[1, 2, 3]", "utf-8")
    tab = served.tab("/run")
    tab.js("document.querySelector('details.more').open = true")
    tab.click("#purpose")
    tab.type("count them")
    tab.click("#code")
    tab.type("len(rows_of_mine) + len(second)\n")
    tab.choose("[name=file-1]", sent)
    assert tab.js("document.querySelector('[name=name-1]').value") == "rows_of_mine"
    tab.choose("[name=file-2]", sent)
    tab.js("document.querySelector('[name=name-2]').value = 'second'")
    before = held(served)
    tab.acts(lambda: tab.click("main button[type=submit]"))
    (made,) = held(served) - before
    assert "/request/" in tab.url, "control: chosen in the form they are inputs"
    inputs = shown(served, made)["inputs"]
    assert isinstance(inputs, list)
    assert [one["name"] for one in inputs] == ["rows_of_mine", "second"]
    assert {one["bytes"] for one in inputs} == {9}

    tab.open(f"{served.console.base}/run")
    fields = {"csrf": csrf_of(tab), "purpose": "see", "code": "rows\n", "name-1": "rows"}
    before = held(served)
    for name in ("../rows", "/etc/passwd", "a/b", "rows.json", "class", "__rows"):
        status, words, _ = send_files(tab, {**fields, "name-1": name}, {"file-1": ("a.txt", 3)})
        assert status == 422, name
        assert "the name of an input" in str(words) or "no input can be called" in str(words)
    status, words, _ = send_files(tab, fields, {"file-9": ("a.txt", 3)})
    assert (status, "the form does not ask for" in str(words)) == (422, True)
    status, words, _ = send_files(tab, {**fields, "inputs": f"rows={secret}"}, {})
    assert (status, "an input is a name" in str(words)) == (422, True)
    assert held(served) == before
    # The name of a file is the browser's word: not opened, whatever is there.
    status, _, _ = send_files(tab, fields, {"file-1": (str(secret).replace(".json", ""), 3)})
    assert status == 200
    (made,) = held(served) - before
    (entry,) = list(shown(served, made)["inputs"])  # type: ignore[call-overload]
    assert entry["bytes"] == len('"aaa"')


# claim TG-C-288
def test_files_that_are_too_large_are_not_read_to_their_end(served: Scene, tmp_path: Path) -> None:
    tab = served.tab("/run")
    fields = {"csrf": csrf_of(tab), "purpose": "see", "code": PROGRAM, "name-1": "rows"}
    before = held(served)
    status, words, _ = send_files(tab, fields, {"file-1": ("a.txt", 32 * MIB + 1)})
    where = "above the 32MiB of policy/tool-exec.policy.md:"
    assert (status, where in str(words)) == (422, True), "by the policy, with file and line"
    status, words, _ = send_files(tab, fields, {"file-1": ("a.txt", 40 * MIB)})
    assert (status, "it is longer than" in str(words)) == (413, True), "by the wire"
    parts = {f"file-{n}": ("a.txt", 8 * MIB) for n in range(1, 6)}
    assert send_files(tab, fields, parts)[0] == 413, "together"
    assert held(served) == before
    assert peak_mib(served) < 400

    large = tmp_path / "large.txt"
    large.write_bytes(b"a" * (33 * MIB))
    tab.js("document.querySelector('details.more').open = true")
    tab.choose("[name=file-1]", large)
    assert not tab.js("document.getElementById('too-much').hidden"), "the page says so before"
    status, _, url = send_files(tab, fields, {"file-1": ("a.txt", MIB)})
    assert (status, "/request/" in str(url)) == (200, True), "control: what is allowed is read"


def peak_mib(served: Scene) -> int:
    """Return the most memory that the console ever had."""
    text = Path(f"/proc/{served.console.process.pid}/status").read_text("utf-8")
    (line,) = [one for one in text.split("\n") if one.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024


def spoken(served: Scene, cookie: str, body: bytes, length: int, **more: str) -> bytes:
    """Send a form with files by hand, with a length that need not be its own."""
    headers = {
        "Host": f"127.0.0.1:{served.console.port}",
        "Origin": served.console.base,
        "Content-Type": "multipart/form-data; boundary=abcdefgh",
        "Content-Length": str(length),
        "Cookie": cookie,
        **more,
    }
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", served.console.port), timeout=60) as found:
        found.sendall(f"POST /run HTTP/1.1\r\n{head}\r\n".encode() + body)
        found.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := found.recv(65536):
            answer += piece
        return answer


# claim TG-C-288
def test_a_form_that_lies_about_its_length_or_its_parts_is_refused(served: Scene) -> None:
    tab = served.tab("/run")
    (cookie,) = [one for one in tab.cookies() if one["name"].startswith("threegate-")]
    known = f"{cookie['name']}={cookie['value']}"
    agent = {"User_Agent": str(tab.js("navigator.userAgent"))}
    parts = {"csrf": csrf_of(tab), "purpose": "see", "code": PROGRAM, "name-1": "rows"}
    text = "".join(
        f'--abcdefgh\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in parts.items()
    )
    head = '--abcdefgh\r\nContent-Disposition: form-data; name="file-1"; filename="a"'
    whole = f"{text}{head}\r\n\r\nabc\r\n--abcdefgh--\r\n".encode()

    def said(body: bytes, length: int, **more: str) -> bytes:
        before = held(served)
        answer = spoken(served, known, body, length, **{**agent, **more})
        assert held(served) == before
        return answer

    assert b"it ends too early" in said(whole, len(text) - 4), "shorter than it is"
    assert b"a boundary is malformed" in said(whole + b"more", len(whole) + 4)
    assert b" 400 " in said(whole, len(whole) + 4), "longer than it is"
    assert b" 413 " in said(whole, 40 * MIB), "longer than anything that is read"
    longer = head + "\r\nContent-Length: 999999"
    lying = f"{text}{longer}\r\n\r\nabc\r\n--abcdefgh--\r\n".encode()
    assert b"not one that a browser sends" in said(lying, len(lying)), (
        "a part with a length of its own"
    )
    elsewhere = said(whole, len(whole), Origin="http://127.0.0.1:1")
    assert b"TG-CON-002" in elsewhere
    unknown = {"Cookie": "threegate-1=x"}
    assert b" 401 " in said(whole, len(whole), **unknown), "who is not let in"
    assert b" 413 " in said(whole, 8 * MIB, **unknown), "gets no room for files"
    assert b" 400 " in said(whole, 8 * MIB), "control: who is in does, and breaks off"
    before = held(served)
    assert b" 303 " in spoken(served, known, whole, len(whole), **agent), "control"
    assert len(held(served) - before) == 1


# claim TG-C-81
def test_a_page_elsewhere_sends_no_files(served: Scene, enemy: Canary) -> None:
    """It knows the token of the form, and the browser sends the cookie along."""
    tab = served.tab("/run")
    parts = {"csrf": csrf_of(tab), "purpose": "see", "code": "1 + 1\n"}
    fields = "".join(f"<input name={name} value='{value}'>" for name, value in parts.items())
    enemy.pages["/lure"] = (
        f'<form id="f" method="post" enctype="multipart/form-data" action="{served.console.base}'
        f'/run">{fields}</form><script>document.getElementById("f").submit()</script>'
    )
    before = held(served)
    other = served.chrome.tab()
    other.call("Page.navigate", url=f"{enemy.base}/lure")
    other.wait("document.body && document.body.innerText.includes('TG-CON-002')")
    assert held(served) == before
    status, words, _ = send_files(tab, {**parts, "csrf": "x"}, {})
    assert (status, "TG-CON-007" in str(words)) == (403, True), "without the token"
    assert held(served) == before
    assert send_files(tab, parts, {})[0] == 200, "control: the same form, from its own page"
    assert len(held(served) - before) == 1


HEAVY = {
    "purpose": "rows of a table",
    "code": "import csv\nprint(open('/in/rows').read())\n",
    "backend": "era",
    "why": "files",
    "outputs": "rows.json=64KiB",
    "limits": "wall_ms=20s",
    "name-1": "rows",
}


# claim TG-C-289
def test_a_heavy_request_that_policy_forbids_is_refused_with_its_line_and_not_held(
    served: Scene,
) -> None:
    tab = served.tab("/run")
    heavy, files = {**HEAVY, "csrf": csrf_of(tab)}, {"file-1": ("rows.csv", 9)}
    before = set(served.root.rglob("handoff/**/*"))

    def refused(words: str, **changes: str) -> None:
        status, page, _ = send_files(tab, {**heavy, **changes}, files)
        text = str(page)
        assert (status, words in text) == (422, True), (words, status, text[-3000:])
        assert "Nothing was asked for" in text
        assert set(served.root.rglob("handoff/**/*")) == before, "something was stored"

    refused("lane era is not enabled in policy/tool-exec.policy.md:")
    enable_era(served.cli)
    before = set(served.root.rglob("handoff/**/*"))
    refused("is above the 1h of policy/tool-exec.policy.md:", limits="wall_ms=2h")
    refused("nobody could approve this: denied by policy/tool-exec.policy.md:", profile="pure")
    refused("denied by policy/tool-exec.policy.md:", hosts="api.example.org")
    refused("the heavy lane needs the reason", why="")
    refused("a request has either code or a command", argv="sort")
    refused("that is not one of the choices", backend="other")
    refused("that is not one of the choices", why="because")
    status, page, url = send_files(tab, heavy, files)
    assert (status, "/request/tr-" in str(url)) == (200, True), (status, str(page)[-2000:])
    (made,) = {path.stem for path in set(served.root.rglob("handoff/**/tr-*.md")) - before}
    found = shown(served, made)
    assert served.state(made) == "held", "control: what policy allows waits, and no more"
    assert (found["backend"], found["profile"]) == ("era", "python")
    assert found["outputs"] == [{"name": "rows.json", "max_bytes": 65536}]
    tab.open(f"{served.console.base}/request/{made}")
    assert tab.js("!!document.getElementById('typed')"), "a yes takes the digits"
