"""A search in the console, in a real browser on the test internet: run inside by a `Place`.

Started with the directory of a user.  What left, and when, is judged outside by what arrived.
"""

import sys
from pathlib import Path

from tests.support.cli import Cli
from tests.support.console import Scene, post, scene_of
from tests.support.console_day import Day
from tests.support.origins import works

WORDS = "lake ice"
REFUSED = "sea ice"  # searched when policy wants an approval
CITING = f"one.innerText.includes({works.RETRACTED.title.removeprefix('RETRACTED: ')!r})"
HERE = "document.querySelectorAll('main input[type=checkbox]').length > 0"


def search(day: Day) -> None:
    """Search, tick the second work, sign that, and have it fetched."""
    tab = day.tab
    day.go("/search")
    day.fill("#words", WORDS)
    day.follow("main button[type=submit]")
    tab.wait(f"location.pathname.startsWith('/candidates/') && {HERE}")
    day.keep("candidates")
    text = tab.text()
    assert works.ARTICLE.title in text
    assert works.RETRACTED.title.removeprefix("RETRACTED: ") in text
    assert works.RETRACTED.title not in text, "the chip says so, once"
    assert "retracted" in text.lower()
    day.go("/packets")
    assert day.tab.js("document.querySelectorAll('.card').length") == 1, "the list, and no work"
    day.follow(".card .open")
    day.follow("main a[href^='/candidates/']")
    named = (
        "[...document.querySelectorAll('.candidate')]"
        f".find((one) => one.innerText.includes('{works.RETRACTED.doi}')).querySelector('input').id"
    )
    tab.click(f"#{tab.js(named)}")
    day.fill("#purpose", "What was retracted")
    day.follow("main button[type=submit]")
    assert f"doi:{works.RETRACTED.doi}" in tab.text()
    (ended,) = day.ran(day.approve(), 1)
    assert (ended["outcome"], ended["code"]) == ("made", ""), ended


def follow(day: Day) -> None:
    """List what the fetched work cites, from its page."""
    day.go("/packets")
    named = (
        f"[...document.querySelectorAll('.card')].find((one) => {CITING}).querySelector('a').href"
    )
    day.go(str(day.tab.js(f"new URL({named}).pathname")))
    day.follow("main a[href^='/related/']")
    assert f"doi:{works.RETRACTED.doi}" in day.tab.text()
    day.keep("related")
    day.follow("main button[type=submit]")
    day.tab.wait(f"location.pathname.startsWith('/candidates/') && {HERE}")
    text = day.tab.text()
    assert "Found at crossref" in text, text
    assert f"doi:{works.SILENT.doi}" in text


def refuse(scene: Scene, day: Day) -> None:
    """Have policy want an approval for what the operator asks, and search again."""
    file = scene.root / "policy" / "fetch.policy.md"
    text = file.read_text("utf-8")
    file.write_text(text.replace("operator_requests: allow", "operator_requests: ask", 1), "utf-8")
    scene.cli("policy", "apply", "--yes")
    day.go("/search")
    day.fill("#words", REFUSED)
    day.follow("main button[type=submit]")
    day.tab.wait("!document.getElementById('asking')")
    text = day.tab.text()
    assert "a list cannot be held for approval" in text, text
    assert "policy/fetch.policy.md:" in text
    assert day.tab.js("document.getElementById('words').value") == REFUSED, "to be corrected"
    csrf = str(day.tab.js("document.querySelector('main [name=csrf]').value"))
    fields = {"csrf": csrf, "words": "x", "source": "crossref", "rows": "10"}
    fields["confidentiality"] = "public"
    for name, value in (("source", "https://evil.example"), ("rows", "1000"), ("words", " ")):
        status, _ = post(day.tab, "/search", {**fields, name: value})
        assert status == 422, name


def main(base: Path) -> None:
    """Search as policy allows, then as it does not."""
    with scene_of(Cli(base, base / "ws", {})) as scene:
        day = Day(scene, base / "pictures")
        search(day)
        follow(day)
        refuse(scene, day)
        assert [one for one in scene.console.events if one["event"] == "bug"] == []


if __name__ == "__main__":
    main(Path(sys.argv[1]))
