"""Broken and nested CSS: what Chromium does not show is taken out of the page or counted.

Style sheets are put together at random from declarations that hide and show, from selectors, and
from pieces of syntax in any place.  Reader and browser judge the same paragraph.  The seed is
fixed; a sheet that was judged wrongly becomes a vector in `tests/support/pages.py`.
"""

import html
import json
import random
import re
from collections import Counter
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from tests.support.browser import opened
from threegate.gates.fetch.normalize.readers.hidden_html import remove_hidden

SHEETS = 600
DECLARATIONS = (
    *("display:none", "display:block", "visibility:hidden", "visibility:visible", "opacity:0"),
    *("opacity:1", "font-size:0", "font-size:12px", "font:0/0 a", "font:16px a", "color:#fff"),
    *("color:#000", "color:hsl(0 0% 100%)", "color:hsl(0,0,0)", "background:#000", "display:x"),
    *("--x:none", "--x:block", "--x: ", "display:var(--x)", "display:var(--x,none)", "--y:{}"),
    *("opacity:calc(1 - 1)", "d\\69splay:none", "display:none!important", "content:'a'", "x:y"),
)
SELECTORS = (
    *(".x9", "p.x9", "p", "*", ".x9:hover", ".x9::before", "article .x9", "article>.x9", "u+p"),
    *("h1~p", "p:not(.y)", "[class=x9]", ":root", "html", "a|b", ">p", ".x9,.y", ".x9,:bogus"),
    *("&.x9", "& .x9", "#i", "p:nth-child(n)", ".\\78 9", ".X9", ".x9:is(#i)", "p:where(.x9)"),
    *("*|p", "p,", "", ":is(.x9)", ".x9::-moz-x", ".x9::-webkit-zz", "article:has(p) p", ".y"),
)
AT_RULES = ("@media print", "@media screen", "@media all", "@supports (x:y)", "@layer a", "@x")
PIECES = (
    *("/*", "*/", "/**/", "'", '"', "\\", "(", ")", "{", "}", "{}", "[", "]", ";", ":", "!", "!x"),
    *("!important", "url(", "url(a b)", "\n", "\f", "@media print", "@import", "@x;", "<!--"),
    *("-->", "u+1", "u+a", "\\29 ", "\\)", "\\\\", "\\{", "1", " ", ",", "&", "\\d800 ", "é"),
    *("a:b{}", "--z:a{}b", "#", "|", "*", ">", "+", "."),
)
# Judge the paragraph of each page in turn, and leave the verdicts in the page.
LOOK = """
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const alike = (a, b) => [0, 1, 2].every((at) => Math.abs(a[at] - b[at]) <= 16);
function seen(place) {
  const p = place.getElementById("i"), style = (e) => place.defaultView.getComputedStyle(e);
  if (!p.checkVisibility({visibilityProperty: true})) return "hidden";
  let paper = null, opacity = 1;
  for (let e = p; e; e = e.parentElement) {
    opacity *= parseFloat(style(e).opacity);
    const colour = parts(style(e).backgroundColor);
    if (!paper && (colour.length < 4 || colour[3] > 0.9)) paper = colour;
  }
  const ink = parts(style(p).color);
  const gone = opacity <= 0.05 || parseFloat(style(p).fontSize) < 2;
  return gone || alike(ink, paper || [255, 255, 255]) ? "hidden" : "shown";
}
const found = pages.map((text) => {
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.contentDocument.open();
  frame.contentDocument.write(text);
  frame.contentDocument.close();
  const verdict = seen(frame.contentDocument);
  frame.remove();
  return verdict;
});
document.body.appendChild(document.createElement("pre")).textContent = "@" + found.join(" ") + "@";
"""


def broken(text: str, chance: random.Random, counts: tuple[int, ...]) -> str:
    for _ in range(chance.choice(counts)):
        at = chance.randint(0, len(text))
        text = text[:at] + chance.choice(PIECES) + text[at:]
    return text


def rule(chance: random.Random, depth: int = 0) -> str:
    block = ";".join(chance.choice(DECLARATIONS) for _ in range(chance.randint(1, 4)))
    inner = broken(block, chance, (0, 0, 1))
    if depth < 2 and chance.random() < 0.35:
        inner += f";{rule(chance, depth + 1)};{chance.choice(DECLARATIONS)}"
    begin = chance.choice(SELECTORS if chance.random() < 0.85 else AT_RULES)
    if begin.startswith("@") and chance.random() < 0.7:
        inner = rule(chance, depth + 1)
    return f"{begin}{{{inner}}}"


def sheet(chance: random.Random) -> str:
    rules = "".join(rule(chance) for _ in range(chance.randint(1, 3)))
    return broken(rules, chance, (0, 0, 1, 1, 2))


def page(text: str) -> str:
    return (
        f"<!doctype html><html><head><style>{text}</style></head><body><article><h1>h</h1><u>u</u>"
        '<p id="i" class="x9">ZZmarker</p></article></body></html>'
    )


def judged(text: str) -> str:
    parsed = LexborHTMLParser(page(text))
    removed = remove_hidden(parsed)
    assert parsed.body is not None
    verdict = "shown" if "ZZmarker" in parsed.body.text() else "removed"
    return "counted" if removed.undecided and verdict == "shown" else verdict


def in_browser(pages: list[str], directory: Path) -> list[str]:
    written = json.dumps(pages).replace("<", "\\u003c")
    document = f"<!doctype html><body><script>const pages = {written};{LOOK}</script>"
    found = re.search("@([a-z ]+)@</pre>", html.unescape(opened(document.encode(), directory).dom))
    assert found is not None
    return found[1].split()


# claim TG-C-422
def test_what_a_browser_hides_is_removed_or_counted_in_any_sheet(tmp_path: Path) -> None:
    chance = random.Random(20261118)
    sheets = [sheet(chance) for _ in range(SHEETS)]
    verdicts = in_browser([page(text) for text in sheets], tmp_path / "browser")
    assert len(verdicts) == SHEETS
    found = Counter(zip(map(judged, sheets), verdicts, strict=True))
    print(f"\n{dict(found)}")
    missed = [
        text
        for text, verdict in zip(sheets, verdicts, strict=True)
        if verdict == "hidden" and judged(text) == "shown"
    ]
    assert not missed
    assert found["removed", "hidden"] > SHEETS // 10, "control: the reader decides"
    assert found["shown", "shown"] > SHEETS // 10, "control: not everything is doubted"
