"""Taking out of a page what a reader of it would not see.

Elements that are never shown, attributes and inline styles that hide, and rules of the style
sheets inside the page.  What cannot be decided (a sheet outside the page, a rule that depends
on the screen, white ink on unknown paper) stays and is counted.

SECURITY
    Hostile pages.  Nodes belong to lexbor's memory: one that was taken out is never touched
    again, so only the outermost of nested findings are taken out.  If this module is wrong, a
    packet quotes text that nobody saw on the page.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from threegate.fetch.normalize.readers.css import (
    WHITE,
    Colour,
    background,
    colour,
    declarations,
    look,
    same,
)
from threegate.fetch.normalize.readers.stylesheets import Hiding, paper_of, read_sheets

# No text of the page at all, whatever a browser does with it.
_MACHINERY: Final = "script, style, link, meta, base, object, embed, applet, iframe, frame, param"
_CONTROLS: Final = (
    "svg, canvas, audio, video, textarea, select, datalist, map, progress, meter, "
    "math annotation, math annotation-xml, body title"
)
_NEVER_SHOWN: Final = (
    "template, noscript, noframes, noembed, [hidden], [aria-hidden], [popover], "
    "dialog:not([open]), details:not([open]), rp"
)
_NEVER_SHOWN_TAGS: Final = ("template", "noscript", "noframes", "noembed", "dialog", "rp")
_STYLED: Final = "[style], font[color]"
_TAG: Final = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Removed:
    """What was taken out of a page."""

    hidden: int  # characters
    undecided: int  # places


def remove_hidden(page: LexborHTMLParser) -> Removed:
    """Take out of `page` what is not seen, and say how much that was."""
    sheets = read_sheets(node.text() for node in page.css("style"))
    outside = len(page.css('link[rel~="stylesheet" i][href]'))
    for node in outermost(_keyed(page.css(f"{_MACHINERY}, {_CONTROLS}"))):
        node.decompose()
    paper = None if outside else paper_of(sheets)
    sheet = Hiding(page, sheets, paper)
    finder = _Finder(page, paper)
    for node, ink in sheet.inked:
        finder.compare(node, ink)
    found = {**sheet.nodes, **finder.nodes}
    # Some pages start hidden and are shown by a script: all or nothing is no finding.
    wholes = [key for key, node in found.items() if node.tag in ("html", "body", "head")]
    for key in wholes:
        del found[key]
    hidden = finder.take_out_shrunk(found)  # before anything these nodes lie in is gone
    for node in outermost(found):
        hidden += _letters(node)
        node.decompose()
    return Removed(hidden, outside + sheet.undecided + finder.undecided + len(wholes))


class _Finder:
    """The elements that are hidden by what they are or by their own style."""

    def __init__(self, page: LexborHTMLParser, paper: Colour | None) -> None:
        self.nodes: dict[int, LexborNode] = {}
        self.undecided = 0
        self._page_paper = paper
        self._shrunk: dict[int, LexborNode] = {}
        for node in page.css(_NEVER_SHOWN):
            self._never_shown(node)
        for node in page.css(_STYLED):
            self._styled(node)

    def _never_shown(self, node: LexborNode) -> None:
        attributes = node.attributes
        if node.tag == "details":
            inner = node.iter(include_text=True)
            self.nodes.update(_keyed(child for child in inner if child.tag != "summary"))
        elif (
            node.tag in _NEVER_SHOWN_TAGS
            or "hidden" in attributes
            or "popover" in attributes
            or attributes.get("aria-hidden") == "true"
        ):
            self.nodes[node.mem_id] = node

    def _styled(self, node: LexborNode) -> None:
        found = declarations(node.attributes.get("style") or "")
        seen = look(found)
        if seen.hidden_by in ("font-size", "font") and _resized(node):
            self._shrunk[node.mem_id] = node
        elif seen.hidden_by:
            self.nodes[node.mem_id] = node
            # A child may be visible again; it goes too, and that is said.
            self.undecided += int(
                seen.hidden_by == "visibility" and bool(node.css('[style*="visible" i]'))
            )
        elif seen.undecided_by:
            self.undecided += 1
        else:
            ink = colour(found["color"][0] if "color" in found else _attribute(node, "color"))
            if ink is not None:
                self.compare(node, ink)

    def compare(self, node: LexborNode, ink: Colour) -> None:
        """Compare the ink of an element with the nearest paper that is known."""
        paper = _paper(node) or self._page_paper
        if paper is None:
            self.undecided += int(same(ink, WHITE))
        elif same(ink, paper):
            self.nodes[node.mem_id] = node

    def take_out_shrunk(self, others: dict[int, LexborNode]) -> int:
        """Take out text of no size, but for children with a size of their own; count it."""
        count = 0
        for top in self._shrunk.values():
            if top.mem_id in others or _beneath(top, others):
                continue
            stack = [top]
            while stack:
                for child in list(stack.pop().iter(include_text=True)):
                    if child.mem_id in others or child.mem_id in self._shrunk:
                        continue
                    if child.is_text_node:
                        count += _letters(child)
                        child.decompose()
                    elif "font" not in (child.attributes.get("style") or "").lower():
                        stack.append(child)
        return count


def _resized(node: LexborNode) -> bool:
    return any(inner.mem_id != node.mem_id for inner in node.css('[style*="font" i]'))


def _paper(node: LexborNode) -> Colour | None:
    """Return the colour painted under an element by itself or an element around it."""
    at: LexborNode | None = node
    while at is not None:
        if at.is_element_node:
            style = at.attributes.get("style")
            painted = background(declarations(style)) if style else None
            painted = painted or colour(_attribute(at, "bgcolor"))
            if painted is not None:
                return painted
        at = at.parent
    return None


def _attribute(node: LexborNode, name: str) -> str:
    return (node.attributes.get(name) or "").strip().lower()


def _keyed(nodes: Iterator[LexborNode] | list[LexborNode]) -> dict[int, LexborNode]:
    return {node.mem_id: node for node in nodes}


def _beneath(node: LexborNode, others: dict[int, LexborNode]) -> bool:
    at = node.parent
    while at is not None:
        if at.mem_id in others:
            return True
        at = at.parent
    return False


def outermost(found: dict[int, LexborNode]) -> list[LexborNode]:
    """Return those that lie in none of the others."""
    return [node for node in found.values() if not _beneath(node, found)]


def _letters(node: LexborNode) -> int:
    """Count the characters in a node, white space left out."""
    text = node.text(deep=True)
    if node.tag == "template":  # its content is a document of its own
        text = _TAG.sub(" ", node.html or "")
    return sum(map(len, (text or "").split()))
