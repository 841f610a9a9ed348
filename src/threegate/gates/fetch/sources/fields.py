"""Reading one foreign object field by field: every value is checked for its type.

A field of another type is left out and noted; nothing here raises for what a source sent.

SECURITY
    Foreign values go in; boxed text, matched identifiers and our own words come out.  If
    this module is wrong, a packet shows a field the source did not give.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.artifacts.limits import MAX_AUTHORS, MAX_TITLE_CHARS
from threegate.artifacts.research_packet import Identifier
from threegate.base.limits import MAX_URL_CHARS
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.limits import (
    MAX_ABSTRACT_CHARS,
    MAX_ABSTRACTS,
    MAX_AUTHOR_CHARS,
    MAX_CONTAINER_CHARS,
    MAX_IDENTIFIERS,
    MAX_ITEMS,
    MAX_LABEL_CHARS,
    MAX_LICENCE_CHARS,
    MAX_LINKS,
    MAX_MARKED_CHARS,
    MAX_NOTICES,
    MAX_REMARKS,
)
from threegate.gates.fetch.sources.markup import Plain, plain
from threegate.gates.fetch.sources.metadata import (
    RETRACTION_ORDER,
    Abstract,
    Author,
    Link,
    Metadata,
    Notice,
    PartialDate,
    Problem,
    Remark,
    Retraction,
)
from threegate.gates.fetch.sources.names import identifier, sort_key

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_URL: Final = re.compile(r"https?://[!-~]+", re.IGNORECASE)
# `RETRACTED: …`, `[Retracted] …`, `RETRACTED ARTICLE: …`; a word of the title is no prefix.
_WITHDRAWN_TITLE: Final = re.compile(
    r"[\[(*]{0,2}(?:retracted|withdrawn|removed)(?: (?:article|paper|chapter|manuscript))?[\])*:]",
    re.IGNORECASE,
)


class Record:
    """What has been read of one work, and what was wrong with it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.title: Untrusted[str] | None = None
        self.published: PartialDate | None = None
        self.licence: Untrusted[str] | None = None
        self.container: Untrusted[str] | None = None
        self.notices: list[Notice] = []
        self.notice_of: list[Notice] = []
        self.would_know = False  # silence about a retraction means that there is none
        self._authors: list[Author] = []
        self._identifiers: set[Identifier] = set()
        self._abstracts: list[Abstract] = []
        self._links: dict[Link, None] = {}
        self._remarks: list[Remark] = []
        self._problems: dict[tuple[str, str], int] = {}

    def note(self, field: str, what: str) -> None:
        """Remember that `field` was not what it should be."""
        self._problems[field, what] = self._problems.get((field, what), 0) + 1

    def noted(self, *fields: str) -> bool:
        """Tell whether anything was wrong with one of `fields`."""
        return any(field in fields for field, _ in self._problems)

    def text(self, field: str, value: object, limit: int, ready: Plain | None = None) -> str | None:
        """Return `value` as text of at most `limit` characters, markup taken away."""
        if value is None:
            return None
        if not isinstance(value, str):
            self.note(field, "type")
            return None
        if len(value) > MAX_MARKED_CHARS:
            self.note(field, "cut")
            value = value[:MAX_MARKED_CHARS]
        read = plain(value) if ready is None else ready
        for what in read.met:
            if (field, what) != ("abstract", "markup"):  # that is how abstracts come
                self.note(field, what)
        text = read.text
        if not text.isascii() and _has_surrogates(text):
            self.note(field, "surrogate")
            text = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
        if len(text) > limit:
            self.note(field, "cut")
            text = text[:limit]
        return text or None

    def boxed(self, field: str, value: object, limit: int) -> Untrusted[str] | None:
        """Like `text`, in a box and on one line."""
        text = self.text(field, value, limit)
        return None if text is None else Untrusted(text.replace("\n", " "))

    def set_title(self, value: object) -> None:
        """Take the title; to have none is worth a note."""
        self.title = self.boxed("title", value, MAX_TITLE_CHARS)
        if self.title is None:
            self.note("title", "missing")

    def set_container(self, value: object) -> None:
        self.container = self.boxed("container", value, MAX_CONTAINER_CHARS)

    def set_licence(self, value: object) -> None:
        """Take the licence unless there is one already."""
        if self.licence is None:
            self.licence = self.boxed("licence", value, MAX_LICENCE_CHARS)

    def set_published(self, value: tuple[PartialDate | None, bool]) -> None:
        """Take the date unless there is one already."""
        date, whole = value
        if not whole:
            self.note("published", "date")
        self.published = self.published or date

    def add_author(self, name: object, *, organisation: bool = False) -> None:
        text = self.boxed("authors", name, MAX_AUTHOR_CHARS)
        if text is None:
            self.note("authors", "missing")
        elif len(self._authors) >= MAX_AUTHORS:
            self.note("authors", "cut")
        else:
            self._authors.append(Author(text, organisation))

    def add_identifier(self, scheme: str, value: object) -> Identifier | None:
        """Take an identifier if it is one."""
        found = self.identifier(scheme, value)
        if found is not None and len(self._identifiers) < MAX_IDENTIFIERS:
            self._identifiers.add(found)
        return found

    def identifier(self, scheme: str, value: object) -> Identifier | None:
        """Return the identifier `value` spells, and note it if it spells none."""
        if value is None or value == "":
            return None
        spelled = str(value) if isinstance(value, int) and abs(value) < 10**18 else value
        found = identifier(scheme, spelled) if isinstance(spelled, str) else None
        if found is None:
            self.note("identifiers", "type")
        return found

    def add_abstract(self, label: object, value: object, ready: Plain | None = None) -> None:
        text = self.text("abstract", value, MAX_ABSTRACT_CHARS, ready)
        if text is None:
            return
        if len(self._abstracts) >= MAX_ABSTRACTS:
            self.note("abstract", "cut")
            return
        boxed = self.boxed("abstract", label, MAX_LABEL_CHARS) or Untrusted("abstract")
        self._abstracts.append(Abstract(boxed, Untrusted(text)))

    def add_remark(self, label: str, value: object, page: int | None = None) -> None:
        text = self.text("abstract", value, MAX_ABSTRACT_CHARS)
        if text is not None and len(self._remarks) >= MAX_REMARKS:
            self.note("remarks", "cut")
        elif text is not None:
            named = self.boxed("remarks", label, MAX_LABEL_CHARS) or Untrusted("note")
            self._remarks.append(Remark(named, Untrusted(text), page))

    def add_link(self, kind: str, value: object) -> None:
        if value is None or value == "":
            return
        if not (isinstance(value, str) and len(value) <= MAX_URL_CHARS and _URL.fullmatch(value)):
            self.note("links", "type")
        elif len(self._links) >= MAX_LINKS:
            self.note("links", "cut")
        else:
            self._links[Link(Untrusted(value), kind)] = None

    def add_notice(
        self,
        status: str,
        basis: str,
        *,
        label: object = None,
        said_by: object = None,
        about: Identifier | None = None,
        date: PartialDate | None = None,
        is_notice: bool = False,
    ) -> None:
        """Take a statement about this work, or, if it is a notice itself, about another."""
        into = self.notice_of if is_notice else self.notices
        if len(into) >= MAX_NOTICES:
            # The worst must not drown in others.
            into.sort(key=lambda notice: -RETRACTION_ORDER.index(notice.status))
            into.pop()
            self.note("retraction", "cut")
        boxed = self.boxed("retraction", label, MAX_LABEL_CHARS)
        teller = self.boxed("retraction", said_by, MAX_LABEL_CHARS)
        into.append(Notice(status, self.source, basis, boxed, teller, about, date))

    def finished(self) -> Metadata:
        """Return what was read."""
        self._judge_title()
        worst = max(map(RETRACTION_ORDER.index, (n.status for n in self.notices)), default=0)
        status = RETRACTION_ORDER[max(worst, int(self.would_know))]
        return Metadata(
            source=self.source,
            title=self.title,
            authors=tuple(self._authors),
            published=self.published,
            licence=self.licence,
            identifiers=tuple(sorted(self._identifiers, key=sort_key)),
            abstracts=tuple(self._abstracts),
            container=self.container,
            retraction=Retraction(status, tuple(self.notices)),
            notice_of=tuple(self.notice_of),
            links=tuple(self._links),
            problems=tuple(sorted(Problem(*key, n) for key, n in self._problems.items())),
            remarks=tuple(self._remarks),
        )

    def _judge_title(self) -> None:
        """A title may say that the work is retracted; that of a notice speaks of another."""
        title = "" if self.title is None else self.title.open_for_validation()
        match = _WITHDRAWN_TITLE.match(title)
        if match is not None and not self.notice_of:
            self.add_notice("retracted", "title", label=match.group())


class Fields:
    """A foreign JSON object, read key by key."""

    def __init__(self, record: Record, value: object) -> None:
        self.record = record
        self._values: dict[str, object] = value if isinstance(value, dict) else {}

    def get(self, key: str) -> object:
        """Return the value as it is, None if there is none."""
        return self._values.get(key)

    def has(self, key: str) -> bool:
        return key in self._values

    def inner(self, key: str) -> "Fields":
        """Return the object under `key`, empty if there is none."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, dict):
            self.record.note(key, "type")
        return Fields(self.record, value)

    def items(self, key: str) -> list[object]:
        """Return the list under `key`, empty if there is none, cut if it is absurd."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.record.note(key, "type")
            return []
        if len(value) > MAX_ITEMS:
            self.record.note(key, "cut")
        return value[:MAX_ITEMS]

    def objects(self, key: str) -> Iterator["Fields"]:
        """Yield the objects of the list under `key`."""
        for item in self.items(key):
            if isinstance(item, dict):
                yield Fields(self.record, item)
            else:
                self.record.note(key, "type")

    def first(self, key: str) -> object:
        """Return the first item of a list, or a value that is no list."""
        value = self._values.get(key)
        if isinstance(value, list):
            return value[0] if value else None
        return value

    def word(self, key: str) -> str:
        """Return a short text for comparison with our own words: lower case, else empty."""
        value = self._values.get(key)
        return value.lower() if isinstance(value, str) and len(value) <= 64 else ""

    def date_text(self, key: str) -> None:
        """Offer the ISO date under `key` as the date of publication."""
        value = self._values.get(key)
        if isinstance(value, str):
            self.record.set_published(dates.from_text(value))
        elif isinstance(value, int) and not isinstance(value, bool):
            self.record.set_published(dates.build(value, None, None))
        elif value is not None:
            self.record.note("published", "type")


def _has_surrogates(text: str) -> bool:
    """Tell whether half a pair is in `text`; encoding it is 20 times faster than a search."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def joined(*parts: object) -> object:
    """Join the parts of a name that are there; one that is no text is handed on, to be noted."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif part is not None:
            return part
    return " ".join(filter(None, texts)) or None
