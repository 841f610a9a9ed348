"""The works and addresses that the sentences before a model name: all that it may ask for.

A model that may write any reference writes one that nobody has; and one that obeys a source
could put what it read into an address.  So it chooses among what stands there.

SECURITY
    Reads text of strangers.  A reference it finds is a choice in the form of a reply, spelled
    in characters that end no string of that form.
"""

import re
from collections.abc import Sequence
from typing import Final

from threegate.base.identifiers import parse_reference
from threegate.gates.core.fences import QuotedSentence

MAX_NAMED: Final = 24
MAX_REFERENCE_CHARS: Final = 200
_CANDIDATE: Final = re.compile(
    r"(?:\b(?:doi|arxiv|pmid|pmcid|openalex): ?|https?://|\b10\.[0-9]{4,9}/)[!#-;=?-\[\]-~]+",
    re.IGNORECASE,
)
_AFTER: Final = ".,;:!?'*_)]}>"  # ends a sentence or a bracket round the reference


def named(lines: Sequence[QuotedSentence]) -> tuple[str, ...]:
    """Return the references in these sentences, each once, in order."""
    found: dict[str, None] = {}
    for line in lines:
        for candidate in _CANDIDATE.findall(line.text):
            try:
                reference = parse_reference(candidate.replace(": ", ":", 1).rstrip(_AFTER)).text
            except ValueError:
                continue
            if reference.isascii() and len(reference) <= MAX_REFERENCE_CHARS:
                found[reference] = None
            if len(found) == MAX_NAMED:
                return tuple(found)
    return tuple(found)
