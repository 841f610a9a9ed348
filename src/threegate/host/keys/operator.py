"""The operator's keys: which ones sign for this user, listed in the user's configuration.

The keys themselves stay with the operator, in a file, an agent or a token; only paths are stored.
There can be several: each workspace has its own signers, and a rotation changes only one.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import GateUnavailable, SignatureRefused, StorageFailed, UsageError
from threegate.base.text import quote, visible
from threegate.host.keys.signatures import (
    SshKeygenSigner,
    SshTools,
    agent_keys,
    make_key,
    public_key_of,
)
from threegate.host.settings import Settings
from threegate.keys.public import PublicKey

FILE: Final = "operator.json"
AGENT: Final = "agent"  # named in place of a file
KEY_NAME: Final = "operator_ed25519"
DEFAULT_PRINCIPAL: Final = "operator"
MAX_KEYS: Final = 16
NAMED: Final = "named with --key"
LAST_USED: Final = "the key you signed with last"


@dataclass(frozen=True, slots=True)
class Operator:
    """Who signs here, and with which key file."""

    key: Path
    public: PublicKey
    made_now: bool = False
    source: str = NAMED  # why this key


def choose_key(
    settings: Settings, tools: SshTools, *, chosen: str | None, workspace: Path
) -> Operator:
    """Return the key `chosen` names (a path, `agent`, `new`), the remembered one, or a new one."""
    if chosen == AGENT:
        return _from_agent(settings, tools)
    if chosen is not None and chosen != "new":
        path = named_key(settings, chosen)
        return Operator(path, public_key_of(path, tools))
    remembered = [] if chosen == "new" else _remembered(settings)
    if remembered:
        return Operator(remembered[0], public_key_of(remembered[0], tools), source=LAST_USED)
    path = settings.config_home / KEY_NAME
    if os.path.lexists(path) and chosen is None:
        source = "found in your configuration directory"
        return Operator(path, public_key_of(path, tools), source=source)
    path = _free_name(path)
    public = make_key(path, "threegate operator", workspace=workspace, tools=tools)
    return Operator(path, public, made_now=True, source="made now")


def named_key(settings: Settings, chosen: str) -> Path:
    """Return the file of a key that was named; raise `UsageError` if no file has such a name."""
    try:
        chosen.encode("utf-8")  # it will be written down
        return settings.cwd / Path(chosen).expanduser()
    except (UnicodeEncodeError, RuntimeError) as exc:  # RuntimeError: `~nobody`
        raise UsageError(f"{quote(chosen)} cannot be the path of a key") from exc


def _free_name(path: Path) -> Path:
    """Return the first name like `path` that no key has yet; a key is never written over."""
    number = 1
    found = path
    while os.path.lexists(found) or os.path.lexists(f"{found}.pub"):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def remember(settings: Settings, operator: Operator) -> None:
    """Note which key this user signed with last; earlier ones stay known."""
    key = operator.key.absolute()
    others = [str(path) for path in _remembered(settings) if path != key][: MAX_KEYS - 1]
    record = {"format": "operator/1", "key": str(key), "others": others}
    try:
        settings.config_home.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = settings.config_home / f".{FILE}.new"
        temporary.write_bytes(canonical.encode(record) + b"\n")
        temporary.chmod(0o600)
        temporary.replace(settings.config_home / FILE)
    except OSError as exc:
        where = visible(str(settings.config_home))
        raise StorageFailed(f"cannot write to {where}: {os.strerror(exc.errno or 0)}") from exc


def signer_for(
    settings: Settings,
    tools: SshTools,
    *,
    chosen: str | None,
    workspace: Path,
    notify: Callable[[str], None],
    may_sign: Callable[[PublicKey], bool],
) -> SshKeygenSigner:
    """Return the signer for an existing workspace; never makes a key.

    Of several known keys it is the last used one that `may_sign` there.
    """
    if chosen == AGENT:
        path = _from_agent(settings, tools, may_sign).key
    elif chosen is not None:
        path = named_key(settings, chosen)
    else:
        path = _known_key(settings, tools, may_sign)
    return SshKeygenSigner(path, workspace, tools, notify)


def _known_key(settings: Settings, tools: SshTools, may_sign: Callable[[PublicKey], bool]) -> Path:
    remembered = _remembered(settings)
    if not remembered:
        hint = "name it with --key FILE, or --key agent"
        raise GateUnavailable("no key of the operator is known here", hint=hint)
    for path in remembered:
        with suppress(GateUnavailable, SignatureRefused):  # a file that is gone, or changed
            if may_sign(public_key_of(path, tools)):
                return path
    return remembered[0]  # whose refusal says what is wrong


def known_keys(settings: Settings) -> list[Path]:
    """Return the keys this user signed with, the last one first."""
    return _remembered(settings)


def _remembered(settings: Settings) -> list[Path]:
    path = settings.config_home / FILE
    if not os.path.lexists(path):
        return []
    try:
        value: Mapping[str, Any] = canonical.decode(path.read_bytes().removesuffix(b"\n"))
        return [Path(str(name)) for name in (value["key"], *value["others"])]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        hint = "delete it and name the key with --key"
        raise GateUnavailable(f"{visible(str(path))} is not readable", hint=hint) from exc


def _anybody(_: PublicKey) -> bool:
    return True


def _from_agent(
    settings: Settings, tools: SshTools, may_sign: Callable[[PublicKey], bool] = _anybody
) -> Operator:
    found = [offered.key for offered in agent_keys(tools)]
    if not found:
        hint = "start one and `ssh-add` an ed25519 key, or leave --key out"
        raise UsageError("no ed25519 key in an SSH agent", hint=hint)
    key = next(filter(may_sign, found), found[0])
    # ssh-keygen finds the private half in the agent by the public half in a file.
    name = key.fingerprint.removeprefix("SHA256:").replace("/", "_").replace("+", "-")
    path = settings.config_home / f"agent-{name[:16]}.pub"
    try:
        settings.config_home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(key.line + "\n", encoding="ascii")
    except OSError as exc:
        raise StorageFailed(f"cannot write {visible(str(path))}") from exc
    return Operator(path, key, source="a key of your SSH agent")
