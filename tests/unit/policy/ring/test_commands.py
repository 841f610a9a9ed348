"""Which rule of the ring refuses a command, before anything is started: pure functions alone."""

import fnmatch
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.policies import policy
from threegate.policy.ring.commands import (
    MAX_SHOWN,
    ArgumentRule,
    CommandRefusal,
    denied_by,
    denied_word,
    is_long,
    matches,
    names_of,
    parts_of,
    refusal,
    resolve,
)
from threegate.policy.sections.section import block_of
from threegate.policy.sections.tool_exec import ARGUMENT_RULES, rule_of

BINARIES = ("/usr/bin/cat", "/usr/bin/sort", "/usr/bin/rm", "/usr/bin/find", "/opt/x/find")
_RULES = block_of(policy().sections, "tool-exec", ARGUMENT_RULES)
RULES = {name: rule_of(name, block_of(_RULES, name)) for name in _RULES}

_VECTORS = Path(__file__).parents[3] / "vectors" / "commands"


def lines_of(name: str) -> list[str]:
    found = (_VECTORS / name).read_text("utf-8").splitlines()
    assert found, f"{name} holds no command"
    return found


# The commands that a search for the pattern in the line would have let pass.
RM_RF = lines_of("rm-rf.txt")
# Each starts another program, or code, by its arguments alone: the rule, and the command.
DISGUISED = [tuple(line.split("\t", 1)) for line in lines_of("disguised.txt")]
ORDINARY = lines_of("ordinary.txt")
NOT_RM_RF = ("rm x", "rm -r x", "rm -f x", "cat rm-rf.txt", "cat farm -rf", "sort -rf x", "rm -i x")


@pytest.mark.parametrize("line", RM_RF)
def test_a_denied_pattern_is_found_however_it_is_written(line: str) -> None:
    assert denied_by("rm -rf", shlex.split(line)) is not None


@pytest.mark.parametrize("line", NOT_RM_RF)
def test_a_denied_pattern_refuses_nothing_else(line: str) -> None:
    assert denied_by("rm -rf", shlex.split(line)) is None


@pytest.mark.parametrize(
    "line",
    [
        *("curl x", "/usr/bin/curl x", "env curl x", "sh -c 'curl x'", "sh -c 'c\"\"url x'"),
        *("sh -c 'x|curl -T-'", "tar --to-command=curl", "git -c core.sshCommand=curl fetch"),
        *("awk 'BEGIN{\"curl x\"|getline}'", "sh -c 'c\\url x'", "sh -c '`curl x`'"),
        *("sort --compress-program=/usr/bin/curl", "sh -c '$(curl x)'", "sh -c 'X=curl; $X y'"),
    ],
)
def test_a_program_is_found_wherever_it_is_named(line: str) -> None:
    assert denied_by("curl", shlex.split(line)) is not None


@pytest.mark.parametrize("line", ["cat /in/curl-notes.txt", "sort curly", "cat libcurl.so"])
def test_a_name_inside_another_is_not_that_program(line: str) -> None:
    assert denied_by("curl", shlex.split(line)) is None


def test_a_long_option_is_denied_as_far_as_it_can_be_abbreviated() -> None:
    pattern = "sort --compress-program"
    for word in ("--compress-program=sh", "--compress-p", "--comp=sh", "--c"):
        assert denied_by(pattern, ["sort", "/in/a", word, "sh"]) is not None, word
    assert denied_by(pattern, ["sort", "--check"]) is None
    assert not is_long("--filter", "--")


def test_a_program_is_named_by_its_path_or_by_a_name_only_one_has() -> None:
    assert resolve(BINARIES, "/usr/bin/sort") == "/usr/bin/sort"
    assert resolve(BINARIES, "sort") == "/usr/bin/sort"
    for word in (
        "find",
        "sh",
        "",
        ".",
        "./sort",
        "/usr/bin/../bin/sort",
        "/usr/bin//sort",
        "bin/sort",
    ):
        assert resolve(BINARIES, word) is None, word


def test_the_first_rule_that_refuses_is_named_with_its_item() -> None:
    def judged(*argv: str) -> CommandRefusal | None:
        rules = (RULES["sorting"],)
        return refusal(argv, binaries=BINARIES, patterns=("rm -rf",), arguments=rules)

    assert judged("sort", "/in/a") is None
    assert judged("sh", "-c", "x") == CommandRefusal("allowed_binaries", "sh", "sh")
    assert judged("rm", "-fr", "/out") == CommandRefusal("denied_patterns", "rm -rf", "rm -fr /out")
    found = CommandRefusal("argument_rules", "sorting", "--compress-prog=sh")
    assert judged("sort", "--compress-prog=sh") == found
    assert judged() == CommandRefusal("allowed_binaries", "", "")


@pytest.mark.parametrize(("rule", "line"), DISGUISED)
# claim TG-C-262
def test_a_program_in_disguise_is_refused_by_the_shipped_rule(rule: str, line: str) -> None:
    assert denied_word(RULES[rule], shlex.split(line)) is not None
    program, *_ = shlex.split(line)
    assert (
        denied_word(ArgumentRule("none", (program,), (), ()), shlex.split(line)) is None
    )  # control


def test_every_shipped_rule_has_its_attacks() -> None:
    assert {rule for rule, _ in DISGUISED} == set(RULES)
    assert len(DISGUISED) >= 190


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_commands_are_not_refused(line: str) -> None:
    words = shlex.split(line)
    assert [rule.name for rule in RULES.values() if denied_word(rule, words)] == []


def test_a_cluster_without_its_dash_has_no_longest_length() -> None:
    for filling in ("", "v" * 16, "v" * 4000, "b1", "_", "20"):
        assert denied_word(RULES["archives"], ["tar", f"c{filling}If", "sh", "a"]) is not None, (
            filling
        )
        assert denied_word(RULES["archives"], ["tar", f"c{filling}f", "a"]) is None, (
            filling
        )  # control


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *(("lua5.4", "lua"), ("perl5.36-x86_64-linux-gnu", "perl"), ("vim.tiny", "vim")),
        *(("bash-static", "bash"), ("/usr/bin/ruby3.1", "ruby"), ("tar", "tar")),
    ],
)
def test_a_program_is_known_in_every_version_and_variant(name: str, known: str) -> None:
    assert known in names_of(name)


def test_another_name_is_another_program() -> None:
    for name, other in (("sha256sum", "sh"), ("envsubst", "env"), ("tarts", "tar"), ("x", "")):
        assert other not in names_of(name), name


def test_a_program_that_is_not_started_at_all_is_not_started_without_words_either() -> None:
    assert denied_word(RULES["interpreters"], ["/usr/bin/make"]) == "/usr/bin/make"
    assert denied_word(RULES["launchers"], ["sort", "env"]) == "env"
    assert denied_word(RULES["archives"], ["tar"]) is None, (
        "control: of others only words are denied"
    )


def test_a_rule_also_holds_behind_a_launcher() -> None:
    assert denied_word(RULES["find"], shlex.split("xargs -a /in/a find -exec x ;")) == "-exec"


WORDS = st.lists(st.text(max_size=12), min_size=1, max_size=6)


@given(WORDS, st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=12))
def test_every_command_gets_an_answer_that_can_be_shown(argv: list[str], pattern: str) -> None:
    rules = tuple(RULES.values())
    found = refusal(argv, binaries=(argv[0],), patterns=(pattern,), arguments=rules)
    if found is not None:
        assert len(found.argument) <= MAX_SHOWN
        assert all(" " <= c <= "~" for c in found.argument)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_stars_stand_for_any_characters(pattern: str, text: str) -> None:
    assert matches(pattern, text) == fnmatch.fnmatchcase(text, pattern)


@given(st.text(max_size=40))
def test_parts_of_a_word_hold_no_quotes_or_separators(word: str) -> None:
    for part in parts_of(word):
        assert not set(part) & set(" ;|&()<>`{},=")


def test_a_long_hostile_word_takes_no_long_time() -> None:
    # 256 words of 4,096 characters is the largest command a request can hold.
    argv = ["cat", *["-" * 2048 + "\\x${" * 512] * 100, *["rm;" * 1365] * 100, *["cat"] * 55]
    assert denied_by("rm -rf " + "a*" * 60, argv) is None
    assert denied_word(ArgumentRule("r", ("cat",), ("*a" * 60,), ()), argv) is None
