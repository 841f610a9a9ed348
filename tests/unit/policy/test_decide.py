"""Decisions: who is allowed what, by which rule, and every denial with its reason."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.policies import altered, line_of, policy, policy_files, remote_model
from threegate.base.errors import PolicyDenied
from threegate.policy.bundle import Compiled, parse_bundle
from threegate.policy.decide import (
    Execution,
    may_connect,
    may_draft,
    may_execute,
    may_fetch,
    may_read,
    may_use_engine,
)
from threegate.policy.decision import NO_RULE, Allow, Ask, Decision, Deny, RuleRef, explain, verdict
from threegate.policy.purposes import MODEL, PACKETS, downloads

POLICY = policy()
FILES = policy_files()
CROSSREF = "https://api.crossref.org/works/10.5555%2F1"


def rule(name: str, text: str) -> RuleRef:
    return RuleRef(f"policy/{name}", line_of(FILES, name, text))


def era(sections: dict[str, Any]) -> None:
    """Turn the heavy lane on, with a profile that has a network."""
    lanes = sections["tool-exec"]["lanes"]
    lanes["era"] |= {"enabled": "yes", "network": "gateway", "profiles": ["net", "python", "tools"]}
    profiles = sections["tool-exec"]["interpreter_ring"]
    profiles["net"] = {**profiles["python"], "executor_network": "gateway"}


ERA = altered(POLICY, era)
RISKY = altered(ERA, lambda sections: sections["tool-exec"].update(rule_of_two="allow-if-approved"))

MONTY_RUN = Execution(
    backend="monty",
    limits={"wall_ms": 30_000, "memory_bytes": 2**29, "cpus": 1, "disk_bytes": 0},
    profile="pure",
    integrity="external",
    confidentiality="confidential",
    functions=frozenset({"sha256_hex"}),
    imports=frozenset({"json", "collections.abc"}),
)
ERA_RUN = Execution(
    backend="era",
    limits={"wall_ms": 60_000},
    profile="net",
    integrity="external",
    confidentiality="public",
    imports=frozenset({"numpy"}),
    network="gateway",
)


# FETCH


def test_operator_may_fetch_from_a_listed_host_by_its_rule() -> None:
    decision = may_fetch(POLICY, CROSSREF, integrity="operator")
    assert decision == Allow(
        rule("fetch.policy.md", "api.crossref.org:"), "api.crossref.org is allowed"
    )


@pytest.mark.parametrize("integrity", ["external", "", "Operator", "core"])
def test_whatever_is_not_the_operators_own_needs_a_human(integrity: str) -> None:
    assert isinstance(may_fetch(POLICY, CROSSREF, integrity=integrity), Ask)
    assert isinstance(may_fetch(POLICY, CROSSREF), Ask), "the careful reading is the default"


def test_policy_can_refuse_drafts_and_make_the_operator_ask() -> None:
    strict = policy(fetch=("drafts: ask", "drafts: deny"))
    refusal = may_fetch(strict, CROSSREF)
    assert refusal == Deny(rule("fetch.policy.md", "drafts:"), "drafts are refused")
    asking = policy(fetch=("operator_requests: allow", "operator_requests: ask"))
    assert isinstance(may_fetch(asking, CROSSREF, integrity="operator"), Ask)


# claim TG-C-05
def test_unlisted_host_is_denied_because_no_rule_matched() -> None:
    assert isinstance(may_fetch(POLICY, CROSSREF, integrity="operator"), Allow), "control"
    for url in ("https://www.crossref.org/", "https://api.crossref.org.evil.org/"):
        decision = may_fetch(POLICY, url, integrity="operator")
        assert decision == Deny(None, NO_RULE)
        assert len(decision.trace) == len(POLICY.words("fetch", "hosts")) + 1


# claim TG-C-05
def test_empty_allowlist_allows_nothing() -> None:
    assert isinstance(may_fetch(POLICY, CROSSREF, integrity="operator"), Allow), "control"
    nothing = altered(POLICY, lambda sections: sections["fetch"].update(hosts={}))
    assert may_fetch(nothing, CROSSREF, integrity="operator") == Deny(None, NO_RULE)


def test_url_outside_the_grammar_is_denied_before_any_rule() -> None:
    decision = may_fetch(POLICY, "https://x@api.crossref.org/", integrity="operator")
    assert isinstance(decision, Deny)
    assert decision.reason == "URL refused: user information before the host"
    assert len(decision.trace) == 1


def test_proxy_may_connect_to_listed_names_only() -> None:
    wide = policy(fetch=("  api.openalex.org:\n", '  "*.openalex.org":\n'))
    assert isinstance(may_connect(wide, "api.openalex.org"), Allow)
    assert may_connect(wide, "openalex.org") == Deny(None, NO_RULE)
    for host in ("api.openalex.org.", "API.openalex.org", "\n.openalex.org", ".openalex.org", ""):
        decision = may_connect(wide, host)
        assert isinstance(decision, Deny)
        assert decision.reason.startswith("host refused: "), host


# claim TG-C-200
def test_a_proxy_reaches_the_hosts_of_its_purpose_and_no_others() -> None:
    found = remote_model()
    hosts = {
        PACKETS: "api.crossref.org",
        downloads("models"): "huggingface.co",
        MODEL: "llm.example.org",
    }
    for purpose in hosts:
        for other, host in hosts.items():
            decision = may_connect(found, host, purpose)
            assert isinstance(decision, Allow) == (other == purpose), (purpose, host)
    refused = may_connect(found, "api.crossref.org", MODEL)
    assert refused.reason == "not the host of the remote model"
    assert str(refused.rule).startswith("policy/core.policy.md:")
    refused = may_connect(found, "llm.example.org", downloads("models"))
    assert refused.reason == "not a host of the downloads models"
    assert may_connect(found, "huggingface.co", downloads("others")) == Deny(None, NO_RULE)
    assert may_connect(found, "huggingface.co", "else") == Deny(None, NO_RULE)


# claim TG-C-200
def test_without_a_remote_model_its_proxy_reaches_nothing() -> None:
    decision = may_connect(POLICY, "llm.example.org", MODEL)
    assert decision.reason == "the model is embedded, not remote"
    assert isinstance(may_connect(remote_model(), "llm.example.org", MODEL), Allow), "control"
    assert isinstance(may_connect(remote_model(), "a.llm.example.org", MODEL), Deny)
    assert isinstance(may_connect(remote_model(), "example.org", MODEL), Deny)


def test_rules_are_tried_in_file_order_from_a_stored_bundle_too() -> None:
    stored = parse_bundle(POLICY.bundle().bundle_bytes())
    trace = may_fetch(stored, "https://other.org/").trace
    lines = [tried.rule.line for tried in trace if tried.rule is not None]
    assert lines == sorted(lines)
    assert trace == may_fetch(POLICY, "https://other.org/").trace


# TOOL-EXEC


# claim TG-C-04
def test_monty_run_within_limits_asks_a_human() -> None:
    decision = may_execute(POLICY, MONTY_RUN)
    assert isinstance(decision, Ask)
    assert decision.rule == rule("tool-exec.policy.md", "monty:")


def denied(policy: Compiled, request: Execution, text: str | None, reason: str) -> None:
    decision = may_execute(policy, request)
    assert isinstance(decision, Deny), decision
    assert reason in decision.reason
    assert decision.rule == (rule("tool-exec.policy.md", text) if text else None)


@pytest.mark.parametrize(
    ("changes", "text", "reason"),
    [
        ({"limits": {"wall_ms": 30_001}}, "wall_ms: 30s", "wall_ms of 30001ms is not within 30s"),
        ({"limits": {"memory_bytes": 2**29 + 1}}, "memory_bytes: 512MiB", "memory_bytes"),
        ({"limits": {"cpus": 2}}, None, "cpus"),
        ({"limits": {"wall_ms": -1}}, "wall_ms: 30s", "wall_ms of -1"),
        ({"limits": {"time": 1}}, None, 'limit "time" is not one'),
        ({"functions": frozenset({"eval"})}, "functions:", 'function "eval" is not offered'),
        ({"profile": "python"}, "profiles: [pure]", 'profile "python" is not offered'),
        ({"profile": "../pure"}, "profiles: [pure]", "is not offered"),
        ({"imports": frozenset({"os"})}, "allowed_imports: [base64", 'import of "os"'),
        ({"imports": frozenset({"os.path"})}, "allowed_imports: [base64", 'import of "os"'),
        ({"binaries": frozenset({"/bin/sh"})}, "allowed_binaries: []", 'program "/bin/sh"'),
        ({"network": "gateway"}, "executor_network: off", 'network "gateway" is more than off'),
        ({"network": "internet"}, "executor_network: off", 'network "internet"'),
        ({"backend": "era"}, "enabled: no", "lane era is not enabled"),
        ({"backend": "ERA"}, None, NO_RULE),
        ({"backend": ""}, None, NO_RULE),
    ],
)
def test_request_outside_the_lane_is_denied_by_the_rule_it_breaks(
    changes: Mapping[str, Any], text: str | None, reason: str
) -> None:
    assert isinstance(may_execute(POLICY, MONTY_RUN), Ask), "control"
    decision = may_execute(POLICY, replace(MONTY_RUN, **changes))
    assert isinstance(decision, Deny)
    assert reason in decision.reason
    if text is not None:
        assert decision.rule == rule("tool-exec.policy.md", text)


# claim TG-C-04
def test_disabled_lane_denies() -> None:
    off = policy(tool_exec=("enabled: yes", "enabled: no"))
    denied(off, MONTY_RUN, "enabled: yes", "lane monty is not enabled")


def test_denied_import_wins_and_names_its_own_line() -> None:
    changed = policy(tool_exec=("denied_imports: []", "denied_imports: [tomllib]"))
    decision = may_execute(changed, replace(MONTY_RUN, imports=frozenset({"tomllib"})))
    assert isinstance(decision, Deny)
    assert decision.rule == rule("tool-exec.policy.md", "denied_imports: []")


def test_heavy_lane_asks_only_where_policy_enables_it() -> None:
    run = replace(ERA_RUN, profile="python", network="none")
    assert isinstance(may_execute(ERA, run), Ask)
    assert isinstance(may_execute(POLICY, run), Deny)
    with_function = replace(run, functions=frozenset({"sha256_hex"}))
    decision = may_execute(ERA, with_function)
    assert isinstance(decision, Deny)
    assert "not offered to era" in decision.reason


def test_network_needs_both_the_lane_and_the_profile() -> None:
    assert isinstance(may_execute(ERA, ERA_RUN), Ask), "control"
    lane_off = altered(ERA, lambda s: s["tool-exec"]["lanes"]["era"].update(network="off"))
    for policy_, request in ((lane_off, ERA_RUN), (ERA, replace(ERA_RUN, profile="python"))):
        decision = may_execute(policy_, request)
        assert isinstance(decision, Deny)
        assert decision.reason == 'network "gateway" is more than off'
    wider = replace(ERA_RUN, network="kernel-allowlist")
    assert isinstance(may_execute(ERA, wider), Deny)


CONFIDENTIAL = replace(ERA_RUN, confidentiality="confidential")


# claim TG-C-34
def test_rule_of_two_denies_the_three_together() -> None:
    decision = may_execute(ERA, CONFIDENTIAL)
    assert isinstance(decision, Deny)
    assert decision.reason == "external input, confidential data and network in one run"
    assert decision.rule == ERA.ref("tool-exec", "rule_of_two")
    written = may_execute(ERA, replace(CONFIDENTIAL, integrity="operator"))
    assert written == decision, "what a run hears through a network is external, whoever wrote it"


@pytest.mark.parametrize(
    "changes",
    [
        {"confidentiality": "public"},
        {"confidentiality": "internal"},
        {"network": "none"},
    ],
)
def test_rule_of_two_lets_any_two_of_them_ask(changes: Mapping[str, Any]) -> None:
    assert isinstance(may_execute(ERA, replace(CONFIDENTIAL, **changes)), Ask)


# claim TG-C-34
def test_rule_of_two_can_be_left_to_the_approver_but_never_allowed() -> None:
    decision = may_execute(RISKY, CONFIDENTIAL)
    assert isinstance(decision, Ask)
    assert any(tried.outcome == "joined, allow-if-approved" for tried in decision.trace)


@pytest.mark.parametrize(
    "changes", [{"confidentiality": "secret"}, {"integrity": "trusted"}, {"integrity": ""}]
)
def test_unknown_label_counts_as_the_careful_one(changes: Mapping[str, Any]) -> None:
    assert isinstance(may_execute(ERA, replace(CONFIDENTIAL, **changes)), Deny)


def test_engine_is_used_only_where_named() -> None:
    for engine in ("qemu-emulation", "qemu-kvm"):
        assert isinstance(may_use_engine(POLICY, engine), Allow)
    for engine in ("runsc", "docker", ""):
        decision = may_use_engine(POLICY, engine)
        assert isinstance(decision, Deny)
        assert decision.rule == rule("tool-exec.policy.md", "engines:")


# What gates may read and draft


@pytest.mark.parametrize(
    ("gate", "kind", "read", "draft"),
    [
        ("core", "rp", "allow", "deny"),
        ("core", "res", "allow", "deny"),
        ("core", "an", "allow", "allow"),
        ("core", "tr", "deny", "allow"),
        ("core", "fr", "deny", "allow"),
        ("core", "ap", "deny", "deny"),
        ("fetch", "fr", "allow", "deny"),
        ("fetch", "rp", "deny", "allow"),
        ("fetch", "res", "deny", "deny"),
        ("tool-exec", "tr", "allow", "deny"),
        ("tool-exec", "res", "allow", "allow"),
        ("tool-exec", "fr", "deny", "deny"),
        ("tool-exec", "ap", "allow", "deny"),
    ],
)
def test_each_gate_reads_and_makes_its_own_kinds(
    gate: str, kind: str, read: str, draft: str
) -> None:
    assert verdict(may_read(POLICY, gate, kind)) == read
    assert verdict(may_draft(POLICY, gate, kind)) == draft


@pytest.mark.parametrize("gate", ["host", "handoff", "signers", "", "CORE"])
def test_unknown_gate_is_denied(gate: str) -> None:
    assert may_read(POLICY, gate, "rp") == Deny(None, NO_RULE)
    assert may_draft(POLICY, gate, "an") == Deny(None, NO_RULE)


def test_kinds_have_two_spellings_and_unknown_ones_are_denied() -> None:
    assert may_read(POLICY, "core", "research-packet") == may_read(POLICY, "core", "rp")
    assert isinstance(may_read(POLICY, "core", "\x1b[2J"), Deny)
    assert "\x1b" not in may_read(POLICY, "core", "\x1b[2J").reason


def test_role_narrows_what_core_may_draft() -> None:
    assert isinstance(may_draft(POLICY, "core", "tr", role="research-assistant"), Allow)
    decision = may_draft(POLICY, "core", "tr", role="policy-analyst")
    assert isinstance(decision, Deny)
    assert decision.rule == POLICY.ref("core", "roles", "policy-analyst", "may_draft")
    assert may_draft(POLICY, "core", "an", role="root") == Deny(None, NO_RULE)
    assert may_draft(POLICY, "fetch", "rp", role="research-assistant") == Deny(None, NO_RULE)


# Decisions as values


def test_denial_becomes_an_error_that_names_rule_and_reason() -> None:
    decision = may_execute(POLICY, replace(MONTY_RUN, limits={"wall_ms": 10**6}))
    assert isinstance(decision, Deny)
    error = decision.error("tool request tr-7f3a")
    assert isinstance(error, PolicyDenied)
    assert (error.code, error.exit_code) == ("TG-POL-001", 77)
    where = rule("tool-exec.policy.md", "wall_ms: 30s")
    assert error.message == (
        f"tool request tr-7f3a denied by {where}, wall_ms of 1000s is not within 30s"
    )
    assert Deny(None, NO_RULE).error("x").message == "x denied, no rule matched"


@pytest.mark.parametrize(
    "decision",
    [
        may_fetch(POLICY, "https://evil.org/\x1b[31m\u202e"),
        may_execute(POLICY, replace(MONTY_RUN, imports=frozenset({"o\u202es\n"}))),
        may_execute(POLICY, replace(MONTY_RUN, limits={"\x1b]0;x\x07": 1})),
        may_read(POLICY, "core", "\u202e\n"),
    ],
)
def test_explanation_shows_hostile_text_escaped(decision: Decision) -> None:
    lines = explain(decision)
    assert lines[-1].startswith("deny: ")
    for line in lines:
        assert line.isprintable(), line


def test_explanation_names_every_rule_with_its_line() -> None:
    *tried, last = explain(may_execute(POLICY, MONTY_RUN))
    assert last.startswith("ask: ")
    assert len(tried) >= 8
    for line in tried:
        assert line.startswith("policy/tool-exec.policy.md:"), line
