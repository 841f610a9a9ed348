"""`allowed_signers`: who may sign what, and when.

A strict subset of the file `ssh-keygen -Y verify -f` reads, one line per key:

    principal namespaces="threegate-*"[,valid-after="T"][,valid-before="T"] TYPE BASE64[ revoked]

`T` is `YYYYMMDDHHMMSSZ` and both ends belong to the window, as in OpenSSH (9.1 or newer
for the `Z`).  `revoked` is in the place of OpenSSH's comment: it distinguishes a revoked key from
an
expired one and changes nothing for `ssh-keygen`.  No comments, no empty lines, one
spelling: `emit(parse_signers(x)) == x`.  An empty file accepts nobody.

SECURITY
    Reads the policy file that decides whose approval counts.  A line OpenSSH would skip
    or read as a pattern makes the whole file invalid here.  If this module is wrong,
    somebody else can approve, or a revoked key goes on approving.
"""

import dataclasses
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from threegate.base.errors import PolicyInvalid, SignatureRefused, UsageError
from threegate.base.text import quote
from threegate.keys import public
from threegate.keys.public import PublicKey, parse_typed_key

NAMESPACES: Final = (
    "threegate-approval",
    "threegate-policy",
    "threegate-checkpoint",
    "threegate-tombstone",
    "threegate-clock",
    "threegate-packet",
)
NAMESPACE_PREFIX: Final = "threegate-"
ANY_NAMESPACE: Final = (f"{NAMESPACE_PREFIX}*",)

# 2000-01-01: no signature is older, so a window that ends here never opens.
EARLIEST: Final = 946_684_800
LATEST: Final = 253_402_300_799  # 9999-12-31T23:59:59Z, the last time of 14 digits

# OpenSSH reads a principal as a list of patterns: `*`, `?`, `!` and `,` must never get there.
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]*")
_TIME: Final = re.compile(r"([0-9]{4})" + r"([0-9]{2})" * 5 + "Z")
_LINE: Final = re.compile(
    r'(?P<principal>[^ ]+) namespaces="(?P<namespaces>[^" ]*)"'
    r'(?:,valid-after="(?P<after>[^" ]*)")?(?:,valid-before="(?P<before>[^" ]*)")?'
    r" (?P<type>[^ ]+) (?P<key>[^ ]+)(?P<revoked> revoked)?"
)


@dataclass(frozen=True, slots=True)
class AllowedSigner:
    """One key, whose it is, and what and when it may sign; raises `UsageError` if impossible."""

    principal: str
    key: PublicKey
    namespaces: tuple[str, ...] = ANY_NAMESPACE
    valid_after: int | None = None
    valid_before: int | None = None
    revoked: bool = False

    def __post_init__(self) -> None:
        _refuse_principal(self.principal)
        _refuse_namespaces(self.namespaces)
        _refuse_window(self.valid_after, self.valid_before)
        if self.revoked and self.valid_before is None:
            raise UsageError("a revoked key needs the time since which it is revoked")

    def refuse(self, *, namespace: str, at: int, past: bool = False) -> None:
        """Raise `SignatureRefused` unless this key may sign in `namespace` at the time `at`.

        A revoked key signs nothing new, at any time of the clock: it may have been revoked
        while the clock was ahead.  With `past`, what it signed before the revocation counts.
        """
        if not self._covers(namespace):
            raise SignatureRefused(
                f"{self.principal} may not sign in {quote(namespace)}", code="TG-KEY-004"
            )
        if at <= EARLIEST or (self.valid_after is not None and at < self.valid_after):
            raise SignatureRefused(
                f"key of {self.principal} was not valid yet at {_spell(at)}", code="TG-KEY-005"
            )
        ended = self.valid_before is not None and at > self.valid_before
        if not ended and not (self.revoked and not past):
            return
        how, code = ("revoked", "TG-KEY-006") if self.revoked else ("expired", "TG-KEY-005")
        detail = f"key of {self.principal} was {how} at {_spell(self.valid_before or at)}"
        hint = "`threegate key list` shows who may sign; --key names another key"
        raise SignatureRefused(detail, code=code, hint=hint)

    def _covers(self, namespace: str) -> bool:
        if self.namespaces == ANY_NAMESPACE:
            return namespace.startswith(NAMESPACE_PREFIX)
        return namespace in self.namespaces

    @property
    def line(self) -> str:
        """Return the line of this key, without its end."""
        options = f'namespaces="{",".join(self.namespaces)}"'
        if self.valid_after is not None:
            options += f',valid-after="{_spell(self.valid_after)}"'
        if self.valid_before is not None:
            options += f',valid-before="{_spell(self.valid_before)}"'
        return f"{self.principal} {options} {self.key.line}{' revoked' if self.revoked else ''}"


@dataclass(frozen=True, slots=True)
class Signers:
    """Every key that counts, in file order; changing it makes a new one."""

    entries: tuple[AllowedSigner, ...] = ()

    def __post_init__(self) -> None:
        if len(self.entries) > public.MAX_SIGNERS:
            raise UsageError(f"{len(self.entries)} signers, limit {public.MAX_SIGNERS}")
        # One line per key: with two, the wider would undo the revocation in the other.
        if len({entry.key for entry in self.entries}) != len(self.entries):
            raise UsageError("a key stands twice in the list of signers")

    def find(self, key: PublicKey) -> AllowedSigner | None:
        """Return the line of `key`, if it has one."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def by_fingerprint(self, fingerprint: str) -> AllowedSigner:
        """Return the line of the key with this `SHA256:` fingerprint, or raise `UsageError`."""
        for entry in self.entries:
            if entry.key.fingerprint == fingerprint:
                return entry
        raise UsageError(f"no signer has the key {quote(fingerprint)}")

    def add(self, signer: AllowedSigner) -> "Signers":
        """Return the list with one more key; a known key is refused, revoked or not."""
        return Signers((*self.entries, signer))

    def with_window(
        self, fingerprint: str, *, valid_after: int | None, valid_before: int | None
    ) -> "Signers":
        """Return the list with another window for one key; a revoked key keeps its end."""
        entry = self.by_fingerprint(fingerprint)
        if entry.revoked:
            raise UsageError(f"key {fingerprint} is revoked; only a new key can sign again")
        changed = dataclasses.replace(entry, valid_after=valid_after, valid_before=valid_before)
        return self._replace(entry, changed)

    def revoke(self, fingerprint: str, *, since: int) -> "Signers":
        """Return the list with one key refused for every signature at `since` or later.

        Only ever narrows: an earlier end stays.  A key that leaked before it was first
        valid is revoked for all time (`since=EARLIEST`).
        """
        entry = self.by_fingerprint(fingerprint)
        last = max(since - 1, EARLIEST)
        if entry.valid_before is not None:
            last = min(last, entry.valid_before)
        after = entry.valid_after
        if after is not None and last <= after:  # OpenSSH has no spelling for a window that never
            after, last = None, EARLIEST  # opens; no time that is judged lies before EARLIEST
        changed = dataclasses.replace(entry, valid_after=after, valid_before=last, revoked=True)
        return self._replace(entry, changed)

    def _replace(self, old: AllowedSigner, new: AllowedSigner) -> "Signers":
        return Signers(tuple(new if entry is old else entry for entry in self.entries))


def parse_signers(text: bytes, *, name: str = "allowed_signers") -> Signers:
    """Return the signers in `text`, or raise `PolicyInvalid` naming file and line."""
    if len(text) > public.MAX_SIGNERS_BYTES:
        raise PolicyInvalid(f"{name}: {len(text)} bytes, limit {public.MAX_SIGNERS_BYTES}")
    lines = text.split(b"\n")
    if len(lines) - 1 > public.MAX_SIGNERS:
        raise PolicyInvalid(
            f"{name}:{public.MAX_SIGNERS + 1}: more than {public.MAX_SIGNERS} lines"
        )
    if lines.pop():
        raise PolicyInvalid(f"{name}:{len(lines) + 1}: line has no end")
    entries: dict[PublicKey, AllowedSigner] = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = _parse_line(line)
            if entry.key in entries:
                raise UsageError(f"key {entry.key.fingerprint} stands twice")
            entries[entry.key] = entry
        except (SignatureRefused, UsageError) as exc:
            raise PolicyInvalid(f"{name}:{number}: {exc.message}") from exc
    return Signers(tuple(entries.values()))


def emit(signers: Signers) -> bytes:
    """Return the file for `signers`, which `parse_signers` and `ssh-keygen` read."""
    return "".join(f"{entry.line}\n" for entry in signers.entries).encode("ascii")


def _parse_line(line: bytes) -> AllowedSigner:
    match = _LINE.fullmatch(line.decode("ascii", "replace"))
    if match is None:
        raise UsageError('line is not `principal namespaces="..." type base64`, nothing else')
    return AllowedSigner(
        principal=match["principal"],
        key=parse_typed_key(match["type"].encode(), match["key"].encode()),
        namespaces=tuple(match["namespaces"].split(",")),
        valid_after=_read_time(match["after"]),
        valid_before=_read_time(match["before"]),
        revoked=match["revoked"] is not None,
    )


def _read_time(spelled: str | None) -> int | None:
    if spelled is None:
        return None
    match = _TIME.fullmatch(spelled)
    try:
        if match is None:
            raise ValueError(spelled)
        year, month, day, hour, minute, second = map(int, match.groups())
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as exc:
        raise UsageError(f"{quote(spelled)} is not a time like 20261115215055Z") from exc
    return int(moment.timestamp())


def _spell(seconds: int) -> str:
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(max(0, min(seconds, LATEST))))


def _refuse_principal(principal: str) -> None:
    if len(principal) > public.MAX_PRINCIPAL_CHARS or not _PRINCIPAL.fullmatch(principal):
        raise UsageError(
            f"{quote(principal)} cannot name a signer: use letters, digits and . _ + @ -"
        )


def _refuse_namespaces(namespaces: tuple[str, ...]) -> None:
    ordered = tuple(name for name in NAMESPACES if name in namespaces)
    if namespaces != ANY_NAMESPACE and (not ordered or namespaces != ordered):
        raise UsageError(
            f"namespaces {quote(','.join(namespaces))} are not threegate-* or a list of "
            f"{', '.join(NAMESPACES)} in this order"
        )


def _refuse_window(valid_after: int | None, valid_before: int | None) -> None:
    for moment in (valid_after, valid_before):
        if moment is not None and not EARLIEST <= moment <= LATEST:
            raise UsageError("a key is valid between the years 2000 and 9999")
    if valid_after is not None and valid_before is not None and valid_before <= valid_after:
        raise UsageError("valid-before is not later than valid-after")
