"""Drafts of requests from CORE's answer: completed by the host, checked, never acted on.

A draft waits in the state `draft` until a human has looked at it.  The lite lane checks first
whether a program could run, and policy judges an address.  A draft that fails is reported and not
stored, so that nobody reviews what could never happen.

SECURITY
    Turns words of a model, which may obey what it read, into requests.  Lane, limits, labels,
    inputs and origin come from the host.  Each draft names the source that contains its words.  If
    this module is wrong, a human sees a request with a wrong origin.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.registry import Request
from threegate.artifacts.tool_request import Input, ToolRequest
from threegate.base.errors import ArtifactRejected, GateUnavailable, PolicyDenied
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import Draft, FetchDraft, ToolDraft
from threegate.host.ask.claims import TaskTexts, readable_text
from threegate.host.provenance.texts import Copied, DraftOrigin, copied_from
from threegate.host.request.code import Ask, LaneUse, answer_of
from threegate.host.run.verdicts import decisions
from threegate.host.workspace.drafts import NONCE_BYTES, lanes_of
from threegate.host.workspace.workspace import Workspace
from threegate.policy.decision import Deny

LANE: Final = "monty"
BY_CORE: Final = "CORE wrote it after reading sources; text in them may have shaped it."


class NotDrafted(Exception):
    """A draft is not stored; the reason is in our words, foreign parts are quoted."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A draft that can be stored once its analysis has a name."""

    request: Request
    copied: tuple[Copied, ...]

    def named(self, analysis_id: str, created: str) -> Request:
        """Return the request as it is stored: it goes back to the analysis, too."""
        parents = tuple(sorted({*self.request.derived_from, analysis_id}))
        return replace(self.request, derived_from=parents, created=created)

    def words(self) -> list[str]:
        """Return the sources that contain its words, one sentence for each part."""
        return [f"its {one.part} occurs in {one.where}" for one in self.copied]


def prepare(
    ws: Workspace, handed: TaskTexts, origin: DraftOrigin, drafts: Sequence[Draft], ask: Ask
) -> tuple[list[Prepared], list[str]]:
    """Return the drafts that can be stored, and why others cannot."""
    made: list[Prepared] = []
    refused: list[str] = []
    for number, draft in enumerate(drafts, 1):
        try:
            one = _prepared(ws, handed, origin, draft, ask)
        except (NotDrafted, ArtifactRejected, GateUnavailable, PolicyDenied) as exc:
            kind = "program" if isinstance(draft, ToolDraft) else "fetch"
            refused.append(f"draft {number}, a {kind}, was not kept: {exc}")
            continue
        digests = {registry.content_digest(other.request) for other in made}
        if registry.content_digest(one.request) not in digests:
            made.append(one)
    return made, refused


def _prepared(
    ws: Workspace, handed: TaskTexts, origin: DraftOrigin, draft: Draft, ask: Ask
) -> Prepared:
    if isinstance(draft, ToolDraft):
        request: Request = _tool(ws, handed, origin, draft)
    else:
        request = _fetch(ws, origin, draft)
    copied = copied_from(request, [one.material for one in handed.sent])
    if isinstance(request, ToolRequest):
        request = _with_risks(request, copied)
    registry.parse(Untrusted(registry.emit(request)))  # every rule of the format
    for answer in decisions(ws.bundle, request):
        if answer.needed and isinstance(answer.decision, Deny):
            raise NotDrafted(f"nobody could approve it, {answer.decision.reason}")
    if isinstance(request, ToolRequest):
        _refuse_large(ws, request)
        _refuse_inexpressible(request, ask)
    return Prepared(request, tuple(copied))


def _tool(ws: Workspace, handed: TaskTexts, origin: DraftOrigin, draft: ToolDraft) -> ToolRequest:
    code = draft.code.open_for_validation()
    lane = lanes_of(ws.bundle)[LANE]
    materials = [handed.sent[number - 1].material for number in dict.fromkeys(draft.sources)]
    inputs = [
        Input(f"s{place}", one.id, len(registry.emit(one.artifact)), None)
        for place, one in enumerate(materials, 1)
    ]
    return ToolRequest(
        created=ws.now(),
        nonce=secrets.token_hex(NONCE_BYTES),
        origin="core",
        backend=LANE,
        why_not_monty=None,
        profile=lane.profile,
        argv=(),
        code_sha256=sha256_hex(code.encode("utf-8")),
        inputs=tuple(sorted(inputs, key=lambda one: one.name)),
        functions=(),
        limits=lane.limits,
        outputs=(),
        network="none",
        integrity="external",
        confidentiality=origin.labels.confidentiality,
        derived_from=origin.derived_from,
        purpose=_purpose(draft),
        code=Untrusted(code),
        risks=Untrusted(BY_CORE),
    )


def _fetch(ws: Workspace, origin: DraftOrigin, draft: FetchDraft) -> FetchRequest:
    if origin.read_a_result:
        raise NotDrafted("this run could read a tool result, and results never feed FETCH")
    return FetchRequest(
        created=ws.now(),
        nonce=secrets.token_hex(NONCE_BYTES),
        origin="core",
        want="metadata",
        references=tuple(dict.fromkeys(draft.references)),
        integrity="external",
        confidentiality=origin.labels.confidentiality,
        derived_from=origin.derived_from,
        purpose=_purpose(draft),
    )


def _purpose(draft: Draft) -> Untrusted[str]:
    text = readable_text(draft.purpose)
    if text is None:
        raise NotDrafted("its purpose holds characters that are not allowed in a request")
    return Untrusted(text)


def _with_risks(request: ToolRequest, copied: Sequence[Copied]) -> ToolRequest:
    told = Prepared(request, tuple(copied)).words()[:20]
    text = " ".join([BY_CORE, *(f"{words[0].upper()}{words[1:]}." for words in told)])
    return replace(request, risks=Untrusted(text))


def _refuse_large(ws: Workspace, request: ToolRequest) -> None:
    path = ("tool-exec", "lanes", LANE, "max")
    sizes = {
        "source_bytes": len(request.code.open_for_validation().encode("utf-8")),
        "input_bytes": sum(one.bytes for one in request.inputs),
    }
    for key, size in sizes.items():
        if size > ws.bundle.integer(*path, key):
            raise NotDrafted(f"{size} bytes are more than {ws.bundle.ref(*path, key)} allows")


def _refuse_inexpressible(request: ToolRequest, ask: Ask) -> None:
    use = LaneUse(request.functions, [one.name for one in request.inputs], request.profile)
    refused = answer_of(ask, request.code.open_for_validation(), use).refused
    if refused is not None:
        words = f"line {refused.line}, {quote(refused.construct)}"
        raise NotDrafted(f"Monty cannot express it: {words}")
