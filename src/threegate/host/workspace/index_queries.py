"""The tables of the index, and its longer queries: values are bound, never spelled."""

from typing import Final

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS seen (version INTEGER, seq INTEGER, digest TEXT);
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
CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (
    title, body, tokenize = "unicode61 remove_diacritics 2");
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
WHERE texts MATCH ?1 AND kind = ?2 ORDER BY bm25(texts), number LIMIT ?3
"""
COUNT: Final = """
SELECT count(*) FROM artifacts
WHERE kind IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR state = ?2)
"""
SEARCH: Final = """
SELECT id, state, artifacts.title, made, bytes, integrity, confidentiality
FROM texts JOIN artifacts ON number = texts.rowid
WHERE texts MATCH ?1 AND kind IN (SELECT value FROM json_each(?2))
ORDER BY bm25(texts, 4.0, 1.0), number LIMIT ?3 OFFSET ?4
"""
COUNT_FOUND: Final = """
SELECT count(*) FROM texts JOIN artifacts ON number = texts.rowid
WHERE texts MATCH ?1 AND kind IN (SELECT value FROM json_each(?2))
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
