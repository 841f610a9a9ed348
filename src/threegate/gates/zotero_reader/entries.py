"""Records of a library: one for each packet that is made of it.

An item with attachments gives a record for each of them: the first has the key and the notes of
the item, a further one its own key.  An item without one, a note and a file on their own give one.

SECURITY
    Works on rows that somebody else wrote; every text is cut to its bound and each cut is counted.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeVar

from threegate.base.untrusted import Untrusted
from threegate.gates.zotero_reader.database import DatabaseRefused
from threegate.gates.zotero_reader.library import Annotation, Attachment, Library
from threegate.gates.zotero_reader.messages import (
    LINKED,
    MAX_ANNOTATIONS,
    MAX_CREATORS,
    MAX_FIELDS,
    MAX_NAME_CHARS,
    MAX_NOTES,
    MAX_PATH_CHARS,
    MAX_REMARK_CHARS,
    MAX_TAGS,
    MAX_VALUE_CHARS,
    NO_COLLECTION,
    NO_TAG,
    NONE,
    STORED,
    ZoteroAnnotation,
    ZoteroItem,
    ZoteroPlace,
)

MAX_REMARKS_CHARS: Final = 600_000  # of all notes and annotations of a record
MAX_FIELDS_CHARS: Final = 200_000
ATTACHMENT: Final = "attachment"
NOTE: Final = "note"
ANNOTATION: Final = "annotation"
_MODES: Final = {0: STORED, 1: STORED, 2: LINKED}  # a link to a page and a picture in a note: none
_MARKS: Final = {1: "highlight", 2: "note", 3: "image", 4: "ink", 5: "underline", 6: "text"}
_BEST: Final = ("application/pdf", "application/epub+zip", "text/html")
_COLOUR: Final = re.compile("#[0-9a-f]{6}")
_PAGE: Final = re.compile(r"([0-9]{5})\|")
_PINNED: Final = re.compile(r"^\s*citation key\s*:\s*(\S{1,200})\s*$", re.IGNORECASE | re.MULTILINE)

Entry = tuple[ZoteroItem, ZoteroPlace]
T = TypeVar("T")


class Entries:
    """Makes the records of one library."""

    def __init__(self, library: Library, citation_keys: dict[int, str]) -> None:
        self._library, self._citation_keys = library, citation_keys
        self._files: dict[int, list[Attachment]] = {}
        for one in library.attachments.values():
            parent = one.parent if one.parent in library.keys else None
            if one.mode in _MODES and one.item not in library.deleted and parent is not None:
                self._files.setdefault(parent, []).append(one)
        self._notes: dict[int, list[str]] = {}
        for item, (parent, note, _) in sorted(library.notes.items()):
            if parent is not None and item not in library.deleted:
                self._notes.setdefault(parent, []).append(note)
        self._cut = 0

    def chosen(self, collection: str, tag: str) -> Iterator[Entry]:
        """Yield the records of the items in a collection and with a tag; empty: all."""
        lib, wanted = self._library, collection.casefold()
        paths = {path for path in lib.collection_paths if _is_below(path, wanted)}
        if collection and not paths:
            raise DatabaseRefused(NO_COLLECTION)
        tags = {name for names in lib.tags.values() for name in names}
        named = {name for name in tags if name.casefold() == tag.casefold()}
        if tag and not named:
            raise DatabaseRefused(NO_TAG)
        for item in lib.keys:
            if collection and not paths.intersection(lib.collections.get(item, ())):
                continue
            if tag and not named.intersection(lib.tags.get(item, ())):
                continue
            if item not in lib.deleted and self._is_top(item):
                yield from self._of(item)

    def _is_top(self, item: int) -> bool:
        lib = self._library
        if lib.types[item] == ANNOTATION:
            return False
        if item in lib.attachments:
            return lib.attachments[item].parent is None
        return item not in lib.notes or lib.notes[item][0] is None

    def _of(self, item: int) -> Iterator[Entry]:
        lib = self._library
        if item in lib.attachments:
            alone = lib.attachments[item]
            if alone.mode in _MODES:
                yield self._record(item, alone), self._place(item, alone)
            return
        files = sorted(self._files.get(item, ()), key=_rank)
        if not files:
            yield self._record(item, None), self._place(item, None)
        for number, file in enumerate(files):
            yield self._record(item, file, further=number > 0), self._place(item, file)

    def _place(self, item: int, file: Attachment | None) -> ZoteroPlace:
        if file is None:
            return ZoteroPlace(NONE, self._library.keys[item][1], Untrusted(""))
        path = file.path if len(file.path) <= MAX_PATH_CHARS else ""
        return ZoteroPlace(_MODES[file.mode], self._library.keys[file.item][1], Untrusted(path))

    def _record(self, item: int, file: Attachment | None, *, further: bool = False) -> ZoteroItem:
        lib, self._cut = self._library, 0
        group, key = lib.keys[item]
        fields = self._fields(item)
        own = lib.notes.get(item)
        notes = [own[1]] if own is not None else self._notes.get(item, [])
        left = MAX_REMARKS_CHARS
        marks = () if file is None else self._annotations(file, left)
        left -= sum(map(_size, marks))
        if own is not None and own[2]:
            fields.setdefault("title", own[2])
        return ZoteroItem(
            key=lib.keys[file.item][1] if further and file is not None else key,
            item=key,
            group=group,
            type=lib.types[item],
            fields={name: Untrusted(value) for name, value in fields.items()},
            creators=tuple(
                (role, Untrusted(first), Untrusted(last))
                for role, first, last in self._some(lib.creators.get(item, []), MAX_CREATORS)
            ),
            citation_key=self._citation_key(item, fields),
            collections=self._words(lib.collections.get(item, [])),
            tags=self._words(lib.tags.get(item, [])),
            notes=() if further else tuple(self._texts(notes, left)),
            annotations=marks,
            cut=self._cut,
        )

    def _fields(self, item: int) -> dict[str, str]:
        found: dict[str, str] = {}
        left = MAX_FIELDS_CHARS
        for name, value in sorted(self._library.fields.get(item, {}).items()):
            kept = value[: min(MAX_VALUE_CHARS, left)]
            self._cut += kept != value
            left -= len(kept)
            if kept and len(found) < MAX_FIELDS:
                found[name] = kept
        return found

    def _citation_key(self, item: int, fields: dict[str, str]) -> Untrusted[str] | None:
        pinned = _PINNED.search(fields.get("extra", ""))
        found = fields.get("citationKey") or (pinned[1] if pinned else "")
        found = found or self._citation_keys.get(item, "")
        return Untrusted(found[:MAX_NAME_CHARS]) if found else None

    def _annotations(self, file: Attachment, left: int) -> tuple[ZoteroAnnotation, ...]:
        rows = sorted(self._library.annotations.get(file.item, ()), key=lambda one: one.order)
        made = []
        for row in self._some(rows, MAX_ANNOTATIONS):
            if row.type not in _MARKS or not (row.text or row.comment):
                continue
            text, comment = self._texts([row.text, row.comment], left)
            mark = _annotation(row, text, comment, file.content_type)
            left -= _size(mark)
            made.append(mark)
        return tuple(made)

    def _texts(self, values: list[str], left: int) -> Iterator[Untrusted[str]]:
        for value in self._some(values, MAX_NOTES):
            kept = value[: max(0, min(MAX_REMARK_CHARS, left))]
            self._cut += kept != value
            left -= len(kept)
            yield Untrusted(kept)

    def _words(self, values: list[str]) -> tuple[Untrusted[str], ...]:
        return tuple(map(Untrusted, self._some(sorted(set(values)), MAX_TAGS)))

    def _some(self, values: list[T], most: int) -> list[T]:
        self._cut += max(0, len(values) - most)
        return values[:most]


def _annotation(
    row: Annotation, text: Untrusted[str], comment: Untrusted[str], content_type: str
) -> ZoteroAnnotation:
    page = _PAGE.match(row.order) if content_type == "application/pdf" else None
    return ZoteroAnnotation(
        type=_MARKS[row.type],
        text=text,
        comment=comment,
        page_label=Untrusted(row.page_label),
        page=None if page is None else int(page[1]) + 1,
        colour=row.colour if _COLOUR.fullmatch(row.colour) else "",
    )


def _size(mark: ZoteroAnnotation) -> int:
    return len(mark.text.open_for_validation()) + len(mark.comment.open_for_validation())


def _is_below(path: str, wanted: str) -> bool:
    """Tell whether a collection is the wanted one, by its path or last name, or is inside it."""
    names = path.casefold().split("/")
    sought = wanted.split("/")
    size = len(sought)
    return any(names[at : at + size] == sought for at in range(len(names) - size + 1))


def _rank(file: Attachment) -> tuple[int, int]:
    kind = file.content_type
    return (_BEST.index(kind) if kind in _BEST else len(_BEST)), file.item
