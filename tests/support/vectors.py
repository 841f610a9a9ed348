"""Vector files: an `expect:` line, optional headers, an empty line, then the bytes."""

import base64
from dataclasses import dataclass
from pathlib import Path

from threegate.artifacts import registry
from threegate.artifacts.draft import complete_draft
from threegate.artifacts.registry import Artifact
from threegate.base.untrusted import Untrusted

ROOT = Path(__file__).parents[1] / "vectors" / "artifacts"
# What a host would stamp into the drafts among the vectors.
CREATED, NONCE = "2026-11-15T12:00:00Z", "00112233445566778899aabbccddeeff"
HEADERS = {"expect", "as", "encoding"}


@dataclass(frozen=True)
class Vector:
    name: str  # accept/rp-plain.md
    expect: str  # an id, or the code of the rule it breaks
    data: bytes
    is_draft: bool = False

    def parse(self) -> Artifact:
        box = Untrusted(self.data)
        if self.is_draft:
            return complete_draft(box, created=CREATED, nonce=NONCE)
        return registry.parse(box)

    def dump(self) -> bytes:
        """Return the file; bytes that are no text with Unix line ends are kept as base64."""
        headers = [f"expect: {self.expect}", *(["as: draft"] if self.is_draft else [])]
        body = self.data
        if not _is_plain(body):
            headers.append("encoding: base64")
            body = base64.encodebytes(body)
        return "\n".join([*headers, "", ""]).encode("ascii") + body


def _is_plain(data: bytes) -> bool:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    # Editors and diffs would change or hide these; a last line without an end, too.
    return text.endswith("\n") and all(c == "\n" or c.isprintable() for c in text)


def read(path: Path) -> Vector:
    head, _, body = path.read_bytes().partition(b"\n\n")
    headers = dict(line.split(": ", 1) for line in head.decode("ascii").split("\n"))
    if not set(headers) <= HEADERS or headers.get("as") not in (None, "draft"):
        raise ValueError(f"{path}: unknown header")
    if headers.get("encoding") not in (None, "base64"):
        raise ValueError(f"{path}: unknown encoding")
    data = base64.decodebytes(body) if "encoding" in headers else body
    name = f"{path.parent.name}/{path.name}"
    return Vector(name, headers["expect"], data, is_draft="as" in headers)


def load(side: str) -> list[Vector]:
    """Return all vectors of `accept` or `reject`; finding none is an error."""
    found = [read(path) for path in sorted((ROOT / side).glob("*.md"))]
    if not found:
        raise FileNotFoundError(f"no vectors in {ROOT / side}")
    return found
