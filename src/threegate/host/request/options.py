"""The options of `request new`: parsed and checked against the policy before anything is stored."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.base.text import quote
from threegate.policy.bundle import Bundle
from threegate.policy.decide import GATEWAY_RULES
from threegate.policy.leaves import BYTES, Number
from threegate.policy.sections.tool_exec import (
    ERA_RANGES,
    FUNCTIONS,
    MONTY_RANGES,
    REQUEST_LIMITS,
)

ALL: Final = "all"
_SECTION: Final = "tool-exec"
_RANGES: Final[Mapping[str, Mapping[str, Number]]] = {"monty": MONTY_RANGES, "era": ERA_RANGES}


def split_pair(option: str, text: str) -> tuple[str, str]:
    """Return both sides of NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise UsageError(f"{option} {quote(text)} is not NAME=VALUE")
    return name, value


def read_limits(bundle: Bundle, backend: str, stated: Sequence[str]) -> dict[str, int]:
    """Return the limits asked for, in the unit of their key; none is above the lane's."""
    found: dict[str, int] = {}
    for text in stated:
        key, value = split_pair("--limit", text)
        if key not in REQUEST_LIMITS:
            hint = f"one of {', '.join(REQUEST_LIMITS)}"
            raise UsageError(f"no limit is called {quote(key)}", hint=hint)
        if key in found:
            raise UsageError(f"--limit {key} is given twice")
        found[key] = _limit(bundle, backend, key, value)
    return found


def _limit(bundle: Bundle, backend: str, key: str, value: str) -> int:
    leaf = _RANGES[backend][key]
    try:
        number = leaf.unit.parse(value)
    except ValueError as exc:
        raise UsageError(f"--limit {key}={quote(value)}: {exc}") from exc
    path = (_SECTION, "lanes", backend, "max", key)
    most = bundle.integer(*path)
    if number > most:
        allowed = leaf.unit.show(most)
        detail = f"{key} of {leaf.unit.show(number)} is above the {allowed} of {bundle.ref(*path)}"
        hint = f"ask for at most {allowed}, or raise it there and `threegate policy apply`"
        raise PolicyDenied(detail, hint=hint)
    if number < leaf.low:
        raise UsageError(f"--limit {key}={quote(value)}: the least is {leaf.unit.show(leaf.low)}")
    return number


def offered_functions(bundle: Bundle) -> list[str]:
    """Return the external functions that policy offers."""
    return sorted(bundle.words(_SECTION, "functions"))


def read_functions(bundle: Bundle, backend: str, stated: Sequence[str]) -> list[str]:
    """Return the external functions asked for; `all` is every one that policy offers."""
    if stated and backend != "monty":
        raise UsageError("external functions belong to the monty lane")
    offered = offered_functions(bundle)
    found: set[str] = set()
    for name in stated:
        if name == ALL:
            found |= set(offered)
        elif name in offered:
            found.add(name)
        else:
            raise _not_offered(bundle, name, offered)
    return sorted(found)


def _not_offered(bundle: Bundle, name: str, offered: Sequence[str]) -> ThreeGateError:
    hint = f"policy offers {', '.join(offered) or 'none'}"
    if name not in FUNCTIONS:
        return UsageError(f"no external function is called {quote(name)}", hint=hint)
    where = bundle.ref(_SECTION, "functions")
    return PolicyDenied(f"function {name} is not offered by {where}", hint=hint)


def read_network(
    bundle: Bundle, backend: str, hosts: Sequence[str], up: str | None, down: str | None
) -> str | dict[str, Any]:
    """Return the network asked for: none, or the gateway to these hosts."""
    if not hosts:
        if up is not None or down is not None:
            raise UsageError("--up-bytes and --down-bytes go with --allow-host")
        return "none"
    if backend != "era":
        raise UsageError("--allow-host goes with --backend era alone: Monty has no network")
    sizes = {"up_bytes": up, "down_bytes": down}
    found = {key: _size(bundle, key, text) for key, text in sizes.items()}
    return {"hosts": sorted(set(hosts)), **found}


def _size(bundle: Bundle, key: str, text: str | None) -> int:
    """Return the bytes asked for, or all that policy grants a run."""
    most = bundle.integer(*GATEWAY_RULES, key)
    if text is None:
        return most
    option = f"--{key.replace('_', '-')}"
    try:
        number = BYTES.parse(text)
    except ValueError as exc:
        raise UsageError(f"{option} {quote(text)}: {exc}") from exc
    if number > most:
        where = bundle.ref(*GATEWAY_RULES, key)
        hint = f"ask for at most {BYTES.show(most)}"
        raise PolicyDenied(f"{option} is above the {BYTES.show(most)} of {where}", hint=hint)
    return number


def read_outputs(stated: Sequence[str]) -> list[dict[str, Any]]:
    """Return the files a run will leave, each with the most it may hold."""
    found: dict[str, int] = {}
    for text in stated:
        name, value = split_pair("--output", text)
        if name in found:
            raise UsageError(f"--output {quote(name)} is given twice")
        try:
            found[name] = BYTES.parse(value)
        except ValueError as exc:
            raise UsageError(f"--output {quote(text)}: {exc}") from exc
    return [{"name": name, "max_bytes": most} for name, most in sorted(found.items())]
