"""Machines that lack something, and bubblewraps that lie: refused, never a weaker box."""

import json
import pwd
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.boxes import STARTERS, open_to_all, run_as, said
from threegate.base.errors import GateUnavailable
from threegate.sandbox import programs
from threegate.sandbox.attacks.payload import ATTEMPTS
from threegate.sandbox.box import Start
from threegate.sandbox.doctor import stand_ins
from threegate.sandbox.machine import Machine, find_machine, gate_uid
from threegate.sandbox.profiles import CORE, ENGINE, FETCH_NORMALIZE
from threegate.sandbox.session import run_gate
from threegate.sandbox.syscalls import architecture

ECHO = Start(FETCH_NORMALIZE, "threegate.sandbox.channel:echo", {})


def _fault(who: str, fault: str, names: str = "") -> dict[str, Any]:
    ran = run_as(who, "tests.support.faults:main", fault, names)
    assert ran.code == 0, ran.err
    value: dict[str, Any] = json.loads(ran.out)
    return value


REFUSED = {
    "landlock missing": ("TG-BOX-011", "no Landlock", "kernel with Landlock"),
    "landlock gone": ("TG-BOX-021", "Landlock ABI 0 inside", "kernel with Landlock"),
    "landlock rules refused": ("TG-BOX-021", "Landlock: Function not", "kernel with Landlock"),
    "landlock not applied": ("TG-BOX-021", "Landlock: Function not", "kernel with Landlock"),
    "landlock pretended": ("TG-BOX-021", "reading /canary was possible", "doctor"),
    "seccomp missing": ("TG-BOX-021", "seccomp: Function not", "seccomp filters"),
    "seccomp pretended": ("TG-BOX-021", "not by the lock", "doctor"),
    "close_range missing": ("TG-BOX-021", "close_range: Function not", "close_range"),
    "descriptor leaked, close_range pretended": ("TG-BOX-021", "descriptor 100", "doctor"),
    "limits pretended": ("TG-BOX-021", "limit of", "doctor"),
    "mdwe gone": ("TG-BOX-021", "memory-deny-write-execute", "doctor"),
    "user namespaces off": ("TG-BOX-021", "namespace", "unprivileged user namespaces"),
    "proc missing": ("TG-BOX-021", "/proc", "mount /proc"),
    "root without a uid": ("TG-BOX-020", "cannot start", "as an ordinary user"),
}


@pytest.mark.parametrize("who", STARTERS)
def test_without_a_fault_the_same_process_starts_the_gate(who: str) -> None:
    found = _fault(who, "nothing")  # the control of every refusal below
    assert found["started"]
    assert found["said"] == "hello"
    assert found["evidence"]["mdwe"] is True


@pytest.mark.parametrize("who", STARTERS)
@pytest.mark.parametrize("fault", REFUSED)
# claim TG-C-04
def test_a_missing_mechanism_is_a_refusal_that_says_what_to_do(fault: str, who: str) -> None:
    code, words, help_words = REFUSED[fault]
    found = _fault(who, fault)
    assert not found["started"], "a gate started without it"
    assert (found["exit"], found["code"]) == (69, code)
    assert words in found["message"]
    assert help_words in found["hint"]


# claim TG-C-61
def test_no_namespaces_at_all_is_a_refusal() -> None:
    found = _fault("ordinary user", "no namespaces at all")
    assert (found["started"], found["exit"], found["code"]) == (False, 69, "TG-BOX-021")
    assert "unprivileged user namespaces" in found["hint"]


@pytest.mark.parametrize("who", STARTERS)
def test_without_mdwe_the_filter_alone_keeps_new_code_out(who: str) -> None:
    names = [item.name for item in ATTEMPTS.values() if item.group == "code"]
    found = _fault(who, "mdwe missing", ",".join(names))
    assert found["started"]
    assert found["evidence"]["mdwe"] is False, "the record says that it is missing"
    # To undo what was never set is no escape; every other attempt must fail as ever.
    assert [item["name"] for item in found["results"] if not item["held"]] == []
    assert sum(item["counted"] for item in found["results"]) >= 10


@pytest.mark.parametrize("who", STARTERS)
# claim TG-C-62
def test_a_descriptor_leaked_by_the_caller_is_closed_inside(who: str) -> None:
    names = "any_leaked_descriptor,secret_by_leaked_directory"
    found = _fault(who, "descriptor leaked", names)
    assert found["started"]
    held = {item["name"]: (item["held"], item["control"]) for item in found["results"]}
    assert held == dict.fromkeys(names.split(","), (True, "worked"))


def test_missing_bubblewrap_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_machine().bwrap, "control: it is there"
    monkeypatch.setattr(programs, "SEARCH", (str(tmp_path),))
    with pytest.raises(GateUnavailable, match="bubblewrap is not installed") as caught:
        find_machine()
    assert (caught.value.code, caught.value.exit_code) == ("TG-BOX-010", 69)
    assert "apt install bubblewrap" in caught.value.hint


def test_bubblewrap_that_vanished_is_a_refusal() -> None:
    with pytest.raises(GateUnavailable) as caught:
        run_gate(replace(find_machine(), bwrap="/nonexistent/bwrap"), ECHO, b"")
    assert (caught.value.code, caught.value.exit_code) == ("TG-BOX-020", 69)


def test_uid_that_belongs_to_somebody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gate_uid("core") >= 60600, "control: the uid is free"

    class Somebody:
        pw_name = "alice"

    monkeypatch.setattr(pwd, "getpwuid", lambda _: Somebody)
    with pytest.raises(GateUnavailable, match="belongs to alice") as caught:
        run_gate(replace(find_machine(), root=True), ECHO, b"")
    assert (caught.value.code, caught.value.exit_code) == ("TG-BOX-012", 69)
    Somebody.pw_name = "threegate-core"  # made by the installer for just this
    assert gate_uid("core") >= 60600


@pytest.mark.parametrize("offset", [-1, 1, 92])
# claim TG-C-61
def test_landlock_abi_that_was_lied_about_is_refused(offset: int) -> None:
    honest = find_machine()
    lying = replace(honest, landlock_abi=honest.landlock_abi + offset)
    with pytest.raises(GateUnavailable, match="Landlock ABI") as caught:
        run_gate(lying, ECHO, b"")
    assert caught.value.code == "TG-BOX-021"


def test_gate_without_what_it_must_be_given_is_refused() -> None:
    start = Start(CORE, "threegate.sandbox.channel:echo", {})
    with pytest.raises(GateUnavailable, match="was given no model") as caught:
        run_gate(find_machine(), start, b"")
    assert caught.value.code == "TG-BOX-003"


def test_given_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    given = {bind.slot: str(tmp_path / bind.slot) for bind in CORE.binds}
    start = Start(CORE, "threegate.sandbox.channel:echo", given)
    with pytest.raises(GateUnavailable) as caught:
        run_gate(find_machine(), start, b"")
    assert caught.value.exit_code == 69


@pytest.mark.parametrize("name", ["riscv64", "i686", "armv7l", ""])
def test_architecture_nobody_checked_is_refused(name: str) -> None:
    if not name:
        assert architecture().numbers, "control: this machine is known"
        return
    with pytest.raises(GateUnavailable, match=name) as caught:
        architecture(name)
    assert caught.value.code == "TG-BOX-001"


# Bubblewraps that do less, or more, than they were told: the gate itself must notice.
_LOOP = """#!/bin/sh
count=$#
while [ $count -gt 0 ]; do
  word=$1; shift; count=$((count - 1))
  case "$word" in
{cases}
  esac
  set -- "$@" "$word"
done
exec {bwrap} {more} "$@"
"""
_SKIP = "    {word}) continue ;;"
_SKIP_WITH_VALUE = "    {word}) shift; count=$((count - 1)); continue ;;"
_WRITABLE = "    --ro-bind) word=--bind ;;"


def _lying(directory: Path, honest: Machine, cases: str, more: str = "") -> Machine:
    script = directory / "bwrap"
    script.write_text(_LOOP.format(cases=cases or "    '') ;;", bwrap=honest.bwrap, more=more))
    script.chmod(0o755)
    open_to_all(directory)  # a gate's own uid has to start it
    return replace(honest, bwrap=str(script))


LIES = {
    "no new processes": (_SKIP.format(word="--unshare-pid"), "", "process namespace is not new"),
    "no new session": (_SKIP.format(word="--new-session"), "", "session is the caller's"),
    "no new host name": (
        f"{_SKIP.format(word='--unshare-uts')}\n{_SKIP_WITH_VALUE.format(word='--hostname')}",
        "",
        "host's name is in view",
    ),
    "no new network": (_SKIP.format(word="--unshare-net"), "", "network namespace is not new"),
    "a view that can be written": (_WRITABLE, "", "changing /gate"),
    "a top that can be written": (
        # The last of its kind, for the top; those for hidden directories stay.
        '    --remount-ro) if [ "$1" = / ]; then shift; count=$((count - 1)); continue; fi ;;',
        "",
        "changing /",
    ),
    "more in view": ("", "--ro-bind /etc /etc", "/etc/passwd in view"),
    "processes in view": ("", "--proc /proc", "/proc/self/status in view"),
    "a shell in view": ("", "--ro-bind /bin/sh /bin/sh", "/bin/sh in view"),
}


@pytest.mark.parametrize("lie", LIES)
# claim TG-C-61
def test_bubblewrap_that_lies_is_found_out(lie: str, tmp_path: Path) -> None:
    cases, more, words = LIES[lie]
    honest = _lying(tmp_path, find_machine(), "")
    assert said(run_gate(honest, ECHO, b"x")) == b"x", "control: the wrapper works"
    with pytest.raises(GateUnavailable) as caught:
        run_gate(_lying(tmp_path, find_machine(), cases, more), ECHO, b"")
    assert caught.value.code == "TG-BOX-021"
    assert words in caught.value.message


def test_bubblewrap_that_fails_says_why(tmp_path: Path) -> None:
    script = tmp_path / "bwrap"
    script.write_text("#!/bin/sh\necho 'bwrap: \x1b[31mno' >&2\nexit 1\n")
    script.chmod(0o755)
    open_to_all(tmp_path)
    with pytest.raises(GateUnavailable) as caught:
        run_gate(replace(find_machine(), bwrap=str(script)), ECHO, b"")
    assert caught.value.code == "TG-BOX-021"
    assert "\x1b" not in caught.value.message, "foreign text is shown escaped"


ENGINE_STAND_IN = r"""
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  /* What its own filter ends it for, test_heavy_engine.py tries in a process for each. */
  char *words[] = {"x", 0}, *none[] = {0}, said[2] = "??";
  said[0] = execve("/rt/bin/PYTHON", words, none) < 0 && errno == EACCES ? '-' : 'X';
  said[1] = open("/canary", O_RDONLY) < 0 && errno == EACCES ? '-' : 'L';
  char frame[12] = {1, 0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0};
  memcpy(frame + 5, said, 2);
  return write(3, frame, sizeof frame) == sizeof frame ? 0 : 1;
}
"""


def test_program_that_replaces_the_second_stage_stays_locked_and_answers(tmp_path: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    source, program = tmp_path / "engine.c", tmp_path / "engine"
    source.write_text(ENGINE_STAND_IN.replace("PYTHON", version))
    subprocess.run(["cc", "-static", "-o", str(program), str(source)], check=True)
    with stand_ins() as given:
        inside = next(bind.inside for bind in ENGINE.binds if bind.slot == "engine")
        start = Start(ENGINE, "exec", given | {"engine": str(program)}, (inside,))
        answer = run_gate(find_machine(), start, b"")
    assert answer.ended.why == "done", answer.ended
    assert said(answer) == b"--"
