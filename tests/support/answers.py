"""Answers of scholarly sources, written for this project: small, and none of them real."""

import json
from typing import Any

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.metadata import Metadata, Outcome

JSON = "application/json"
XML = "application/xml"


def raw(value: object) -> Untrusted[bytes]:
    """Return JSON bytes for a value, or the bytes themselves."""
    return Untrusted(value if isinstance(value, bytes) else json.dumps(value).encode("utf-8"))


def work(outcome: Outcome) -> Metadata:
    """Return the work an outcome must be."""
    assert isinstance(outcome, Metadata), outcome
    return outcome


def shown(text: Untrusted[str] | None) -> str | None:
    """Open a box."""
    return None if text is None else text.open_for_display()


def names(found: Metadata) -> list[tuple[str, str]]:
    """Return the identifiers as pairs."""
    return [(name.scheme, name.value.open_for_display()) for name in found.identifiers]


def problems(found: Metadata) -> set[tuple[str, str]]:
    """Return what was wrong, without counts."""
    return {(problem.field, problem.what) for problem in found.problems}


def crossref_work(**fields: Any) -> dict[str, Any]:
    """Return a Crossref answer about one work; `fields` replace or add."""
    message = {
        "DOI": "10.5555/TG.1",
        "title": ["On gates"],
        "author": [{"given": "Ada", "family": "Gate", "sequence": "first"}],
        "issued": {"date-parts": [[2021, 3, 4]]},
        "container-title": ["Journal of Gates"],
        "ISSN": ["1234-567X"],
        "relation": {},
        **fields,
    }
    return {"status": "ok", "message-type": "work", "message": message}
