"""What of an artifact can be found by its words: title, text and time, and queries for them.

SECURITY
    Opens foreign text and copies it into a database.  A query is broken into quoted words, so
    FTS syntax in it has no effect.
"""

import re
from collections.abc import Iterable
from typing import Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import short
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import UsageError
from threegate.base.untrusted import Untrusted

MAX_QUERY_CHARS: Final = 1000
TITLE_CHARS: Final = 300
_WORD: Final = re.compile(r'"([^"]+)"|(\S+)')


def fts_query(words: str) -> str:
    """Return an FTS5 query for all words and "phrases" in `words`, as quoted strings only."""
    if len(words) > MAX_QUERY_CHARS:
        raise UsageError(f"query of {len(words)} characters, limit {MAX_QUERY_CHARS}")
    try:
        words.encode("utf-8")
    except UnicodeEncodeError as exc:  # bytes on the command line that are no text
        raise UsageError("the query is not valid text") from exc
    found = [phrase or word for phrase, word in _WORD.findall(words.replace("\0", " "))]
    terms = ['"' + term.replace('"', '""') + '"' for term in found]
    if not terms:
        raise UsageError("the query has no words")
    return " ".join(terms)


def described(artifact: Artifact) -> tuple[str, str, str]:
    """Return title, searchable text and time of an artifact; all foreign text."""
    if isinstance(artifact, ResearchPacket):
        words = [*artifact.authors, *(i.value for i in artifact.identifiers), *artifact.texts]
        title = artifact.title.open_for_display() or artifact.reference.open_for_display()
        return title[:TITLE_CHARS], _joined(words), artifact.retrieved
    if isinstance(artifact, FetchRequest):
        title = artifact.references[0].open_for_display()
        return (
            title[:TITLE_CHARS],
            _joined([*artifact.references, artifact.purpose]),
            artifact.created,
        )
    if isinstance(artifact, ToolRequest):
        body = _joined([artifact.purpose, artifact.code, artifact.risks, *artifact.argv])
        return _first_line(artifact.purpose.open_for_display()), body, artifact.created
    if isinstance(artifact, Analysis):
        body = _joined([artifact.question, artifact.answer, *artifact.claim_texts])
        return _first_line(artifact.question.open_for_display()), body, artifact.created
    if isinstance(artifact, Approval):
        return f"approves {artifact.request}", _joined([artifact.statement]), artifact.not_before
    texts = [artifact.value_text, artifact.stdout_text, artifact.stderr_text]
    return f"{artifact.exit}, of {short(artifact.request)}", _joined(texts), artifact.started


def _joined(parts: Iterable[Untrusted[str]]) -> str:
    return "\n".join(part.open_for_display() for part in parts)


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:TITLE_CHARS]
