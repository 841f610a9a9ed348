"""Limits of a page, checked on its text before anything parses it.

SECURITY
    Hostile text.  Each check is linear in the text and counts at least what the parser will
    build, so that a page within the limits costs the parser time in proportion to its size:
    lexbor compares each attribute of a tag with the others, copies open formatting elements
    into each new block, and takes time with the square of the depth.
"""

import re
from typing import Final

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from threegate.gates.fetch.normalize.text import Unread

MAX_HTML_TAGS: Final = 200_000
MAX_HTML_DEPTH: Final = 250
MAX_HTML_ELEMENTS: Final = 1_000_000  # with the copies of formatting elements
MAX_ATTRIBUTES: Final = 1_000_000  # of all tags
MAX_TAG_ATTRIBUTES: Final = 1_000  # of one tag
MAX_DOUBTFUL_TAGS: Final = 8  # long tags that may be text of a script; each costs a parse

_TAGS: Final = re.compile(r"</?[a-z][^\s/>]*")
# The states of the HTML tokenizer between `<` and `>`; possessive, so that no input backtracks.
_SPACE: Final = r"[\t\n\f\r ]"
_ATTRIBUTE: Final = (
    rf"(?:{_SPACE}|/)*+(?:=[^\t\n\f\r />=]*+|[^\t\n\f\r />=]++)"
    rf"(?:{_SPACE}*+={_SPACE}*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >]*+))?+"
)
_ONE: Final = re.compile(_ATTRIBUTE)
_MANY: Final = 16  # attributes; a tag with fewer costs nothing
_TAG: Final = re.compile(
    rf"<[a-zA-Z][^\t\n\f\r />]*+(?={_SPACE}|/)(?=((?:{_ATTRIBUTE}){{{_MANY}}}))"
)
_PROBE: Final = "threegate-probe"
# These have no end, or may be left without one; the parser closes them by itself.
_UNCLOSED: Final = frozenset(
    start + name
    for name in re.findall(
        "[a-z0-9]+",
        "area base br col embed hr img input link meta param source track wbr frame p li dt dd "
        "option optgroup tr td th thead tbody tfoot colgroup caption rt rp html head body",
    )
    for start in ("<", "</")
)
_FORMATTING: Final = frozenset(
    f"<{name}"
    for name in re.findall("[a-z]+", "a b big code em font i nobr s small strike strong tt u")
)


def check_bounds(text: str) -> None:
    """Raise `Unread` for a page that is too much for its parser."""
    if text.count("<") > MAX_HTML_TAGS:
        raise Unread("too-large", f"more than {MAX_HTML_TAGS} tags")
    _check_attributes(text)
    depth, formatting, elements, opened = 0, 0, 0, dict[str, int]()
    for tag in _TAGS.findall(text.lower()):
        elements += 1 + formatting  # each block may begin with a copy of every open one
        if tag in _UNCLOSED:
            continue
        if tag[1] != "/":
            opened[tag] = opened.get(tag, 0) + 1
            depth, formatting = depth + 1, formatting + (tag in _FORMATTING)
            if depth > MAX_HTML_DEPTH:
                raise Unread("too-large", f"elements nested deeper than {MAX_HTML_DEPTH}")
        elif opened.get("<" + tag[2:]):  # an end without a beginning closes nothing
            opened["<" + tag[2:]] -= 1
            depth, formatting = depth - 1, formatting - ("<" + tag[2:] in _FORMATTING)
    if elements > MAX_HTML_ELEMENTS:
        raise Unread("too-large", f"more than {MAX_HTML_ELEMENTS} elements")


def _check_attributes(text: str) -> None:
    """Count the attributes of everything that looks like a tag, in a script or comment too."""
    total, doubtful = 0, 0
    for tag in _TAG.finditer(text):
        at, count = tag.end(1), _MANY
        while count <= MAX_TAG_ATTRIBUTES and (one := _ONE.match(text, at)) is not None:
            at, count = one.end(), count + 1
        total += count
        if total > MAX_ATTRIBUTES:
            raise Unread("too-large", f"more than {MAX_ATTRIBUTES} attributes")
        if count > MAX_TAG_ATTRIBUTES:
            doubtful += 1
            if doubtful > MAX_DOUBTFUL_TAGS or _is_tag(text[:at]):
                limit = f"more than {MAX_TAG_ATTRIBUTES} attributes in one tag"
                raise Unread("too-large", limit)


def _is_tag(beginning: str) -> bool:
    """Ask the parser whether a text ends inside a tag; it has no long tag in it yet."""
    try:
        page = LexborHTMLParser(f"{beginning} {_PROBE}>")
        return bool(page.css(f"[{_PROBE}]"))
    except SelectolaxError:
        return True
