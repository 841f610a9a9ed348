"""Fetch Request: what to retrieve and why.

A URL chosen by CORE is an outbound channel, so a fetch request needs approval like code.

SECURITY
    Reads drafts written by CORE, which reads hostile text, and requests by the operator.
    If this module is wrong, a request for something else than was approved reaches FETCH.
"""

from dataclasses import dataclass
from typing import Final

from threegate.artifacts import limits
from threegate.artifacts.codec import BodySection, Format, section
from threegate.artifacts.ids import id_of
from threegate.artifacts.labels import INTEGRITY, check_origin
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.base.forms import CONFIDENTIALITY, NONCE, TIME
from threegate.base.limits import MAX_REQUEST_BYTES, MAX_URL_CHARS
from threegate.base.schema import Choice, ListOf, Sorted, Text, spec
from threegate.base.untrusted import Untrusted


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """What to retrieve and why."""

    created: str = spec(TIME, "when the host stored it")
    nonce: str = spec(NONCE, "stamped by the host: asking again is a new request")
    origin: str = spec(Choice("operator", "core"), "who wrote it")
    want: str = spec(Choice("metadata", "full-text"), "how much of each source is wanted")
    references: tuple[Untrusted[str], ...] = spec(
        ListOf(Text(MAX_URL_CHARS), limits.MAX_REFERENCES, least=1),
        "what to retrieve: DOI, arXiv id, allowlisted https URL and the like",
    )
    integrity: str = spec(Choice(*INTEGRITY), "`external` when any source shaped it")
    confidentiality: str = spec(Choice(*CONFIDENTIALITY), "joined over `derived_from`")
    derived_from: tuple[str, ...] = spec(
        Sorted(id_of("rp", "an", "res"), limits.MAX_DERIVED_FROM),
        "every artifact its author could read; set by the host",
    )
    purpose: Untrusted[str] = section(
        BodySection("Purpose", limits.MAX_PURPOSE_CHARS, 1), "why it is wanted"
    )

    def parents(self) -> tuple[str, ...]:
        """Return the ids this request was made from."""
        return self.derived_from


def _check(request: FetchRequest) -> None:
    if len(set(request.references)) != len(request.references):
        raise reject(ArtifactReason.LIST_ORDER, "references holds an item twice")
    check_origin(request.origin, request.integrity, request.derived_from)
    # A result could smuggle data out in a URL: results never feed FETCH.
    read_a_result = any(parent.startswith("res-") for parent in request.derived_from)
    if request.origin == "core" and read_a_result:
        raise reject(
            ArtifactReason.RESULT_FEEDS_FETCH, "a draft whose author could read a tool result"
        )


FORMAT: Final = Format(
    FetchRequest,
    prefix="fr",
    version=1,
    title="Fetch Request",
    max_bytes=MAX_REQUEST_BYTES,
    check=_check,
)
