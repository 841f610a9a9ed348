"""Policy files: what a person reads is what is enforced, and all of a directory or nothing."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.support.policies import GATES, policy_files, vectors
from threegate.base.errors import PolicyInvalid
from threegate.policy import limits
from threegate.policy.compiler import (
    OPENING,
    compile_policy,
    default_files,
    find_block,
    load_policy,
    read_source,
)
from threegate.policy.nodes import BlockNode, ListNode, ScalarNode


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, data in policy_files().items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def refused(directory: Path) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        load_policy(directory, gates=GATES)
    return caught.value


def test_directory_compiles_to_what_its_files_compile_to(directory: Path) -> None:
    assert (
        load_policy(directory, gates=GATES).bundle().digest
        == compile_policy(policy_files(), gates=GATES).bundle().digest
    )


@pytest.mark.parametrize("name", policy_files())
def test_missing_file_is_an_error(directory: Path, name: str) -> None:
    (directory / name).unlink()
    error = refused(directory)
    assert (error.code, error.exit_code) == ("TG-POL-003", 78)
    assert error.message == f"policy/{name}: no such file or directory"


def test_missing_directory_is_an_error(directory: Path) -> None:
    assert refused(directory / "nowhere").code == "TG-POL-003"


@pytest.mark.parametrize("name", policy_files())
def test_symlink_is_not_followed(directory: Path, name: str) -> None:
    load_policy(directory, gates=GATES)  # control: the target itself is valid
    (directory / name).rename(directory / "elsewhere")
    (directory / name).symlink_to(directory / "elsewhere")
    error = refused(directory)
    assert (error.code, f"policy/{name}: " in error.message) == ("TG-POL-003", True)
    assert "symbolic links" in error.message


def test_fifo_does_not_hang_and_is_refused(directory: Path) -> None:
    (directory / "fetch.policy.md").unlink()
    os.mkfifo(directory / "fetch.policy.md")
    assert refused(directory).message == "policy/fetch.policy.md: not a plain file"


def test_directory_in_place_of_a_file_is_refused(directory: Path) -> None:
    (directory / "fetch.policy.md").unlink()
    (directory / "fetch.policy.md").mkdir()
    assert refused(directory).code == "TG-POL-003"


def test_huge_file_is_read_only_up_to_the_cap(directory: Path) -> None:
    with (directory / "core.policy.md").open("wb") as file:
        file.truncate(2**40)  # sparse: reading it whole would take the machine down
    error = refused(directory)
    assert (error.code, str(limits.MAX_FILE_BYTES + 1) in error.message) == ("TG-POL-009", True)


@pytest.mark.parametrize("name", ["extra.policy.md", "Fetch.policy.md", "tool_exec.policy.md"])
def test_policy_file_that_would_not_be_enforced_is_an_error(directory: Path, name: str) -> None:
    (directory / name).write_text("# Nobody reads this\n")
    error = refused(directory)
    assert (error.code, name in error.message) == ("TG-POL-003", True)


def test_other_files_beside_the_policy_are_left_alone(directory: Path) -> None:
    (directory / "README.md").write_text("notes\n")
    (directory / "fetch.policy.md~").write_text("backup\n")
    load_policy(directory, gates=GATES)


def test_unknown_name_is_refused_by_the_pure_compiler_too() -> None:
    with pytest.raises(PolicyInvalid, match=r"\Apolicy: \"x\" is not a file"):
        compile_policy({**policy_files(), "x": b""}, gates=GATES)


def test_shipped_files_hold_no_signer() -> None:
    assert "allowed_signers" not in default_files()
    with pytest.raises(PolicyInvalid, match="allowed_signers: missing"):
        compile_policy(default_files(), gates=GATES)


FILE = "instruction-hierarchy.md"
REJECT = vectors("reject")
ACCEPT = vectors("accept")


def page(rules: str) -> bytes:
    return f"# Rules\n{OPENING}\n{rules}```\n".encode()


def refused_file(data: bytes) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        compile_policy({**policy_files(), FILE: data}, gates=GATES)
    return caught.value


@pytest.mark.parametrize("name", ACCEPT)
def test_accept_vector(name: str) -> None:
    compiled = compile_policy({**policy_files(), FILE: ACCEPT[name][1]}, gates=GATES)
    assert compiled.integer("instruction-hierarchy", "marker_bytes") in {16, 64}


@pytest.mark.parametrize("name", REJECT)
# claim TG-C-31
def test_reject_vector(name: str) -> None:
    expected, data = REJECT[name]
    error = refused_file(data)
    found = re.match(rf"policy/{FILE}(?::([0-9]+))?: \S", error.message)
    assert found is not None, error.message
    assert f"{error.code}:{found[1] or 0}" == expected, error.message
    assert error.exit_code == 78


def test_message_is_one_printable_line_even_for_hostile_text() -> None:
    error = refused_file(
        ACCEPT["001-plain"][1].replace(b"marker_bytes", b"'\xc2\xa0\xf0\x9f\x98\x80;rm'")
    )
    assert "\n" not in error.message
    assert error.code == "TG-POL-010"


def test_scalars_stay_the_characters_that_were_written() -> None:
    # The control for all of YAML's surprises: booleans, octal, base 60, dates, null, floats.
    written = ["no", "0777", "22:22:22", "2026-11-15", "~", "1e3", "0o7", ".inf", "=", "on"]
    block = read_source(FILE, page(f"a: [{', '.join(written)}]\n"))
    (key, items), *rest = block.entries
    assert (key, rest) == (ScalarNode("a", 3), [])
    assert isinstance(items, ListNode)
    assert [item.text for item in items.items if isinstance(item, ScalarNode)] == written


def test_single_quotes_keep_backslashes() -> None:
    block = read_source(FILE, page("a: 'c:\\x41'\n"))
    assert block.entries[0][1] == ScalarNode("c:\\x41", 3)


def test_lines_count_from_the_top_of_the_file() -> None:
    block = read_source(FILE, page("a:\n  b: 1\n  c:\n    - 2\n"))
    inner = block.entries[0][1]
    assert isinstance(inner, BlockNode)
    assert [(key.text, key.line) for key, _ in inner.entries] == [("b", 4), ("c", 5)]
    below = inner.entries[1][1]
    assert isinstance(below, ListNode)
    assert below.items == (ScalarNode("2", 6),)


def test_file_size_is_capped_before_anything_is_read() -> None:
    # Invalid UTF-8 throughout: if decoding came first, the reason would be another.
    assert refused_file(b"\xff" * (limits.MAX_FILE_BYTES + 1)).code == "TG-POL-009"
    assert refused_file(b"\xff" * limits.MAX_FILE_BYTES).code == "TG-POL-004"


def test_number_of_values_is_capped() -> None:
    items = "[" + ",".join("a" for _ in range(limits.MAX_NODES)) + "]"
    error = refused_file(page(f"a: {items}\n"))
    assert (error.code, f"more than {limits.MAX_NODES}" in error.message) == ("TG-POL-009", True)


def test_depth_is_capped_exactly() -> None:
    def nested(depth: int) -> bytes:
        return page("a: " + "[" * depth + "x" + "]" * depth + "\n")

    assert read_source(FILE, nested(limits.MAX_DEPTH - 2)).entries
    with pytest.raises(PolicyInvalid, match="nested deeper"):
        read_source(FILE, nested(limits.MAX_DEPTH - 1))


def test_a_value_may_not_be_longer_than_the_cap() -> None:
    assert read_source(FILE, page(f"a: {'x' * limits.MAX_SCALAR_CHARS}\n")).entries
    with pytest.raises(PolicyInvalid, match="limit 1000"):
        read_source(FILE, page(f"a: {'x' * (limits.MAX_SCALAR_CHARS + 1)}\n"))


def test_the_fence_word_may_not_stand_in_prose() -> None:
    data = ACCEPT["001-plain"][1]
    assert refused_file(data + b"\nSee threegate-policy above.\n").code == "TG-POL-005"
    compile_policy({**policy_files(), FILE: data + b"\nSee above.\n"}, gates=GATES)  # control


PROSE = st.lists(
    st.sampled_from(
        [
            *(
                "text",
                "",
                "- item",
                "  more",
                "1. x",
                "> quote",
                "    code",
                "\tcode",
                "```",
                "~~~",
            ),
            *(
                "`",
                "``",
                "<!--",
                "-->",
                "<div>",
                "<?",
                "<![CDATA[",
                "]]>",
                "[a]: <",
                "[a]: b '",
                "'",
            ),
            *(
                "| a |",
                "|---|",
                "===",
                "---",
                "# h",
                "\\",
                "- ```",
                "1.  ```",
                " ~~~",
                "> ```",
                "$$",
            ),
            *("&lt;!--", "<script", "< b", "[//]: # (", '[a]: /x "t', "+++", ":::", "     - deep"),
        ]
    ),
    max_size=5,
).map("\n".join)


@given(PROSE, PROSE)
@settings(max_examples=400)
# claim TG-C-31
def test_what_a_markdown_reader_shows_is_what_is_enforced(before: str, after: str) -> None:
    text = f"{before}\n{OPENING}\nformat: policy/1\n```\n{after}\n"
    try:
        block = find_block(FILE, text)
    except PolicyInvalid as exc:
        assert exc.code == "TG-POL-005"
        return
    tokens = MarkdownIt("commonmark").parse(text)
    (fence,) = [token for token in tokens if token.type == "fence"]
    assert (fence.info, fence.content, fence.level) == (OPENING[3:], block.text, 0)
    inner = [child for token in tokens for child in token.children or ()]
    assert not [token for token in (*tokens, *inner) if token.type.startswith("html")]


def test_control_prose_without_traps_is_accepted() -> None:
    text = f"# Title\n\n- item\n\n{OPENING}\nformat: policy/1\n```\n\n| a |\n|---|\n"
    assert find_block(FILE, text).first_line == 6
