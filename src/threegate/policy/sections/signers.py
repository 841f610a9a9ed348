"""`allowed_signers` as a section of the policy: whose signature counts.

The file belongs to OpenSSH's format and is read by `threegate.keys`; this module only
turns it into a plain value for the bundle, and back.

SECURITY
    Reads the list of who may approve from stored bundles.  If this module is wrong, the
    bundle an executor gets names another signer than the file the operator reviewed.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from threegate.base import canonical
from threegate.base.errors import PolicyInvalid, SignatureRefused, UsageError
from threegate.keys.public import parse_typed_key
from threegate.keys.signers import (
    ANY_NAMESPACE,
    NAMESPACES,
    AllowedSigner,
    Signers,
    parse_signers,
)
from threegate.policy.nodes import (
    Change,
    Effect,
    PolicyReason,
    Value,
    about,
    change,
    frozen,
    invalid,
    plain,
    wider_if,
)

NAME_OF_SECTION: Final = "signers"
FILE: Final = "allowed_signers"
KEYS: Final = ("key", "namespaces", "principal", "revoked", "valid_after", "valid_before")


def read_signers(data: bytes) -> Value:
    """Return the section's value, or raise `PolicyInvalid` naming file and line."""
    try:
        return value_of(parse_signers(data, name=f"policy/{FILE}"))
    except PolicyInvalid as exc:
        reason = PolicyReason.SIGNERS
        raise PolicyInvalid(exc.message, code=reason.code, hint=reason.hint) from exc


def value_of(signers: Signers) -> Value:
    """Return signers as a plain value, in file order."""
    return frozen([_plain(entry) for entry in signers.entries])


def _plain(entry: AllowedSigner) -> dict[str, object]:
    return {
        "key": entry.key.line,
        "namespaces": list(entry.namespaces),
        "principal": entry.principal,
        "revoked": entry.revoked,
        "valid_after": entry.valid_after,
        "valid_before": entry.valid_before,
    }


def signers_of(value: Value) -> Signers:
    """Return the signers in a section's value, or raise `PolicyInvalid`."""
    items = value if isinstance(value, tuple) else (None,)
    try:
        signers = Signers(tuple(_entry(item) for item in items))
        same = canonical.encode(plain(value_of(signers))) == canonical.encode(plain(value))
    except (SignatureRefused, UsageError, TypeError, ValueError) as exc:
        raise invalid(PolicyReason.BUNDLE, "bundle", "the signers cannot be read") from exc
    if not same:  # `1` for `true`, a list in another order
        raise invalid(PolicyReason.BUNDLE, "bundle", "the signers are not spelled canonically")
    return signers


def _entry(item: Value) -> AllowedSigner:
    if not isinstance(item, Mapping) or sorted(item) != list(KEYS):
        raise ValueError("unexpected keys")
    principal, key, namespaces = item["principal"], item["key"], item["namespaces"]
    if not isinstance(principal, str) or not isinstance(key, str):
        raise TypeError("a name or a key is not text")
    if not isinstance(namespaces, tuple):
        raise TypeError("namespaces are not a list")
    kind, _, encoded = key.partition(" ")
    return AllowedSigner(
        principal=principal,
        key=parse_typed_key(kind.encode(), encoded.encode()),
        namespaces=tuple(str(name) for name in namespaces),
        valid_after=_time(item["valid_after"]),
        valid_before=_time(item["valid_before"]),
        revoked=item["revoked"] is True,
    )


def _time(value: Value) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError("a time is not a number")
    return value


def compare_signers(old: Value, new: Value) -> Iterator[Change]:
    """Yield every difference in whose signature counts, for what, and when."""
    before = {entry.key.fingerprint: entry for entry in signers_of(old).entries}
    after = {entry.key.fingerprint: entry for entry in signers_of(new).entries}
    for fingerprint in sorted(before.keys() | after.keys()):
        was, now = before.get(fingerprint), after.get(fingerprint)
        path = (NAME_OF_SECTION, fingerprint)
        if was is not None and now is not None:
            yield from _compare_entry(path, was, now)
            continue
        entry = now or was
        assert entry is not None
        words = "may now sign" if now else "may no longer sign"
        sentence = about(path, f"{entry.principal} {words} with {fingerprint}")
        values = [frozen(_plain(signer)) if signer else None for signer in (was, now)]
        yield change(path, values[0], values[1], wider_if(now is not None), sentence)


def _compare_entry(
    path: tuple[str, ...], was: AllowedSigner, now: AllowedSigner
) -> Iterator[Change]:
    old, new = _plain(was), _plain(now)
    effects: dict[str, Effect] = {
        "principal": "changes",
        "revoked": wider_if(was.revoked),
        "valid_after": wider_if(_start(now) < _start(was)),
        "valid_before": wider_if(_end(now) > _end(was)),
    }
    for key, effect in effects.items():
        if old[key] != new[key]:
            sentence = about(path, f"{now.principal}: {key} now {new[key]}, before {old[key]}")
            yield change((*path, key), frozen(old[key]), frozen(new[key]), effect, sentence)
    may, might = _namespaces(now), _namespaces(was)
    for name in sorted(may ^ might):
        verb = "now also signs" if name in may else "no longer signs"
        sentence = about(path, f"{now.principal} {verb} {name}")
        values = (None, name) if name in may else (name, None)
        where = (*path, "namespaces", name)
        yield change(where, values[0], values[1], wider_if(name in may), sentence)


def _start(entry: AllowedSigner) -> int:
    return entry.valid_after if entry.valid_after is not None else -1


def _end(entry: AllowedSigner) -> int:
    return entry.valid_before if entry.valid_before is not None else 2**63


def _namespaces(entry: AllowedSigner) -> frozenset[str]:
    covered = frozenset(entry.namespaces)
    return covered | frozenset(NAMESPACES) if entry.namespaces == ANY_NAMESPACE else covered
