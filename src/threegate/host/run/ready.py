"""Approved requests that may run now: the approval that covers each, and its inputs.

The check here decides before a use is spent; the sandbox checks again before it runs.  Each input
is one JSON document.  A blob is one already: the host made it when the request was made.  An
artifact becomes an object of its fields and texts, the same as `show --json` prints.

SECURITY
    Reads artifacts and blobs, checked again by digest.  Nothing here parses them for meaning: the
    document is parsed inside the interpreter's own limits.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from threegate.artifacts.ids import digest_of, prefix_of, short
from threegate.artifacts.tool_request import Input, ToolRequest
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.gates.tool_exec.monty.messages import LiteJob
from threegate.handoff import states
from threegate.handoff.store import Store
from threegate.host.policy.coverage import ReadyRequest, ready_request
from threegate.host.workspace.text_form import shown
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

OTHER_INPUTS: Final = "TG-APR-016"  # the code that the sandbox uses


Ready = ReadyRequest[ToolRequest]


def make_ready(ws: Workspace, request_id: str, approvals: Mapping[str, Sequence[str]]) -> Ready:
    """Return a request that may run, or raise the reason it may not; nothing is spent."""
    _refuse_other_lanes(request_id)
    found = ready_request(ws, request_id, approvals, ToolRequest, _not_approved)
    return replace(found, inputs=read_inputs(ws.store, ws.bundle, found.request))


def job_of(ready: Ready) -> LiteJob:
    """Return the job for a sandbox of the lite lane."""
    given = ready.presented
    return LiteJob("run", 0, given.request, given.approval, given.signature, ready.inputs)


def read_inputs(
    store: Store, bundle: Bundle, request: ToolRequest
) -> tuple[tuple[str, bytes], ...]:
    """Return the documents a request names, as far as policy lets a run have them."""
    inputs: list[tuple[str, bytes]] = []
    left = bundle.integer("tool-exec", "lanes", request.backend, "max", "input_bytes")
    # One by one: a request may name the same large blob 64 times with a small stated size.
    for name, document in documents_of(store, request):
        left -= len(document)
        if left < 0:
            raise PolicyDenied("the inputs are larger than policy allows", code=OTHER_INPUTS)
        inputs.append((name, document))
    return tuple(inputs)


def _refuse_other_lanes(request_id: str) -> None:
    if prefix_of(request_id) == "fr":
        hint = f"`threegate fetch {short(request_id)}`"
        raise UsageError(f"{short(request_id)} is a fetch request", hint=hint)
    if prefix_of(request_id) != "tr":
        hint = "`threegate review list --state approved` shows what can run"
        raise UsageError(f"{short(request_id)} is not a request", hint=hint)


def _not_approved(name: str, state: str) -> ThreeGateError:
    if state == "claimed":
        hint = "if no other command runs it, `threegate run` gives it back to you"
        return UsageError(f"{name} is being run", hint=hint)
    words = {"done": "has run", "denied": "was denied", "expired": "expired"}
    hint = "ask again with `threegate request new`"
    return UsageError(f"{name} {words[state]}", hint=hint)


def documents_of(store: Store, request: ToolRequest) -> Iterator[tuple[str, bytes]]:
    """Yield name and document of every input, or raise `UsageError` if one is gone."""
    for item in request.inputs:
        yield item.name, _document(store, item)


def _document(store: Store, item: Input) -> bytes:
    if not item.artifact.startswith("blob-"):
        return artifact_document(store, item.artifact)
    digest = digest_of(item.artifact)
    if not store.has_blob(digest):
        raise UsageError(f"input {item.name} is not here any more")
    return store.read_file(states.BLOBS, digest)


def artifact_document(store: Store, artifact_id: str) -> bytes:
    """Return an artifact as a JSON document of its fields and texts."""
    view = shown(store.read(artifact_id))
    value = {"id": view.id, "kind": view.title, "fields": view.fields, "sections": view.sections}
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8")
