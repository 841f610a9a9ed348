"""What records of works say in running text: abstracts, links, candidates of a list.

SECURITY
    Joins foreign texts into texts that are as foreign.  An address that a source offers is
    quoted; the host asks for open copies only, and only at hosts that policy lists.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from threegate.artifacts.limits import MAX_EXCERPTS
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.fields import spelled_name
from threegate.gates.fetch.normalize.text import Part
from threegate.gates.fetch.sources.merge import Merged

MAX_CANDIDATE_AUTHORS: Final = 10
_ABSTRACT: Final = Untrusted("abstract")
_LINKS: Final = Untrusted("links")
_NOTICE_OF: Final = Untrusted("notice of")


def parts_of_work(work: Merged) -> Iterator[Part]:
    """Yield the abstracts of a work, what it is a notice of, its links, and remarks on it."""
    for abstract in work.abstracts:
        label = abstract.label.open_for_validation()
        named = _ABSTRACT if label == "abstract" else Untrusted(f"abstract: {label}")
        yield Part(named, abstract.text)
    if work.notice_of:
        about = ((n.status, n.identifier) for n in work.notice_of)
        lines = [
            status if name is None else f"{status} {spelled_name(name)}" for status, name in about
        ]
        yield Part(_NOTICE_OF, Untrusted("\n".join(dict.fromkeys(lines))))
    if work.links:
        lines = [f"{link.kind} {link.url.open_for_validation()}" for link in work.links]
        yield Part(_LINKS, Untrusted("\n".join(lines)))
    for remark in work.remarks:
        yield Part(remark.label, remark.text, remark.page)


def parts_of_candidates(works: Iterable[Merged]) -> Iterator[Part]:
    """Yield one part per work of a list."""
    for number, work in enumerate(works, 1):
        if number > MAX_EXCERPTS + 1:  # one more than fit, so that the cut is seen
            return
        yield Part(Untrusted(f"candidate {number}"), Untrusted("\n".join(_lines(work))))


def _lines(work: Merged) -> Iterator[str]:
    yield f"title: {_open(work.title)}"
    names = [author.name.open_for_validation() for author in work.authors]
    if names:
        more = len(names) - MAX_CANDIDATE_AUTHORS
        listed = "; ".join(names[:MAX_CANDIDATE_AUTHORS])
        yield f"authors: {listed}" + (f"; and {more} more" if more > 0 else "")
    if work.published is not None:
        yield f"published: {work.published.text}"
    if work.container is not None:
        yield f"container: {_open(work.container)}"
    for name in work.identifiers:
        yield spelled_name(name)
    if work.retraction.status in ("corrected", "concern", "retracted"):
        yield f"retraction: {work.retraction.status}"


def _open(text: Untrusted[str] | None) -> str:
    return "none given" if text is None else text.open_for_validation()
