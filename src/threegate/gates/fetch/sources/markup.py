"""Titles and abstracts carry JATS, MathML and HTML, sometimes escaped: make them text.

A tokenizer reads tag by tag.  Only elements of those three languages count as tags, so
`p<q and r>s` stays what it is; what is left over is a packet's business to escape.

SECURITY
    Works on foreign text and promises nothing about it: the result is for reading, and
    a packet checks again that no markup is in it.  Time is linear in the text, for every
    search ends after MAX_TAG_CHARS.
"""

import html
import re
from dataclasses import dataclass
from html.entities import html5
from typing import Final

from threegate.gates.fetch.sources.limits import MAX_ESCAPE_ROUNDS, MAX_NESTED_TAGS, MAX_TAG_CHARS
from threegate.gates.fetch.xml import Element

_PREFIXES: Final = frozenset({"jats", "mml", "m", "math", "xhtml", "xlink"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BLOCKS: Final = _words(
    "p br hr div sec title list list-item li ul ol dl dt dd table tr disp-formula blockquote "
    "h1 h2 h3 h4 h5 h6 break disp-quote"
)
_INLINE: Final = _words(
    "i b em strong u s sub sup sc scp small big tt code pre span font tbody thead td th a img "
    "cite q abbr center italic bold underline overline strike monospace roman sans-serif label "
    "inline-formula alternatives tex-math xref ext-link uri email named-content styled-content "
    "inline-graphic graphic inf emph var kbd samp "
    "math mrow mi mn mo ms mtext mspace msup msub msubsup mfrac msqrt mroot mover munder "
    "munderover mfenced mstyle mtable mtr mtd mpadded mphantom menclose mmultiscripts mprescripts "
    "none semantics"
)
_DROPPED: Final = _words("script style template annotation annotation-xml")
_KNOWN: Final = _BLOCKS | _INLINE | _DROPPED
_RAISED: Final = frozenset({"sup"})  # 10<sup>6</sup> is not 106
_BETWEEN: Final = {"msup": "^", "mfrac": "/"}  # between the first and the second child

_NAME: Final = re.compile(r"</?((?:[A-Za-z]{1,10}:)?[A-Za-z][A-Za-z0-9-]{0,30})")
# Attributes need a value, so that `<i and j>` is not a tag.  Atomic, because Python before 3.11.5
# skips text that a possessive group did not match (gh-106052).
_ATTRIBUTE: Final = r"\s++[A-Za-z_:][-\w:.]*+\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+'|[^\s\"'<>=]++)"
_REST: Final = re.compile(rf"(?>(?:{_ATTRIBUTE}){{0,1000}})\s*+(/?)>")
_ENTITY: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


@dataclass(frozen=True, slots=True)
class Plain:
    """Text without markup, and what was met on the way (our own words)."""

    text: str
    met: tuple[str, ...] = ()


class _Stripper:
    """Turns opening tags, text and closing tags into text; unbalanced input is fine."""

    def __init__(self) -> None:
        self.dropped = False
        self._out: list[str] = []
        self._open: list[str] = []
        self._children: list[int] = []
        self._dropping: tuple[int, int] | None = None  # depth of the element, length of _out

    def text(self, data: str) -> None:
        self._out.append(data.replace("\n", " "))

    def open(self, name: str) -> None:
        if self._children:
            if self._children[-1] == 1:
                self._out.append(_BETWEEN.get(self._open[-1], ""))
            self._children[-1] += 1
        if name in _BLOCKS:
            self._out.append("\n")
        elif name in _RAISED:
            self._out.append("^")
        if len(self._open) >= MAX_NESTED_TAGS:
            return
        doubled = name == "tex-math" and "alternatives" in self._open
        if self._dropping is None and (doubled or name in _DROPPED):
            self._dropping = (len(self._open), len(self._out))
        self._open.append(name)
        self._children.append(0)

    def close(self, name: str) -> None:
        if name in _BLOCKS:
            self._out.append("\n")
        if name not in self._open:
            return
        while self._open.pop() != name:
            self._children.pop()
        self._children.pop()
        if self._dropping is not None and len(self._open) <= self._dropping[0]:
            # An element that never ends hides nothing: only a closed one is left out.
            del self._out[self._dropping[1] :]
            self._dropping, self.dropped = None, True

    def empty(self, name: str) -> None:
        self._out.append("\n" if name in _BLOCKS else "")

    def result(self) -> str:
        return squeeze("".join(self._out))


def squeeze(text: str) -> str:
    """Return `text` without empty lines and doubled spaces."""
    text = text.replace("\t", " ").replace("\r", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    if "\n" not in text:
        return text.strip(" ")
    return "\n".join(line for part in text.split("\n") if (line := part.strip(" ")))


def _local(name: str) -> str | None:
    """Return the local name of a tag of the three languages, else None."""
    prefix, colon, local = name.lower().rpartition(":")
    if colon:
        return local if prefix in _PREFIXES else None
    return local if local in _KNOWN else None


def _past_tag(text: str, start: int, into: _Stripper) -> int:
    """Feed the tag at `start`; return where it ends, or `start` if there is none."""
    stop = start + MAX_TAG_CHARS
    if text.startswith("<!--", start):
        end = text.find("-->", start + 4, stop)
        into.dropped = into.dropped or end >= 0
        return start if end < 0 else end + 3
    if text.startswith("<![CDATA[", start):
        end = text.find("]]>", start + 9, stop)
        if end >= 0:
            into.text(text[start + 9 : end])
        return start if end < 0 else end + 3
    named = _NAME.match(text, start, stop)
    name = _local(named.group(1)) if named else None
    rest = _REST.match(text, named.end(), stop) if named else None
    if name is None or rest is None:
        return start
    if text[start + 1] == "/":
        into.close(name)
    elif rest.group(1) or name in ("br", "hr", "img"):
        into.empty(name)
    else:
        into.open(name)
    return rest.end()


def _strip_tags(text: str) -> tuple[str, bool, bool]:
    """Return the text, whether there was a tag, and whether content was left out."""
    into, position, tags = _Stripper(), 0, 0
    while (start := text.find("<", position)) >= 0:
        into.text(text[position:start])
        end = _past_tag(text, start, into)
        if end == start:
            into.text("<")
            end += 1
        else:
            tags += 1
        position = end
    into.text(text[position:])
    return into.result(), tags > 0, into.dropped


def _character(match: re.Match[str]) -> str:
    token = match.group()
    if token[1] != "#" and token[1:] not in html5:
        return token
    return html.unescape(token) or "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> Plain:
    """Return foreign `text` without tags and entities, however often they were escaped."""
    if "<" not in text and "&" not in text:
        return Plain(squeeze(text))
    met: set[str] = set()
    for rounds in range(MAX_ESCAPE_ROUNDS):
        if "<" in text:
            text, tags, dropped = _strip_tags(text)
            if tags:
                met.add("markup" if rounds == 0 else "markup-escaped")
            if dropped:
                met.add("content-dropped")
        decoded = _ENTITY.sub(_character, text) if "&" in text else text
        if decoded == text:
            break
        if rounds:
            met.add("escaped-twice")
        text = decoded
    return Plain(squeeze(text), tuple(sorted(met)))


def plain_element(element: Element) -> Plain:
    """Return the text of an XML element and of all inside it."""
    into = _Stripper()
    _walk(element, into)
    return Plain(into.result(), ("content-dropped",) if into.dropped else ())


def _walk(element: Element, into: _Stripper) -> None:
    for item in element.content:
        if isinstance(item, str):
            into.text(item)
        else:
            name = item.name.lower()
            into.open(name)
            _walk(item, into)
            into.close(name)
