"""Messages between the host and the sandbox that reads a copy of a Zotero library.

`LibraryRead` holds two lists of lines, one line of each for every packet: the record of an item,
which is stored beside the packet, and the place of its file, which the host alone uses.

SECURITY
    The sandbox has just parsed a stranger's database with native code, so the host takes bounded
    text from it.  A path is a claim: the host resolves it below folders that the operator named.
    A compromised sandbox can invent items; it cannot make the host read another file.
"""

from collections.abc import Iterator
from typing import Final

from threegate.base.errors import ProtocolBroken
from threegate.base.limits import MIB
from threegate.base.message_parts import RawPart
from threegate.base.message_shapes import RowShape, SortedRecord, TableShape, Utf8Text
from threegate.base.messages import (
    CheckedRecord,
    FlatMessage,
    FlatParser,
    Message,
    flat_message,
    head,
    message,
    parser_of,
    part,
    record,
)
from threegate.base.schema import Choice, Integer, ListOf, Nullable, Pattern, Text
from threegate.base.untrusted import Untrusted

PROTOCOL: Final = "zotero-reader/1"
MAX_DATABASE_BYTES: Final = 512 * MIB
MAX_WAL_BYTES: Final = 64 * MIB
MAX_KEYS_BYTES: Final = 64 * MIB
MAX_ITEMS_BYTES: Final = 192 * MIB
MAX_PLACES_BYTES: Final = 48 * MIB
MAX_ITEM_BYTES: Final = 4 * MIB
MAX_PLACE_BYTES: Final = 32_768
MAX_ENTRIES: Final = 100_000  # packets of one library
MAX_FIELDS: Final = 150
MAX_VALUE_CHARS: Final = 50_000  # of one field
MAX_CREATORS: Final = 1_000
MAX_NAME_CHARS: Final = 500  # of a creator, a tag or a collection
MAX_TAGS: Final = 500
MAX_NOTES: Final = 200
MAX_ANNOTATIONS: Final = 1_000
MAX_REMARK_CHARS: Final = 100_000  # of one note or annotation
MAX_PATH_CHARS: Final = 4_096

STORED: Final = "stored"
LINKED: Final = "linked"
NONE: Final = "none"

DAMAGED: Final = "damaged"
NOT_ZOTERO: Final = "not-zotero"
NO_COLLECTION: Final = "no-collection"
NO_TAG: Final = "no-tag"
TOO_LARGE: Final = "too-large"
TOO_LONG: Final = "too-long"

KEY: Final = Pattern("[0-9A-Z]{8}", "a key of Zotero")
WORD: Final = Pattern("[A-Za-z][A-Za-z0-9-]{0,63}", "a name of Zotero's schema")
_VALUE: Final = Text(MAX_VALUE_CHARS)
_NAME: Final = Text(MAX_NAME_CHARS, least=0)
_REMARK: Final = Text(MAX_REMARK_CHARS, least=0)


@record
class ZoteroAnnotation(CheckedRecord):
    """A marked passage of an attachment."""

    type: str = head(
        Choice("highlight", "note", "image", "ink", "underline", "text"), "what was drawn"
    )
    text: Untrusted[str] = head(_REMARK, "the marked words")
    comment: Untrusted[str] = head(_REMARK, "the reader's own words")
    page_label: Untrusted[str] = head(_NAME, "the page as it is printed")
    page: int | None = head(Nullable(Integer(1, 1_000_000)), "the page, counted from 1")
    colour: str = head(Pattern("(?:#[0-9a-f]{6})?", "a colour, or nothing"), "of the mark")


@flat_message(
    "Zotero item",
    "zotero/1",
    sender="sandbox; stored beside the packet",
    most_bytes=MAX_ITEM_BYTES,
    constants={"format": "zotero/1"},
)
class ZoteroItem(FlatMessage):
    """What the library says about one item, and about one of its attachments."""

    key: str = head(KEY, "of the item, or of a further attachment")
    item: str = head(KEY, "of the item that is described")
    group: int = head(Integer(), "number of the group library; 0: the user's own")
    type: str = head(WORD, "type of the item")
    fields: dict[str, Untrusted[str]] = head(
        TableShape(WORD, _VALUE, MAX_FIELDS), "fields by their names"
    )
    creators: tuple[tuple[str, Untrusted[str], Untrusted[str]], ...] = head(
        ListOf(RowShape(WORD, _NAME, _NAME), MAX_CREATORS), "role, first name and last name"
    )
    citation_key: Untrusted[str] | None = head(
        Nullable(Text(MAX_NAME_CHARS)), "the key for BibTeX, if it has one"
    )
    collections: tuple[Untrusted[str], ...] = head(ListOf(_NAME, MAX_TAGS), "paths of names")
    tags: tuple[Untrusted[str], ...] = head(ListOf(_NAME, MAX_TAGS), "sorted")
    notes: tuple[Untrusted[str], ...] = head(ListOf(_REMARK, MAX_NOTES), "HTML")
    annotations: tuple[ZoteroAnnotation, ...] = head(
        ListOf(SortedRecord(ZoteroAnnotation), MAX_ANNOTATIONS), "in the order of the document"
    )
    cut: int = head(Integer(), "how many values were left out or shortened")


@flat_message("place of a file", "place/1", sender="sandbox", most_bytes=MAX_PLACE_BYTES)
class ZoteroPlace(FlatMessage):
    """Where the library says that the file of an item is."""

    mode: str = head(Choice(LINKED, NONE, STORED), "in `storage`, elsewhere, or nowhere")
    key: str = head(KEY, "of the attachment: its folder in `storage`")
    path: Untrusted[str] = head(Text(MAX_PATH_CHARS, least=0), "as the library spells it")


@message(
    PROTOCOL, "read", sender="host", answer="`LibraryRead` or `LibraryNotRead`; the sandbox ends"
)
class ReadLibrary(Message):
    """The bytes of a library, and which of its items are wanted."""

    collection: str = head(Utf8Text(MAX_NAME_CHARS), "a name or path of names; empty: all")
    tag: str = head(Utf8Text(MAX_NAME_CHARS), "a tag; empty: all")
    database: bytes = part(RawPart(MAX_DATABASE_BYTES), "`zotero.sqlite`")
    wal: bytes = part(RawPart(MAX_WAL_BYTES), "`zotero.sqlite-wal`, or nothing")
    keys: bytes = part(RawPart(MAX_KEYS_BYTES), "`better-bibtex.sqlite`, or nothing")


@message(PROTOCOL, "items", sender="sandbox")
class LibraryRead(Message):
    """The items; as many lines of `places` as of `items`."""

    items: bytes = part(RawPart(MAX_ITEMS_BYTES), "a `ZoteroItem` in each line")
    places: bytes = part(RawPart(MAX_PLACES_BYTES), "a `ZoteroPlace` in each line")


@message(PROTOCOL, "not-read", sender="sandbox")
class LibraryNotRead(Message):
    """There are no items."""

    reason: str = head(
        Choice(DAMAGED, NO_COLLECTION, NO_TAG, NOT_ZOTERO, TOO_LARGE, TOO_LONG), "why"
    )


parse_item: Final = FlatParser(ZoteroItem)
parse_place: Final = FlatParser(ZoteroPlace)
parse_read: Final = parser_of(ReadLibrary)
parse_answer: Final = parser_of(LibraryRead, LibraryNotRead)


def entries_of(read: LibraryRead) -> Iterator[tuple[bytes, ZoteroItem, ZoteroPlace]]:
    """Yield each record as it was written and as it is read; raise `ProtocolBroken`."""
    items, places = read.items.splitlines(), read.places.splitlines()
    if len(items) != len(places) or len(items) > MAX_ENTRIES:
        raise ProtocolBroken("not as many places as items")
    for item, place in zip(items, places, strict=True):
        yield item, parse_item(Untrusted(item)), parse_place(Untrusted(place))
