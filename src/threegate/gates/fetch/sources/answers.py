"""The frame of every answer: status, media type, decoding; one record or why there is none.

SECURITY
    Reads foreign bytes through `strict_json` and `fetch.xml` only, and turns every
    refusal of theirs into a value: `parse` of a source raises nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.fields import Record
from threegate.gates.fetch.sources.metadata import Metadata, NotFound, Outcome, Unreadable
from threegate.gates.fetch.sources.strict_json import JsonRefused, parse_json
from threegate.gates.fetch.xml import Element, XmlRefused, parse_xml

JSON_TYPES: Final = ("application/json", "text/json", "+json")
XML_TYPES: Final = ("application/xml", "text/xml", "+xml")
MAX_LISTED: Final = 1000  # works in one answer to a search

_DENIED: Final = (401, 403, 407, 451)
_REFUSED: Final = (400, 405, 406, 409, 413, 414, 415, 422)

Document = TypeVar("Document")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a document holds no work: not found, or unreadable for `reason`."""

    reason: str  # `not-found` or one of UNREADABLE_REASONS
    detail: str = ""

    def outcome(self, source: str) -> NotFound | Unreadable:
        if self.reason == "not-found":
            return NotFound(source)
        return Unreadable(source, self.reason, self.detail)


@dataclass(frozen=True, slots=True)
class Reader(Generic[Document, Item]):
    """How one source answers."""

    source: str
    types: tuple[str, ...]
    decode: Callable[[Untrusted[bytes]], Document]
    find: Callable[[Document], Sequence[Item] | Stop]  # the works in the document
    read: Callable[[Item, Record], None]
    # Some sources answer with an error status and a body that says more.
    read_errors: tuple[int, ...] = ()
    # Some say so in a body that is not of their type, and with another status.
    not_found: bytes | None = None
    # Readers of other types that this source answers with.
    others: tuple["Reader[Any, Any]", ...] = ()

    def one(self, raw: Untrusted[bytes], *, status: int, media_type: str) -> Outcome:
        """Return the one work the answer is about, or why there is none; raises nothing."""
        if self.not_found is not None and _is(raw, self.not_found):
            return NotFound(self.source)
        for other in self.others:
            if is_type(media_type, other.types):
                return other.one(raw, status=status, media_type=media_type)
        found = self.all(raw, status=status, media_type=media_type)
        if not isinstance(found, tuple):
            return found
        if len(found) > 1:
            return Unreadable(self.source, "several", f"{len(found)} works, one was asked for")
        return found[0]

    def all(
        self, raw: Untrusted[bytes], *, status: int, media_type: str
    ) -> tuple[Metadata, ...] | NotFound | Unreadable:
        """Return all works of the answer, in its order; never an empty tuple."""
        stop = None if status in self.read_errors else judge_status(status)
        if stop is None and not is_type(media_type, self.types):
            stop = Stop("type", "a media type this source does not answer with")
        if stop is not None:
            return stop.outcome(self.source)
        found = self._works(raw)
        if isinstance(found, Stop):
            return found.outcome(self.source)
        if not found:
            return NotFound(self.source)
        if len(found) > MAX_LISTED:
            return Unreadable(self.source, "too-large", f"more than {MAX_LISTED} works")
        return tuple(map(self._record, found))

    def _works(self, raw: Untrusted[bytes]) -> Sequence[Item] | Stop:
        try:
            return self.find(self.decode(raw))
        except (JsonRefused, XmlRefused) as exc:
            return Stop(exc.reason, str(exc))

    def _record(self, item: Item) -> Metadata:
        record = Record(self.source)
        self.read(item, record)
        return record.finished()


def _is(raw: Untrusted[bytes], body: bytes) -> bool:
    untrusted = raw.open_for_validation()
    return len(untrusted) < len(body) + 45 and untrusted.strip() == body


def judge_status(status: int) -> Stop | None:
    """Return what an HTTP status alone says, None where the body must be read."""
    if 200 <= status <= 299:
        return None
    if status in (404, 410):
        return Stop("not-found")
    if status in _DENIED:
        return Stop("denied", f"status {status}")
    if status == 429:
        return Stop("rate-limited", "status 429")
    return Stop("refused" if status in _REFUSED else "status", f"status {status}")


def is_type(media_type: str, types: tuple[str, ...]) -> bool:
    """Tell whether the essence of `media_type` is one of `types`, or ends like one."""
    essence = media_type.partition(";")[0].strip().lower()
    return any(essence.endswith(name) if name[0] == "+" else essence == name for name in types)


def json_document(raw: Untrusted[bytes]) -> object:
    """Decode JSON."""
    return parse_json(raw)


def xml_document(raw: Untrusted[bytes]) -> Element:
    """Decode XML."""
    return parse_xml(raw)


def other_kind(what: str) -> Stop:
    """Return the refusal of a document that is about something else."""
    return Stop("other-kind", what)


def objects_only(items: object) -> Sequence[object] | Stop:
    """Return a list of JSON objects as it is; anything else is not a list of works."""
    if not isinstance(items, list):
        return other_kind("no list of works")
    if not all(isinstance(item, dict) for item in items):
        return other_kind("an item of the list is no object")
    return items
