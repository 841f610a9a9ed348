"""Markdown: one part per heading; Obsidian links as text; front matter as claims.

A link `[[note]]` becomes `note`, `[[note|words]]` becomes `words`, and the part `links` lists the
notes that are named.  Nothing is followed.  HTML comments are not shown by any renderer: they
are left out and counted as `hidden-text`.  Obsidian alone hides `%%text%%`: it stays and is
counted as `hidden-undecided`.

SECURITY
    Works on foreign text, line by line.  Tags stay text, which the packet escapes and counts.
"""

import re
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.front_matter import read_claims, split_front_matter
from threegate.gates.fetch.normalize.readers.plain import decode
from threegate.gates.fetch.normalize.readers.sections import Sections
from threegate.gates.fetch.normalize.text import Document
from threegate.gates.fetch.sources.fields import Record

MAX_LINKS: Final = 1_000
_LINK: Final = re.compile(r"(!?)\[\[([^\[\]\n|]{1,300})(?:\|([^\[\]\n]{1,300}))?\]\]")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_UNDERLINE: Final = re.compile(r" {0,3}(?:={3,}|-{3,})[ \t]*\Z")
# Definitions of links that nothing uses: the usual way to write a comment.
_COMMENTS: Final = ("[//]:", "[comment]:")
_OPEN, _CLOSE = "<!--", "-->"


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the text in parts by heading, or raise `Unread`."""
    lines = decode(raw).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    front, body = split_front_matter(lines)
    page = _Page(answer.source)
    read_claims(front, page.record)
    if front:
        page.sections.begin_part("front matter")
        page.sections.add("\n".join(front))
        page.sections.begin_part("text")
    for line in body:
        page.take(line)
    return page.document()


class _Page:
    """What has been read so far."""

    def __init__(self, source: str) -> None:
        self.record = Record(source)
        self.sections = Sections()
        self._fence = ""  # of the code block that is open
        self._in_comment = False
        self._held: str | None = None  # a line that the next one may make a heading
        self._before = ""
        self._hidden = self._undecided = 0
        self._links: dict[str, None] = {}

    def take(self, line: str) -> None:
        """Read one line."""
        if self._fence:
            self.sections.add(line)
            mark = line.strip()
            if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
                self._fence = ""
            return
        line = self._without_comments(line)
        fence, heading = _FENCE.match(line), _HEADING.match(line)
        if fence is not None or heading is not None:
            self._flush()
            if fence is not None:
                self._fence = fence[1]
                self.sections.add(line)
            elif heading is not None:
                self._begin(line[heading.end() :], len(heading[1]))
        elif self._held and not self._before.strip() and _UNDERLINE.match(line):
            held, self._held = self._held, None
            self._begin(held, 1 if "=" in line else 2)
        else:
            self._flush()
            self._held = line

    def document(self) -> Document:
        """Return what was read."""
        self._flush()
        if self._links:
            self.sections.begin_part("links")
            self.sections.add("\n".join(self._links))
        counts = {"hidden-text": self._hidden, "hidden-undecided": self._undecided}
        found = {name: count for name, count in counts.items() if count}
        return Document(self.sections.parts(), self.record.finished(), found=found)

    def _begin(self, text: str, level: int) -> None:
        text = text.strip()
        if text.endswith("#") and text.rstrip("#")[-1:] in ("", " ", "\t"):
            text = text.rstrip("#").rstrip()
        text = self._linked(text)
        if level == 1 and self.record.title is None and text:
            self.record.set_title(text)
        self.sections.begin(text)
        self._before = ""

    def _flush(self) -> None:
        if self._held is not None:
            self._undecided += self._held.count("%%") // 2
            self.sections.add(self._linked(self._held))
            self._before, self._held = self._held, None

    def _linked(self, line: str) -> str:
        return _LINK.sub(self._link, line) if "[[" in line else line

    def _link(self, match: re.Match[str]) -> str:
        embedded, target, words = match.groups()
        if len(self._links) < MAX_LINKS:
            self._links[target.strip()] = None
        return f"[embedded: {target}]" if embedded else (words or target)

    def _without_comments(self, line: str) -> str:
        """Return a line without what no renderer shows."""
        if not self._in_comment and line.lstrip().startswith(_COMMENTS):
            self._hidden += len(line.strip())
            return ""
        if not self._in_comment and _OPEN not in line:
            return line
        shown: list[str] = []
        at = 0
        while True:
            if self._in_comment:
                end = line.find(_CLOSE, at)
                self._hidden += len(line[at : end if end >= 0 else None].strip())
                if end < 0:
                    return "".join(shown)
                self._in_comment, at = False, end + len(_CLOSE)
            start = line.find(_OPEN, at)
            shown.append(line[at : start if start >= 0 else None])
            if start < 0:
                return "".join(shown)
            if shown[-1].count("`") % 2:  # in a span of code
                shown.append(_OPEN)
            else:
                self._in_comment = True
            at = start + len(_OPEN)
