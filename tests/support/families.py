"""Artifacts that descend from each other, admitted into a workspace.

packet -> analysis -> later       (the second reads the first)
   |         \\-> request -> approval -> result
   \\-> fetch (a draft of CORE's)
bystander                         (has nothing to do with them)
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from tests.support import samples
from tests.support.samples import box
from tests.support.workspaces import keep_blob, soft_signer, take_in
from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis, Claim
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.host.workspace.workspace import Workspace


@dataclass(frozen=True)
class Family:
    """Ids, the oldest first."""

    packet: str
    analysis: str
    fetch: str
    later: str
    request: str
    approval: str
    result: str

    def ids(self) -> list[str]:
        return list(astuple(self))


def analysis_of(*sources: str, **changes: Any) -> Analysis:
    """Return an analysis that read these artifacts."""
    read = tuple(sorted(sources))
    base: dict[str, Any] = {
        "selection": read,
        "derived_from": read,
        "claims": (Claim("unchecked", ()),),
        "claim_texts": (box("Colder ice is tougher."),),
        "quotes": (),
        "confidentiality": "internal",
    }
    return samples.analysis(**{**base, **changes})


def keep_approval(ws: Workspace, request: str) -> str:
    """Keep a signed approval of a request; return its id."""
    data = registry.emit(samples.approval(request=request))
    approval = f"ap-{registry.id_of(samples.approval(request=request)).partition('-')[2]}"
    signature = soft_signer().sign(data, "threegate-approval")
    directory = states.directory_of("ap", "accepted")
    puts = [
        Put(directory, f"{approval}.md", data),
        Put(directory, f"{approval}.sig", signature),
    ]
    with ws.store.locked() as journal:
        journal.run("approve", puts)
    return approval


def make_family(ws: Workspace, word: str = "ice", raw: bytes = b"raw") -> Family:
    """Admit one of each, made from each other; `word` stands in every text."""
    digest = keep_blob(ws, raw)
    text = f"A sentence about {word}."
    (packet,) = take_in(ws, samples.packet(text, raw_sha256=digest, raw_bytes=len(raw)))
    (analysis,) = take_in(ws, analysis_of(packet, answer=box(text)))
    (later,) = take_in(ws, analysis_of(packet, analysis, answer=box(f"{text} Again.")))
    external = {"integrity": "external", "purpose": box(text)}
    (fetch,) = take_in(
        ws,
        samples.fetch_request(
            origin="core", derived_from=(packet,), confidentiality="internal", **external
        ),
    )
    (request,) = take_in(
        ws,
        samples.tool_request(inputs=(), derived_from=tuple(sorted((packet, analysis))), **external),
    )
    approval = keep_approval(ws, request)
    (result,) = take_in(ws, samples.tool_result(value=text, request=request, approval=approval))
    return Family(packet, analysis, fetch, later, request, approval, result)


def places(ws: Workspace, ids: Sequence[str]) -> list[str | None]:
    """Return the state of each, None for what is in none."""
    found = (ws.store.locate(artifact_id) for artifact_id in ids)
    return [None if place is None else states.state_of(place) for place in found]
