"""Which work a packet is about: its identifiers in one spelling each.

Two packets are of one work if they share an identifier.  ISBN and ISSN do not count: chapters
and articles share them with their book or journal.

SECURITY
    Opens identifiers that sources state, to compare them.  If this module is wrong, packets of
    one work are not found together, and a retraction is missed.
"""

import re
from typing import Final
from urllib.parse import unquote

from threegate.artifacts.references import parse_reference
from threegate.artifacts.research_packet import ResearchPacket

SCHEMES: Final = ("arxiv", "doi", "openalex", "pmcid", "pmid", "semanticscholar")
_ARXIV_DOI: Final = "10.48550/arxiv."
_VERSION: Final = re.compile(r"v[0-9]{1,3}\Z")
# ASCII alone, as DOIs are compared: `lower` would make one of a letter and the Kelvin sign.
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

Name = tuple[str, str]  # scheme and value


def names_of(packet: ResearchPacket) -> tuple[Name, ...]:
    """Return the identifiers of the packet's work; a list of search results has none."""
    reference = packet.reference.open_for_validation()
    if reference.startswith("search:"):
        return ()
    spelled = [(one.scheme, one.value.open_for_validation()) for one in packet.identifiers]
    given = (*spelled, _asked(reference))
    return tuple(sorted({_name(scheme, value) for scheme, value in given if scheme in SCHEMES}))


def joins_names(packet: ResearchPacket) -> bool:
    """Tell whether the packet's identifiers are names of one work: a registry says so.

    A web page may name any number of works, so it joins none of them.
    """
    return packet.source != "url"


def _asked(reference: str) -> Name:
    try:
        found = parse_reference(reference)  # also the address of a work, at doi.org or arxiv.org
    except ValueError:
        scheme, _, value = reference.partition(":")
        return scheme, value
    return found.scheme, found.value


def _name(scheme: str, value: str) -> Name:
    """Return an identifier in one spelling, whichever of the usual ones a source chose."""
    value = unquote(value.strip())
    if scheme == "pmcid" and value.isdigit():
        value = f"PMC{value}"
    # As it is named, then as a whole reference: a URL, or with its prefix written twice.
    for spelled in (f"{scheme}:{value.lstrip('0') if scheme == 'pmid' else value}", value):
        try:
            reference = parse_reference(spelled)
        except ValueError:
            continue
        if reference.scheme == scheme:
            value = reference.value
            break
    value = value.translate(_LOWER)
    if scheme == "doi" and value.startswith(_ARXIV_DOI):
        return _name("arxiv", value.removeprefix(_ARXIV_DOI))
    if scheme == "arxiv":  # all versions are one work
        value = _VERSION.sub("", value)
    return scheme, value
