"""Each section's own rules: what must agree, what an example must show, what has no default."""

import re

import pytest

from tests.support.policies import GATES, policy, policy_files
from threegate.base.errors import PolicyInvalid
from threegate.policy.compiler import compile_policy

HOST = "  api.openalex.org:\n"
RULE = """    rate_per_minute: 1
    concurrency: 1
    bytes_per_day: 1MiB
    response_bytes: 1MiB
    content_types: [text/html]
    credential: none
"""


def refused(**changes: tuple[str, str]) -> PolicyInvalid:
    files = policy_files(**changes)
    with pytest.raises(PolicyInvalid) as caught:
        compile_policy(files, gates=GATES)
    return caught.value


def at(error: PolicyInvalid) -> tuple[str, str]:
    """Return code and the text of the line the message names."""
    found = re.match(r"policy/([a-z._-]+):([0-9]+): ", error.message)
    assert found is not None, error.message
    return error.code, found[1]


def test_control_shipped_policy_is_valid() -> None:
    assert policy().text("tool-exec", "rule_of_two") == "refuse"


VALUES = {
    "core": [
        ("kind: embedded", "kind: openai"),
        ("context_tokens: 8192", "context_tokens: 4KiB"),
        ("sha256: cc324af0", "sha256: CC324AF0"),
        ("may_draft: [analysis, fetch-request, tool-request]", "may_draft: [approval]"),
        ("may_read: [analysis, research-packet, tool-result]", "may_read: [policy]"),
        ("  data-wrangler:", "  Data Wrangler:"),
        ("endpoint: none", "endpoint: 0.0.0.0:80"),
        ("endpoint: none", "endpoint: 192.168.0.1:80"),
        ("endpoint: none", "endpoint: 127.0.0.1:65536"),
        ("remote_credential: none", "remote_credential: header:Host"),
        ("remote_credential: none", "remote_credential: header:cookie"),
    ],
    "fetch": [
        ("drafts: ask", "drafts: allow"),
        ("operator_requests: allow", "operator_requests: yes"),
        ("contact: none", "contact: somebody"),
        ("contact: none", 'contact: "a@b.org, x"'),
        ("proxy: own", "proxy: none"),
        ("proxy: own", "proxy: connect:proxy.sock"),
        ("proxy: own", "proxy: connect:/run/../proxy.sock"),
        ("proxy: own", "proxy: gateway:/run//proxy.sock"),
        ("proxy: own", "proxy: https://proxy.example.org"),
        ("proxy: own", f"proxy: connect:/{'a' * 108}"),
        ("trust_anchors: [system]", "trust_anchors: []"),
        ("trust_anchors: [system]", "trust_anchors: [/etc/ssl/cert.pem]"),
        ("redirects: 5", "redirects: 11"),
        ("deadline_seconds: 90s", "deadline_seconds: 2h"),
        ("rate_per_minute: 240", "rate_per_minute: 0"),
        ("concurrency: 1", "concurrency: 17"),
        ("content_types: [application/json]", 'content_types: ["*/*"]'),
        ("content_types: [application/json]", 'content_types: ["application/json; charset=utf-8"]'),
        ("credential: query:api_key", "credential: hunter2"),
        ("credential: query:api_key", "credential: 'query:a b'"),
        ("hosts: [huggingface.co,", "hosts: ['*.github.io',"),
        (HOST, '  "*.co.uk":\n'),
        (HOST, "  127.0.0.1:\n"),
        (HOST, "  api.openalex.org.:\n"),
        (HOST, "  API.openalex.org:\n"),
    ],
    "tool-exec": [
        ("rule_of_two: refuse", "rule_of_two: allow"),
        ("enabled: yes", "enabled: true"),
        ("enabled: yes", "enabled: on"),
        ("network: off", "network: host"),
        ("executor_network: off", "executor_network: no"),
        ("executor_network: off", "executor_network: tappass-only"),
        ("engines: [qemu-emulation, qemu-kvm]", "engines: [docker]"),
        ("wall_ms: 30s", "wall_ms: 1h"),
        ("recursion: 1000", "recursion: 1001"),
        ("nesting: 8", "nesting: 13"),
        ("disk_bytes: 0", "disk_bytes: 1"),
        ("processes: 1", "processes: 2"),
        ("imports: [base64,", "imports: [os, base64,"),
        ("  sha256_hex:", "  eval:"),
        ("allowed_binaries: []", "allowed_binaries: [python3]"),
        ("allowed_binaries: []", "allowed_binaries: [/usr/../bin/sh]"),
        ("allowed_binaries: []", "allowed_binaries: [/usr//bin/sh]"),
        ("denied_imports: []", "denied_imports: none"),
        ("denied_imports: []", "denied_imports: [urllib.request]"),
        ("running: stop", "running: ignore"),
    ],
    "handoff": [
        ("files: 1000000, bytes: 64GiB", "files: unlimited, bytes: 64GiB"),
        ("max_uses: 100", "max_uses: 0"),
        ("max_uses: 100", "max_uses: 1001"),
        ("held_expiry_seconds: 7d", "held_expiry_seconds: 1w"),
        ("clock_tolerance_seconds: 5m", "clock_tolerance_seconds: -1"),
    ],
}


@pytest.mark.parametrize(
    ("section", "old", "new"),
    [(section, old, new) for section, cases in VALUES.items() for old, new in cases],
)
def test_value_outside_its_type_is_refused_at_its_line(section: str, old: str, new: str) -> None:
    error = refused(**{section: (old, new)})
    assert at(error) == ("TG-POL-012", f"{section}.policy.md")


CONFLICTS = [
    ("core", "kind: embedded", "kind: none", "model kind none has no sha256"),
    ("core", "sha256: cc324af070", "sha256: none\n  # cc324af070", "embedded needs sha256"),
    ("core", "kind: embedded", "kind: bridge", "bridge has no sha256"),
    ("core", "endpoint: none", "endpoint: 127.0.0.1:80", "embedded has no endpoint"),
    ("core", "remote_host: none", "remote_host: api.example.org", "embedded has no remote_host"),
    (
        "core",
        "may_draft: [analysis, fetch-request, tool-request]\n\nmodel",
        "may_draft: [analysis, tool-request]\n\nmodel",
        "may draft fetch-request, CORE may not",
    ),
    ("fetch", HOST, f'  "*.crossref.org":\n{RULE}{HOST}', "already covers api.crossref.org"),
    ("tool-exec", "profiles: [pure]", "profiles: [pure, ghost]", "no profile ghost exists"),
    ("tool-exec", "profiles: [pure]", "profiles: [pure, tools]", "monty, which starts no programs"),
    ("tool-exec", "executor_network: off", "executor_network: gateway", "which has no network"),
    ("tool-exec", "default_profile: pure", "default_profile: python", "not one of the profiles"),
    ("tool-exec", "wall_ms: 2s", "wall_ms: 31s", "wall_ms above its max"),
    ("tool-exec", "imports: [base64, binascii", "imports: [binascii", "may not import base64"),
    ("tool-exec", "allowed_imports: [base64,", "allowed_imports: [os, base64,", "not import os"),
    ("handoff", "lifetime_seconds: 1h", "lifetime_seconds: 8d", "above max_lifetime_seconds"),
]


@pytest.mark.parametrize(("section", "old", "new", "message"), CONFLICTS)
def test_rules_that_contradict_each_other_are_refused(
    section: str, old: str, new: str, message: str
) -> None:
    error = refused(**{section: (old, new)})
    assert at(error) == ("TG-POL-013", f"{section}.policy.md")
    assert message in error.message


@pytest.mark.parametrize(
    "line",
    [
        "    allowed_imports: []\n",
        "    denied_imports: []\n",
        "    executor_network: off\n",
        "    allowed_binaries: []\n",
        "    denied_patterns: []\n",
    ],
)
def test_absent_field_of_a_ring_profile_is_an_error(line: str) -> None:
    error = refused(tool_exec=(line, ""))
    assert at(error) == ("TG-POL-011", "tool-exec.policy.md")
    assert f"{line.strip().partition(':')[0]} is missing" in error.message


@pytest.mark.parametrize(
    "line",
    [
        "    accepted: {files: 1000000, bytes: 16GiB}\n",
        "    held: {files: 10000, bytes: 1GiB}\n",
        "    spent: {files: 1000000, bytes: 4GiB}\n",
        "  quarantine: {files: 100000, bytes: 8GiB}\n",
        "  blobs: {files: 1000000, bytes: 64GiB}\n",
    ],
)
def test_state_without_a_quota_is_an_error(line: str) -> None:
    error = refused(handoff=(line, ""))
    # A kind with one state is left without a value, the others without a key.
    assert error.code in {"TG-POL-011", "TG-POL-012"}, error.message
    control = refused(handoff=(line, line + line))
    assert control.code == "TG-POL-008", "control: the line is a rule, and a second one is refused"


def test_duplicate_item_in_a_list_is_refused() -> None:
    error = refused(fetch=("may_read: [approval,", "may_read: [approval, approval,"))
    assert at(error) == ("TG-POL-008", "fetch.policy.md")


def test_duplicate_host_is_refused() -> None:
    error = refused(fetch=(HOST, f"  api.crossref.org:\n{RULE}{HOST}"))
    assert at(error) == ("TG-POL-008", "fetch.policy.md")


def test_unknown_key_names_the_near_one() -> None:
    error = refused(fetch=("redirects: 5", "redirect: 5"))
    assert error.code == "TG-POL-010"
    assert "did you mean redirects" in error.message


def test_failing_match_example_is_refused_at_its_line() -> None:
    wrong = ('match: ["https://api.crossref.org/', 'match: ["https://www.crossref.org/')
    error = refused(fetch=wrong)
    assert at(error) == ("TG-POL-014", "fetch.policy.md")
    assert "does not cover its match example" in error.message


def test_failing_not_match_example_is_refused() -> None:
    wrong = ('not_match: ["https://www.crossref.org/"', 'not_match: ["https://api.crossref.org/"')
    error = refused(fetch=wrong)
    assert at(error) == ("TG-POL-014", "fetch.policy.md")


def test_failing_import_examples_are_refused() -> None:
    assert refused(tool_exec=("match: [json,", "match: [os,")).code == "TG-POL-014"
    assert refused(tool_exec=("not_match: [os,", "not_match: [json,")).code == "TG-POL-014"
    denied = ("denied_imports: [ctypes,", "denied_imports: [numpy, ctypes,")
    assert refused(tool_exec=denied).code == "TG-POL-014", "denied wins over allowed"


def test_examples_must_be_plain_values() -> None:
    error = refused(tool_exec=("match: [json,", "match: [[json],"))
    assert at(error) == ("TG-POL-012", "tool-exec.policy.md")
    error = refused(tool_exec=("match: [json, collections, math]", "match: json"))
    assert at(error) == ("TG-POL-012", "tool-exec.policy.md")


def test_wildcard_rule_with_examples_is_accepted() -> None:
    examples = '    match: ["https://www.example.org/"]\n    not_match: ["https://example.org/"]\n'
    compiled = policy(fetch=(HOST, f'  "*.example.org":\n{RULE}{examples}{HOST}'))
    assert compiled.integer("fetch", "hosts", "*.example.org", "rate_per_minute") == 1


def test_models_other_than_the_embedded_one_can_be_named() -> None:
    bridge = "kind: bridge\n  name: llama3\n  sha256: none\n  endpoint: 127.0.0.1:11434\n"
    text = policy_files()["core.policy.md"].decode()
    start, end = text.index("  kind: embedded"), text.index("  remote_host: none")
    compiled = policy(core=(text[start:end], f"  {bridge}"))
    assert compiled.text("core", "model", "endpoint") == "127.0.0.1:11434"
