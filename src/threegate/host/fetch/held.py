"""An operator's own wish where policy says `ask`: a fetch request that waits for review."""

import secrets
from collections.abc import Sequence
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.draft import complete
from threegate.artifacts.limits import MAX_REFERENCES
from threegate.artifacts.references import Reference
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import admit
from threegate.host.workspace.drafts import NONCE_BYTES
from threegate.host.workspace.workspace import Workspace

PURPOSE: Final = "Asked for by the operator with `threegate fetch`."


def must_be_held(ws: Workspace) -> bool:
    """Tell whether the operator's own wishes need an approval like anybody else's."""
    return ws.bundle.text("fetch", "operator_requests") == "ask"


def hold(
    ws: Workspace,
    references: Sequence[Reference],
    *,
    want: str,
    confidentiality: str,
    purpose: str = PURPOSE,
) -> list[str]:
    """Make requests that wait for review, as few as hold all references; return their ids."""
    starts = range(0, len(references), MAX_REFERENCES)
    groups = [references[at : at + MAX_REFERENCES] for at in starts]
    items = [
        Untrusted(_request(ws, group, purpose, want=want, confidentiality=confidentiality))
        for group in groups
    ]
    ids = []
    for answer in admit(ws.store, items, now=ws.now):
        if answer.status != "accepted" or answer.id is None:
            raise ArtifactRejected(answer.reason or "the request was refused", code=answer.code)
        ids.append(answer.id)
    return ids


def _request(
    ws: Workspace,
    references: Sequence[Reference],
    purpose: str,
    *,
    want: str,
    confidentiality: str,
) -> bytes:
    given = {
        "format": "fr/1",
        "want": want,
        "references": [item.text for item in references],
        "confidentiality": confidentiality,
    }
    nonce = secrets.token_hex(NONCE_BYTES)
    request = complete(given, {"purpose": purpose}, created=ws.now(), nonce=nonce)
    return registry.emit(request)
