"""Which rule of the ring refuses a command, before anything is started: pure functions alone."""

import fnmatch
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.policies import policy
from threegate.policy.sections.argument_rules import ARGUMENT_RULES, rule_of
from threegate.policy.sections.section import block_of
from threegate.protocol.commands import (
    MAX_SHOWN,
    ArgumentRule,
    Refusal,
    denied_by,
    is_long,
    matches,
    parts_of,
    refusal,
    resolve,
    told,
)

BINARIES = ("/usr/bin/cat", "/usr/bin/sort", "/usr/bin/rm", "/usr/bin/find", "/opt/x/find")
_RULES = block_of(policy().sections["tool-exec"], ARGUMENT_RULES)
RULES = {name: rule_of(name, block_of(_RULES, name)) for name in _RULES}

# The commands that a search for the pattern in the line would have let pass.
RM_RF = (
    *("rm -rf x", "rm -fr x", "rm -r -f x", "rm -f x -r", "rm -Rf x", "rm -rvf x"),
    *("rm --recursive --force x", "rm --rec --fo x", "rm -r --force x", "/bin/rm  -r  -f x"),
    *("rm x -rf", "rm -- -rf", "env rm -r -f x", "nice -n 5 rm -fr x", "xargs rm -fr"),
    *("find / -exec rm -r -f {} +", "tar --to-command='rm -r -f x'", "sh -c 'rm -r -f x'"),
    *('sh -c "r\'\'m -r -f x"', "sh -c 'rm${IFS}-rf${IFS}x'", "sh -c 'rm$IFS-fr x'"),
    *("bash -c '{rm,-r,-f,x}'", "sh -c 'true;rm -fr x'", "sh -c '(rm -fr x)'", "sh -c 'r\\m -fr x'"),
    *("sh -c 'r$@m -r -f x'", "sh -c 'r${x}m -fr x'", "git -c core.pager='rm -fr x' log"),
    *("awk 'BEGIN{system(\"rm -f -r x\")}'", "awk 'BEGIN{system(\"\\162m -fr x\")}'"),
    "bash -c \"$'\\x72m' -rf x\"",
)
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
    for word in ("find", "sh", "", ".", "./sort", "/usr/bin/../bin/sort", "/usr/bin//sort", "bin/sort"):
        assert resolve(BINARIES, word) is None, word


def test_the_first_rule_that_refuses_is_named_with_its_item() -> None:
    def judged(*argv: str) -> Refusal | None:
        rules = (RULES["sorting"],)
        return refusal(argv, binaries=BINARIES, patterns=("rm -rf",), arguments=rules)

    assert judged("sort", "/in/a") is None
    assert judged("sh", "-c", "x") == Refusal("allowed_binaries", "sh", "sh")
    assert judged("rm", "-fr", "/out") == Refusal("denied_patterns", "rm -rf", "rm -fr /out")
    found = Refusal("argument_rules", "sorting", "--compress-prog=sh")
    assert judged("sort", "--compress-prog=sh") == found
    assert judged() == Refusal("allowed_binaries", "", "")


# Each starts another program, or code, by its arguments alone.
DISGUISED = {
    "launchers": (
        *("env sh", "env -i sh", "env -S 'sh -c x'", "env A=1 sh", "xargs sh", "nice sh"),
        *("nohup sh", "timeout 1 sh", "stdbuf -o0 sh", "setsid sh", "busybox sh", "toybox sh"),
        *("chroot / sh", "unshare sh", "flock /tmp/a sh", "taskset 1 sh", "script -c sh", "time sh"),
        *("sudo sh", "su -c sh", "watch sh", "strace sh", "run-parts /tmp", "parallel sh"),
    ),
    "interpreters": (
        *("sh -c x", "bash -c x", "dash /in/a", "perl -e x", "perl -ne x", "ruby -e x"),
        *("lua -e x", "node -e x", "php -r x", "vim -c ':!x'", "vi -c x", "ex -c x", "ed /in/a"),
        *("make -f /in/a", "gdb -ex 'shell x'", "sqlite3 a '.shell x'", "less /in/a", "man -P sh a"),
        *("m4 /in/a", "tclsh /in/a", "dc -e '!x'", "R -f /in/a", "psql -c '\\! x'"),
    ),
    "awk": (
        *("awk 'BEGIN{system(\"x\")}'", "mawk 'BEGIN{print|\"x\"}'", "gawk 'BEGIN{\"x\"|getline}'"),
        *("awk -f /in/a", "awk -f/in/a", "mawk -W exec /in/a", "gawk -l x ''", "gawk -i x ''"),
        *("gawk '@load \"x\"'", "gawk 'BEGIN{f=\"sys\" \"tem\"; @f(1)}'", "gawk --exec /in/a"),
        *("gawk 'BEGIN{print |& \"x\"}'", "gawk --inc=x", "awk -vf=1 -f /in/a"),
    ),
    "sed": (
        *("sed 1e", "sed '1e x'", "sed 's/a/b/e'", "sed 's,a,b,ge'", "sed -n '1e x'", "sed -f /in/a"),
        *("sed --posix '1e x'", "sed -l --sandbox '1e x'", "sed -e --sandbox -e '1e x'"),
        *("sed -- --sandbox", "sed --sandbox -f /in/a", "sed --sandbox -sf /in/a", "sed --sand 1e"),
    ),
    "find": ("find -exec x ;", "find / -execdir x {} +", "find -ok x ;", "find -okdir x ;"),
    "fd": ("fd -x y", "fd -X y", "fd -Hx y", "fd --exec y", "fd --exec-batch y"),
    "sorting": ("sort --compress-program=x", "sort --compress x", "sort --c=x"),
    "splitting": ("split --filter=x", "split --filter x", "split --fi=x"),
    "installing": ("install -s a b", "install --strip-program=x -s a b", "install -Ds a b"),
    "comparing": ("diff3 --diff-program=x a b c", "sdiff --diff x a b", "diff -l a b", "diff -ul a b"),
    "archives": (
        *("tar -xf a --to-command=x", "tar -xf a --to-command x", "tar --to-c=x -xf a"),
        *("tar -cf a --checkpoint=1 --checkpoint-action=exec=x b", "tar -I x -xf a"),
        *("tar -xIx -f a", "tar xIf x a", "tar --use-compress-program=x -xf a", "tar -F x -cMf a b"),
        *("tar --info-script=x -cf a b", "tar --rsh-command=x -xf h:a", "tar --rmt-command=x -xf h:a"),
        *("zip a b -TT x", "zip a b --unzip-command x", "cpio --rsh-command=x -i"),
    ),
    "git": (
        *("git -c core.sshCommand=x fetch", "git -ccore.pager=x log", "git -c alias.a=!x a"),
        *("git -c core.fsmonitor=x status", "git --config-env core.pager=X log", "git clone ext::x"),
        *("git clone -u x a", "git clone --upload-pack=x a", "git ls-remote --upload-pack x a"),
        *("git push --receive-pack=x a", "git rebase -x y", "git rebase --exec y", "git bisect run x"),
        *("git filter-branch --tree-filter x", "git submodule foreach x", "git grep -Ox y"),
        *("git --exec-path=/tmp a", "git diff --ext-diff", "git log --textconv", "git config a b"),
        *("git clone --template=/in a", "git clone --config a=b c", "git difftool -x y", "git hook run x"),
        *("git archive --remote=ext::x HEAD", "git archive --exec=x HEAD", "git mergetool"),
    ),
    "remote": (
        *("ssh -o ProxyCommand=x h", "ssh -oLocalCommand=x h", "ssh -F /in/a h", "scp -S x a h:b"),
        *("rsync -e x a h:b", "rsync --rsh=x a h:b", "sftp -S x h", "rsync --rsync-path=x a h:b"),
    ),
}
ORDINARY = (
    *("cat /in/a", "sort -k 2 /in/a", "find /in -name '*.csv' -print", "diff -u /in/a /in/b"),
    *("sed --sandbox -n 's/a/b/p' /in/a", "awk -F: '{print $1}' /in/a", "tar -tf /in/a.tar"),
    *("git -C /in/r log -n 5", "split -l 10 /in/a /out/p", "install -m 600 /in/a /out/a"),
    *("tar xzf /in/a.tgz", "mawk '$2 > 3' /in/a", "find /in -maxdepth 2", "git show HEAD~1"),
)


@pytest.mark.parametrize(
    ("rule", "line"), [(name, line) for name, lines in DISGUISED.items() for line in lines]
)
# claim TG-C-262
def test_a_program_in_disguise_is_refused_by_the_shipped_rule(rule: str, line: str) -> None:
    assert told(RULES[rule], shlex.split(line)) is not None
    program, *_ = shlex.split(line)
    assert told(ArgumentRule("none", (program,), (), ()), shlex.split(line)) is None  # control


def test_every_shipped_rule_has_its_attacks() -> None:
    assert set(DISGUISED) == set(RULES)
    assert sum(map(len, DISGUISED.values())) >= 120


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_commands_are_not_refused(line: str) -> None:
    words = shlex.split(line)
    assert [rule.name for rule in RULES.values() if told(rule, words)] == []


def test_a_rule_also_holds_behind_a_launcher() -> None:
    assert told(RULES["find"], shlex.split("xargs -a /in/a find -exec x ;")) == "-exec"


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
    assert told(ArgumentRule("r", ("cat",), ("*a" * 60,), ()), argv) is None
