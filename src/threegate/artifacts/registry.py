"""All artifact formats, and the functions that work on any of them.

SECURITY
    `parse` is the only way bytes become an artifact.  It returns a frozen typed value
    or raises `ArtifactRejected`, for any bytes.
"""

import json
import re
from typing import Any, Final

from threegate.artifacts import (
    analysis,
    approval,
    fetch_request,
    research_packet,
    tool_request,
    tool_result,
)
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.codec import Format, decode
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import make_id, sha256_hex
from threegate.artifacts.labels import Labels
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.base.errors import ArtifactRejected
from threegate.base.schema import object_schema
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted

Artifact = ResearchPacket | FetchRequest | ToolRequest | Approval | ToolResult | Analysis
Request = FetchRequest | ToolRequest

FORMATS: Final[dict[str, Format[Any]]] = {
    module.FORMAT.prefix: module.FORMAT
    for module in (
        research_packet,
        fetch_request,
        tool_request,
        approval,
        tool_result,
        analysis,
    )
}
_BY_NAME: Final = {item.name: item for item in FORMATS.values()}
_BY_KIND: Final[dict[type, Format[Any]]] = {item.kind: item for item in FORMATS.values()}
_FIRST_LINE: Final = re.compile(rb'\A---\nformat: "([a-z]{2,3})/([1-9][0-9]{0,3})"\n')
_DOCUMENTS: Final = {b"%PDF-": "a PDF", b"PK\x03\x04": "a ZIP or office file"}
_ARTIFACTS: Final = (
    "an artifact is text that starts with `---` and its format; "
    "`threegate fetch` retrieves a paper by its DOI, arXiv id or URL"
)
_STAMPS: Final = ("created", "nonce")
MAX_ARTIFACT_BYTES: Final = max(item.max_bytes for item in FORMATS.values())


def refuse_other_file(start: bytes) -> None:
    """Raise `ArtifactRejected` for a document of another format that people offer by mistake."""
    for magic, name in _DOCUMENTS.items():
        if start.startswith(magic):
            detail, code = f"{name} is not an artifact", ArtifactReason.UNKNOWN_FORMAT.code
            raise ArtifactRejected(detail, code=code, hint=_ARTIFACTS)


def format_of(data: Untrusted[bytes]) -> Format[Any]:
    """Return the format that `data` names in its first key, or raise `ArtifactRejected`."""
    untrusted = data.open_for_validation()
    match = _FIRST_LINE.match(untrusted[:64])
    if match is None:
        refuse_other_file(untrusted[:64])
        # CRLF, a byte order mark or another encoding is the better answer where it applies.
        decode(data, MAX_ARTIFACT_BYTES)
        raise reject(
            ArtifactReason.UNKNOWN_FORMAT, 'does not start with `---` and `format: "KIND/N"`'
        )
    prefix, version = match.group(1).decode("ascii"), match.group(2).decode("ascii")
    found = _BY_NAME.get(f"{prefix}/{version}")
    if found is not None:
        return found
    if prefix in FORMATS:
        raise reject(ArtifactReason.NEWER_FORMAT, f"format {prefix}/{version} is not known here")
    raise reject(ArtifactReason.UNKNOWN_FORMAT, f"unknown format {quote(prefix)}")


def parse(data: Untrusted[bytes]) -> Artifact:
    """Return the artifact spelled by `data`, or raise `ArtifactRejected`."""
    artifact: Artifact = format_of(data).parse(data)
    return artifact


def emit(artifact: Artifact) -> bytes:
    """Return the one spelling of `artifact`."""
    return _BY_KIND[type(artifact)].emit(artifact)


def id_of(artifact: Artifact) -> str:
    """Return the artifact's name."""
    found = _BY_KIND[type(artifact)]
    return make_id(found.prefix, found.emit(artifact))


def labels_of(artifact: Artifact) -> Labels:
    """Return the artifact's labels; an approval is the operator's word and public."""
    if isinstance(artifact, Approval):
        return Labels("operator", "public")
    return Labels(artifact.integrity, artifact.confidentiality)


def content_digest(request: Request) -> str:
    """Return the digest without the host's stamps: equal for the same thing asked again."""
    return sha256_hex(_BY_KIND[type(request)].emit(request, leave_out=_STAMPS))


def schema_of(prefix: str) -> dict[str, Any]:
    """Return the JSON Schema of the front matter of a kind."""
    found = FORMATS[prefix]
    body = object_schema(found.shapes)
    properties = {"format": {"const": found.name}, **body["properties"]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:threegate:{found.prefix}:{found.name.rpartition('/')[2]}",
        "title": found.title,
        **body,
        "properties": properties,
        "required": ["format", *body["required"]],
    }
    checked: dict[str, Any] = json.loads(json.dumps(schema))
    return checked
