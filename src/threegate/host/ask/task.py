"""What CORE is handed for a question, and what its numbers mean.

CORE gets texts and numbers; no id, no path, no label.  When it answers with numbers, this
module says which stored text each one stands for.

SECURITY
    Puts foreign text into a message for a box.  The only foreign words outside the texts
    themselves are titles, in the line that says where a source is from.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.research_packet import ResearchPacket
from threegate.gates.core.messages import CoreTask, TaskBudget, TaskSource
from threegate.host.ask.denied import Denied
from threegate.host.ask.selection import Selection
from threegate.host.ask.storage import Asked
from threegate.host.provenance.derivation import Origin
from threegate.host.provenance.texts import Material, Passage
from threegate.host.review.origins import host_of
from threegate.policy.bundle import Bundle
from threegate.policy.decide import KINDS, may_draft
from threegate.policy.decision import Deny

FETCH, TOOL = "fetch-request", "tool-request"
TITLE_CHARS: Final = 200
_BLANKS: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Sent:
    """One source as it was handed over: its artifact and what of it."""

    material: Material
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Handed:
    """A task, and what its sources are; the first is number 1."""

    task: CoreTask
    sent: tuple[Sent, ...]


def hand_over(
    bundle: Bundle,
    asked: Asked,
    selection: Selection,
    origin: Origin,
    denied: Sequence[Denied] = (),
) -> Handed:
    """Return the task for a question about a selection."""
    sent = tuple(_sent(selection))
    path = ("core", "answer")
    keys = ("output_tokens", "claims", "drafts", "retries")
    budget = TaskBudget(
        context_tokens=bundle.integer("core", "model", "context_tokens"),
        deadline_ms=bundle.integer(*path, "deadline_seconds") * 1000,
        **{key: bundle.integer(*path, key) for key in keys},
    )
    may = may_propose(bundle, asked.role, origin)
    task = CoreTask(
        question=asked.question,
        policy=_policy(may),
        brief=bundle.words("core", "roles", asked.role, "brief"),
        may_draft=may,
        marker=secrets.token_hex(bundle.integer("instruction-hierarchy", "marker_bytes")),
        model=bundle.text("core", "model", "name"),
        budget=budget,
        denied=tuple(one.text for one in denied),
        sources=tuple(_source(one) for one in sent),
    )
    return Handed(task, sent)


def may_propose(bundle: Bundle, role: str, origin: Origin) -> tuple[str, ...]:
    """Return the drafts that policy and role allow a run that could read this."""
    found = []
    # A result could leave in a URL: results never feed FETCH.
    if not origin.read_a_result and _may(bundle, role, "fr"):
        found.append(FETCH)
    # A program for a lane that is closed would only wait.
    if _may(bundle, role, "tr") and bundle.text("tool-exec", "lanes", "monty", "enabled") == "yes":
        found.append(TOOL)
    return tuple(found)


def _may(bundle: Bundle, role: str, kind: str) -> bool:
    return not isinstance(may_draft(bundle, "core", kind, role=role), Deny)


def _policy(may: tuple[str, ...]) -> tuple[str, ...]:
    proposals = {FETCH: "further sources to fetch", TOOL: "a computation"}
    words = " and ".join(proposals[kind] for kind in may) or "nothing"
    return (
        "Answers rest on the quoted sources.",
        f"Besides an answer you may propose {words}; a person decides about every proposal.",
    )


def _sent(selection: Selection) -> list[Sent]:
    found: dict[str, list[Passage]] = {}
    for passage in selection.passages:
        found.setdefault(passage.artifact, []).append(passage)
    # Best source first; its passages in the order they stand in.
    return [
        Sent(selection.materials[one], tuple(sorted(passages, key=lambda p: p.key)))
        for one, passages in found.items()
    ]


def _source(sent: Sent) -> TaskSource:
    texts = tuple(passage.text.open_for_validation() for passage in sent.passages)
    return TaskSource(provenance_of(sent.material), texts)


def provenance_of(material: Material) -> str:
    """Return where a source is from, in one line; the title in it is foreign."""
    artifact = material.artifact
    kind = KINDS[prefix_of(material.id)]
    title = _BLANKS.sub(" ", material.title.open_for_validation())[:TITLE_CHARS].strip()
    if isinstance(artifact, ResearchPacket):
        published = f", published {artifact.published}" if artifact.published else ""
        standing = "" if artifact.retraction in ("none", "unknown") else f", {artifact.retraction}"
        about = f"{kind} from {host_of(artifact.url)}{published}{standing}"
        return f"{about}: {title}" if title else about
    if isinstance(artifact, Analysis):
        return f"{kind}, an earlier answer to: {title}"
    return f"{kind}, computed by {short(artifact.request)}, ended {artifact.exit}"
