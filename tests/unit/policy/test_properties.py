"""Properties over any bytes, any valid policy and any pair of policies.

Valid policies are made by editing the shipped one leaf by leaf, guided by the schema
itself; an edit that makes it invalid is dropped.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.policies import GATES, OPPOSITE, altered, plain_sections, policy, policy_files
from threegate.base.errors import PolicyInvalid
from threegate.policy.bundle import Compiled, diff, parse_bundle
from threegate.policy.compiler import compile_policy
from threegate.policy.decide import Execution, may_connect, may_execute, may_fetch
from threegate.policy.decision import Allow, Ask, Decision, Deny
from threegate.policy.leaves import Leaf, Number, Word, WordChoice
from threegate.policy.schema import Examples, RuleGroup, RuleRecord, RuleTable, Sentences, ValueKind
from threegate.policy.sections import SECTION_NAMES, SECTIONS
from threegate.policy.sections.gates import PROFILE

FILES = policy_files()

# Any bytes


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """Return a shipped file with a few slices replaced, doubled or cut out."""
    name = draw(st.sampled_from(sorted(FILES)))
    data = FILES[name]
    pieces = st.one_of(
        st.binary(max_size=8),
        st.sampled_from(
            [
                *(
                    b"&a",
                    b"*a",
                    b"!!x",
                    b"---\n",
                    b"\t",
                    b"[",
                    b"{",
                    b"? ",
                    b"|\n",
                    b'"',
                    b"'",
                    b"#",
                ),
                *(b"```\n", b"```yaml threegate-policy\n", b"<!--", b"\n", b": ", b"- "),
                b"\xe2\x80\xae",
            ]
        ),
    )
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        data = data[:start] + draw(pieces) + data[end:]
    return name, data


@given(st.one_of(damaged(), st.tuples(st.sampled_from(sorted(FILES)), st.binary(max_size=300))))
@settings(max_examples=200)
# claim TG-C-30
def test_any_bytes_in_a_policy_file_compile_or_are_refused(file: tuple[str, bytes]) -> None:
    name, data = file
    try:
        compiled = compile_policy({**FILES, name: data}, gates=GATES)
    except PolicyInvalid as exc:
        assert exc.message.startswith(f"policy/{name}") or name == "handoff.policy.md"
        assert exc.message.isprintable()
        assert exc.code.startswith(("TG-POL-0", "TG-VER-001"))
    else:
        assert compiled.sections.keys() == set(SECTION_NAMES)


YAML_TEXT = st.lists(
    st.sampled_from(
        [
            *("a", "b", ": ", ":", "- ", "\n", "  ", "[", "]", "{", "}", ",", '"', "'", "#", "&"),
            *("*", "!", "|", ">", "?", "%", "@", "`", "\\", "~", "<<", "---", "...", "\\u0041"),
            *("\\UFFFFFFFF", "é"),
        ]
    ),
    max_size=60,
).map("".join)


@given(st.one_of(YAML_TEXT, st.text(max_size=200)))
@settings(max_examples=300)
def test_any_block_compiles_or_is_refused(text: str) -> None:
    page = f"```yaml threegate-policy\n{text}\n```\n".encode("utf-8", "surrogatepass")
    with pytest.raises(PolicyInvalid):  # no random text is a whole section
        compile_policy({**FILES, "fetch.policy.md": page}, gates=GATES)


BUNDLE_BYTES = policy().bundle().bundle_bytes()


@given(st.data())
@settings(max_examples=200)
def test_any_bytes_as_a_bundle_parse_or_are_refused(data: st.DataObject) -> None:
    good = BUNDLE_BYTES
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 20)))
    bad = good[:start] + data.draw(st.binary(max_size=10)) + good[end:]
    try:
        parsed = parse_bundle(bad)
    except PolicyInvalid as exc:
        assert exc.message.isprintable()
    else:
        assert parsed.bundle_bytes() == bad, "one spelling: what was accepted is what it spells"


# Valid policies

HOSTS = ("a.org", "b.a.org", "*.a.org", "c.b.a.org", "*.b.a.org", "api.crossref.org", "doi.org")
URLS = tuple(f"https://{host.replace('*', 'star')}/x" for host in (*HOSTS, "other.org"))


@dataclass(frozen=True)
class Spot:
    """A value in the sections, and what may stand there."""

    path: tuple[str, ...]
    kind: ValueKind


def spots(kind: ValueKind, value: Any, path: tuple[str, ...]) -> Iterator[Spot]:
    if isinstance(kind, RuleRecord):
        for field in kind.fields:
            if not isinstance(field.kind, Examples):
                yield from spots(field.kind, value[field.name], (*path, field.name))
        return
    yield Spot(path, kind)
    if isinstance(kind, RuleTable):
        for name, row in value.items():
            yield from spots(kind.row, row, (*path, name))


def all_spots(sections: Mapping[str, Any]) -> list[Spot]:
    found: list[Spot] = []
    for section in SECTIONS:
        found += spots(section.record, sections[section.name], (section.name,))
    kinds = {field.name: field.kind for field in PROFILE.fields}
    for name, profile in sections["gates"].items():
        for field in profile:
            kind = kinds[field]
            assert not isinstance(kind, Examples)
            found.append(Spot(("gates", name, field), kind))
    return found


@cache
def leaf_values(leaf: Leaf) -> st.SearchStrategy[Any]:
    if isinstance(leaf, Number):
        near = st.integers(leaf.low, min(leaf.high, leaf.low + 20))
        return st.one_of(near, st.integers(leaf.low, leaf.high))
    if isinstance(leaf, WordChoice):
        return st.sampled_from(leaf.values)
    assert isinstance(leaf, Word)
    texts = st.from_regex(leaf.pattern, fullmatch=True).filter(lambda text: len(text) <= leaf.most)
    accepted = st.sampled_from(HOSTS) if "*" in leaf.pattern and "host" in leaf.words else texts
    return st.one_of(st.none(), accepted) if leaf.optional else accepted


@st.composite
def edited_value(draw: st.DrawFn, spot: Spot, old: Any) -> Any:
    if isinstance(spot.kind, Leaf):
        return draw(leaf_values(spot.kind))
    if isinstance(spot.kind, RuleGroup):
        item = draw(leaf_values(spot.kind.item))
        return sorted(set(old) ^ {item})
    if isinstance(spot.kind, Sentences):
        return draw(st.lists(leaf_values(spot.kind.item), min_size=1, max_size=3))
    if isinstance(spot.kind, RuleTable):
        name = draw(st.one_of(leaf_values(spot.kind.key), st.sampled_from(sorted(old) or ["x"])))
        if name in old:
            return {key: row for key, row in old.items() if key != name}
        return {**old, name: next(iter(old.values()))} if old else old
    return old


def _era(sections: dict[str, Any]) -> None:
    lanes, profiles = sections["tool-exec"]["lanes"], sections["tool-exec"]["interpreter_ring"]
    lanes["era"] |= {"enabled": "yes", "network": "gateway", "profiles": ["net", "python"]}
    profiles["net"] = {**profiles["python"], "executor_network": "gateway"}
    hosts = sections["fetch"]["hosts"]
    sections["fetch"]["hosts"] = {name: hosts[name] for name in ("api.crossref.org", "doi.org")}
    sections["fetch"]["hosts"]["*.a.org"] = hosts["doi.org"]


BASE = altered(policy(), _era)


@st.composite
def edit(draw: st.DrawFn, before: Compiled) -> Compiled:
    """Return `before` with one value changed, or `before` itself if the edit is not valid."""
    sections = plain_sections(before)
    # Half of the edits go where decisions are made; the rest anywhere.
    everywhere = all_spots(sections)
    decisive = [spot for spot in everywhere if spot.path[0] in {"fetch", "tool-exec"}]
    spot = draw(st.sampled_from(decisive if draw(st.booleans()) else everywhere))

    def change(values: dict[str, Any]) -> None:
        *above, last = spot.path
        for key in above:
            values = values[key]
        values[last] = draw(edited_value(spot, values[last]))

    try:
        return altered(before, change)
    except PolicyInvalid:
        return before


@st.composite
def policies(draw: st.DrawFn, start: Compiled = BASE) -> Compiled:
    current = start
    for _ in range(draw(st.integers(0, 6))):
        current = draw(edit(current))
    return current


@given(policies(), st.integers(1, 5))
@settings(max_examples=60)
def test_bundle_round_trip_for_any_valid_policy(compiled: Compiled, generation: int) -> None:
    bundle = compiled.bundle(generation=generation, previous=None if generation == 1 else "ab" * 32)
    again = parse_bundle(bundle.bundle_bytes())
    assert again == bundle
    assert again.bundle_bytes() == bundle.bundle_bytes()


@given(policies(), policies())
@settings(max_examples=100)
# claim TG-C-07
def test_widening_is_antisymmetric_and_no_difference_goes_unnamed(
    one: Compiled, other: Compiled
) -> None:
    forth, back = diff(one, other), diff(other, one)
    there = {change.path: change.effect for change in forth}
    again = {change.path: change.effect for change in back}
    assert there.keys() == again.keys()
    for path, effect in there.items():
        # An external function is pinned: any change of it is an escalation, in both directions.
        pinned = path.startswith("tool-exec/functions/") and path.count("/") > 2
        assert again[path] == OPPOSITE[effect] or (
            pinned and "narrows" not in {effect, again[path]}
        )
    assert len({change.path for change in forth}) == len(forth)
    same = all(one.section_digest(name) == other.section_digest(name) for name in SECTION_NAMES)
    assert (forth == []) == same
    assert diff(one, one) == []


RANK: Mapping[type, int] = {Deny: 0, Ask: 1, Allow: 2}


def rank(decision: Decision) -> int:
    return RANK[type(decision)]


@st.composite
def executions(draw: st.DrawFn) -> Execution:
    keys = st.sampled_from(["wall_ms", "memory_bytes", "recursion", "nesting", "cpus", "other"])
    amounts = st.one_of(st.integers(0, 25), st.integers(0, 2**41))
    return Execution(
        backend=draw(st.sampled_from(["monty", "era"])),
        limits=draw(st.dictionaries(keys, amounts, max_size=2)),
        profile=draw(st.sampled_from(["pure", "python", "net", "tools"])),
        integrity=draw(st.sampled_from(["operator", "external"])),
        confidentiality=draw(st.sampled_from(["public", "internal", "confidential"])),
        functions=draw(st.frozensets(st.sampled_from(["sha256_hex", "json_loads"]), max_size=1)),
        imports=draw(st.frozensets(st.sampled_from(["json", "numpy", "ctypes"]), max_size=1)),
        binaries=draw(st.frozensets(st.sampled_from(["/usr/bin/wc"]), max_size=1)),
        network=draw(st.sampled_from(["none", "gateway"])),
    )


@given(policies(), st.data())
@settings(max_examples=80)
# claim TG-C-07
def test_narrower_policy_never_allows_what_the_wider_denies(
    wide: Compiled, data: st.DataObject
) -> None:
    narrow = wide
    for _ in range(data.draw(st.integers(1, 8))):
        step = data.draw(edit(narrow))
        if all(change.effect == "narrows" for change in diff(narrow, step)):
            narrow = step
    assert all(change.effect == "narrows" for change in diff(wide, narrow)), "narrowing adds up"
    for url in URLS:
        for integrity in ("operator", "external"):
            less = may_fetch(narrow, url, integrity=integrity)
            assert rank(less) <= rank(may_fetch(wide, url, integrity=integrity)), url
        host = url.split("/")[2]
        assert rank(may_connect(narrow, host)) <= rank(may_connect(wide, host))
    for request in data.draw(st.lists(executions(), min_size=5, max_size=20)):
        assert rank(may_execute(narrow, request)) <= rank(may_execute(wide, request)), request


def test_control_narrowing_is_visible_in_decisions() -> None:
    # Without this the property above could hold because nothing is ever allowed.
    request = Execution("era", {"wall_ms": 1}, "net", "external", "public", network="gateway")
    assert (rank(may_execute(BASE, request)), rank(may_fetch(BASE, "https://b.a.org/"))) == (1, 1)
    narrow = altered(BASE, lambda s: s["tool-exec"]["lanes"]["era"].update(network="off"))
    narrow = altered(narrow, lambda s: s["fetch"]["hosts"].pop("*.a.org") and None)
    assert {change.effect for change in diff(BASE, narrow)} == {"narrows"}
    after = (rank(may_execute(narrow, request)), rank(may_fetch(narrow, "https://b.a.org/")))
    assert after == (0, 0)
