"""Differences: every widened capability is named, in the right direction."""

from collections.abc import Iterator

import pytest

from tests.support.policies import GATES, OPPOSITE, policy, policy_files
from threegate.policy.bundle import diff
from threegate.policy.compiler import compile_policy
from threegate.policy.leaves import Leaf
from threegate.policy.nodes import Change, Value
from threegate.policy.schema import RuleRecord, RuleTable
from threegate.policy.sections import BY_NAME

POLICY = policy()

WIDER = [
    ("core", "kind: embedded\n  name: qwen", "kind: embedded\n  name: other", "changes"),
    ("core", "claims: 100", "claims: 101", "widens"),
    ("core", "may_read: [analysis, ", "may_read: [", "narrows"),
    ("core", '"You quote the passage', '"You cite the passage', "changes"),
    ("fetch", "contact: none", "contact: me@example.org", "widens"),
    ("fetch", "operator_requests: allow", "operator_requests: ask", "narrows"),
    ("fetch", "proxy: own", "proxy: connect:/run/proxy.sock", "widens"),
    ("fetch", "proxy: own", "proxy: gateway:/run/squid/gateway.sock", "widens"),
    ("fetch", "trust_anchors: [system]", f"trust_anchors: [system, 'sha256:{'0' * 64}']", "widens"),
    ("fetch", "redirects: 5", "redirects: 6", "widens"),
    ("fetch", "bytes_per_day: 4GiB", "bytes_per_day: 4097MiB", "widens"),
    ("fetch", "credential: query:api_key", "credential: none", "narrows"),
    ("fetch", "[huggingface.co, ", "[huggingface.co, example.org, ", "widens"),
    ("tool-exec", "rule_of_two: refuse", "rule_of_two: allow-if-approved", "widens"),
    ("tool-exec", "enabled: yes", "enabled: no", "narrows"),
    ("tool-exec", "qemu-kvm]", "qemu-kvm, runsc]", "widens"),
    ("tool-exec", "network: off", "network: gateway", "widens"),
    ("tool-exec", "wall_ms: 30s", "wall_ms: 31s", "widens"),
    ("tool-exec", "denied_imports: [ctypes, ", "denied_imports: [", "widens"),
    ("tool-exec", 'denied_patterns: ["curl", ', "denied_patterns: [", "widens"),
    ("tool-exec", "/usr/bin/wc]", "/usr/bin/wc, /usr/bin/git]", "widens"),
    ("tool-exec", "on_bad_bundle: quarantine", "on_bad_bundle: keep-last", "widens"),
    ("tool-exec", "running: stop", "running: finish", "widens"),
    ("handoff", "max_uses: 100", "max_uses: 99", "narrows"),
    ("handoff", "reserve_bytes: 64MiB", "reserve_bytes: 63MiB", "widens"),
    ("handoff", "clock_tolerance_seconds: 5m", "clock_tolerance_seconds: 6m", "widens"),
    ("handoff", "quarantine: {files: 100000", "quarantine: {files: 100001", "widens"),
    ("instruction-hierarchy", "marker_bytes: 16", "marker_bytes: 17", "narrows"),
]


@pytest.mark.parametrize(("section", "old", "new", "effect"), WIDER)
def test_each_change_is_one_line_with_its_direction_and_its_reverse(
    section: str, old: str, new: str, effect: str
) -> None:
    changed = policy(**{section: (old, new)})
    (forth,) = diff(POLICY, changed)
    (back,) = diff(changed, POLICY)
    assert forth.effect == effect
    assert back.effect == OPPOSITE[forth.effect]
    assert (back.path, back.old, back.new) == (forth.path, forth.new, forth.old)
    assert forth.path.startswith(f"{section}/")


ANOTHER = [
    ("core", "remote_host", "model.example.org", "evil.example.net"),
    ("core", "endpoint", "127.0.0.1:8080", "127.0.0.1:9090"),
    ("fetch", "contact", "me@example.org", "you@example.net"),
    ("fetch", "credential", "query:api_key", "header:authorization"),
]


@pytest.mark.parametrize(("section", "field", "one", "other"), ANOTHER)
def test_another_place_for_what_is_ours_is_wider_both_ways(
    section: str, field: str, one: str, other: str
) -> None:
    # Called a mere change, another machine that reads every question hid among renamed rules.
    leaf = _leaf(section, field)
    assert leaf.effect(leaf.parse(one), leaf.parse(other)) == "widens"
    assert leaf.effect(leaf.parse(other), leaf.parse(one)) == "widens"
    assert leaf.effect(leaf.parse(one), None) == "narrows"  # control
    assert leaf.effect(None, leaf.parse(one)) == "widens"


# claim TG-C-90
def test_any_change_of_an_external_function_is_an_escalation() -> None:
    pinned = POLICY.text("tool-exec", "functions", "json_loads", "sha256")
    other = policy(tool_exec=(pinned, "0" * 64))
    for old, new in ((POLICY, other), (other, POLICY)):
        (forth,) = diff(old, new)
        assert forth.path == "tool-exec/functions/json_loads/sha256"
        assert forth.effect == "widens", "other code outside the interpreter may do anything"
    raised = policy(tool_exec=("depth: 32", "depth: 33"))
    assert [change.effect for change in diff(POLICY, raised)] == ["widens"]
    # A lower bound is never hidden among the narrowings: programs meet another function.
    assert [change.effect for change in diff(raised, POLICY)] == ["changes"]
    laxer = policy(tool_exec=("running: stop", "running: finish"))
    assert [change.effect for change in diff(laxer, POLICY)] == ["narrows"], "control"


def _leaf(section: str, field: str) -> Leaf:
    """Return the type of the one field of that name in a section."""

    def below(record: RuleRecord) -> Iterator[Leaf]:
        for entry in record.fields:
            kind = entry.kind.row if isinstance(entry.kind, RuleTable) else entry.kind
            if isinstance(kind, RuleRecord):
                yield from below(kind)
            elif entry.name == field:
                assert isinstance(kind, Leaf)
                yield kind

    (found,) = below(BY_NAME[section].record)
    return found


def test_same_policy_has_no_difference() -> None:
    assert diff(POLICY, policy()) == []


def test_added_host_is_one_widening_and_renamed_host_is_two_changes() -> None:
    renamed = policy(fetch=("  arxiv.org:\n", "  www.arxiv.org:\n"))
    added, removed = diff(POLICY, renamed)
    assert (added.path, added.effect) == ("fetch/hosts/www.arxiv.org", "widens")
    assert (removed.path, removed.effect) == ("fetch/hosts/arxiv.org", "narrows")
    assert added.sentence == "fetch: hosts FETCH may ask now also www.arxiv.org"
    assert removed.sentence == "fetch: hosts FETCH may ask no longer arxiv.org"


def test_sentences_speak_in_the_units_people_write() -> None:
    changed = policy(
        tool_exec=("memory_bytes: 512MiB", "memory_bytes: 1GiB"),
        fetch=("content_types: [application/json]", "content_types: [application/json, text/xml]"),
    )
    assert [change.sentence for change in diff(POLICY, changed)] == [
        "fetch hosts api.openalex.org: content types now also text/xml",
        "tool-exec lanes monty max: memory now 1GiB, before 512MiB",
    ]


def test_widening_comes_first() -> None:
    changed = policy(
        core=("claims: 100", "claims: 99"),
        fetch=("redirects: 5", "redirects: 6"),
        tool_exec=("running: stop", "running: finish"),
    )
    assert [change.effect for change in diff(POLICY, changed)] == ["widens", "widens", "narrows"]


def test_remote_model_is_a_widening_that_names_the_host() -> None:
    text = policy_files()["core.policy.md"].decode()
    start, end = text.index("  kind: embedded"), text.index("  remote_credential")
    fields = {"kind": "remote", "name": "big", "sha256": "none", "endpoint": "none"}
    fields["remote_host"] = "llm.example.org"
    model = "".join(f"  {key}: {value}\n" for key, value in fields.items())
    changed = compile_policy(
        {**policy_files(), "core.policy.md": (text[:start] + model + text[end:]).encode()},
        gates=GATES,
    )
    effects = {change.path: change for change in diff(POLICY, changed)}
    assert effects["core/model/kind"].effect == "widens"
    assert effects["core/model/remote_host"].effect == "widens"
    assert "llm.example.org" in effects["core/model/remote_host"].sentence


def test_more_may_leave_for_a_remote_model_only_as_a_widening() -> None:
    changes = {
        "remote_credential": ("none", "bearer"),
        "remote_confidentiality": ("public", "internal"),
        "remote_requests": ("64", "65"),
        "remote_bytes": ("4MiB", "5MiB"),
    }
    for key, (old, new) in changes.items():
        (found,) = diff(POLICY, policy(core=(f"{key}: {old}", f"{key}: {new}")))
        assert (found.path, found.effect) == (f"core/model/{key}", "widens")


def test_prose_and_examples_are_no_difference() -> None:
    changed = policy(
        fetch=("match: [", 'match: ["https://api.crossref.org/x", '),
        core=("# What CORE may do", "# Something else"),
    )
    assert diff(POLICY, changed) == []


def test_old_and_new_are_values_not_text() -> None:
    (change,) = diff(POLICY, policy(fetch=("redirects: 5", "redirects: 6")))
    expected: tuple[Value, Value] = (5, 6)
    assert (change.old, change.new) == expected
    assert isinstance(change, Change)
