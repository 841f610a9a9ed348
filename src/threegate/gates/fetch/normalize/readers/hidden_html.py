"""Taking out of a page what a reader of it would not see.

The page is walked once, in document order.  Each element gets the declarations that mean it, and
from those around it the ink, the paper and the size of its text.  What cannot be decided (a
sheet outside the page, a rule that depends on the screen, a value that is not understood, a
block that may lie over others) stays and is counted.

SECURITY
    Hostile pages.  Nodes belong to lexbor's memory: one that was taken out is never touched
    again, so only the outermost of nested findings are taken out.  If this module is wrong, a
    packet quotes text that nobody saw on the page.
"""

import re
from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from threegate.gates.fetch.normalize.readers.css import (
    UNREAD,
    Declarations,
    declarations,
    readings,
    words,
)
from threegate.gates.fetch.normalize.readers.elements import (
    hints,
    is_standard,
    keyed,
    letters,
    link_colour,
    outermost,
    sheets_of,
)
from threegate.gates.fetch.normalize.readers.selectors import Matcher, Trail
from threegate.gates.fetch.normalize.readers.stylesheets import (
    MAX_CONDITIONS,
    Rule,
    Sheets,
    cascade,
    read_sheets,
)
from threegate.gates.fetch.normalize.readers.surroundings import Look, Surroundings, covers, look

MAX_MATCHES: Final = 300_000  # steps of matching rules one by one, over all elements
MAX_RULE_ELEMENTS: Final = 200_000_000  # parts of selectors times elements
MAX_STYLES_CHARS: Final = 2_000_000  # of all `style` attributes that differ
MAX_READINGS: Final = 8  # of what lies around an element

# No text of the page at all, whatever a browser does with it.
_MACHINERY: Final = "script, style, link, meta, base, object, embed, applet, iframe, frame, param"
_CONTROLS: Final = (
    "svg, canvas, audio, video, textarea, select, datalist, map, progress, meter, "
    "math annotation, math annotation-xml, body title"
)
_OTHER_TAGS: Final = frozenset(re.findall("[-a-z]+", f"{_MACHINERY}, {_CONTROLS}")) - {
    *("body", "math")
}
_NEVER_SHOWN_TAGS: Final = ("template", "noscript", "noframes", "noembed", "rp", "mphantom")
# What decides about the page from outside of it, or forbids styles that are in it.
_OUTSIDE: Final = (
    'link[rel~="stylesheet" i][href], meta[http-equiv="content-security-policy" i], '
    'meta[name="color-scheme" i][content*="dark" i]:not([content*="light" i])'
)
_WHOLES: Final = ("html", "body", "head")


@dataclass(frozen=True, slots=True)
class Removed:
    """What was taken out of a page."""

    hidden: int  # characters
    undecided: int  # places


@dataclass(slots=True)
class _Place:
    """What is known of an element when those in it are looked at."""

    parent: int
    arounds: tuple[Surroundings, ...]  # as it is, and as it may be
    trail: Trail
    gone: bool = False  # hidden, or in something hidden
    unread: bool = False  # its own text is not seen
    before: int = 0  # what the last of its children matched
    earlier: int = 0  # what any of them matched


@dataclass(slots=True)
class _Seen:
    """What the declarations of an element come to."""

    arounds: tuple[Surroundings, ...]
    hidden: bool = False
    unread: bool = False
    undecided: bool = False
    visibility: bool = False
    covers: bool = False  # undecided because it may lie over the text of others


def remove_hidden(page: LexborHTMLParser) -> Removed:
    """Take out of `page` what is not seen, and say how much that was."""
    outside = len(page.css(_OUTSIDE))
    sheets = read_sheets(sheets_of(page))
    walk = _Walk(page, sheets, known=not (outside or sheets.undecided))
    hidden = 0
    for node in walk.texts:  # before anything they lie in is gone
        hidden += letters(node)
        node.decompose()
    for node in outermost(keyed(page.css(f"{_MACHINERY}, {_CONTROLS}"))):
        node.decompose()
    for node in walk.nodes:
        hidden += letters(node)
        node.decompose()
    return Removed(hidden, outside + sheets.undecided + walk.count())


class _Walk:
    """One walk over the elements of a page."""

    def __init__(self, page: LexborHTMLParser, sheets: Sheets, *, known: bool) -> None:
        self.nodes: list[LexborNode] = []  # hidden with everything in them, the outermost
        self.texts: list[LexborNode] = []  # hidden by themselves
        self._sheets = sheets
        self._doubts: list[tuple[int, object]] = []  # the element, and what is counted once
        self._texted: set[int] = set()  # elements with text that is not hidden
        self._seen: dict[tuple[object, ...], _Seen] = {}
        self._standard = is_standard(page)
        self._styles: dict[str, Declarations] = {"": {}}
        self._styles_room = MAX_STYLES_CHARS
        for node in page.css("[style*='--' i]"):
            sheets.define(self._declared(node.attributes))
        sheets.settle()
        self._link = link_colour(page)
        # Animations that hide, or may.
        self._moving = {
            name for name, frames in sheets.frames.items() if any(map(_is_doubtful, frames))
        }
        self._rules = self._possible(page)
        self._matcher = Matcher(rule.selector for rule in self._rules)
        # Colours that a sheet outside sets are not known; without one they are the browser's.
        start = Surroundings() if known else Surroundings(ink=None, paper=None)
        self._start = _Place(0, (start,), Trail())
        self._places: dict[int, _Place] = {}
        self._shadows = {
            node.parent.mem_id: node
            for node in page.css("template[shadowrootmode], template[shadowroot]")
            if node.parent is not None
        }
        root = page.root
        for node in root.traverse(include_text=True) if root is not None else ():
            if node.is_text_node:
                self._text(node)
            elif node.is_element_node:
                self._element(node)

    def _possible(self, page: LexborHTMLParser) -> list[Rule]:
        """Return the rules whose classes and ids are all on the page."""
        if not self._sheets.rules:
            return []
        keys: set[str] = set()
        for node in page.css("[class], [id]"):
            keys |= self._keys("", node.attributes)
        if not self._standard:
            self._sheets.undecided += self._has_two_cases(keys)
        rules, room = [], MAX_RULE_ELEMENTS // (len(page.css("*")) or 1)
        for rule in self._sheets.rules:
            named = (need for part in rule.selector.parts for need in part.needs)
            if all(need in keys for need in named if need[0] in ".#"):
                rules.append(rule)
                room -= len(rule.selector.parts)
                if room < 0:
                    self._sheets.undecided += 1
                    break
        return rules

    def _has_two_cases(self, keys: set[str]) -> bool:
        """Tell whether a name is written in two ways, and the case may or may not count."""
        named = {
            need
            for rule in self._sheets.rules
            for part in rule.selector.parts
            for need in part.needs
            if need[0] in ".#"
        } | {key for key in keys if key[:1] in (".", "#")}
        return len({name.lower() for name in named}) < len(named)

    def count(self) -> int:
        """Return how many places with text are undecided."""
        found = {what for key, what in self._doubts if key in self._texted or not key}
        odd = sum(_is_doubtful(block) for block in self._sheets.odd)
        cut = self._matcher.work >= MAX_MATCHES
        return len(found) + odd + bool(self._sheets.fonts) + cut

    def _text(self, node: LexborNode) -> None:
        parent = node.parent
        place = self._places.get(parent.mem_id) if parent is not None else None
        if node.mem_id in self._places:  # hidden with what stands beside it
            return
        if place is None or place.gone or not (node.text_content or "").strip():
            return
        if place.unread:
            self.texts.append(node)
            return
        at = parent.mem_id if parent is not None else 0
        while at and at not in self._texted:
            self._texted.add(at)
            at = self._places[at].parent

    def _element(self, node: LexborNode) -> None:
        parent = node.parent
        outer = self._places.get(parent.mem_id) if parent is not None else None
        key, tag, attributes = node.mem_id, node.tag or "", node.attributes
        if key in self._places:  # hidden with what stands beside it
            return
        outer = outer or self._start
        matched = 0
        if self._rules and self._matcher.work < MAX_MATCHES:
            keys = self._keys(tag, attributes)
            matched = self._matcher.match(keys, outer.trail, outer.before, outer.earlier)
            outer.before, outer.earlier = matched, outer.earlier | matched
        place = _Place(
            parent.mem_id if parent is not None and parent.mem_id in self._places else 0,
            outer.arounds,
            Trail(outer.trail.around | matched, matched),
            gone=outer.gone or tag in _OTHER_TAGS,
            unread=outer.unread,
        )
        self._places[key] = place
        if outer.gone:
            return
        ends = self._matcher.ends(matched)
        own = self._declared(attributes)
        built_in = hints(tag, attributes, link=self._link, standard=self._standard)
        if ends or own or built_in:
            self._style(node, place, ends, (own, built_in))
        if not place.gone:
            self._nature(node, place, tag, attributes)

    def _declared(self, attributes: dict[str, str | None]) -> Declarations:
        """Return what the `style` of an element declares."""
        style = attributes.get("style") or ""
        if style not in self._styles:
            self._styles_room -= len(style)
            known = self._styles_room >= 0
            self._styles[style] = declarations(style) if known else {UNREAD: ("", False)}
        return self._styles[style]

    def _keys(self, tag: str, attributes: dict[str, str | None]) -> set[str]:
        names = (attributes.get("class") or "").split()
        identity = attributes.get("id")
        keys = {tag, *(f".{name}" for name in names), *(f"[{name}]" for name in attributes)}
        if identity:
            keys.add(f"#{identity}")
        return keys

    def _style(
        self, node: LexborNode, place: _Place, ends: int, given: tuple[Declarations, Declarations]
    ) -> None:
        tag, own = node.tag or "", given[0]
        declared = tuple(tuple(block.items()) for block in given)
        what = (ends, declared, place.arounds, tag if tag in _OTHER_TAGS else "")
        seen = self._seen.get(what)
        if seen is None:
            seen = self._seen[what] = self._judged(ends, given, place.arounds, tag)
        # A rule is counted once for all elements it means; a style of its own each time.
        counted: object = (node.mem_id,) if own else (ends, declared)
        place.arounds, place.unread = seen.arounds, seen.unread
        if tag in _WHOLES and (seen.hidden or seen.unread):
            # Some pages start hidden and are shown by a script: all or nothing is no finding.
            self._doubts.append((0, counted))
            place.unread = False
            place.arounds = tuple(one._replace(ink=None, size=16.0) for one in seen.arounds)
        elif seen.hidden and tag in ("col", "colgroup"):  # hides cells that are not in it
            self._doubts.append((0, counted))
        elif seen.hidden:
            self._hide(node, place)
            if seen.visibility and node.css_first('[style*="visible" i]') is not None:
                self._doubts.append((0, counted))
        elif seen.undecided:
            self._doubts.append((0 if seen.covers else node.mem_id, counted))

    def _hide(self, node: LexborNode, place: _Place) -> None:
        place.gone = True
        if node.tag not in _OTHER_TAGS:
            self.nodes.append(node)

    def _judged(
        self,
        ends: int,
        given: tuple[Declarations, Declarations],
        arounds: tuple[Surroundings, ...],
        tag: str,
    ) -> _Seen:
        """Look at an element in every reading of its declarations and of what is around it."""
        rules = [self._rules[number] for number in self._matcher.selectors(ends)]
        self._matcher.work += len(rules)
        boxes = [rule for rule in rules if rule.selector.box]
        rules = [rule for rule in rules if not rule.selector.box]
        variables = self._sheets.variables
        first, *others = cascade(rules, *given)
        found = [one for block in (first, *others) for one in readings(block, variables)]
        covering = any(covers(one, tag) for one in found) or any(
            covers(one, tag) for rule in boxes for one in readings(rule.found, variables)
        )
        if tag in _OTHER_TAGS:
            return _Seen(arounds, undecided=covering, covers=covering)
        looks = [look(found[0], around) for around in arounds]
        looks += [look(one, arounds[0]) for one in found[1:]]
        made = _summed(looks)
        made.covers = covering
        made.undecided |= covering or len(others) > MAX_CONDITIONS or any(map(self._moves, found))
        return made

    def _moves(self, found: Declarations) -> bool:
        """Tell whether an animation of an element hides it, or may."""
        values = [found[name][0] for name in ("animation", "animation-name") if name in found]
        named = (word for value in values for word in words(value))
        return not self._moving.isdisjoint(named)

    def _nature(
        self, node: LexborNode, place: _Place, tag: str, attributes: dict[str, str | None]
    ) -> None:
        """Judge an element by what it is."""
        if (
            tag in _NEVER_SHOWN_TAGS
            or (tag == "dialog" and "open" not in attributes)
            or "hidden" in attributes
            or "popover" in attributes
            or attributes.get("aria-hidden") == "true"
        ):
            if tag in _WHOLES:
                self._doubts.append((0, (node.mem_id,)))
                return
            self._hide(node, place)
        elif tag == "details" and "open" not in attributes:
            self._hide_children(node, place, but="summary")
        elif tag == "semantics":
            self._hide_children(node, place, but="*")
        elif tag in ("bdo", "maction", "marquee") or (tag == "details" and "name" in attributes):
            self._doubts.append((node.mem_id, (node.mem_id,)))
        if node.mem_id in self._shadows:
            self._shadow(node, self._shadows[node.mem_id], place)

    def _hide_children(self, node: LexborNode, place: _Place, *, but: str) -> None:
        """Hide what is in an element, but for its first child with one tag; "*" is any."""
        kept = ""
        for child in node.iter(include_text=True):
            if not kept and child.is_element_node and but in ("*", child.tag):
                kept = child.tag or "*"
                continue
            self._places[child.mem_id] = _Place(0, place.arounds, place.trail, gone=True)
            self.nodes.append(child)

    def _shadow(self, node: LexborNode, template: LexborNode, place: _Place) -> None:
        """Judge what is in an element with a shadow root: it is shown where a slot takes it."""
        self._doubts.append((0, (node.mem_id,)))
        if "<slot" not in (template.html or "").lower():
            self._hide_children(node, place, but="")


def _is_doubtful(block: Declarations) -> bool:
    return any(look(block, Surroundings())[1:])


def _summed(looks: list[Look]) -> _Seen:
    hidden = [bool(one.hidden_by) for one in looks]
    unread = [bool(one.unread_by) for one in looks]
    arounds = tuple(dict.fromkeys(one.around for one in looks if not one.hidden_by))
    return _Seen(
        arounds[:MAX_READINGS] or (looks[0].around,),
        hidden=all(hidden),
        unread=all(unread),
        undecided=any(hidden) or (any(unread) and not all(unread))
        or any(bool(one.undecided_by) for one in looks) or len(arounds) > MAX_READINGS,
        visibility=looks[0].hidden_by == "visibility",
    )  # fmt: skip
