"""Files that a run left, in the console and a real browser: shown redrawn or not at all."""

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.escape.test_report_browser import ESCAPES, LOADS, MARKS, SCRIPTS
from tests.support.browser import BASE, PAGE_SECONDS, Tab
from tests.support.console import Canary, Scene, has_hidden, opened, settled
from tests.support.holdings import SCRIPT, SIDES, answer_on, chunk, chunks_of, png, points
from tests.support.samples import digest, tool_result
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_result import OutputFile
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.console.file_pages import POLICY
from threegate.gates.image_reader.decoder import points_of
from threegate.gates.image_reader.messages import Pixels
from threegate.host.report.outputs import MOST_COLUMNS, MOST_ROWS

pytestmark = pytest.mark.usefixtures("closed_tabs")
HIDDEN = b"HIDDEN-IN-THE-FILE"


def left(served: Scene, files: Mapping[str, bytes]) -> str:
    """Put a result there whose run left these files; return its id."""
    with opened(served.cli) as ws:
        return answer_on(ws, files)[1]


def acting(base: str) -> str:
    return "\n".join([*LOADS.values(), *SCRIPTS.values()]).replace(BASE, base)


def marks(tab: Tab) -> set[str]:
    return {mark for mark in MARKS if mark in tab.html()}


def known_of(tab: Tab) -> dict[str, str]:
    """Return what a request of the browser that was let in sends."""
    (cookie,) = [one for one in tab.cookies() if one["name"].startswith("threegate-")]
    agent = str(tab.js("navigator.userAgent"))
    return {"User_Agent": agent, "Cookie": f"{cookie['name']}={cookie['value']}"}


def downloaded(tab: Tab, directory: Path, act: str, name: str) -> bytes:
    """Do something in a page that downloads a file; return what was kept."""
    where = str(directory)
    tab.chrome.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=where)
    tab.js(act)
    end = time.monotonic() + PAGE_SECONDS
    while not (directory / name).exists():  # it has another name until it is complete
        assert time.monotonic() < end, os.listdir(directory)
        time.sleep(0.05)
    return (directory / name).read_bytes()


# claim TG-C-460
def test_a_page_that_a_run_left_is_kept_and_never_rendered(
    served: Scene, enemy: Canary, tmp_path: Path
) -> None:
    page = f"<!DOCTYPE html><html><body>{acting(enemy.base)}</body></html>"
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{"1"}</script></svg>{page}'
    enemy.pages["/plain"] = page
    plain = served.chrome.tab().open(f"{enemy.base}/plain")
    wanted = json.dumps(sorted(MARKS))
    plain.wait(f"{wanted}.every((m) => document.documentElement.outerHTML.includes(m))")
    settled(plain)
    assert set(enemy.asked) >= {f"/{name}" for name in LOADS}, "control: elsewhere it acts"
    enemy.asked.clear()

    names = ("page.html", "drawing.svg", "plot.png", "words.txt", "noending")
    result = left(served, {name: (drawing if "svg" in name else page).encode() for name in names})
    path = f"/artifact/{result}"
    tab = served.tab(path)
    settled(tab)
    assert marks(tab) == set()
    assert tab.js("document.querySelectorAll('main img').length") == 0, "none of them is a picture"
    assert "not shown: SVG is never shown" in tab.text()
    assert "not shown: it is neither a PNG nor a JPEG file" in tab.text()
    links = "[...document.querySelectorAll('#files a')]"
    assert sorted(tab.js(f"{links}.map((a) => a.innerText)")) == sorted(names)
    for number, name in enumerate(sorted(names)):
        kept = downloaded(tab, tmp_path, f"{links}[{number}].click()", name)
        assert kept == (drawing if "svg" in name else page).encode(), "control: every byte of it"
        assert tab.url == served.console.base + path, "and the page is where it was"
        went = served.chrome.tab().call(
            "Page.navigate", url=f"{served.console.base}/file/{result}/{number + 1}"
        )
        assert went["errorText"] == "net::ERR_ABORTED", "typed as an address it is a download too"
    assert marks(tab) == set()
    assert enemy.asked == []


# claim TG-C-460
def test_no_element_of_a_page_takes_a_file_in(served: Scene) -> None:
    """Without the policy of the page, so that the file's own answer is what holds."""
    script = b"document.title = 'acted'"
    result = left(served, {"a.js": script, "b.png": png(), "c.html": b"<title>acted</title>"})
    tab = served.tab()
    tab.call("Page.setBypassCSP", enabled=True)
    tab.open(f"{served.console.base}/inbox")

    def took(tag: str, source: str) -> str:
        made = f"Object.assign(document.createElement('{tag}'), {{src: '{source}'}})"
        return str(
            tab.js(
                f"new Promise((done) => {{ const e = {made};"
                "e.onload = () => done('taken'); e.onerror = () => done('refused');"
                "document.body.append(e); })"
            )
        )

    assert took("img", f"/picture/{result}/2") == "taken", "control: the picture drawn again"
    assert took("script", "/static/console.js") == "taken", "control: a script of ours"
    for number, tag in ((1, "script"), (2, "img")):
        assert took(tag, f"/file/{result}/{number}") == "refused"
    assert tab.js("document.title") != "acted"
    asked = "fetch('/file/{}/{}').then(async (r) => [r.status, await r.text()])"
    for number in (1, 2, 3):
        status, words = tab.js(asked.format(result, number))
        assert (status, words) == (400, "not answered: a file is downloaded and never shown\n")


# claim TG-C-461
def test_no_name_and_no_number_leads_to_another_file(served: Scene) -> None:
    known = known_of(served.tab())
    result = left(served, {"a..b.html": b"<b>", "table.csv": b"a,b\n1,2\n"})
    status, headers, body = served.console.ask("GET", f"/file/{result}/1", **known)
    assert (status, body) == (200, b"<b>"), "control"
    assert headers["Content-Disposition"] == 'attachment; filename="a..b.html"'
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == POLICY
    assert "sandbox" in POLICY
    ours = {
        "/file/{}/..",
        "/file/{}/../../inbox",
        "/file/{}/1%2f..",
        "/file/{}/%2e%2e",
        "/file/{}//1",
    }
    for path in ours:
        status, _, body = served.console.ask("GET", path.format(result), **known)
        assert (status, body) == (400, b"not answered: its path is not one of this console\n"), path
    for number in ("0", "3", "999"):
        status, _, body = served.console.ask("GET", f"/file/{result}/{number}", **known)
        assert (status, f"this result has no file {int(number)}" in body.decode()) == (404, True)
    absent = f"res-{'0' * 64}"
    status, _, body = served.console.ask("GET", f"/file/{absent}/1", **known)
    assert (status, f"no artifact {absent}" in body.decode()) == (404, True)
    for path in (f"/file/{result}/table.csv", f"/file/{result}/1/", f"/file/rp-{'0' * 64}/1"):
        status, _, body = served.console.ask("GET", path, **known)
        assert (status, "Nothing here" in body.decode()) == (404, True), path


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/passwd",
        "a/b",
        "..",
        ".bashrc",
        'x".html',
        "x\r\nSet-Cookie: a=b",
        "x\ny",
        "-x",
    ],
)
# claim TG-C-461
def test_a_result_that_names_such_a_file_is_refused(name: str) -> None:
    files = (OutputFile("plain", 1, digest("x")),)
    made = tool_result(backend="era", exit_code=0, files=files)
    data = registry.emit(made)
    assert registry.parse(Untrusted(data)) == made, "control"
    spelled = data.replace(b'"plain"', json.dumps(name).encode())
    assert spelled != data
    with pytest.raises(ArtifactRejected, match=r"plain file name|escaped control") as refused:
        registry.parse(Untrusted(spelled))
    assert refused.value.code.startswith("TG-ART-")


# claim TG-C-462
def test_a_file_is_for_a_session_and_for_no_other_page(served: Scene, enemy: Canary) -> None:
    result = left(served, {"secret.txt": b"of the operator", "plot.png": png()})
    paths = (f"/file/{result}/2", f"/picture/{result}/1")
    tab = served.tab(f"/artifact/{result}")
    known = known_of(tab)
    wrong = {**known, "Cookie": f"{known['Cookie']}x"}
    for path in paths:
        assert served.console.ask("GET", path, **known)[0] == 200, "control"
        for sent in ({}, {**known, "User_Agent": "another"}, wrong):
            status, _, body = served.console.ask("GET", path, **sent)
            assert (status, b"Not logged in" in body) == (401, True)
            assert b"of the operator" not in body
        for site in ("cross-site", "same-site"):
            sent = {**known, "Sec_Fetch_Site": site}
            status, _, body = served.console.ask("GET", path, **sent)
            assert (status, b"TG-CON-002" in body) == (403, True)
        enemy.pages["/lure"] = f'<a id="a" href="{served.console.base}{path}">x</a>'
        other = served.chrome.tab().open(f"{enemy.base}/lure")
        other.js("document.getElementById('a').click()")
        other.wait("document.body.innerText.includes('TG-CON-002')")
        stranger = served.chrome.stranger().open(served.console.base + path)
        assert "Not logged in" in stranger.text()
    out = served.chrome.stranger()
    out.open(served.cli("serve", "--link", "--port", str(served.console.port)).out.strip())
    known = known_of(out)
    assert served.console.ask("GET", paths[0], **known)[0] == 200, "control: it is let in"
    csrf = re.findall(r'name="csrf" value="([^"]+)"', out.html())[0]
    sent = {**known, "Origin": served.console.base}
    assert served.console.ask("POST", "/logout", urlencode({"csrf": csrf}), **sent)[0] == 303
    assert served.console.ask("GET", paths[0], **known)[0] == 401, "and out again"


# claim TG-C-463
def test_a_picture_is_drawn_again_and_no_byte_of_the_file_is_shown(served: Scene) -> None:
    hidden = chunk(b"tEXt", b"Comment\0" + HIDDEN + SCRIPT)
    files = {"a.png": png(hidden, behind=HIDDEN + SCRIPT), "b.png": SCRIPT, "c.jpg": png()[:60]}
    assert HIDDEN in files["a.png"], "control: it is in the file"
    result = left(served, files)
    tab = served.tab(f"/artifact/{result}")
    tab.wait("document.querySelector('main img').complete")
    sizes = (
        "[...document.querySelectorAll('main img')].map((e) => [e.naturalWidth, e.naturalHeight])"
    )
    assert tab.js(sizes) == [list(SIDES)], "one of them is a picture"
    sources = "[...document.querySelectorAll('main img')].map((e) => e.getAttribute('src'))"
    assert tab.js(sources) == [f"/picture/{result}/1"]
    assert "not shown: it is neither a PNG nor a JPEG file" in tab.text()
    assert "not shown: it is damaged" in tab.text()
    known = known_of(tab)
    status, headers, body = served.console.ask("GET", f"/picture/{result}/1", **known)
    assert (status, headers["Content-Type"]) == (200, "image/png")
    assert headers["Content-Security-Policy"] == POLICY
    assert (HIDDEN in body, SCRIPT in body) == (False, False)
    assert chunks_of(body) == [b"IHDR", b"IDAT", b"IEND"]
    found = points_of(Untrusted(body))
    assert isinstance(found, Pixels)
    assert found.points == points(), "control: what is to be seen is the same"
    status, headers, body = served.console.ask("GET", f"/picture/{result}/2", **known)
    words = "not shown: it is neither a PNG nor a JPEG file\n"
    assert (status, headers["Content-Type"], body.decode()) == (422, "text/plain", words)


# claim TG-C-464
def test_a_table_that_a_run_left_is_inert_and_bounded(served: Scene, enemy: Canary) -> None:
    cells = [*LOADS.values(), *SCRIPTS.values(), ESCAPES]
    quoted = [one.replace(BASE, enemy.base).replace('"', '""') for one in cells]
    hostile = "".join(f'"{one}","=cmd|calc","\u202etxt.exe\u200b"\n' for one in quoted)
    wide = ",".join(f"c{number}" for number in range(MOST_COLUMNS + 5)) + "\n"
    files = {
        "a.csv": ("x,y,z\n" + hostile).encode(),
        "b.tsv": wide.replace(",", "\t").encode() * (MOST_ROWS + 20),
        "c.csv": b"," * 2**20,
        "d.csv": b"\xff\xfe",
    }
    result = left(served, files)
    tab = served.tab(f"/artifact/{result}")
    settled(tab)
    assert marks(tab) == set()
    assert enemy.asked == []
    inside = "[...document.querySelectorAll('.data *')].map((e) => e.tagName)"
    assert set(tab.js(inside)) <= {"THEAD", "TBODY", "TR", "TH", "TD", "BDI"}
    assert "=cmd|calc" in tab.text(), "control: it is shown, as text"
    assert not has_hidden(tab)
    size = "[t.rows.length, t.rows[0].cells.length]"
    found = tab.js(f"[...document.querySelectorAll('.data')].map((t) => {size})")
    assert found == [[len(cells) + 1, 3], [MOST_ROWS + 1, MOST_COLUMNS]]
    for words in ("19 more rows and 5 more columns", "it is not a table", "it is not UTF-8 text"):
        assert words in tab.text(), words
    assert tab.js("document.documentElement.scrollWidth <= innerWidth")


# claim TG-C-463
def test_bytes_that_were_changed_on_disk_are_not_sent(served: Scene) -> None:
    data = b"a file of a run"
    result = left(served, {"a.txt": data})
    known = known_of(served.tab())
    path = served.root / "handoff" / "blobs" / sha256_hex(data)
    assert served.console.ask("GET", f"/file/{result}/1", **known)[2] == data, "control"
    path.chmod(0o644)
    path.write_bytes(data.upper())
    path.chmod(0o444)
    status, _, body = served.console.ask("GET", f"/file/{result}/1", **known)
    assert (status, b"TG-HND-008" in body, data.upper() in body) == (500, True, False)
    path.unlink()
    status, _, body = served.console.ask("GET", f"/file/{result}/1", **known)
    assert (status, b"are not here any more" in body) == (404, True)
