"""The narrowest profile out of a denied run, and never one that a name forbids."""

from tests.support.policies import GATES, policy, policy_files
from threegate.policy.compiler import compile_policy
from threegate.policy.diff import diff
from threegate.policy.ring.compiling import compile_ring
from threegate.policy.ring.learning import drafted, learn

POLICY = policy()
RING = compile_ring(POLICY, "heavy-python", "python")


# claim TG-C-250
def test_what_is_learned_is_what_was_used_and_nothing_that_is_denied_by_name() -> None:
    learned = learn(
        RING, lane="era", name="learned", used=("json", "sqlite3", "requests"), refused=("sqlite3",)
    )
    assert learned.imports == ("json", "sqlite3")
    assert learned.still_denied == ("requests",)
    assert "numpy" in RING.imports, "control: the old profile was wider"
    assert "numpy" not in learned.imports


# claim TG-C-250
def test_the_draft_is_a_policy_and_adds_one_profile() -> None:
    learned = learn(RING, lane="era", name="learned", used=("json",), refused=("sqlite3",))
    files = policy_files()
    name = "tool-exec.policy.md"
    text = drafted(files[name].decode(), POLICY, learned)
    found = compile_policy({**files, name: text.encode()}, gates=GATES)
    ring = compile_ring(found, "heavy-python", "learned")
    assert (ring.imports, ring.denied_imports) == (("json", "sqlite3"), RING.denied_imports)
    paths = {change.path for change in diff(POLICY, found)}
    assert {path.split("/")[-1] for path in paths} <= {"learned"}, paths


def test_a_long_profile_is_wrapped_and_reads_back() -> None:
    many = tuple(f"module_{number}" for number in range(60))
    learned = learn(RING, lane="era", name="wide", used=(), refused=many)
    assert max(map(len, learned.text.split("\n"))) <= 100
    text = drafted(policy_files()["tool-exec.policy.md"].decode(), POLICY, learned)
    files = {**policy_files(), "tool-exec.policy.md": text.encode()}
    found = compile_policy(files, gates=GATES)
    assert set(compile_ring(found, "heavy-python", "wide").imports) == set(many)
