"""The bundle: one spelling, nothing in it that a policy file could not hold."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.support.policies import GATES, policy, policy_files
from threegate.base import canonical
from threegate.base.errors import PolicyInvalid, VersionUnsupported
from threegate.base.limits import MAX_BUNDLE_BYTES
from threegate.policy.bundle import Bundle, parse_bundle
from threegate.policy.compiler import compile_policy
from threegate.policy.sections import SECTION_NAMES

BUNDLE = policy().bundle()


def edited(change: Callable[[dict[str, Any]], None]) -> bytes:
    value = canonical.decode(BUNDLE.bundle_bytes())
    change(value)
    return canonical.encode(value)


def refused(data: bytes) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        parse_bundle(data)
    assert caught.value.exit_code == 78
    return caught.value


def test_what_is_looked_up_is_found_again_and_foreign_names_are_not_kept() -> None:
    bundle = parse_bundle(BUNDLE.bundle_bytes())
    path = ("tool-exec", "lanes", "monty", "max", "input_bytes")
    assert bundle.integer(*path) == bundle.integer(*path) == BUNDLE.integer(*path)
    kept = len(bundle._looked_up)
    for number in range(50):
        assert not bundle.has("tool-exec", "functions", f"foreign{number}")
        with pytest.raises(KeyError):
            bundle.value("tool-exec", "functions", f"foreign{number}")
    assert len(bundle._looked_up) == kept + 1, "the table they were looked for in"


def test_round_trip_gives_the_same_bytes_and_the_same_policy() -> None:
    data = BUNDLE.bundle_bytes()
    again = parse_bundle(data)
    assert again == BUNDLE
    assert again.bundle_bytes() == data
    assert again.digest == BUNDLE.digest
    assert {name: again.section_digest(name) for name in SECTION_NAMES} == {
        name: BUNDLE.section_digest(name) for name in SECTION_NAMES
    }


def test_prose_comments_and_order_change_no_section_digest() -> None:
    changed = policy(
        fetch=("# What FETCH may retrieve", "# What FETCH may retrieve\n\nMoved down.\n"),
        core=("# What the host selects", "# Other words, same rules"),
        tool_exec=(
            "engines: [qemu-emulation, qemu-kvm]",
            "engines:\n      - qemu-emulation\n      - qemu-kvm",
        ),
        handoff=("held_expiry_seconds: 7d", "held_expiry_seconds: 168h"),
    )
    for name in SECTION_NAMES:
        assert changed.section_digest(name) == BUNDLE.section_digest(name), name
    assert changed.bundle().digest != BUNDLE.digest, "the lines moved, and the bundle says so"


def test_examples_are_not_part_of_the_rules() -> None:
    changed = policy(
        fetch=('"https://api.crossref.org:443/works"]', '"https://api.crossref.org/"]')
    )
    assert changed.section_digest("fetch") == BUNDLE.section_digest("fetch")


def test_order_of_hosts_in_the_file_means_nothing() -> None:
    text = policy_files()["fetch.policy.md"].decode()
    start, end = text.index("  api.unpaywall.org:"), text.index("# Not for packets")
    entry = text[start:end]
    moved = text[:start] + text[end:]
    moved = moved.replace("hosts:\n  # DOI", f"hosts:\n{entry}  # DOI", 1)
    changed = compile_policy({**policy_files(), "fetch.policy.md": moved.encode()}, gates=GATES)
    assert changed.section_digest("fetch") == BUNDLE.section_digest("fetch")


@pytest.mark.parametrize("name", SECTION_NAMES)
def test_each_rule_change_changes_its_own_section_digest_only(name: str) -> None:
    changes = {
        "core": {"core": ("claims: 100", "claims: 101")},
        "fetch": {"fetch": ("redirects: 5", "redirects: 4")},
        "tool-exec": {"tool_exec": ("nesting: 8", "nesting: 7")},
        "handoff": {"handoff": ("max_uses: 100", "max_uses: 1")},
        "instruction-hierarchy": {"instruction": ("marker_bytes: 16", "marker_bytes: 17")},
        "signers": {"allowed": ("operator", "somebody")},
    }
    gates = {**GATES, "core": {**GATES["core"], "processes": 9}} if name == "gates" else GATES
    changed = compile_policy(policy_files(**changes.get(name, {})), gates=gates)
    differing = {
        section
        for section in SECTION_NAMES
        if changed.section_digest(section) != BUNDLE.section_digest(section)
    }
    assert differing == {name}


def test_generation_and_previous_go_together() -> None:
    later = policy().bundle(generation=2, previous=BUNDLE.digest)
    assert parse_bundle(later.bundle_bytes()).previous == BUNDLE.digest
    for generation, previous in [(0, None), (1, BUNDLE.digest), (2, None), (2, "x"), (-1, None)]:
        with pytest.raises(PolicyInvalid, match=r"generation|previous"):
            policy().bundle(generation=generation, previous=previous)


def _set(value: dict[str, Any], path: str, new: object) -> None:
    *above, last = path.split("/")
    for key in above:
        value = value[key]
    value[last] = new


EDITS: Mapping[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "generation true": (lambda v: _set(v, "generation", True), "generation"),
    "generation text": (lambda v: _set(v, "generation", "1"), "generation"),
    "generation huge": (lambda v: _set(v, "generation", 2**53), "generation"),
    "previous given": (lambda v: _set(v, "previous", "0" * 64), "names the one before"),
    "key added": (lambda v: _set(v, "extra", 1), "unexpected keys"),
    "key removed": (lambda v: v.pop("refs") and None, "unexpected keys"),
    "format other": (lambda v: _set(v, "format", "policy/1"), "format is not"),
    "format missing": (lambda v: v.pop("format") and None, "format is not"),
    "section added": (lambda v: _set(v, "sections/extra", {}), "unexpected sections"),
    "section removed": (lambda v: v["sections"].pop("signers") and None, "unexpected sections"),
    "section list": (lambda v: _set(v, "sections/fetch", []), "not an object"),
    "rule added": (lambda v: _set(v, "sections/fetch/any_host", "yes"), "unknown key"),
    "rule removed": (lambda v: v["sections"]["fetch"].pop("redirects") and None, "is missing"),
    "out of range": (lambda v: _set(v, "sections/fetch/redirects", 99), "outside 0 to 10"),
    "number as text": (lambda v: _set(v, "sections/fetch/redirects", "5"), "canonically"),
    "number with unit": (lambda v: _set(v, "sections/fetch/header_bytes", "64KiB"), "canonically"),
    "true for one": (
        lambda v: _set(v, "sections/tool-exec/lanes/monty/max/cpus", True),
        "expected a whole number",
    ),
    "text as number": (lambda v: _set(v, "sections/fetch/drafts", 1), "expected"),
    "null as text": (lambda v: _set(v, "sections/fetch/contact", "none"), "canonically"),
    "null for a number": (lambda v: _set(v, "sections/fetch/redirects", None), "expected"),
    "list unsorted": (lambda v: v["sections"]["fetch"]["may_read"].reverse(), "canonically"),
    "list doubled": (
        lambda v: v["sections"]["fetch"]["may_read"].append("approval"),
        "is written twice",
    ),
    "suffix wildcard": (
        lambda v: v["sections"]["fetch"]["hosts"].update({"*.co.uk": {}}),
        "public suffix",
    ),
    "conflict inside": (
        lambda v: _set(v, "sections/tool-exec/lanes/monty/default/wall_ms", 31_000),
        "above its max",
    ),
    "examples": (
        lambda v: _set(v, "sections/fetch/hosts/doi.org/match", ["https://doi.org/"]),
        "canonically",
    ),
    "gates gone": (lambda v: _set(v, "sections/gates", {}), "1 to 64 profiles"),
    "gates list": (lambda v: _set(v, "sections/gates", []), "1 to 64 profiles"),
    "gate of no fields": (lambda v: _set(v, "sections/gates/core", {}), "1 to 64 fields"),
    "gate with a path as name": (
        lambda v: v["sections"]["gates"].update({"../core": {"processes": 1}}),
        "not the name of a gate",
    ),
    "gate number as text": (
        lambda v: _set(v, "sections/gates/core/processes", "8"),
        "canonically",
    ),
    "gate true for one": (
        lambda v: _set(v, "sections/gates/core/processes", True),
        "expected a whole number",
    ),
    "gate switch as true": (
        lambda v: _set(v, "sections/gates/core/host_network", True),
        "expected `no`, `yes`",
    ),
    "gate list doubled": (
        lambda v: v["sections"]["gates"]["proxy"]["families"].append("inet"),
        "is written twice",
    ),
    "gate list unsorted": (
        lambda v: v["sections"]["gates"]["proxy"]["families"].reverse(),
        "canonically",
    ),
    "gate port as number": (
        lambda v: _set(v, "sections/gates/proxy/connect_ports", [443, 53]),
        "canonically",
    ),
    "gate unknown field of an object": (
        lambda v: _set(v, "sections/gates/core/extra", {"a": 1}),
        "not a field of a profile",
    ),
    "gate unknown field of unsorted words": (
        lambda v: _set(v, "sections/gates/core/extra", ["b", "a"]),
        "not a field of a profile",
    ),
    "gate unknown field with a control character": (
        lambda v: _set(v, "sections/gates/core/extra", "a\n"),
        "not a field of a profile",
    ),
    "gate ref": (lambda v: _set(v, "refs/gates/core", 1), "do not name its rules"),
    "ref removed": (lambda v: v["refs"]["fetch"].pop("hosts") and None, "do not name its rules"),
    "ref added": (lambda v: _set(v, "refs/fetch/x", 1), "do not name its rules"),
    "ref of nothing": (lambda v: v["refs"].pop("core") and None, "unexpected refs"),
    "ref zero": (lambda v: _set(v, "refs/fetch/hosts", 0), "not line numbers"),
    "ref true": (lambda v: _set(v, "refs/fetch/hosts", True), "not line numbers"),
    "ref text": (lambda v: _set(v, "refs/fetch/hosts", "1"), "not line numbers"),
}


def test_control_untouched_bundle_is_accepted() -> None:
    assert isinstance(parse_bundle(edited(lambda _: None)), Bundle)


@pytest.mark.parametrize("name", EDITS)
# claim TG-C-30
def test_edited_bundle_is_refused(name: str) -> None:
    change, message = EDITS[name]
    error = refused(edited(change))
    assert message in error.message
    assert error.code in {"TG-POL-016", "TG-POL-013"}, error.code


def test_bundle_of_a_newer_program_is_not_guessed_at() -> None:
    with pytest.raises(VersionUnsupported):
        parse_bundle(edited(lambda v: _set(v, "format", "bundle/2")))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"format":"bundle/1","format":"bundle/1"}',
        b"\xff",
        b"1" * 5_000,
        BUNDLE.bundle_bytes() + b"\n",
        b" " + BUNDLE.bundle_bytes(),
        b'{"format":1.5}',
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    assert refused(data).code == "TG-POL-016"


def test_size_is_capped_before_decoding() -> None:
    assert f"limit {MAX_BUNDLE_BYTES}" in refused(b"\xff" * (MAX_BUNDLE_BYTES + 1)).message


def test_compiled_rules_cannot_be_changed() -> None:
    hosts = BUNDLE.value("fetch", "hosts")
    assert isinstance(hosts, Mapping)
    with pytest.raises(TypeError):
        hosts["evil.org"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        BUNDLE.sections["fetch"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        BUNDLE.refs["fetch"]["hosts"] = 1  # type: ignore[index]


def test_reading_a_bundle_loads_no_yaml_parser() -> None:
    script = (
        "import sys\n"
        "from threegate.policy.bundle import parse_bundle\n"
        "from threegate.policy import decide\n"
        "parse_bundle(sys.stdin.buffer.read())\n"
        "before = 'yaml' in sys.modules\n"
        "import threegate.policy.compiler\n"
        "print(before, 'yaml' in sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], input=BUNDLE.bundle_bytes(), capture_output=True, check=True
    )
    assert run.stdout == b"False True\n", "the second word is the control"
