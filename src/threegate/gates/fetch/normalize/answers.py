"""What the answers of a record say: works, documents, candidates; and which say nothing.

SECURITY
    Opens no foreign bytes itself: parsers of sources and readers of documents do, and both
    turn every refusal into a value.  An answer that cannot be read becomes a gap, never an
    empty place nobody knows of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Final

from threegate.artifacts.research_packet import Gap, Identifier
from threegate.artifacts.sources import PRECEDENCE, SOURCES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer, RetrievalRecord
from threegate.gates.fetch.normalize.text import Document, Read, Unread
from threegate.gates.fetch.sources.answers import Reader, judge_status
from threegate.gates.fetch.sources.merge import Answer as Said
from threegate.gates.fetch.sources.merge import Merged, Missing, merge
from threegate.gates.fetch.sources.metadata import Metadata, NotFound, Outcome, Unreadable
from threegate.gates.fetch.sources.names import identifier

MAX_GAP_CHARS: Final = 500

# The module of a source has its name, and its readers are called READER and RELATED.
_MODULES: Final = {
    name: import_module(f"threegate.gates.fetch.sources.{name}")
    for name in (*(source.name for source in SOURCES), "zotero")
}
_READERS: Final[Mapping[str, Reader[Any, Any]]] = {
    name: module.READER for name, module in _MODULES.items()
}
# Readers of lists, by the role of the answer.
_LISTS: Final[Mapping[str, Mapping[str, Reader[Any, Any]]]] = {
    "search": {s.name: _READERS[s.name] for s in SOURCES if s.search is not None},
    "related": {s.name: _MODULES[s.name].RELATED for s in SOURCES if s.references or s.cited_by},
}
# Schemes in which one work has one name; OpenAlex answers with the work another was merged into.
_NAMING: Final = ("arxiv", "doi", "pmcid", "pmid")
_GAP_OF_UNREAD: Final = {"denied": "denied", "too-large": "too-large", "status": "failed"}


@dataclass(slots=True)
class Heard:
    """What came of each answer, in the order of the record."""

    works: list[tuple[KeptAnswer, Outcome]] = field(default_factory=list)
    documents: list[tuple[KeptAnswer, Document]] = field(default_factory=list)
    unread: list[tuple[KeptAnswer, Unread | Outcome]] = field(default_factory=list)
    candidates: list[tuple[KeptAnswer, tuple[Metadata, ...]]] = field(default_factory=list)
    others: list[tuple[KeptAnswer, Metadata]] = field(default_factory=list)  # about another work

    def leave_out(self, others: tuple[Metadata, ...]) -> None:
        """Take out the works `others`, and the documents that are about them."""

        def is_other(work: object) -> bool:
            return any(work is other for other in others)

        said = [(answer, work) for answer, work in self.works if isinstance(work, Metadata)]
        said += [(a, d.about) for a, d in self.documents if d.about is not None]
        self.others = [(answer, work) for answer, work in said if is_other(work)]
        self.works = [pair for pair in self.works if not is_other(pair[1])]
        self.documents = [pair for pair in self.documents if not is_other(pair[1].about)]

    def metadata(self) -> list[tuple[KeptAnswer, Metadata]]:
        """Return the works that were found, the most authoritative source first."""
        found = [(answer, work) for answer, work in self.works if isinstance(work, Metadata)]
        found.sort(key=lambda pair: _place(pair[0].source))
        return found


def hear(
    record: RetrievalRecord, raws: tuple[Untrusted[bytes], ...], readers: Mapping[str, Read]
) -> Heard:
    """Return what all answers say."""
    heard = Heard()
    for answer, raw in zip(record.answers, raws, strict=True):
        if answer.role == "document":
            _hear_document(answer, raw, readers, heard)
        elif answer.role in _LISTS:
            _hear_list(answer, raw, heard)
        else:
            heard.works.append((answer, _parse(answer, raw)))
    return heard


def merged(record: RetrievalRecord, heard: Heard) -> Merged:
    """Return one record of all works, with a gap for everything that was asked in vain.

    What turns out to be about another work is taken out of `heard`, its text included.
    """
    said = [Said(_reference(answer.reference), outcome) for answer, outcome in heard.works]
    said += [Said(_reference(m.reference), Missing(m.source, m.reason)) for m in record.misses]
    # A page is no registry, even if it looks like a record of one.
    registered = [(a, d) for a, d in heard.documents if d.registered and a.source != "url"]
    # What a page says of itself counts where no registry was heard.
    of_itself = registered if heard.metadata() or registered else heard.documents
    for answer, document in of_itself:
        if document.about is not None:
            said.append(Said(_reference(answer.reference), document.about))
    found = merge(said, asked_for(record))
    if found.others:
        heard.leave_out(found.others)
    return found


def asked_for(record: RetrievalRecord) -> Identifier | None:
    """Return the name that was asked for, where an answer must bear it."""
    if record.scheme not in _NAMING:
        return None
    name = record.reference.removeprefix(f"{record.scheme}:")
    return identifier(record.scheme, name.replace("%3C", "<"))  # see `spelled_reference`


def gaps_of_unread(heard: Heard) -> tuple[Gap, ...]:
    """Return a gap for each document or list that gave nothing."""
    gaps = []
    for answer, why in heard.unread:
        if isinstance(why, NotFound):
            reason = "not-found"
        else:
            assert not isinstance(why, Metadata)
            reason = _GAP_OF_UNREAD.get(why.reason, "unreadable")
        gaps.append(Gap(answer.source, _reference(answer.reference), reason))
    return tuple(gaps)


def reader_for(read_as: str, readers: Mapping[str, Read]) -> Read:
    """Return the reader of a type, by its name or by the syntax its name ends with."""
    found = readers.get(read_as) or readers.get(f"+{read_as.rpartition('+')[2]}")
    if found is None:
        raise Unread("other-kind", f"this box has no reader for {read_as}")
    return found


def _hear_document(
    answer: KeptAnswer, raw: Untrusted[bytes], readers: Mapping[str, Read], heard: Heard
) -> None:
    stop = judge_status(answer.status)
    if stop is not None:
        heard.unread.append((answer, stop.outcome(answer.source)))
        return
    try:
        document = reader_for(answer.read_as, readers)(raw, answer)
        if document.about is not None:
            document = replace(document, about=_of_source(document.about, answer.source))
        if not any(part.text.open_for_validation().strip() for part in document.parts):
            raise Unread("empty", "there is no text in the document")
    except Unread as exc:
        heard.unread.append((answer, exc))
    else:
        heard.documents.append((answer, document))


def _hear_list(answer: KeptAnswer, raw: Untrusted[bytes], heard: Heard) -> None:
    reader = _LISTS[answer.role].get(answer.source)
    if reader is None:
        why = Unreadable(answer.source, "other-kind", "this source has no such lists")
        heard.unread.append((answer, why))
        return
    found = reader.all(raw, status=answer.status, media_type=answer.read_as)
    if isinstance(found, tuple):
        heard.candidates.append((answer, found))
    else:
        heard.unread.append((answer, found))


def _parse(answer: KeptAnswer, raw: Untrusted[bytes]) -> Outcome:
    reader = _READERS.get(answer.source)
    if reader is None:
        return Unreadable(answer.source, "other-kind", "this source has no records of works")
    return reader.one(raw, status=answer.status, media_type=answer.read_as)


def _of_source(work: Metadata, source: str) -> Metadata:
    """Return the same statements in the name of whoever was asked."""
    if work.source == source:
        return work
    notices = tuple(replace(notice, source=source) for notice in work.retraction.notices)
    retraction = replace(work.retraction, notices=notices)
    about = tuple(replace(notice, source=source) for notice in work.notice_of)
    return replace(work, source=source, retraction=retraction, notice_of=about)


def _reference(text: str) -> Untrusted[str]:
    return Untrusted(text[:MAX_GAP_CHARS])


def _place(source: str) -> int:
    return PRECEDENCE.index(source) if source in PRECEDENCE else len(PRECEDENCE)
