"""The narrowest profile out of a denied run, and never one that a name forbids."""

import re

import pytest

from tests.support.policies import GATES, policy, policy_files
from threegate.base.errors import UsageError
from threegate.policy.bundle import Compiled, diff
from threegate.policy.compiler import compile_policy
from threegate.policy.ring.compiler import compile_ring
from threegate.policy.ring.executor_profile import ExecutorProfile
from threegate.policy.ring.proposals import (
    Learned,
    LearnedUse,
    drafted,
    learn,
    profile_text,
    refuse_useless,
)

POLICY = policy()
RING = compile_ring(POLICY, "heavy-python", "python")
PURE = compile_ring(POLICY, "monty", "pure")
TOOLS = compile_ring(POLICY, "heavy-shell", "tools")
MONTY = POLICY.words("tool-exec", "lanes", "monty", "imports")
NAME = "tool-exec.policy.md"


def of(tried: LearnedUse, ring: ExecutorProfile = RING, name: str = "learned") -> Learned:
    known = MONTY if ring.kind == "monty" else None
    lane = "monty" if ring.kind == "monty" else "era"
    return learn(ring, tried, lane=lane, name=name, known=known)


def applied(text: str, learned: Learned) -> Compiled:
    """Return the policy whose file for TOOL-EXEC is `text` with the draft in it."""
    files = {**policy_files(), NAME: text.encode()}
    draft = drafted(text, compile_policy(files, gates=GATES), learned)
    found = compile_policy({**files, NAME: draft.encode()}, gates=GATES)
    refuse_useless(found, learned)
    return found


def shipped() -> str:
    return policy_files()[NAME].decode()


# claim TG-C-250
def test_what_is_learned_is_what_was_used_and_nothing_that_is_denied_by_name() -> None:
    learned = of(LearnedUse(("json", "sqlite3", "requests"), ("sqlite3",)))
    assert learned.imports == ("json", "sqlite3")
    assert learned.still_denied == ("requests",)
    assert "numpy" in RING.imports, "control: the old profile was wider"
    assert "numpy" not in learned.imports


# claim TG-C-250
def test_the_draft_is_a_policy_and_adds_one_profile() -> None:
    found = applied(shipped(), of(LearnedUse(("json",), ("sqlite3",))))
    ring = compile_ring(found, "heavy-python", "learned")
    assert (ring.imports, ring.denied_imports) == (("json", "sqlite3"), RING.denied_imports)
    paths = {change.path for change in diff(POLICY, found)}
    assert {path.split("/")[-1] for path in paths} <= {"learned"}, paths


@pytest.mark.parametrize(
    "written",
    [
        *("profiles: [python, tools]", "profiles:\n      [python, tools]"),
        *("profiles: [\n      python,\n      tools]", "profiles:\n      - python\n      - tools"),
        *("profiles:\n    - tools\n    - python", "profiles: [\"python\", 'tools']"),
        "profiles: [ tools , python ] # python comes last",
    ],
)
# claim TG-C-250
def test_the_lane_offers_what_was_learned_however_its_list_is_written(written: str) -> None:
    text = shipped().replace("profiles: [python, tools]", written)
    found = applied(text, of(LearnedUse(("json",), ("sqlite3",))))
    offered = found.words("tool-exec", "lanes", "era", "profiles")
    assert set(offered) == {"learned", "python", "tools"}
    assert found.words("tool-exec", "lanes", "monty", "profiles") == POLICY.words(
        "tool-exec", "lanes", "monty", "profiles"
    )


def test_a_file_that_is_indented_otherwise_gets_its_draft_too() -> None:
    before, rest = shipped().split("\ninterpreter_ring:\n")
    block, after = rest.split("\n# What programs may not be told")
    deeper = re.sub(r"(?m)^(?=.)", "  ", block)
    text = f"{before}\ninterpreter_ring:\n{deeper}\n# What programs may not be told{after}"
    found = applied(text, of(LearnedUse((), ("sqlite3",))))
    assert compile_ring(found, "heavy-python", "learned").imports == ("sqlite3",)


# claim TG-C-250
def test_monty_learns_what_its_lane_has_and_says_what_it_has_not() -> None:
    narrow = policy(tool_exec=("allowed_imports: [base64, binascii, ", "allowed_imports: ["))
    ring = compile_ring(narrow, "monty", "pure")
    learned = of(LearnedUse(("os", "base64"), ("os", "base64")), ring)
    assert (learned.imports, learned.beyond) == (("base64",), ("the lane cannot import os",))
    assert compile_ring(applied(shipped(), learned), "monty", "learned").imports == ("base64",)
    with pytest.raises(UsageError) as caught:
        of(LearnedUse(("os",), ("os",)), PURE)
    assert caught.value.message == "there is nothing to learn: the lane cannot import os"


# claim TG-C-250
def test_programs_are_learned_and_none_that_no_profile_could_allow() -> None:
    refused = ("/usr/bin/sed", "/usr/bin/python3.11", "/tmp/x", "sh", "/usr/bin/../x")
    learned = of(LearnedUse(programs=refused), TOOLS)
    assert set(learned.binaries) == {*TOOLS.binaries, "/usr/bin/sed"}
    assert learned.beyond == (
        *(
            '"/tmp/x" is not a program of the image',
            '"/usr/bin/../x" is not a program of the image',
        ),
        '"/usr/bin/python3.11" would import what it likes',
        '"sh" is not a program of the image',
    )
    assert (
        "/usr/bin/sed"
        in compile_ring(applied(shipped(), learned), "heavy-shell", "learned").binaries
    )
    with pytest.raises(UsageError, match="nothing to learn: no import and no program was refused"):
        of(LearnedUse(("json",)))
    # Beside its denied patterns the profile may hold no shell: that is said, and no draft made.
    with pytest.raises(UsageError, match="dash runs commands that no denied pattern sees"):
        refuse_useless(_unread(of(LearnedUse(programs=("/usr/bin/dash",)), TOOLS)), _SHELL)


_SHELL = of(LearnedUse(programs=("/usr/bin/dash",)), TOOLS)


def _unread(learned: Learned) -> Compiled:
    from tests.support.policies import altered

    def change(sections: dict[str, dict[str, dict[str, dict[str, object]]]]) -> None:
        tool = sections["tool-exec"]
        tool["interpreter_ring"]["learned"] = {
            **tool["interpreter_ring"]["tools"],
            "allowed_binaries": list(learned.binaries),
        }
        tool["lanes"]["era"]["profiles"] = ["learned", "python", "tools"]

    return altered(POLICY, change)


def test_a_name_that_is_taken_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is a profile tools already"):
        applied(shipped(), of(LearnedUse((), ("sqlite3",)), name="tools"))


def test_a_pattern_is_written_so_that_it_reads_back() -> None:
    patterns = ('echo "a"', "a\\b", "it's", 'it\'s "b"', "#x: [y]", "a  b")
    given = policy(
        tool_exec=(
            'denied_patterns: ["curl", "rm -rf", "sort --compress-program", "wget"]',
            r"""denied_patterns: ['echo "a"', 'a\b', "it's", 'it''s "b"', "#x: [y]", "a  b"]""",
        )
    )
    ring = compile_ring(given, "heavy-shell", "tools")
    assert set(ring.patterns) == set(patterns), "control"
    learned = of(LearnedUse(programs=("/usr/bin/sed",)), ring)
    again = compile_ring(applied(shipped(), learned), "heavy-shell", "learned")
    assert set(again.patterns) == set(patterns)


def test_a_long_profile_is_wrapped_and_reads_back() -> None:
    many = tuple(f"module_{number}" for number in range(60))
    learned = of(LearnedUse((), many), name="wide")
    assert max(map(len, learned.text.split("\n"))) <= 100
    found = applied(shipped(), learned)
    assert set(compile_ring(found, "heavy-python", "wide").imports) == set(many)
    assert profile_text("wide", {"allowed_imports": learned.imports, **_REST}) == learned.text


_REST: dict[str, str | tuple[str, ...]] = {
    "denied_imports": RING.denied_imports,
    "executor_network": "off",
    "allowed_binaries": (),
    "denied_patterns": (),
}
