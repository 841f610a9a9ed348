"""Who registered a DOI: `https://doi.org/ra/{doi}` and Crossref's `/works/{doi}/agency`.

It decides whom to ask, so only agencies known here count.

SECURITY
    Reads an answer of a foreign server.  If this is wrong, the wrong source is asked.
"""

from dataclasses import dataclass
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.answers import JSON_TYPES, is_type, judge_status
from threegate.gates.fetch.sources.metadata import NotFound, Unreadable
from threegate.gates.fetch.sources.strict_json import JsonRefused, parse_json

SOURCE: Final = "doi"
_AGENCIES: Final = frozenset(
    {
        "crossref",
        "datacite",
        "medra",
        "jalc",
        "kisti",
        "istic",
        "airiti",
        "op",
        "cnki",
        "eidr",
        "public",
        "biodiv",
    }
)


@dataclass(frozen=True, slots=True)
class Agency:
    """A registration agency, by our own word for it; `other` for one not known here."""

    name: str


def parse(raw: Untrusted[bytes], *, status: int, media_type: str) -> Agency | NotFound | Unreadable:
    """Return the agency, or why there is none; raises nothing."""
    stop = judge_status(status)
    if stop is not None:
        return stop.outcome(SOURCE)
    if not is_type(media_type, JSON_TYPES):
        return Unreadable(SOURCE, "type", "a media type this source does not answer with")
    try:
        document = parse_json(raw)
    except JsonRefused as exc:
        return Unreadable(SOURCE, exc.reason, str(exc))
    return _judge(document)


def _judge(document: object) -> Agency | NotFound | Unreadable:
    if isinstance(document, list) and len(document) == 1 and isinstance(document[0], dict):
        if isinstance(document[0].get("RA"), str):
            return _agency(document[0]["RA"])
        if document[0].get("status") in ("DOI does not exist", "Unknown"):
            return NotFound(SOURCE)
        return Unreadable(SOURCE, "refused", "neither an agency nor a DOI that does not exist")
    message = document.get("message") if isinstance(document, dict) else None
    agency = message.get("agency") if isinstance(message, dict) else None
    if isinstance(agency, dict) and isinstance(agency.get("id"), str):
        return _agency(agency["id"])
    return Unreadable(SOURCE, "other-kind", "no answer about an agency")


def _agency(name: str) -> Agency:
    lowered = name[:32].lower()
    return Agency(lowered if lowered in _AGENCIES else "other")
