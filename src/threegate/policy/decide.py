"""What may happen: pure functions from a policy and a question to a decision.

Nothing here opens, resolves or starts anything.  The rules, in the order they are tried:

fetch    the URL is in the strict grammar; one host rule covers its host; then the policy's
         word for the operator's own requests, or for what CORE drafted.
execute  the lane exists and is enabled; every limit is known and not above the lane's
         maximum; external functions, profile, imports, programs and network are within
         the lane's rules; the Rule of Two holds; then a human is asked, always.
read,    the gate's list contains the kind.
draft

SECURITY
    Reads URLs and requests shaped by hostile text.  If this module is wrong, something
    happens that no rule allows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from threegate.base.forms import KINDS
from threegate.base.text import quote
from threegate.policy.bundle import Compiled
from threegate.policy.decision import NO_RULE, Allow, Ask, Decision, Deny, RuleRef, Tried
from threegate.policy.hosts import check_host, matches, parse_url
from threegate.policy.leaves import BYTES, unit_of
from threegate.policy.purposes import MODEL, PACKETS, RUNS, download_list
from threegate.policy.ring.commands import resolve
from threegate.policy.sections.tool_exec import OFF, RING


def kind_name(kind: str) -> str:
    """Return the name policies use for a prefix; any other text stays as it is."""
    return KINDS.get(kind, kind)


_GATES: Final = ("core", "fetch", "tool-exec")
GATEWAY: Final = "gateway"
GATEWAY_RULES: Final = ("tool-exec", "lanes", "era", GATEWAY)
_NO_NETWORK: Final = "none"


@dataclass(frozen=True, slots=True)
class Execution:
    """What a Tool Request asks for, as far as policy judges it."""

    backend: str
    limits: Mapping[str, int]
    profile: str
    integrity: str
    confidentiality: str
    functions: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    binaries: frozenset[str] = frozenset()
    network: str = "none"
    hosts: frozenset[str] = frozenset()  # it lists for the gateway
    up_bytes: int = 0
    down_bytes: int = 0


@dataclass(slots=True)
class _Trial:
    """Collects the rules tried for one question."""

    policy: Compiled
    tried: list[Tried] = field(default_factory=list)

    def passed(self, what: str, outcome: str, *path: str) -> None:
        self.tried.append(Tried(self.policy.ref(*path) if path else None, what, outcome))

    def allow(self, reason: str, *path: str) -> Allow:
        return Allow(*self._end("allow", reason, path))

    def ask(self, reason: str, *path: str) -> Ask:
        return Ask(*self._end("ask", reason, path))

    def deny(self, reason: str, *path: str) -> Deny:
        return Deny(*self._end("deny", reason, path))

    def _end(
        self, verdict: str, reason: str, path: tuple[str, ...]
    ) -> tuple[RuleRef | None, str, tuple[Tried, ...]]:
        self.passed(reason, verdict, *path)
        return (self.policy.ref(*path) if path else None), reason, tuple(self.tried)


def may_fetch(policy: Compiled, url: str, *, integrity: str = "external") -> Decision:
    """Decide whether `url` may be asked for; `integrity` is that of the request naming it."""
    trial = _Trial(policy)
    try:
        host = parse_url(url).host
    except ValueError as exc:
        return trial.deny(f"URL refused: {exc}")
    pattern = _covering(trial, host)
    if pattern is None:
        return trial.deny(NO_RULE)
    key = "operator_requests" if integrity == "operator" else "drafts"
    word, rule = policy.text("fetch", key), ("fetch", "hosts", pattern)
    trial.passed(f"{key}: {word}", "applies", "fetch", key)
    if word == "allow":
        return trial.allow(f"{pattern} is allowed", *rule)
    if word == "ask":
        return trial.ask(f"{pattern} is allowed once a human approves", *rule)
    return trial.deny(f"{key} are refused", "fetch", key)


def may_connect(policy: Compiled, host: str, purpose: str = PACKETS) -> Decision:
    """Decide whether a proxy of this purpose may open a connection to `host`."""
    trial = _Trial(policy)
    try:
        check_host(host)
    except ValueError as exc:
        return trial.deny(f"host refused: {exc}")
    if purpose == MODEL:
        return _may_reach_model(trial, host)
    if purpose == RUNS:
        return _may_pass(trial, host)
    name = download_list(purpose)
    if name is not None:
        return _may_download(trial, host, name)
    pattern = _covering(trial, host) if purpose == PACKETS else None
    if pattern is None:
        return trial.deny(NO_RULE)
    return trial.allow(f"{pattern} is allowed", "fetch", "hosts", pattern)


def _may_reach_model(trial: _Trial, host: str) -> Decision:
    """Decide about the one machine that a policy may name for CORE's model."""
    kind = trial.policy.text("core", "model", "kind")
    if kind != "remote":
        return trial.deny(f"the model is {kind}, not remote", "core", "model", "kind")
    path = ("core", "model", "remote_host")
    if host != trial.policy.value(*path):
        return trial.deny("not the host of the remote model", *path)
    return trial.allow(f"{host} is the host of the remote model", *path)


def _may_download(trial: _Trial, host: str, name: str) -> Decision:
    if not trial.policy.has("fetch", "downloads", name):
        return trial.deny(NO_RULE)
    path = ("fetch", "downloads", name, "hosts")
    for pattern in trial.policy.words(*path):
        if matches(pattern, host):
            return trial.allow(f"{pattern} is allowed for {name}", *path, pattern)
        trial.passed(f"host {pattern}", "no match", *path, pattern)
    return trial.deny(f"not a host of the downloads {name}", *path)


def _covering(trial: _Trial, host: str) -> str | None:
    in_file = trial.policy.refs["fetch"]
    for pattern in sorted(
        trial.policy.words("fetch", "hosts"), key=lambda name: in_file[f"hosts/{name}"]
    ):
        found = matches(pattern, host)
        outcome = "match" if found else "no match"
        trial.passed(f"host {pattern}", outcome, "fetch", "hosts", pattern)
        if found:
            return pattern
    return None


def may_read(policy: Compiled, gate: str, kind: str) -> Decision:
    """Decide whether `gate` may read an artifact of `kind` (a name, or the prefix of its ids)."""
    return _in_list(_Trial(policy), gate, "may_read", kind_name(kind))


def may_draft(policy: Compiled, gate: str, kind: str, *, role: str | None = None) -> Decision:
    """Decide whether `gate`, for CORE in `role`, may make an artifact of `kind`."""
    trial = _Trial(policy)
    if role is not None:
        if gate != "core" or not policy.has("core", "roles", role):
            return trial.deny(NO_RULE)
        if kind_name(kind) not in policy.words("core", "roles", role, "may_draft"):
            path = ("core", "roles", role, "may_draft")
            return trial.deny(f"role {role} does not draft {quote(kind)}", *path)
    return _in_list(trial, gate, "may_draft", kind_name(kind))


def _in_list(trial: _Trial, gate: str, key: str, kind: str) -> Decision:
    if gate not in _GATES:
        return trial.deny(NO_RULE)
    if kind in trial.policy.words(gate, key):
        return trial.allow(f"{kind} is in {key}", gate, key, kind)
    return trial.deny(f"{quote(kind)} is not in {key}", gate, key)


def may_use_engine(policy: Compiled, engine: str) -> Decision:
    """Decide whether the heavy lane may run on `engine`."""
    trial = _Trial(policy)
    if engine in policy.words("tool-exec", "lanes", "era", "engines"):
        path = ("tool-exec", "lanes", "era", "engines", engine)
        return trial.allow(f"engine {engine} is named", *path)
    reason = f"engine {quote(engine)} is not named"
    return trial.deny(reason, "tool-exec", "lanes", "era", "engines")


def may_execute(policy: Compiled, request: Execution) -> Decision:
    """Decide whether `request` may run; the best answer is `Ask`."""
    trial = _Trial(policy)
    if not policy.has("tool-exec", "lanes", request.backend):
        return trial.deny(NO_RULE)
    lane = ("tool-exec", "lanes", request.backend)
    if policy.text(*lane, "enabled") != "yes":
        return trial.deny(f"lane {request.backend} is not enabled", *lane, "enabled")
    trial.passed(f"lane {request.backend}", "enabled", *lane, "enabled")
    for check in (_check_limits, _check_functions, _check_profile, _check_network):
        refusal = check(trial, request)
        if refusal is not None:
            return refusal
    return _rule_of_two(trial, request)


def _check_limits(trial: _Trial, request: Execution) -> Deny | None:
    path = ("tool-exec", "lanes", request.backend, "max")
    for key, asked in sorted(request.limits.items()):
        if not trial.policy.has(*path, key):
            return trial.deny(f"limit {quote(key)} is not one of this lane", *path)
        most = trial.policy.integer(*path, key)
        show = unit_of(key).show
        if not 0 <= asked <= most:
            return trial.deny(f"{key} of {show(asked)} is not within {show(most)}", *path, key)
        trial.passed(f"{key} {show(asked)} of {show(most)}", "within", *path, key)
    return None


def _check_functions(trial: _Trial, request: Execution) -> Deny | None:
    for name in sorted(request.functions):
        if request.backend != "monty" or not trial.policy.has("tool-exec", "functions", name):
            reason = f"function {quote(name)} is not offered to {request.backend}"
            return trial.deny(reason, "tool-exec", "functions")
        trial.passed(f"function {name}", "offered", "tool-exec", "functions", name)
    return None


def _check_profile(trial: _Trial, request: Execution) -> Deny | None:
    offered = ("tool-exec", "lanes", request.backend, "profiles")
    if request.profile not in trial.policy.words(*offered):
        reason = f"profile {quote(request.profile)} is not offered to {request.backend}"
        return trial.deny(reason, *offered)
    path = ("tool-exec", RING, request.profile)
    trial.passed(f"profile {request.profile}", "offered", *path)
    denied = set(trial.policy.words(*path, "denied_imports"))
    allowed = set(trial.policy.words(*path, "allowed_imports"))
    for module in sorted(name.partition(".")[0] for name in request.imports):
        if module in denied:
            reason = f"import of {quote(module)} is denied"
            return trial.deny(reason, *path, "denied_imports", module)
        if module not in allowed:
            reason = f"import of {quote(module)} is not allowed"
            return trial.deny(reason, *path, "allowed_imports")
        trial.passed(f"import {module}", "allowed", *path, "allowed_imports", module)
    programs = trial.policy.words(*path, "allowed_binaries")
    for binary in sorted(request.binaries):
        if resolve(programs, binary) is None:
            reason = f"program {quote(binary)} is not allowed"
            return trial.deny(reason, *path, "allowed_binaries")
    return None


def _check_network(trial: _Trial, request: Execution) -> Deny | None:
    rules = [("tool-exec", RING, request.profile, "executor_network")]
    if request.backend == "era":
        rules.insert(0, ("tool-exec", "lanes", "era", "network"))
    for path in rules:
        word = trial.policy.text(*path)
        # How a gateway is held is the profile's to say; a request asks for one or for none.
        if request.network != _NO_NETWORK and (request.network != GATEWAY or word == OFF):
            return trial.deny(f"network {quote(request.network)} is more than {word}", *path)
        trial.passed(f"network {request.network} of {word}", "within", *path)
    return _check_gateway(trial, request) if request.network == GATEWAY else None


def _check_gateway(trial: _Trial, request: Execution) -> Deny | None:
    """Refuse hosts or bytes beyond the limits of the lane."""
    for host in sorted(request.hosts):
        decision = _may_pass(trial, host)
        if isinstance(decision, Deny):
            return decision
    for key, asked in (("up_bytes", request.up_bytes), ("down_bytes", request.down_bytes)):
        most = trial.policy.integer(*GATEWAY_RULES, key)
        wanted, allowed = BYTES.show(asked), BYTES.show(most)
        if asked > most:
            return trial.deny(f"{key} of {wanted} is not within {allowed}", *GATEWAY_RULES, key)
        trial.passed(f"{key} {wanted} of {allowed}", "within", *GATEWAY_RULES, key)
    return None


def _may_pass(trial: _Trial, host: str) -> Decision:
    """Decide whether a run may list `host`; the proxy of the run gets the list as well."""
    if trial.policy.text(*GATEWAY_RULES[:-1], "network") == OFF:
        return trial.deny("the lane has no network", *GATEWAY_RULES[:-1], "network")
    path = (*GATEWAY_RULES, "hosts")
    for pattern in trial.policy.words(*path):
        if matches(pattern, host):
            return trial.allow(f"{pattern} is allowed for runs", *path, pattern)
        trial.passed(f"host {pattern}", "no match", *path, pattern)
    return trial.deny(f"{quote(host)} is not a host for runs", *path)


def _rule_of_two(trial: _Trial, request: Execution) -> Decision:
    """Refuse what joins external input, confidential data and a network.

    Input that a run receives through a network is external, no matter who wrote the request.
    A label this program does not know counts as the careful one.
    """
    joined = (
        request.confidentiality not in {"public", "internal"} and request.network != _NO_NETWORK
    )
    word = trial.policy.text("tool-exec", "rule_of_two")
    if joined and word != "allow-if-approved":
        reason = "external input, confidential data and network in one run"
        return trial.deny(reason, "tool-exec", "rule_of_two")
    trial.passed(
        "rule of two", f"joined, {word}" if joined else "holds", "tool-exec", "rule_of_two"
    )
    reason = f"lane {request.backend} runs what a human approved"
    return trial.ask(reason, "tool-exec", "lanes", request.backend)
