"""The peer for validation: PyYAML's C loader and a pydantic model of the same front matter.

Written as a careful user of both would: bounded, strict, no unknown keys.  It reads the
front matter only; ours reads the whole packet and checks every digest in it.
"""

from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from threegate.artifacts import limits
from threegate.base.limits import MAX_COUNT, MAX_HOPS, MAX_LINE_CHARS

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https://[a-z0-9.-]+(/[!-~]*)?$", max_length=2000)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LINE_CHARS)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Source = Literal[
    "arxiv",
    "crossref",
    "datacite",
    "europepmc",
    "openalex",
    "pubmed",
    "semanticscholar",
    "unpaywall",
    "url",
]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Hop(Strict):
    url: Url
    status: Annotated[int, Field(ge=300, le=399)]


class Identifier(Strict):
    scheme: str
    value: Line


class FieldSource(Strict):
    field: str
    source: Source


class Also(Strict):
    source: Line
    url: Url
    retrieved: Line
    sha256: Digest
    bytes: Count
    trust_anchor: Line


class Notice(Strict):
    status: Literal["corrected", "concern", "retracted"]
    source: Line
    label: Line | None
    notice: Line | None
    date: str | None


class Hazard(Strict):
    name: str
    count: Annotated[int, Field(ge=1)]


class Gap(Strict):
    source: Source
    reference: Line
    reason: str


class Excerpt(Strict):
    label: Line
    page: int | None
    offset: Count
    length: Annotated[int, Field(ge=1, le=limits.MAX_EXCERPT_CHARS)]
    sha256: Digest


class FrontMatter(Strict):
    format: Literal["rp/1"]
    source: Source
    reference: Line
    request: str | None
    replaces: str | None
    url: Url
    hops: Annotated[list[Hop], Field(max_length=MAX_HOPS)]
    retrieved: Annotated[str, StringConstraints(pattern=r"^20[0-9]{2}-[0-9:T-]+Z$")]
    media_type: Line
    raw_sha256: Digest
    raw_bytes: Count
    trust_anchor: Line
    record_sha256: Digest | None
    also: list[Also]
    title: Annotated[str, StringConstraints(max_length=limits.MAX_TITLE_CHARS)]
    authors: Annotated[list[Line], Field(max_length=limits.MAX_AUTHORS)]
    container: Line | None
    published: str | None
    licence: Line | None
    identifiers: list[Identifier]
    metadata_from: list[FieldSource]
    retraction: Literal["none", "corrected", "concern", "retracted", "unknown"]
    notices: list[Notice]
    hazards: list[Hazard]
    gaps: list[Gap]
    excerpts: Annotated[list[Excerpt], Field(max_length=limits.MAX_EXCERPTS)]
    integrity: Literal["external"]
    confidentiality: Literal["public", "internal", "confidential"]


def front_matter_of(data: bytes) -> bytes:
    """Return what stands between the two `---` lines."""
    return data[4 : data.index(b"\n---\n", 4) + 1]


def parse_with_yaml(front_matter: bytes) -> FrontMatter:
    """Return the front matter, read by PyYAML and checked by pydantic."""
    return FrontMatter.model_validate(yaml.load(front_matter, Loader=yaml.CSafeLoader))
