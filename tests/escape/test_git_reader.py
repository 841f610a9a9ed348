"""Hostile git repositories on their way to packets: the real command, real sandboxes, the real git.

What arbitrary Python in the sandbox can reach is asked by the sandbox's own suite, which attacks
the profile `git-reader` like every other: test_sandbox_escape.py.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.boxes import importable, start_with
from tests.support.cli import Cli, made
from tests.support.policies import policy
from tests.support.repositories import commit, commit_of, git, loose, repository, tree
from threegate.base.errors import ArtifactRejected, GateUnavailable
from threegate.host import open_box
from threegate.host.importing.git_objects import GitObjects
from threegate.host.importing.git_repository import open_repository
from threegate.sandbox.attacks.runner import applicable
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import GIT_READER
from threegate.sandbox.session import run_gate

TEXT = "The lagoon froze in January.\n"
SETTINGS = (
    "core.fsmonitor",
    "core.sshCommand",
    "core.pager",
    "core.editor",
    "core.askPass",
    "credential.helper",
    "diff.trap.textconv",
    "diff.external",
    "filter.trap.clean",
    "filter.trap.smudge",
    "filter.trap.process",
    "gpg.program",
    "uploadpack.packObjectsHook",
)
HOOKS = ("post-checkout", "post-index-change", "pre-commit", "reference-transaction")


def trap(traps: Path, name: str) -> str:
    """Return the command line of a program that leaves a file behind."""
    program = traps / f"{name}.sh"
    program.write_text(f"#!/bin/sh\n: > {traps / name}.ran\ncat 2>/dev/null\nexit 0\n")
    program.chmod(0o755)
    return str(program)


def ran(traps: Path) -> set[str]:
    return {path.stem for path in traps.glob("*.ran")}


def forget(traps: Path) -> None:
    for path in traps.glob("*.ran"):
        path.unlink()


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    place = tmp_path / "traps"
    place.mkdir()
    return place


@pytest.fixture
def hostile(tmp_path: Path, traps: Path) -> Path:
    """Make a repository that names a program wherever git would run one."""
    place = tmp_path / "hostile"
    attributes = "*.txt filter=trap diff=trap\n"
    repository(place, {"a.txt": TEXT, ".gitattributes": attributes, "b.py": "x = 1\n"})
    modules = f'[submodule "s"]\n\tpath = s\n\turl = ext::{trap(traps, "submodule")}\n'
    commit(place, {"a.txt": TEXT + "More.\n", ".gitmodules": modules})
    hooks = place / ".git" / "hooks"
    for name in HOOKS:
        (hooks / name).write_text(Path(trap(traps, name)).read_text())
        (hooks / name).chmod(0o755)
    included = tmp_path / "included"
    included.write_text(f"[core]\n\tfsmonitor = {trap(traps, 'include')}\n")
    for name in SETTINGS:
        git(place, "config", name, trap(traps, name), code=None)
    git(place, "config", "include.path", str(included))
    (place / ".git" / "info" / "attributes").write_text("* filter=trap diff=trap\n")
    forget(traps)
    return place


def imported(cli: Cli, *argv: str | Path, code: int = 0) -> dict[str, dict[str, Any]]:
    found = cli("import", "git", *argv, "--json", code=code).json["files"]
    return {one["file"].partition("@")[0]: one for one in found}


# claim TG-C-590
def test_no_program_that_a_repository_names_is_run(
    tmp_path: Path, hostile: Path, traps: Path
) -> None:
    cli = made(tmp_path)
    found = imported(cli, hostile)
    changes = imported(cli, hostile, "--diff", git_id(hostile, 1))
    assert ran(traps) == set()
    assert found["a.txt"]["status"] == found["b.py"]["status"] == "made"
    assert next(iter(changes.values()))["status"] == "made"
    # Control: the real git runs them, and nothing but the settings tells it to.
    git(hostile, "status", code=None)
    git(hostile, "--no-pager", "diff", "--textconv", "HEAD~1", code=None)
    (hostile / "a.txt").write_text("changed")
    git(hostile, "add", "a.txt", code=None)
    git(hostile, "commit", "-q", "-m", "x", code=None)
    git(hostile, "checkout", "-q", "HEAD~1", code=None)
    assert {"include", "pre-commit", "post-checkout"} <= ran(traps)
    assert ran(traps) & {"filter.trap.process", "filter.trap.clean"}
    assert ran(traps) & {"diff.trap.textconv", "diff.external"}


def git_id(place: Path, back: int) -> str:
    """Return the id of an earlier commit, read without running what the repository names."""
    lines = (place / ".git" / "logs" / "HEAD").read_text().splitlines()
    return lines[-1 - back].split()[1]


@pytest.mark.parametrize("how", ["alternates", "a linked pack directory"])
# claim TG-C-591
def test_objects_of_another_repository_are_not_read(tmp_path: Path, how: str) -> None:
    secret = "the words of another repository\n"
    repository(tmp_path / "private", {"secret.txt": secret})
    theirs = git(tmp_path / "private", "rev-parse", "HEAD:secret.txt")
    place = tmp_path / "hostile"
    repository(place, {"a.txt": TEXT})
    objects = place / ".git" / "objects"
    if how == "alternates":
        other = tmp_path / "private" / ".git" / "objects"
        (objects / "info" / "alternates").write_text(f"{other}\n")
    else:
        git(tmp_path / "private", "gc", "-q", "--prune=now")
        (objects / "pack").rmdir()
        (objects / "pack").symlink_to(tmp_path / "private" / ".git" / "objects" / "pack")
    own = loose(place / ".git", "blob", TEXT.encode())
    root = tree(place / ".git", ("100644", b"a.txt", own), ("100644", b"b.txt", theirs))
    head = commit_of(place / ".git", root)
    assert git(place, "show", f"{head}:b.txt") == secret.strip(), "control: git reads it"
    found = imported(made(tmp_path), place, "--rev", head, code=65)
    assert found["a.txt"]["status"] == "made"
    assert (found["b.txt"]["status"], found["b.txt"]["code"]) == ("refused", "TG-GIT-004")
    assert found["b.txt"]["reason"] == "its object is missing"


LOOK = """
import json, os
def main():
    read_message(0, 1 << 20)
    seen = {}
    for path in PATHS:
        try:
            with open(path, "rb") as file:
                seen[path] = "read" if file.read(1) else "empty"
        except OSError as exc:
            seen[path] = type(exc).__name__
    write_message(3, json.dumps(seen).encode())
"""


# claim TG-C-591
def test_the_sandbox_sees_the_objects_and_nothing_else_of_the_repository(tmp_path: Path) -> None:
    place = tmp_path / "r"
    head = repository(place, {"a.txt": TEXT})
    hidden = [str(place / name) for name in (".git/config", ".git/HEAD", "a.txt")]
    assert all(Path(path).read_text() for path in hidden), "control: they are here"
    hidden += ["/in/objects/../config", "/in/config", "/in/HEAD"]
    inside = f"/in/objects/{head[:2]}/{head[2:]}"
    start = start_with(tmp_path, f"PATHS = {[inside, *hidden]!r}\n{LOOK}", GIT_READER)
    given = {**start.given, "objects": str(place / ".git" / "objects")}
    answer = run_gate(find_machine(), Start(start.profile, start.payload, given), b"go")
    with answer.message as file:
        seen = json.load(file)
    assert seen.pop(inside) == "read", "control: objects are seen"
    assert set(seen.values()) <= {"FileNotFoundError", "PermissionError"}
    assert set(seen) == set(hidden)


HEAD = """
from threegate.gates.git_reader.messages import *
def main():
    while (asked := read_message(0, 1 << 20)) is not None:
        if b'"list"' in asked[:200]:
            write_message(3, LISTED)
        else:
            write_message(3, BLOBS)
"""
FILE = "CommitListed('a' * 40, (('a.txt', 'file', 'b' * 40),)).to_bytes()"
LIES = {
    "another grammar of paths": (FILE + ".replace(b'a.txt', b'../etc')", "b''"),
    "a path with a NUL": (FILE + ".replace(b'a.txt', b'a\\\\u0000')", "b''"),
    "a page for an answer": ("b'<html>'", "b''"),
    "more blobs than asked": (FILE, "BlobsRead(('read',) * 2, (b'x', b'y')).to_bytes()"),
    "other bytes": (FILE, "BlobsRead(('read',), (b'not these',)).to_bytes()"),
}


def owned(monkeypatch: pytest.MonkeyPatch, directory: Path, listed: str, blobs: str) -> None:
    """Let the sandbox run another program, as if an object had taken it over."""
    code = HEAD.replace("LISTED", listed).replace("BLOBS", blobs)

    def start(_: object, __: object, given: dict[str, str], *___: object, **____: object) -> Start:
        made_start = start_with(directory, code, GIT_READER)
        return Start(made_start.profile, made_start.payload, {**made_start.given, **given})

    monkeypatch.setattr(open_box, "Start", start)


@pytest.mark.parametrize("name", LIES)
# claim TG-C-592
def test_an_owned_sandbox_that_lies_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place = tmp_path / "r"
    repository(place, {"a.txt": TEXT})
    with GitObjects(open_repository(place), policy().bundle()) as objects:
        ((_, _, blob),) = objects.commit("main").files
        assert objects.blob(blob) == TEXT.encode(), "control: the real sandbox is believed"
    owned(monkeypatch, tmp_path, *LIES[name])
    with GitObjects(open_repository(place), policy().bundle()) as objects:
        if name == "other bytes":
            ((_, _, blob),) = objects.commit("main").files
            with pytest.raises(ArtifactRejected, match="its object is damaged"):
                objects.blob(blob)
            return
        with pytest.raises(GateUnavailable, match="it broke the protocol"):
            objects.blob(objects.commit("main").files[0][2])


# claim TG-C-593
def test_hostile_names_and_bombs_are_refused_and_the_rest_is_imported(tmp_path: Path) -> None:
    place = tmp_path / "r"
    repository(place, {"a.txt": TEXT})
    inner = place / ".git"
    good, bomb = loose(inner, "blob", TEXT.encode()), loose(inner, "blob", b" " * (64 << 20))
    names = (b"..", b".git", b"a/b", b"\x1b[2J")
    rows = [("100644", name, good) for name in (*names, b"good.txt")]
    head = commit_of(inner, tree(inner, *rows, ("100644", b"bomb", bomb)))
    found = imported(made(tmp_path), place, "--rev", head, code=65)
    assert {name: (one["status"], one["reason"]) for name, one in found.items()} == {
        "%2E.": ("skipped", "bad name"),
        "%2Egit": ("skipped", "bad name"),
        "a%2Fb": ("skipped", "bad name"),
        "%1B%5B2J": ("skipped", "bad name"),
        "good.txt": ("made", None),
        "bomb": ("refused", "it is too large"),
    }


# claim TG-C-593
def test_only_dulwich_is_there_and_the_sandbox_is_attacked_like_the_others(tmp_path: Path) -> None:
    names = ("dulwich.pack", "urllib3", "lxml.etree", "pypdfium2_raw.bindings", "PIL", "numpy")
    without_objects = replace(GIT_READER, binds=())
    assert importable(tmp_path, without_objects, names) == ["dulwich.pack"]
    ours = {item.name for item in applicable(GIT_READER.name)}
    without = {item.name for item in applicable("fetch-normalize") if not item.only}
    assert len(without) > 250, "control: there are attempts"
    assert without <= ours
