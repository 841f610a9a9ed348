"""Hostile YAML from outside, put into a policy block: refused, each for its own reason."""

from pathlib import Path

import pytest

from tests.support.policies import GATES, policy_files
from threegate.base.errors import PolicyInvalid
from threegate.policy.compiler import OPENING, compile_policy, read_source
from threegate.policy.nodes import ScalarNode

FILE = "instruction-hierarchy.md"
RULES = b"""format: policy/1
section: instruction-hierarchy
levels: [invariants, policy, role, question, artifacts]
data_levels: [artifacts]
marker_bytes: 16
"""

# What must stop each file, once the rest of the block is valid.  `unknown key` is the answer
# to files that are harmless YAML with a surprise in it: nothing of it was ever interpreted.
REASONS = {
    "alias_bomb": ("TG-POL-007", "an anchor"),
    "bidi": ("TG-POL-004", "bidi character"),
    "binary": ("TG-POL-007", "a tag"),
    "custom_tag": ("TG-POL-007", "a tag"),
    "deep_nest": ("TG-POL-009", "nested deeper"),
    "dup_keys": ("TG-POL-008", "is written twice"),
    "int_key": ("TG-POL-010", 'unknown key "1"'),
    "long_int": ("TG-POL-009", "characters, limit"),
    "merge_key": ("TG-POL-007", "an anchor"),
    "nel": ("TG-POL-004", "control character"),
    "nested_dup": ("TG-POL-008", "is written twice"),
    "norway": ("TG-POL-010", 'unknown key "c"'),
    "python_tag": ("TG-POL-007", "a tag"),
    "sexagesimal": ("TG-POL-010", 'unknown key "t"'),
    "tag_chars": ("TG-POL-004", "invisible character"),
    "two_docs": ("TG-POL-007", "a second document"),
}


@pytest.fixture(scope="module")
def hostile(corpus: Path) -> dict[str, bytes]:
    files = {path.stem: path.read_bytes() for path in (corpus / "hostile" / "yaml").glob("*.y*ml")}
    assert files, "an empty corpus would let every test here pass on nothing"
    return files


def page(block: bytes) -> bytes:
    end = b"" if block.endswith(b"\n") or not block else b"\n"
    return b"# Levels\n\n" + OPENING.encode() + b"\n" + block + end + b"```\n"


def refused(block: bytes) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        compile_policy({**policy_files(), FILE: page(block)}, gates=GATES)
    assert caught.value.exit_code == 78
    return caught.value


def test_control_the_block_without_the_hostile_part_is_valid() -> None:
    compile_policy({**policy_files(), FILE: page(RULES)}, gates=GATES)


def test_every_file_as_the_whole_block_is_refused(hostile: dict[str, bytes]) -> None:
    for stem, data in hostile.items():
        error = refused(data)
        assert error.message.startswith(f"policy/{FILE}:"), stem
        assert error.message.isprintable(), stem


def test_every_file_behind_valid_rules_is_refused_for_its_own_reason(
    hostile: dict[str, bytes],
) -> None:
    for stem, data in hostile.items():
        error = refused(RULES + data)
        code, message = REASONS.get(stem, (error.code, ""))
        assert error.code == code, (stem, error.message)
        assert message in error.message, stem
        assert error.code.startswith("TG-POL-0"), stem


def test_corpus_still_holds_the_files_whose_reasons_are_named(hostile: dict[str, bytes]) -> None:
    assert set(hostile) >= set(REASONS)


@pytest.mark.parametrize(("stem", "text"), [("norway", "no"), ("sexagesimal", "22:22:22")])
def test_surprising_scalars_stay_as_written(
    hostile: dict[str, bytes], stem: str, text: str
) -> None:
    ((_, value),) = read_source(FILE, page(hostile[stem])).entries
    assert value == ScalarNode(text, 4)
