"""Open copies of a work: which of the addresses that Unpaywall and OpenAlex name are asked for.

For `--want full-text`, after the metadata of a work is here and if no source of its own has the
document.  An address is asked for if policy lists its host.  For other hosts the report says which
one would have to be listed.

SECURITY
    The addresses are foreign text.  They are read from a packet that was made of metadata alone,
    in the sandbox without a library, before any document is read.  Each one is judged like an
    address that the operator typed, and its redirects are judged again.  It is asked for without
    the operator's key for the host, and only for the operator's own references: an approval covers
    the URLs that the review showed.  If this module is wrong, a listed host is asked for a URL
    that a source chose.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.references import OPEN_COPY, Question, open_copy_question, parse_reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.fetch.targets import FULL_TEXT, FetchTarget, decide, is_allowed
from threegate.policy.bundle import Bundle, Compiled, diff
from threegate.policy.decision import Ask
from threegate.policy.hosts import parse_url
from threegate.policy.nodes import change_line

MAX_COPIES: Final = 3  # asked for, one after the other, until a document is read
MAX_HOSTS: Final = 3  # named in a report
_LINKS: Final = "links"
_KINDS: Final = ("open-pdf", "open-page")  # a file is the document, a page may describe it only


@dataclass(frozen=True, slots=True)
class OpenCopies:
    """The open copies of a work: questions that may be asked, and hosts that policy lacks."""

    questions: tuple[Question, ...]
    unlisted: tuple[str, ...]


def lacks_document(target: FetchTarget) -> bool:
    """Tell whether a document is wanted and no question of the reference is for one."""
    has_own = any(question.role == "document" for question in target.questions)
    return target.want == FULL_TEXT and not has_own


def may_follow(target: FetchTarget) -> bool:
    """Tell whether open copies are asked for."""
    return lacks_document(target) and target.approved is None


def has_document(packet: ResearchPacket) -> bool:
    """Tell whether a packet of such a target is about an open copy that was read."""
    return packet.source == OPEN_COPY


def open_copies(bundle: Bundle, target: FetchTarget, packet: ResearchPacket) -> OpenCopies:
    """Return the open copies that a packet of metadata names, the best first."""
    questions: list[Question] = []
    unlisted: dict[str, None] = {}
    for url in dict.fromkeys(_addresses(packet)):
        try:
            host = parse_url(url).host
        except ValueError:  # http://, an address, a port: no rule can allow it
            continue
        question = open_copy_question(url)
        decision = decide(bundle, target, question)
        if is_allowed(decision, target):
            questions.append(question)
        elif decision.rule is None and not isinstance(decision, Ask):
            unlisted[host] = None
    return OpenCopies(tuple(questions[:MAX_COPIES]), tuple(unlisted)[:MAX_HOSTS])


def _addresses(packet: ResearchPacket) -> Iterator[str]:
    """Yield the addresses of open copies, files first."""
    found = zip(packet.excerpts, packet.texts, strict=True)
    texts = [text for one, text in found if one.label.open_for_validation() == _LINKS]
    lines = [line for text in texts for line in text.open_for_validation().split("\n")]
    for kind in _KINDS:
        for line in lines:
            said, _, url = line.partition(" ")
            # doi.org redirects to the publisher; the copy itself has another address.
            if said == kind and not _is_doi(url):
                yield url


def _is_doi(url: str) -> bool:
    try:
        return parse_reference(url).scheme == "doi"
    except ValueError:
        return True  # too long, or no URL


def notes_on(bundle: Bundle, target: FetchTarget, packet: ResearchPacket) -> tuple[str, ...]:
    """Return lines on a full text that is not here: where it is, and what policy lacks."""
    if not may_follow(target) or has_document(packet):
        return ()
    copies = open_copies(bundle, target, packet)
    if not (copies.questions or copies.unlisted):
        return ("full text: no source names an open copy",)
    return tuple(
        f"full text: not fetched from {host}, which policy does not list; to list it is"
        f" `{widening(bundle, host)}`"
        for host in copies.unlisted
    )


def widening(bundle: Bundle, host: str) -> str:
    """Return the line with which `policy diff` shows that a host is listed."""
    fetch, listed = bundle.value("fetch"), bundle.value("fetch", "hosts")
    assert isinstance(fetch, Mapping)
    assert isinstance(listed, Mapping)
    hosts = {**listed, host: {}}  # the line does not depend on the new row
    wider = Compiled({**bundle.sections, "fetch": {**fetch, "hosts": hosts}}, bundle.refs)
    (change,) = diff(bundle, wider)
    return change_line(change)
