"""Why an artifact is rejected: one stable code per rule.

Codes are part of the format: vectors, logs and other implementations name them.
A code is never reused for another rule.
"""

from enum import Enum

from threegate.base.errors import ArtifactRejected
from threegate.base.schema import Mismatch
from threegate.base.text import quote


class ArtifactReason(Enum):
    """A rule an artifact can break; the value is (code, what the sender must do)."""

    OVERSIZE = ("TG-ART-001", "make it smaller; the limit is in docs/formats")
    NOT_UTF8 = ("TG-ART-002", "encode it as UTF-8")
    FORBIDDEN_CHARACTER = ("TG-ART-003", "spell control, bidi and invisible characters out")
    FRONT_MATTER = ("TG-ART-004", "start with `---`, then `key: JSON` lines, then `---`")
    DUPLICATE_KEY = ("TG-ART-005", "write each key once")
    UNKNOWN_KEY = ("TG-ART-006", "remove the key; formats have no extensions")
    MISSING_KEY = ("TG-ART-007", "add the key; `threegate schema KIND` lists them")
    KEY_ORDER = ("TG-ART-008", "write the keys in the order of the format")
    NOT_CANONICAL = ("TG-ART-009", "write the value as the one canonical JSON spelling")
    WRONG_TYPE = ("TG-ART-010", "use the type the format names")
    OUT_OF_RANGE = ("TG-ART-011", "stay within the bounds of the format")
    UNKNOWN_VALUE = ("TG-ART-012", "use one of the values the format lists")
    MALFORMED_VALUE = ("TG-ART-013", "write the id, digest, time, name or URL as the format says")
    SECTIONS = ("TG-ART-014", "write exactly the sections of the format, in order")
    BODY_TEXT = ("TG-ART-015", "indent every line of text by four spaces, empty lines too")
    UNKNOWN_FORMAT = ("TG-ART-016", "the first key is `format`, with a known kind")
    NEWER_FORMAT = ("TG-ART-017", "install a newer threegate to read it")
    DIGEST_MISMATCH = ("TG-ART-018", "the digest must be that of the text it stands for")
    MARKUP = ("TG-ART-019", "a packet holds text; escape `<` before a letter, `/`, `!` or `?`")
    BACKEND = ("TG-ART-020", "monty takes code alone; era needs a reason that holds")
    COMMAND = ("TG-ART-021", "give one program and its arguments, no shell")
    RETRIEVAL = ("TG-ART-022", "ask FETCH for it in a fetch request")
    NAMES_REQUEST = ("TG-ART-023", "a request cannot start another one")
    LABELS = ("TG-ART-024", "labels must be at least those of everything it is derived from")
    INCONSISTENT = ("TG-ART-025", "the fields contradict each other")
    LIST_ORDER = ("TG-ART-026", "sort the list and write each item once")
    REFUSAL = ("TG-ART-027", "attach Monty's stored refusal of this very code")
    RESULT_FEEDS_FETCH = (
        "TG-ART-028",
        "only the operator may write a fetch request after a result",
    )
    HOST_FIELD = ("TG-ART-029", "leave the key out of the draft; the host sets it")

    @property
    def code(self) -> str:
        """The stable code."""
        return self.value[0]

    @property
    def hint(self) -> str:
        """What the sender must do."""
        return self.value[1]


def reject(reason: ArtifactReason, detail: str) -> ArtifactRejected:
    """Return the error for `reason`; `detail` is our own text, foreign parts already quoted."""
    return ArtifactRejected(detail, code=reason.code, hint=reason.hint)


def rejection(mismatch: Mismatch) -> ArtifactRejected:
    """Return the error for a value that is not of its shape; the rules have the same names."""
    found = mismatch.found
    detail = mismatch.detail if found is None else f"is {quote(found)}, {mismatch.detail}"
    return reject(ArtifactReason[mismatch.rule.name], f"{mismatch.path}{detail}")
