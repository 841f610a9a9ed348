"""What lies in quarantine: refused bytes and withdrawn artifacts, each with its reason.

SECURITY
    Reads bytes that were refused, some of them made to attack whoever looks.  They stay in
    their box; only the code that spells out every character opens it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from threegate.artifacts.ids import MIN_SHORT_DIGITS, digest_of, is_id, short
from threegate.base import canonical
from threegate.base.errors import HandoffTampered, UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.disk import check_file
from threegate.handoff.store import Store

_WHY = ".why.json"
_WITHDRAWN = ".withdrawn.json"
_KEPT = (".bytes", ".md")  # all else lies beside one of these


@dataclass(frozen=True, slots=True)
class Refused:
    """One item in quarantine; the reason is ours, with foreign parts quoted."""

    name: str  # of its file
    sha256: str
    id: str | None  # of an artifact that was withdrawn
    bytes: int
    time: str
    code: str
    reason: str

    @property
    def short(self) -> str:
        """Return the form for people."""
        return short(self.id) if self.id else self.sha256[:MIN_SHORT_DIGITS]


def list_refused(store: Store) -> list[Refused]:
    """Return everything in quarantine, newest first."""
    found = [_item(store, name) for name in _names(store)]
    return sorted(found, key=lambda item: (item.time, item.sha256), reverse=True)


def find_refused(store: Store, text: str) -> Refused:
    """Return the one item a digest, an id or the start of one names."""
    if len(text.rpartition("-")[2]) < MIN_SHORT_DIGITS:
        raise UsageError(f"{quote(text)} has less than {MIN_SHORT_DIGITS} digits")
    found = [name for name in _names(store) if name.startswith(text)]
    if len(found) != 1:
        how = "nothing" if not found else f"{len(found)} items"
        raise UsageError(f"{how} in quarantine called {quote(text)}")
    return _item(store, found[0])


def read_refused(store: Store, item: Refused) -> Untrusted[bytes]:
    """Return the bytes of an item."""
    return Untrusted(store.read_file(states.QUARANTINE, item.name))


def _names(store: Store) -> Iterator[str]:
    return (name for name in store.names(states.QUARANTINE) if name.endswith(_KEPT))


def _item(store: Store, name: str) -> Refused:
    stem = name.rpartition(".")[0]
    digest = digest_of(stem) if is_id(stem) else stem
    why = _why(store, stem + _WITHDRAWN) if is_id(stem) else {}
    why = why or _why(store, digest + _WHY)
    return Refused(
        name=name,
        sha256=digest,
        id=stem if is_id(stem) else None,
        bytes=check_file(store.directories.fd(states.QUARANTINE), name) or 0,
        time=str(why.get("time", "")),
        code=str(why.get("code", "")),
        reason=str(why.get("reason", "")),
    )


def _why(store: Store, name: str) -> Mapping[str, Any]:
    try:
        value = canonical.decode(store.read_file(states.QUARANTINE, name))
    except FileNotFoundError:
        return {}
    except ValueError as exc:
        raise HandoffTampered(f"the reason in {name} is not readable") from exc
    return value if isinstance(value, dict) else {}
