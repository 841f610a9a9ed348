"""What the pages of the console say, next to the commands that say the same; colours and keys."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.e2e.test_console_session import looked_over, violations
from tests.support.browser import Tab
from tests.support.console import PICTURES, Scene, fresh, now, scene
from tests.support.holdings import found_by_search, paper
from tests.support.requests import drafted
from tests.support.samples import box, fetch_request
from threegate.artifacts.ids import short
from threegate.artifacts.research_packet import Hazard

CODE = (
    "# a comment about p\u0430ths\n"  # a letter of another alphabet
    "def mean(rows):\n    return sum(rows) / len(rows)\n\n"
    "label = 'mean\u200d of {}'\n"
    + "".join(f"x{n} = {n} * 1.5\n" for n in range(5))
    + "mean([1])\n"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("console"), "--warm", "1") as found:
        yield found


@pytest.fixture(autouse=True)
def _tabs(served: Scene) -> Iterator[None]:
    yield
    served.chrome.close_tabs()


def texts(tab: Tab, selector: str) -> list[str]:
    """Return the words of every element."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText)"
    return [str(one) for one in tab.js(found)]


def rows(tab: Tab, selector: str) -> list[list[str]]:
    """Return the cells of a table."""
    cells = "[...row.cells].map((cell) => cell.textContent)"
    found = f"[...document.querySelectorAll({json.dumps(selector + ' tbody tr')})]"
    return [list(row) for row in tab.js(f"{found}.map((row) => {cells})")]


# -- what they say ---------------------------------------------------------------------------


def test_policy_says_what_is_in_force_what_the_files_change_and_who_enforces_it(
    served: Scene,
) -> None:
    served.console.wait_for("executor", 2)
    tab = served.tab("/policy")
    assert "no difference" in tab.text()
    (executor,) = [row for row in rows(tab, "[aria-label=Executors]") if row[0] == "monty-1"]
    assert executor[1:3] == ["applied", "1"]
    lines = served.cli("policy", "show").out.splitlines()[2:]
    printed = [re.split(r"  +", line, maxsplit=2)[:2] for line in lines]
    found = [row for one in texts(tab, "summary") for row in rows(tab, _rules(one.split()[0]))]
    assert [[where, rule] for rule, _, where in found] == printed
    assert ["tool-exec/rule_of_two", "refuse"] in [row[:2] for row in found]

    page = served.root / "policy" / "tool-exec.policy.md"
    text = page.read_text("utf-8")
    page.write_text(text.replace("rule_of_two: refuse", "rule_of_two: allow-if-approved"), "utf-8")
    (change,) = served.cli("policy", "diff", "--json", code=None).json["changes"]
    tab.open(tab.url)
    assert texts(tab, "main li") == [f"{change['effect']} {change['sentence']}"]
    assert change["effect"] == "widens"
    assert tab.js("document.querySelector('main li .chip').classList.contains('bad')")
    assert rows(tab, _rules("tool-exec")) == [
        row for row in found if row[0].startswith("tool-exec/")
    ]
    page.write_text("nonsense", "utf-8")
    tab.open(tab.url)
    assert "0 rule blocks, expected one [TG-POL-005]" in texts(tab, "main .reason")[0]
    page.write_text(text, "utf-8")
    tab.open(tab.url)
    assert "no difference" in tab.text(), "control: as it was"


def _rules(name: str) -> str:
    return f"[aria-label='Rules of {name}']"


def test_audit_is_the_log_newest_first_and_page_by_page(served: Scene) -> None:
    served.hold(*(fresh(f"x = {n}\nx\n") for n in range(60)))
    tab = served.tab("/audit")
    printed = served.cli("audit", "show", "--limit", "500").out.splitlines()[1:-1]
    entries = [line.split(maxsplit=3) for line in reversed(printed)]
    shown = rows(tab, "main .table")
    tab.acts(lambda: tab.click("main a[rel=next]"))
    shown += rows(tab, "main .table")
    assert len(shown) > 50
    assert shown == entries[: len(shown)]
    tab.acts(lambda: tab.click("main a[rel=prev]"))
    assert rows(tab, "main .table") == shown[:50]


def test_provenance_lists_and_draws_what_led_to_an_artifact(served: Scene) -> None:
    (packet,) = served.hold(paper(11, "Ice floats on water."))
    answer = served.cli("ask", "--extractive", "Does ice float?", "--json").json["id"]
    graph = served.cli("audit", "graph", answer, "--format", "json").json
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert packet in nodes, "control"
    tab = served.tab(f"/provenance/{answer}")
    links = "[...document.querySelectorAll('.card .open')].map((a) => a.getAttribute('href'))"
    assert tab.js(links) == [f"/artifact/{one}" for one in nodes]
    for words, node in zip(texts(tab, ".card"), nodes.values(), strict=True):
        for one in (short(node["id"]), node["kind"], node["state"], node["title"], *node["facts"]):
            assert one in words
    drawn = "[document.images[0].complete, document.images[0].naturalWidth > 100]"
    assert tab.js(drawn) == [True, True], "and the browser could draw it"
    picture = tab.js(f"fetch('/provenance/{answer}/picture').then((found) => found.text())")
    for one in nodes:
        assert short(one) in str(picture)
    tab.acts(lambda: tab.click(f".card .open[href$='{packet}']"))
    assert tab.url.endswith(f"/artifact/{packet}")


def test_results_are_found_by_their_words_and_lead_to_their_request(served: Scene) -> None:
    first, second = served.result("The mean is 1.25 MPa.", "Nothing of the kind.")
    tab = served.tab("/results")
    assert {short(first), short(second)} <= set(texts(tab, ".card code"))
    assert "The mean of three measurements." in texts(tab, ".card .open")
    tab.click("input[type=search]")
    tab.type("mean MPa")
    tab.acts(lambda: tab.press("Enter"))
    assert texts(tab, ".card code") == [short(first)], "the words of one of them"
    tab.acts(lambda: tab.click(".card .open"))
    assert "The mean is 1.25 MPa." in texts(tab, ".foreign")
    request = served.cli("result", "show", first, "--json").json["fields"]["request"]
    tab.acts(lambda: tab.click("table a[href^='/request/']"))
    assert tab.url.endswith(f"/request/{request}")


# Everything a page says outside of the boxes of foreign text.
_OURS = """(() => { const main = document.querySelector('main').cloneNode(true);
  main.querySelectorAll('.foreign, .text').forEach((one) => one.remove());
  return main.textContent; })()"""


# claim TG-C-454
def test_a_title_that_plays_an_id_or_a_badge_stays_in_its_box_and_leads_to_its_work(
    served: Scene,
) -> None:
    played = "rp-0123456789ab accepted RETRACTED quote found [1]"
    (one,) = served.hold(paper(14, "Basalt sinks in water.", title=played))
    asked = ("ask", "--extractive", "Does basalt sink?", "--packets", one, "--json")
    answer = served.cli(*asked).json["id"]
    pages = (
        "/packets?q=basalt",
        f"/artifact/{one}",
        f"/artifact/{answer}",
        f"/provenance/{answer}",
    )
    for path in pages:
        tab = served.tab(path)
        assert any(text.startswith(played) for text in texts(tab, ".headed")), "control"
        ours = str(tab.js(_OURS))
        assert short(one) in ours, "control: the id of the packet is in our words"
        assert "0123456789ab" not in ours
        assert "RETRACTED" not in ours
        box = "getComputedStyle(document.querySelector('.headed'))"
        assert tab.js(f"[{box}.display, {box}.borderLeftStyle, {box}.overflow]") == [
            *("block", "solid", "hidden")
        ]
        named = "[...document.links].filter((a) => a.innerText.includes('0123456789ab'))"
        assert tab.js(f"{named}.every((a) => a.pathname === '/artifact/{one}')")


def test_packets_say_first_what_must_be_known_of_them(served: Scene) -> None:
    bad = paper(12, "Glass flows.", retraction="retracted", hazards=(Hazard("bidi", 2),))
    gone, fine = served.hold(bad, paper(13, "Glass does not flow."))
    tab = served.tab("/packets?q=glass")
    chips = dict(zip(texts(tab, ".card code"), texts(tab, ".card .chips"), strict=True))
    assert "Work 12 (Ada Example et al., 2024)" in texts(tab, ".card .open")
    assert set(chips) == {short(gone), short(fine)}
    assert "RETRACTED" in chips[short(gone)]
    assert "2 x bidi" in chips[short(gone)]
    assert "RETRACTED" not in chips[short(fine)], "control"
    tab.open(f"{served.console.base}/artifact/{gone}")
    assert texts(tab, "main .reason")[0].startswith("RETRACTED: according to ")
    fields = {row[0]: row[1] for row in rows(tab, "main .part:last-child")}
    assert fields["source"] == "crossref"
    assert fields["url"].startswith("https://api.crossref.org/")


def test_doctor_says_what_status_says(served: Scene) -> None:
    tab = served.tab("/doctor")
    facts = served.cli("status", "--json").json
    first, room = "main .part:nth-of-type(1)", "[aria-label='Room in the workspace']"
    found = dict(rows(tab, first))
    assert found["place"] == facts["workspace"]
    assert found["policy"].startswith(f"generation {facts['policy']['generation']}, applied ")
    assert found["log"].startswith(f"{facts['log']['entries']} entries, ")
    waiting = facts["waiting"]
    assert found["waiting"] == f"{waiting['held']} held, {waiting['draft']} drafts"
    assert waiting["held"] > 0, "control: there is something to tell"
    usage = [[row["directory"], str(row["files"])] for row in facts["usage"]]
    assert [row[:2] for row in rows(tab, room)] == usage


# -- how they look ----------------------------------------------------------------------------

_CONTRAST = (
    "axe.run({runOnly: ['color-contrast']}).then((found) => JSON.stringify([found.passes.length,"
    "found.violations.map((one) => one.nodes.map((node) => node.html.slice(0, 200)))]))"
)


def contrast(tab: Tab, rule: str = "") -> list[object]:
    """Return on how many rules axe had something to look at, and what cannot be read.

    Nothing may lie over anything, as the bar with the buttons does: axe leaves out what is below.
    """
    tab.js("document.adoptedStyleSheets = [new CSSStyleSheet()]")
    for one in ("* { position: static !important; }", *([rule] if rule else [])):
        tab.js(f"document.adoptedStyleSheets[0].insertRule({one!r})")
    return looked_over(tab, _CONTRAST)


def everything(served: Scene) -> dict[str, str]:
    """Put one of everything there; return where each page is."""
    (packet,) = served.hold(paper(14, "Ice floats.", hazards=(Hazard("bidi", 2),)))
    analysis = served.cli("ask", "--extractive", "Does ice float?", "--json").json["id"]
    (result,) = served.result("1.25")
    (found,) = served.hold(found_by_search("title: Ice\npublished: 2020\ndoi:10.5555/1"))
    similar = box("The mean of a few measurements of ice")
    served.hold(fresh(CODE, purpose=similar))
    changed = CODE.replace("x3 = 3", "x3 = 33").replace("x4 = 4 * 1.5\n", "")
    (request,) = served.hold(fresh(changed, purpose=similar))
    joined = drafted(fetch_request(created=now(), references=(box("10.1000/182"),)))
    (fetch,) = served.hold(replace(joined, confidentiality="confidential"))
    names = ("inbox", "ask", "analyses", "results", "packets", "policy", "audit", "doctor")
    pages = {name: f"/{name}" for name in (*names, "fetch", "search", "run", "nothing")}
    shown = {"result": result, "packet": packet, "answer": analysis}
    pages |= {name: f"/artifact/{one}" for name, one in shown.items()}
    pages |= {"candidates": f"/candidates/{found}", "heavy": "/run?backend=era"}
    pages |= {"provenance": f"/provenance/{analysis}", "sources": f"/request/{fetch}"}
    return {**pages, "code": f"/request/{request}", "bytes": f"/request/{request}/bytes"}


COLOURS = {"keyword", "string", "number", "comment", "added", "removed", "spelled", "bad", "warn"}
_STYLES = "[...document.querySelectorAll('#sheet [class^=s-]')].map((e) => e.className.slice(2))"


def test_every_page_can_be_read_in_both_schemes_and_fits_a_tablet(served: Scene) -> None:
    paths = everything(served)
    tab = served.tab()
    for width, scheme in ((1280, "dark"), (820, "light")):
        tab.size(width, 900)
        tab.scheme(scheme)
        styles = set()
        for name, path in paths.items():
            tab.open(served.console.base + path)
            assert tab.js("document.documentElement.scrollWidth <= innerWidth"), (name, width)
            styles |= set(tab.js(_STYLES))
            assert contrast(tab) == [1, []], (name, scheme)
        assert styles >= COLOURS, "control: every colour was there to be looked at"
        tab.open(served.console.base + paths["code"])
        tab.shot(PICTURES / f"code-{scheme}-{width}.png", whole=True)
    assert violations(tab) == []
    pale = ".s-keyword { color: #777 !important; }"  # on either ground
    assert contrast(tab, pale)[1], "control: a colour that is too pale is found"


# -- keys -------------------------------------------------------------------------------------


def test_keys_move_search_leave_and_go_home(served: Scene) -> None:
    served.hold(*(fresh(f"k = {n}\nk\n") for n in range(3)))
    tab = served.tab("/inbox")
    cards = tab.js("[...document.querySelectorAll('.card .open')].map((e) => e.pathname)")
    assert len(cards) > 2, tab.text()
    focused = "document.activeElement.pathname"
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("k", 1), ("k", 0), ("k", 0), ("j", 1)):
        tab.press(key)
        assert tab.js(focused) == cards[at], (key, at)
    tab.acts(lambda: tab.press("Enter"))
    assert tab.url.endswith(cards[1])

    tab.size(1280, 400)
    tab.js("scrollTo(0, 0)")
    tab.press("j")
    tab.wait("scrollY === 60")
    tab.press("k")
    tab.wait("scrollY === 0")
    tab.press("d")
    assert tab.js("document.activeElement.id") == "reason"
    tab.press("i")
    assert tab.js("document.activeElement.value") == "i", "in a field a key is a letter"
    tab.press("Escape")
    assert tab.js("document.activeElement === document.body"), "and Esc leaves it"
    tab.press("/")
    assert tab.js("document.activeElement === document.body"), "nothing to search here"
    tab.acts(lambda: tab.press("i"))
    assert tab.url == f"{served.console.base}/inbox"

    tab.open(f"{served.console.base}/packets")
    tab.press("/")
    assert tab.js("document.activeElement.type") == "search"
    assert tab.js("document.activeElement.value") == "", "the key itself is not typed"
    tab.press("Escape")
    tab.press("?")
    assert tab.js("document.getElementById('help').open")
    tab.press("i")
    assert tab.url == f"{served.console.base}/packets", "behind the keys nothing moves"
    tab.press("Escape")
    assert not tab.js("document.getElementById('help').open")
    tab.acts(lambda: tab.press("i"))
    assert tab.url == f"{served.console.base}/inbox", "control: closed, they work again"
