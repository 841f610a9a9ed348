"""What an element is by its tag and attributes, and where the sheets of a page are.

SECURITY
    Hostile pages.  Nodes belong to lexbor's memory.  Attributes are declarations only on the
    tags where browsers take them as such, and weaker than any rule of a sheet.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from threegate.gates.fetch.normalize.readers.colours import paint
from threegate.gates.fetch.normalize.readers.css import Declarations
from threegate.gates.fetch.normalize.readers.stylesheets import Sheet

_TAG: Final = re.compile(r"<[^>]*>")
_PLAIN_COLOUR: Final = re.compile(r"[a-z]+|#[0-9a-f]{3}|#[0-9a-f]{6}")
# Document types with which names of classes have a case, and tables the colour of the page.
# With more comments before it than that, it is not certain.  No possessive group: Python before
# 3.11.5 skips text that such a group did not match (gh-100061).
_STANDARD: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<!-- [^<>]*-->\s*+){0,100}<!doctype\s+html\s*"
    rb"(?:public\s+[\"']-//w3c//dtd (?:xhtml 1\.[01]|html 4\.01)[^\"'>]*+[\"']\s*[\"'][^>]*+)?>",
    re.IGNORECASE,
)
_TABLE: Final = ("table", "thead", "tbody", "tfoot", "tr", "td", "th")
# Attributes that are declarations, and the tags on which they are.
_HINTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "bgcolor": ("background-color", ("body", *_TABLE)),
    "background": ("background-image", ("body", *_TABLE)),
    "color": ("color", ("font",)),
    "text": ("color", ("body",)),
}
_IN_FORMULAS: Final = ("mathbackground", "mathcolor", "mathsize")
# What browsers declare themselves for a tag.
_BUILT_IN: Final[dict[str, Declarations]] = {
    "mark": {"background-color": ("#ff0", False), "color": ("#000", False)},
    "dialog": {
        "position": ("absolute", False),
        "background-color": ("#fff", False),
        "color": ("#000", False),
    },
}
_LINK: Final = "#0000ee"


def hints(
    tag: str, attributes: dict[str, str | None], *, link: str, standard: bool
) -> Declarations:
    """Return what an element's tag and attributes declare; `link` is the colour of a link."""
    if not attributes and tag not in _BUILT_IN and (standard or tag != "table"):
        return {}
    shown = tag != "dialog" or "open" in attributes
    found = dict(_BUILT_IN.get(tag, {})) if shown else {}
    if tag == "a" and "href" in attributes:
        found["color"] = (link, False)
    if tag == "table" and not standard:  # may take no colour from what is around it
        found["color"] = ("legacy()", False)
    for name, value in attributes.items():
        hint, tags = _HINTS.get(name, ("", ()))
        if tag in tags and value:
            made = 'url("")' if name == "background" else legacy_colour(value)
            found[hint] = (made, False)
        elif name in _IN_FORMULAS:  # not decided
            found["color"] = (f"{name}()", False)
    return found


def legacy_colour(value: str) -> str:
    """Return the colour of an attribute; browsers make one of any text, here it is not known."""
    value = value.strip().lower()
    known = _PLAIN_COLOUR.fullmatch(value) and value != "transparent" and paint(value)
    return value if known else "legacy()"


def link_colour(page: LexborHTMLParser) -> str:
    """Return the colour of links that no rule gives one."""
    value = page.body.attributes.get("link") if page.body is not None else None
    return legacy_colour(value) if value else _LINK


def sheets_of(page: LexborHTMLParser) -> Iterator[Sheet]:
    """Yield the sheets inside a page."""
    for node in page.css("style"):
        kind, media = node.attributes.get("type") or "", _attribute(node, "media")
        if kind.lower() not in ("", "text/css"):
            continue
        conditional = media not in ("", "all", "screen") or _is_in(
            node, ("noscript", "math", "template")
        )
        yield Sheet(node.text(), conditional)


def is_standard(page: LexborHTMLParser) -> bool:
    """Tell whether it is certain that browsers read a page by the standard, not as an old one."""
    return _STANDARD.match(page.raw_html or b"") is not None


def letters(node: LexborNode) -> int:
    """Count the characters in a node, white space left out."""
    text = node.text(deep=True)
    if node.tag == "template":  # its content is a document of its own
        text = _TAG.sub(" ", node.html or "")
    return sum(map(len, (text or "").split()))


def keyed(nodes: Iterable[LexborNode]) -> dict[int, LexborNode]:
    """Return nodes by their places in memory."""
    return {node.mem_id: node for node in nodes}


def _attribute(node: LexborNode, name: str) -> str:
    return (node.attributes.get(name) or "").strip().lower()


def _is_in(node: LexborNode, tags: tuple[str, ...]) -> bool:
    at = node.parent
    while at is not None:
        if at.tag in tags:
            return True
        at = at.parent
    return False


def outermost(found: dict[int, LexborNode]) -> list[LexborNode]:
    """Return those that lie in none of the others."""
    return [node for node in found.values() if not _beneath(node, found)]


def _beneath(node: LexborNode, others: dict[int, LexborNode]) -> bool:
    at = node.parent
    while at is not None:
        if at.mem_id in others:
            return True
        at = at.parent
    return False
