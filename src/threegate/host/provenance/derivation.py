"""What an answer was made from: everything that could be read, and what that was made from.

The host works this out itself from stored artifacts; nobody who wrote an answer is asked.

SECURITY
    If this module is wrong, an answer forgets a source, and with it a label: something
    confidential could be shown as public, or a result could feed a fetch request.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.labels import Labels, join_all
from threegate.artifacts.limits import MAX_DERIVED_FROM
from threegate.base.errors import UsageError
from threegate.handoff.store import Store
from threegate.host.provenance.texts import READABLE
from threegate.host.workspace.places import read_anywhere

MAX_WALKED: Final = 4 * MAX_DERIVED_FROM


@dataclass(frozen=True, slots=True)
class Origin:
    """Everything behind an answer, and the labels of all of it."""

    derived_from: tuple[str, ...]  # sorted; what is still here
    labels: Labels
    read_a_result: bool  # one of them is a tool result, or was or may have been made from one


def origin_of(store: Store, readable: Iterable[str]) -> Origin:
    """Return the origin of something whose author could read all of this."""
    waiting = list(dict.fromkeys(readable))
    seen = set(waiting)
    here: list[str] = []
    labels = [Labels("external", "public")]
    unknown = False
    while waiting:
        artifact_id = waiting.pop()
        artifact = read_anywhere(store, artifact_id)
        if artifact is None:  # forgotten: what was made from it still says that it was
            # What an analysis had read is forgotten with it, a result perhaps.
            unknown = unknown or prefix_of(artifact_id) == "an"
            continue
        labels.append(registry.labels_of(artifact))
        if prefix_of(artifact_id) in READABLE and store.locate(artifact_id) is not None:
            here.append(artifact_id)
        new = [parent for parent in artifact.parents() if parent not in seen]
        seen.update(new)
        waiting += new
        if len(seen) > MAX_WALKED or len(here) > MAX_DERIVED_FROM:
            hint = "name fewer sources with --packets"
            raise UsageError(f"more than {MAX_DERIVED_FROM} artifacts stand behind it", hint=hint)
    results = unknown or any(prefix_of(one) == "res" for one in seen)
    return Origin(tuple(sorted(here)), join_all(labels), results)
