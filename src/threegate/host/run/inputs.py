"""What a program is given: each input as one JSON document.

A blob is a JSON document already: the host made it one when the request was made.  An
artifact becomes an object of its fields and texts, the same as `show --json` prints.

SECURITY
    Reads artifacts and blobs, checked again by digest.  Nothing here is parsed for
    meaning: the document is parsed inside the interpreter's own limits.
"""

import json
from collections.abc import Iterator

from threegate.artifacts.ids import digest_of
from threegate.artifacts.tool_request import Input, ToolRequest
from threegate.base.errors import UsageError
from threegate.handoff import states
from threegate.handoff.store import Store
from threegate.host.workspace.text_form import shown


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
