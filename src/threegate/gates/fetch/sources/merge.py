"""Several sources on one work become one record: which source said what, and who was silent.

The order of `PRECEDENCE` decides, never the order of answers, so the same answers give the
same record.  A retraction is the worst that any of them says.

SECURITY
    Works on what the parsers made of foreign answers.  A source that answers about another
    work must not lend it this one's name, or hide this one's retraction: an answer that
    shares no identifier where both have one, or has another than the one asked for, is left
    out and recorded.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeVar

from threegate.artifacts.research_packet import Gap, Identifier
from threegate.artifacts.sources import PRECEDENCE, WORK_SCHEMES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.limits import MAX_IDENTIFIERS, MAX_LINKS
from threegate.gates.fetch.sources.metadata import (
    RETRACTION_ORDER,
    Abstract,
    Author,
    Link,
    Metadata,
    NotFound,
    Notice,
    Outcome,
    PartialDate,
    Remark,
    Retraction,
    Unreadable,
)
from threegate.gates.fetch.sources.names import sort_key

_GAP_OF: Final = {"denied": "denied", "too-large": "too-large", "refused": "failed",
                  "rate-limited": "failed", "status": "failed"}  # fmt: skip

_ARXIV_DOI: Final = "10.48550/arxiv."  # a DOI that holds the other name
# `math.gt/0309136v2` is `math/0309136` with its class and a version.
_MORE_THAN_NAME: Final = re.compile(r"v[0-9]+\Z|\.[a-z]{2}(?=/)")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Missing:
    """A source that was to be asked and gave no answer; `reason` is one of a packet's."""

    source: str
    reason: str  # one of GAP_REASONS


@dataclass(frozen=True, slots=True)
class Answer:
    """What asking one source came to."""

    reference: Untrusted[str]
    outcome: Outcome | Missing


@dataclass(frozen=True, slots=True)
class Origin:
    """Which source a field came from."""

    field: str
    source: str


@dataclass(frozen=True, slots=True)
class Merged:
    """One work, as all sources that answered describe it."""

    title: Untrusted[str] | None
    authors: tuple[Author, ...]
    published: PartialDate | None
    licence: Untrusted[str] | None
    identifiers: tuple[Identifier, ...]  # sorted, no two alike
    abstracts: tuple[Abstract, ...]
    container: Untrusted[str] | None
    retraction: Retraction
    notice_of: tuple[Notice, ...]
    links: tuple[Link, ...]
    origins: tuple[Origin, ...]  # sorted
    gaps: tuple[Gap, ...]
    others: tuple[Metadata, ...]  # answers about something else
    remarks: tuple[Remark, ...]


def merge(answers: Sequence[Answer], asked: Identifier | None = None) -> Merged:
    """Return one record of all `answers`, in any order, about the work `asked` for."""
    ranked = _ranked(answers)
    works, others = _of_one_work(ranked, () if asked is None else (asked,))
    origins: list[Origin] = []
    retraction = _retraction(works, origins)
    return Merged(
        title=_first("title", [(w.source, w.title) for w in works], origins),
        authors=_first("authors", [(w.source, w.authors) for w in works], origins) or (),
        published=_first("published", [(w.source, w.published) for w in works], origins),
        licence=_first("licence", [(w.source, w.licence) for w in works], origins),
        identifiers=_identifiers(works, origins),
        abstracts=_first("abstracts", [(w.source, w.abstracts) for w in works], origins) or (),
        container=_first("container", [(w.source, w.container) for w in works], origins),
        retraction=retraction,
        notice_of=tuple(notice for work in works for notice in work.notice_of),
        links=_links(works),
        origins=tuple(sorted(set(origins), key=_order)),
        gaps=tuple(gap for answer in ranked if (gap := _gap(answer, others)) is not None),
        others=tuple(others),
        remarks=tuple(remark for work in works for remark in work.remarks),
    )


def merge_lists(works: Iterable[Metadata]) -> tuple[Merged, ...]:
    """Return the works of several lists in order, those that share an identifier as one.

    A work that shares identifiers with two earlier ones joins the first, and the second stays
    listed: no entry can take another one out of the list.
    """
    groups: list[list[Answer]] = []
    place: dict[tuple[str, str], int] = {}
    for work in works:
        names = _names(work.identifiers)
        at = min((place[name] for name in names if name in place), default=len(groups))
        if at == len(groups):
            groups.append([])
        groups[at].append(Answer(Untrusted(""), work))
        for name in names:
            place.setdefault(name, at)
    found: list[Merged] = []
    for group in groups:
        one = merge(group)
        found += [one, *(merge([Answer(Untrusted(""), other)]) for other in one.others)]
    return tuple(found)


def _order(origin: Origin) -> tuple[str, str]:
    return origin.field, origin.source  # the library's own comparison takes 20 times as long


def _ranked(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers by precedence; of one source asked twice, by what was asked, what came."""
    ranked: list[Answer] = []
    for _, group in groupby(sorted(answers, key=_rank), key=_rank):
        same = list(group)
        # Spelling out all that came takes as long as the rest, and is rarely asked for.
        ranked += same if len(same) == 1 else sorted(same, key=lambda item: repr(item.outcome))
    return ranked


def _rank(answer: Answer) -> tuple[int, str]:
    source = answer.outcome.source
    place = PRECEDENCE.index(source) if source in PRECEDENCE else len(PRECEDENCE)
    return place, answer.reference.open_for_validation()


def _names(identifiers: Iterable[Identifier]) -> set[tuple[str, str]]:
    """Return the names of the work itself, arXiv versions and classes taken together."""
    found = set()
    for scheme, value in map(sort_key, identifiers):
        if scheme == "doi" and value.startswith(_ARXIV_DOI):
            found.add(("arxiv", value.removeprefix(_ARXIV_DOI)))
        if scheme in WORK_SCHEMES:
            found.add((scheme, _MORE_THAN_NAME.sub("", value) if scheme == "arxiv" else value))
    return found


def _of_one_work(
    ranked: Iterable[Answer], asked: Iterable[Identifier]
) -> tuple[list[Metadata], list[Metadata]]:
    """Return the answers about one work, and those about others."""
    works: list[Metadata] = []
    others: list[Metadata] = []
    known = _names(asked)
    for answer in ranked:
        if not isinstance(answer.outcome, Metadata):
            continue
        names = _names(answer.outcome.identifiers)
        comparable = {scheme for scheme, _ in names} & {scheme for scheme, _ in known}
        if comparable and not names & known:
            others.append(answer.outcome)
        else:
            works.append(answer.outcome)
            known |= names
    return works, others


def _first(field: str, offers: Iterable[tuple[str, _T | None]], origins: list[Origin]) -> _T | None:
    """Return the first value that is there, and record whose it is."""
    for source, value in offers:
        if value is not None and value != ():
            origins.append(Origin(field, source))
            return value
    return None


def _retraction(works: Sequence[Metadata], origins: list[Origin]) -> Retraction:
    """Return the worst status, every notice, and record who says so."""
    worst = max((RETRACTION_ORDER.index(w.retraction.status) for w in works), default=0)
    status = RETRACTION_ORDER[worst]
    if status != "unknown":
        said = (work.source for work in works if work.retraction.status == status)
        origins.extend(Origin("retraction", source) for source in said)
    return Retraction(status, tuple(n for work in works for n in work.retraction.notices))


def _identifiers(works: Sequence[Metadata], origins: list[Origin]) -> tuple[Identifier, ...]:
    """Return the names all sources know; the first source that gave one is its origin."""
    found: dict[Identifier, str] = {}
    for work in works:
        for name in work.identifiers:
            if len(found) < MAX_IDENTIFIERS:
                found.setdefault(name, work.source)
    origins.extend(Origin("identifiers", source) for source in found.values())
    return tuple(sorted(found, key=sort_key))


def _links(works: Sequence[Metadata]) -> tuple[Link, ...]:
    found = dict.fromkeys(link for work in works for link in work.links)
    return tuple(found)[:MAX_LINKS]


def _gap(answer: Answer, others: Sequence[Metadata]) -> Gap | None:
    """Return what is missing because of this answer, if anything is."""
    outcome = answer.outcome
    if isinstance(outcome, Missing):
        reason = outcome.reason
    elif isinstance(outcome, Unreadable):
        reason = _GAP_OF.get(outcome.reason, "unreadable")
    elif isinstance(outcome, NotFound) or any(outcome is other for other in others):
        reason = "not-found"  # what it answered about is not what was asked for
    else:
        return None
    return Gap(outcome.source, answer.reference, reason)
