"""What the operator named on the command line, as references: words, files, requests.

SECURITY
    Reads files the operator names, which somebody else may have written.  What is not a
    reference is told with its line and not asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from threegate.artifacts.ids import is_id, is_short_id, prefix_of
from threegate.artifacts.references import (
    DEFAULT_ENRICH,
    ENRICHERS,
    Reference,
    parse_reference,
)
from threegate.base.errors import ArtifactRejected, UsageError
from threegate.base.text import quote, visible
from threegate.base.untrusted import Untrusted
from threegate.host.bibliography.entries import MAX_LIST_BYTES, Unreadable
from threegate.host.bibliography.reader import read_list
from threegate.host.workspace.offered_files import named, read_regular, read_standard_input

NOT_A_LIST: Final = "TG-FET-076"
MOST_TOLD: Final = 10
STDIN: Final = "-"
_HINT: Final = "BibTeX, RIS, CSL-JSON, or one reference to a line"


@dataclass(frozen=True, slots=True)
class Unusable:
    """An entry of a file that names nothing to fetch."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """References to ask for, ids of approved fetch requests, and entries that name neither."""

    references: tuple[Reference, ...]
    requests: tuple[str, ...]
    unusable: tuple[Unusable, ...] = ()


def choose(
    words: Sequence[str],
    files: Sequence[str],
    *,
    stdin: BinaryIO,
    resolve: Callable[[str], str],
    note: Callable[[str], None],
) -> Chosen:
    """Return what was named, each once; raise `UsageError` for what is no reference."""
    references: dict[Reference, None] = {}
    requests: dict[str, None] = {}
    for word in words:
        if is_id(word) or is_short_id(word):
            requests[_request(resolve(word))] = None
            continue
        try:
            references[parse_reference(word)] = None
        except ValueError as exc:
            hint = "`threegate fetch --help` shows every kind of reference"
            raise UsageError(f"{quote(word)}: {exc}", hint=hint) from exc
    unusable: list[Unusable] = []
    for name in files:
        references |= dict.fromkeys(_listed(name, stdin, note, unusable))
    return Chosen(tuple(references), tuple(requests), tuple(unusable))


def _request(artifact_id: str) -> str:
    if prefix_of(artifact_id) != "fr":
        hint = "`threegate run` runs tool requests" if prefix_of(artifact_id) == "tr" else ""
        raise UsageError(f"{artifact_id} is not a fetch request", hint=hint)
    return artifact_id


def _listed(
    name: str, stdin: BinaryIO, note: Callable[[str], None], unusable: list[Unusable]
) -> tuple[Reference, ...]:
    shown = "standard input" if name == STDIN else visible(name)
    with named(shown):
        if name == STDIN:
            data = read_standard_input(stdin, most_bytes=MAX_LIST_BYTES)
        else:
            data = read_regular(name, most_bytes=MAX_LIST_BYTES)
    try:
        found = read_list(Untrusted(data))
    except Unreadable as exc:
        raise ArtifactRejected(f"{shown}: {exc}", code=NOT_A_LIST, hint=_HINT) from exc
    for problem in found.problems[:MOST_TOLD]:
        note(f"{shown}, line {problem.line}: {problem.message}")
    more = len(found.problems) - MOST_TOLD
    if more > 0:
        note(f"{shown}: {more} more lines name nothing that can be asked for")
    lost = {one.line: one.message for one in found.problems if one.lost}
    unusable += [Unusable(shown, line, reason) for line, reason in lost.items()]
    if not found.references:
        raise ArtifactRejected(f"{shown} names nothing to fetch", code=NOT_A_LIST, hint=_HINT)
    return found.references


def read_enrich(text: str | None) -> tuple[str, ...]:
    """Return the sources to ask besides the first, as `--enrich` names them."""
    if text is None:
        return DEFAULT_ENRICH
    if text in ("none", "all"):
        return ENRICHERS if text == "all" else ()
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in found:
        if word not in ENRICHERS:
            hint = f"none, all, or some of {', '.join(ENRICHERS)}, with commas between"
            raise UsageError(f"{quote(word)} enriches nothing", hint=hint)
    return found
