"""The tables of the index, its longer queries, and the rows of one artifact.  Pure: no I/O.

SECURITY
    Parses artifacts again and copies foreign text into rows.  Queries bind values; the words of a
    search become quoted tokens (`host/words`), so FTS syntax in it has no effect.  If this module
    is wrong, a retraction is missed, or something made from a withdrawn artifact stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.untrusted import Untrusted
from threegate.host.words.tokens import indexed
from threegate.host.workspace.packets import PacketOrigin, joins_names, names_of
from threegate.host.workspace.places import blobs_of

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS seen (version TEXT, seq INTEGER, digest TEXT);
CREATE TABLE IF NOT EXISTS artifacts (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, kind TEXT, state TEXT, title TEXT,
    made TEXT, bytes INTEGER, integrity TEXT, confidentiality TEXT);
CREATE INDEX IF NOT EXISTS by_kind ON artifacts (kind, number, state);
CREATE TABLE IF NOT EXISTS sources (child TEXT, parent TEXT, PRIMARY KEY (child, parent))
    WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_parent ON sources (parent);
CREATE TABLE IF NOT EXISTS contents (id TEXT PRIMARY KEY, digest TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_digest ON contents (digest);
CREATE TABLE IF NOT EXISTS names (
    scheme TEXT, value TEXT, id TEXT, joins INTEGER, retracted INTEGER,
    PRIMARY KEY (scheme, value, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS names_by_id ON names (id);
CREATE INDEX IF NOT EXISTS names_retracted ON names (id) WHERE retracted;
CREATE TABLE IF NOT EXISTS origins (id TEXT PRIMARY KEY, name TEXT, by TEXT, consistent INTEGER)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS languages (language TEXT, id TEXT, PRIMARY KEY (language, id))
    WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS languages_by_id ON languages (id);
-- Tokens of `host/words`, not the text: SQLite only parts them at blanks.
CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (
    title, body, compounds, tokenize = "ascii tokenchars '.,'");
"""

PAGE: Final = """
SELECT id, state, title, made, bytes, integrity, confidentiality
FROM (SELECT value AS wanted FROM json_each(?1)) JOIN artifacts ON number IN (
    -- The newest of each kind: the first page costs the same however many there are.
    SELECT number FROM artifacts WHERE kind = wanted AND (?2 IS NULL OR state = ?2)
    ORDER BY number DESC LIMIT ?3 + ?4)
ORDER BY number DESC LIMIT ?3 OFFSET ?4
"""
QUEUE: Final = """
SELECT id, state, title, made, bytes, integrity, confidentiality FROM artifacts
WHERE kind IN ('fr', 'tr') AND state IN (SELECT value FROM json_each(?1))
ORDER BY number LIMIT ?2 OFFSET ?3
"""
ALIKE: Final = """
SELECT id FROM texts JOIN artifacts ON number = texts.rowid
WHERE texts MATCH ?1 AND kind = ?2 ORDER BY bm25(texts, 1.0, 1.0, 0.5), number LIMIT ?3
"""
COUNT: Final = """
SELECT count(*) FROM artifacts
WHERE kind IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR state = ?2)
"""
SEARCH: Final = """
SELECT id, state, artifacts.title, made, bytes, integrity, confidentiality
FROM texts JOIN artifacts ON number = texts.rowid
WHERE texts MATCH ?1 AND kind IN (SELECT value FROM json_each(?2))
ORDER BY bm25(texts, 4.0, 1.0, 0.5), number LIMIT ?3 OFFSET ?4
"""
COUNT_FOUND: Final = """
SELECT count(*) FROM texts JOIN artifacts ON number = texts.rowid
WHERE texts MATCH ?1 AND kind IN (SELECT value FROM json_each(?2))
"""
# Each language once, by one look per language, however many artifacts there are.
LANGUAGES: Final = """
WITH RECURSIVE held(language) AS (
    SELECT min(language) FROM languages
    UNION ALL
    SELECT (SELECT min(language) FROM languages WHERE language > held.language)
    FROM held WHERE held.language IS NOT NULL)
SELECT language FROM held WHERE language IS NOT NULL
"""
# All packets that share an identifier, directly or through packets that join identifiers.
SAME_WORK: Final = """
WITH RECURSIVE work(scheme, value) AS (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1)
    UNION
    SELECT other.scheme, other.value
    FROM work JOIN names AS one USING (scheme, value) JOIN names AS other ON other.id = one.id
    WHERE one.joins)
SELECT id, max(retracted) FROM work JOIN names USING (scheme, value) GROUP BY id ORDER BY id
"""
# The same for several packets at once, each with those of them that are of its work.
WORKS_AMONG: Final = """
WITH RECURSIVE given(id) AS (SELECT value FROM json_each(?1)),
work(root, scheme, value) AS (
    SELECT given.id, names.scheme, names.value FROM given JOIN names USING (id)
    UNION
    SELECT work.root, other.scheme, other.value
    FROM work JOIN names AS one USING (scheme, value) JOIN names AS other ON other.id = one.id
    WHERE one.joins)
SELECT DISTINCT work.root, names.id FROM work JOIN names USING (scheme, value)
WHERE names.id IN (SELECT id FROM given)
"""


TITLE_CHARS: Final = 300


def described(artifact: Artifact) -> tuple[str, list[str], str]:
    """Return title, searchable texts and time of an artifact; all foreign text."""
    if isinstance(artifact, ResearchPacket):
        words = [*artifact.authors, *(i.value for i in artifact.identifiers), *artifact.texts]
        title = artifact.title.open_for_display() or artifact.reference.open_for_display()
        return title[:TITLE_CHARS], _shown(words), artifact.retrieved
    if isinstance(artifact, FetchRequest):
        title = artifact.references[0].open_for_display()
        body = _shown([*artifact.references, artifact.purpose])
        return title[:TITLE_CHARS], body, artifact.created
    if isinstance(artifact, ToolRequest):
        body = _shown([artifact.purpose, artifact.code, artifact.risks, *artifact.argv])
        return _first_line(artifact.purpose.open_for_display()), body, artifact.created
    if isinstance(artifact, Analysis):
        body = _shown([artifact.question, artifact.answer, *artifact.claim_texts])
        return _first_line(artifact.question.open_for_display()), body, artifact.created
    if isinstance(artifact, Approval):
        return f"approves {artifact.request}", _shown([artifact.statement]), artifact.not_before
    texts = [artifact.value_text, artifact.stdout_text, artifact.stderr_text]
    return f"{artifact.exit}, of {short(artifact.request)}", _shown(texts), artifact.started


def _shown(parts: Iterable[Untrusted[str]]) -> list[str]:
    return [part.open_for_display() for part in parts]


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:TITLE_CHARS]


@dataclass(frozen=True, slots=True)
class ArtifactRows:
    """Everything the index holds of one artifact."""

    artifact: tuple[Any, ...]
    text: tuple[str, str, str]
    languages: list[tuple[str, str]]
    sources: list[tuple[str, str]]
    contents: list[tuple[str, str]]
    names: list[tuple[Any, ...]]


def rows_of(artifact_id: str, state: str, data: bytes) -> ArtifactRows:
    """Return the rows of an artifact in a state."""
    artifact = registry.parse(Untrusted(data))
    labels = registry.labels_of(artifact)
    title, texts, made = described(artifact)
    words = indexed(title, texts)
    values = (artifact_id, prefix_of(artifact_id), state, title, made, len(data))
    contents, names = [], []
    if isinstance(artifact, FetchRequest | ToolRequest):
        contents = [(artifact_id, registry.content_digest(artifact))]
    if isinstance(artifact, ResearchPacket):
        said = (int(joins_names(artifact)), int(artifact.retraction == "retracted"))
        # A work without any name is found by the packet's own id.
        found = names_of(artifact) or (("packet", artifact_id),)
        names = [(scheme, value, artifact_id, *said) for scheme, value in found]
    return ArtifactRows(
        (*values, labels.integrity, labels.confidentiality),
        (words.title, words.body, words.compounds),
        [(language, artifact_id) for language in words.languages],
        sources_of(artifact_id, artifact),
        contents,
        names,
    )


def sources_of(artifact_id: str, artifact: Artifact) -> list[tuple[str, str]]:
    """Return what an artifact names as its sources, raw bytes included."""
    parents = [*artifact.parents(), *(f"blob-{digest}" for digest in blobs_of(artifact))]
    return [(artifact_id, parent) for parent in parents]


def origin_row(packet_id: str, origin: PacketOrigin) -> tuple[str, str, str, int]:
    """Return the row of a packet's origin."""
    return packet_id, origin.name, origin.by, int(origin.consistent)
