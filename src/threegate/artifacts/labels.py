"""Labels of artifacts: integrity (who could have shaped it) and confidentiality (who may see it).

Labels only ever get worse along `derived_from`: one external source makes the whole
external, one confidential source makes the whole confidential.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.base.forms import CONFIDENTIALITY

INTEGRITY: Final = ("operator", "external")  # worse to the right


@dataclass(frozen=True, slots=True)
class Labels:
    """Integrity and confidentiality of one artifact."""

    integrity: str
    confidentiality: str

    def join(self, other: "Labels") -> "Labels":
        """Return the label of something made from both."""
        return Labels(
            max(self.integrity, other.integrity, key=INTEGRITY.index),
            max(self.confidentiality, other.confidentiality, key=CONFIDENTIALITY.index),
        )

    def covers(self, other: "Labels") -> bool:
        """Tell whether this label is at least as careful as `other`."""
        return self.join(other) == self


LOWEST: Final = Labels("operator", "public")


def join_all(labels: Iterable[Labels]) -> Labels:
    """Return the label of something made from all of these."""
    joined = LOWEST
    for label in labels:
        joined = joined.join(label)
    return joined


def check_origin(origin: str, integrity: str, parents: tuple[str, ...]) -> None:
    """Raise `ArtifactRejected` if a request claims more integrity than its author and sources."""
    if integrity == "external":
        return
    if origin == "core":
        raise reject(ArtifactReason.LABELS, "what CORE writes is external")
    # Only packets, results and analyses can be listed here, and these are always external.
    if parents:
        raise reject(ArtifactReason.LABELS, "what is made from an external artifact is external")
