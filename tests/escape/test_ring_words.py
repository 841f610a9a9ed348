"""Programs that start another one when they are told to: the real ones of this machine.

Each command is run here without the ring first, and does start the other program; then the
shipped rules are asked.
"""

import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.policies import altered, policy
from threegate.policy.ring.commands import CommandRefusal
from threegate.policy.ring.compiler import compile_ring
from threegate.policy.ring.executor_profile import ExecutorProfile

PROGRAMS = (
    *("diff3", "find", "git", "install", "mawk", "sdiff", "sed", "sort", "split", "tar", "zip"),
)
# Each starts ./go, which leaves a file: the argument rule that must refuse it, and the command.
STARTS = (
    ("archives", "tar cIf ./go o.tar a"),
    ("archives", "tar cvvvvvvvvvvvvvvvvIf ./go o.tar a"),
    ("archives", f"tar c{'v' * 300}If ./go o.tar a"),
    ("archives", "tar cbIf 20 ./go o.tar a"),
    ("archives", "tar cMLFf 10 ./go o.tar large"),
    ("archives", "tar cf o.tar a -I./go"),
    ("archives", "tar -cvI ./go -f o.tar a"),
    ("archives", "tar -cf o.tar a --use-comp=./go"),
    ("archives", "tar -xf a.tar --to-comm ./go"),
    ("archives", "tar -cf o.tar a --checkpoint=1 --checkpoint-act=exec=./go"),
    ("zip", "zip o a -T -TT ./go"),
    ("zip", "zip o a -T -TT./go"),
    ("zip", "zip o a -TvTT ./go"),
    ("zip", "zip o a -qTT ./go -T"),
    ("zip", "zip -9TqTT ./go o a"),
    ("zip", "zip o a --unz ./go --test"),
    ("find", "find . -maxdepth 0 -exec ./go ;"),
    ("find", "find . -maxdepth 0 -execdir ./go ;"),
    ("awk", """mawk 'BEGIN{system("./go")}'"""),
    ("awk", "mawk -Wexec program"),
    ("awk", "mawk -vx=1 -fprogram"),
    ("sed", "sed 'e ./go' a"),
    ("sed", "sed -l --sandbox 'e ./go' a"),
    ("splitting", "split --fil=./go a"),
    ("installing", "install -s --strip-pro ./go a b"),
    ("comparing", "sdiff --diff-p=./go a go"),
    ("comparing", "diff3 --diff-prog ./go a go a"),
    ("git", "git --git-dir r/.git diff HEAD"),
    ("git", "git -C r/.git --bare diff HEAD HEAD~1"),
    ("git", "git -C r -c diff.external=../go diff HEAD~1"),
    ("git", "git clone -u ./go r clone"),
    ("git", "git ls-remote --upload=./go r"),
)
# The same programs at work, which start nothing.
ORDINARY = (
    *("tar cf o.tar a", "tar -xf a.tar", "zip -9 o a", "find . -maxdepth 0", "split a"),
    *("mawk '{print $1}' a", "sed --sandbox -n p a", "install -m 600 a b", "sort a"),
    *("sdiff a go", "diff3 a go a", "git -C r log", "git ls-remote r"),
)


@cache
def ring() -> ExecutorProfile:
    """Return a profile that offers all of them, under the shipped argument rules."""
    paths = sorted(f"/usr/bin/{name}" for name in PROGRAMS)

    def change(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["interpreter_ring"]["tools"].update(allowed_binaries=paths)

    return compile_ring(altered(policy(), change), "heavy-shell", "tools")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with something to work on, and the program that must not be started."""
    (tmp_path / "go").write_text(f"#!/bin/sh\necho >{shlex.quote(str(tmp_path))}/started\n")
    (tmp_path / "go").chmod(0o755)
    (tmp_path / "a").write_text("a\n")
    (tmp_path / "large").write_bytes(bytes(65_536))
    (tmp_path / "program").write_text('BEGIN{system("./go")}\n')
    done(tmp_path, "tar cf a.tar a")
    done(tmp_path, "git init -q r")
    for number in (1, 2):
        (tmp_path / "r" / "file").write_text(f"{number}\n")
        done(tmp_path / "r", "git add file")
        done(tmp_path / "r", "git -c user.name=a -c user.email=a@b commit -qm x")
    (tmp_path / "r" / "file").write_text("changed\n")
    return tmp_path


def done(where: Path, line: str) -> None:
    """Run a command, whatever comes of it; nothing of it may wait for anybody."""
    subprocess.run(
        shlex.split(line),
        cwd=where,
        env={"PATH": "/usr/bin:/bin", "HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def refused(line: str) -> CommandRefusal | None:
    return ring().command(shlex.split(line))


def test_every_program_is_here() -> None:
    assert [name for name in PROGRAMS if shutil.which(name) is None] == [], "`make setup-tests`"


@pytest.mark.parametrize(("rule", "line"), STARTS)
# claim TG-C-262
def test_what_makes_a_real_program_start_another_is_refused(
    rule: str, line: str, place: Path
) -> None:
    if "--git-dir" in line or "--bare" in line:  # a repository somebody else made
        done(place / "r", f"git config diff.external {shlex.quote(str(place / 'go'))}")
    done(place, line)
    assert (place / "started").exists(), "control: without the ring it does"
    found = refused(line)
    assert found is not None
    assert (found.rule, found.item) == ("argument_rules", rule)


@pytest.mark.parametrize("line", ORDINARY)
def test_the_same_programs_at_work_start_nothing_and_are_not_refused(
    line: str, place: Path
) -> None:
    done(place, line)
    assert not (place / "started").exists()
    assert refused(line) is None
