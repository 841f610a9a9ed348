"""Signing by `ssh-keygen`: files, agents, tokens, and the ways each can fail."""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.sshlab import (
    APPROVAL,
    NOW,
    Key,
    lock,
    private_file,
    put,
    running_agent,
    token_file,
)
from threegate.base.errors import GateUnavailable, SignatureRefused, ThreeGateError, UsageError
from threegate.base.untrusted import Untrusted
from threegate.host.keys.signatures import (
    SshKeygenSigner,
    SshTools,
    agent_keys,
    key_strength,
    make_key,
    public_key_of,
)
from threegate.keys.public import parse_key_blob
from threegate.keys.signers import NAMESPACES, AllowedSigner, Signers
from threegate.keys.sshsig import verify

KEY, TOKEN = Key(b"\x01" * 32), Key(b"\x02" * 32, on_token=True)
MESSAGE = b"approve this\n"


@pytest.fixture
def tools() -> SshTools:
    return SshTools.find({})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "my keys, ümlaut"
    directory.mkdir()
    return directory


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "work space"
    directory.mkdir()
    return directory


@pytest.fixture
def agent(tmp_path_factory: pytest.TempPathFactory, tools: SshTools) -> Iterator[SshTools]:
    with running_agent(tmp_path_factory.mktemp("a")) as socket:
        yield replace(tools, environment={**tools.environment, "SSH_AUTH_SOCK": str(socket)})


def load(agent: SshTools, path: Path) -> None:
    subprocess.run(["ssh-add", "-q", path], env=dict(agent.environment), check=True, timeout=30)


def make_rsa(path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", str(path)]
    subprocess.run(argv, check=True, timeout=60)


def code_of(error: pytest.ExceptionInfo[ThreeGateError]) -> str:
    return error.value.code


def accepted(signature: bytes, namespace: str = APPROVAL, message: bytes = MESSAGE) -> bool:
    signers = Signers((AllowedSigner("operator", parse_key_blob(KEY.blob)),))
    found = verify(message, Untrusted(signature), namespace=namespace, signers=signers, at=NOW)
    return found.fingerprint == KEY.fingerprint


# Signing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_signs_with_a_private_key_file(
    namespace: str, home: Path, workspace: Path, tools: SshTools
) -> None:
    path = put(home / "id ed25519", private_file(KEY))
    signer = SshKeygenSigner(path, workspace, tools)
    for message in (b"", MESSAGE, b"\0\xff" * 50_000):
        assert accepted(signer.sign(message, namespace), namespace, message)


def test_signs_with_a_relative_and_a_linked_path(
    home: Path, workspace: Path, tools: SshTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(home / "key", private_file(KEY))
    (home / "link").symlink_to("key")
    monkeypatch.chdir(home)
    for name in ("key", "link", "../my keys, ümlaut/key"):
        assert accepted(SshKeygenSigner(Path(name), workspace, tools).sign(MESSAGE, APPROVAL))


def test_signs_with_a_public_key_and_an_agent(
    home: Path, workspace: Path, tools: SshTools, agent: SshTools
) -> None:
    load(agent, put(home / "key", private_file(KEY)))
    elsewhere = put(home / "only.pub", f"{KEY.public_line} me\n".encode(), 0o644)
    assert accepted(SshKeygenSigner(elsewhere, workspace, agent).sign(MESSAGE, APPROVAL))
    with pytest.raises(GateUnavailable, match="No private key found") as refused:
        SshKeygenSigner(elsewhere, workspace, tools).sign(MESSAGE, APPROVAL)
    assert code_of(refused) == "TG-KEY-014"
    assert "ssh-add" in refused.value.hint


def test_locked_key_without_anybody_to_ask_fails_in_words(
    home: Path, workspace: Path, tools: SshTools
) -> None:
    # The askpass of this test always answers with the wrong word; no terminal is touched.
    askpass = put(home / "askpass", b"#!/bin/sh\necho wrong\n", 0o700)
    asking = {"SSH_ASKPASS": str(askpass), "SSH_ASKPASS_REQUIRE": "force"}
    path = lock(put(home / "key", private_file(KEY)), "secret")
    signer = SshKeygenSigner(path, workspace, SshTools.find({**tools.environment, **asking}))
    with pytest.raises(GateUnavailable, match="incorrect passphrase") as refused:
        signer.sign(MESSAGE, APPROVAL)
    assert code_of(refused) == "TG-KEY-014"
    askpass.write_bytes(b"#!/bin/sh\necho secret\n")
    assert accepted(signer.sign(MESSAGE, APPROVAL)), "control: the right word opens it"


def test_token_that_is_not_there_fails_in_words_after_asking_for_a_touch(
    home: Path, workspace: Path, tools: SshTools
) -> None:
    told: list[str] = []
    path = put(home / "token", token_file(TOKEN))
    with pytest.raises(GateUnavailable, match="ssh-keygen failed") as refused:
        SshKeygenSigner(path, workspace, tools, told.append).sign(MESSAGE, APPROVAL)
    assert code_of(refused) == "TG-KEY-014"
    assert "token plugged in" in refused.value.hint
    assert told == ["touch your security key to sign"]


@pytest.mark.parametrize("namespace", ["git", "file", "", "threegate-other", "threegate-approval "])
def test_signs_for_nothing_but_our_namespaces(
    namespace: str, home: Path, workspace: Path, tools: SshTools
) -> None:
    signer = SshKeygenSigner(put(home / "key", private_file(KEY)), workspace, tools)
    with pytest.raises(SignatureRefused) as refused:
        signer.sign(MESSAGE, namespace)
    assert code_of(refused) == "TG-KEY-004"


def test_works_in_the_c_locale(home: Path, workspace: Path) -> None:
    path = put(home / "key", private_file(KEY))
    script = (
        "import sys, os; from pathlib import Path\n"
        "from threegate.host.keys.signatures import SshKeygenSigner, SshTools\n"
        "key, workspace = map(Path, sys.argv[1:])\n"
        "signer = SshKeygenSigner(key, workspace, SshTools.find(os.environ))\n"
        "sys.stdout.buffer.write(signer.sign(sys.stdin.buffer.read(), 'threegate-approval'))\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    for extra in ({}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = subprocess.run(
            [sys.executable, "-c", script, path, workspace],
            input=MESSAGE,
            capture_output=True,
            env={**environment, **extra},
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert accepted(done.stdout)


# Key files --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o666])
def test_key_others_can_read_is_refused(
    mode: int, home: Path, workspace: Path, tools: SshTools
) -> None:
    path = put(home / "key", private_file(KEY))
    signer = SshKeygenSigner(path, workspace, tools)
    assert accepted(signer.sign(MESSAGE, APPROVAL)), "control"
    path.chmod(mode)
    with pytest.raises(GateUnavailable, match="can be read by others") as refused:
        signer.sign(MESSAGE, APPROVAL)
    assert code_of(refused) == "TG-KEY-011"
    assert refused.value.hint.startswith("chmod 600 ")


def test_public_name_does_not_hide_an_open_private_file(
    home: Path, workspace: Path, tools: SshTools
) -> None:
    # ssh-keygen takes the private half from the file next to the public one.
    put(home / "key", private_file(KEY))
    public = put(home / "key.pub", KEY.public_line.encode(), 0o644)
    signer = SshKeygenSigner(public, workspace, tools)
    assert accepted(signer.sign(MESSAGE, APPROVAL)), "control"
    (home / "key").chmod(0o644)
    with pytest.raises(GateUnavailable) as refused:
        signer.sign(MESSAGE, APPROVAL)
    assert code_of(refused) == "TG-KEY-011"


def test_key_of_somebody_else_is_refused(
    home: Path, workspace: Path, tools: SshTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = SshKeygenSigner(put(home / "key", private_file(KEY)), workspace, tools)
    assert accepted(signer.sign(MESSAGE, APPROVAL)), "control"
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(GateUnavailable, match="belongs to somebody else") as refused:
        signer.sign(MESSAGE, APPROVAL)
    assert code_of(refused) == "TG-KEY-012"


def test_missing_looping_and_odd_files_are_refused(
    home: Path, workspace: Path, tools: SshTools
) -> None:
    (home / "loop").symlink_to("loop")
    os.mkfifo(home / "fifo", 0o600)
    for name, reason in {
        "missing": "cannot be read: no such file",
        "loop": "cannot be read: ",
        "fifo": "is not a file",
        ".": "is not a file",
    }.items():
        with pytest.raises(GateUnavailable, match=reason) as refused:
            SshKeygenSigner(home / name, workspace, tools).sign(MESSAGE, APPROVAL)
        assert code_of(refused) == "TG-KEY-013"


def test_rsa_key_is_refused_before_anybody_is_asked(
    home: Path, workspace: Path, tools: SshTools
) -> None:
    path = home / "rsa"
    make_rsa(path)
    with pytest.raises(SignatureRefused, match="may not sign") as refused:
        SshKeygenSigner(path, workspace, tools).sign(MESSAGE, APPROVAL)
    assert code_of(refused) == "TG-KEY-007"


# Making and reading keys ------------------------------------------------------------------


def test_made_key_is_private_and_signs(home: Path, workspace: Path, tools: SshTools) -> None:
    path = home / "new directory" / "operator key"
    public = make_key(path, "threegate operator", workspace=workspace, tools=tools)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.with_name("operator key.pub").read_text().split(" ", 2)[2] == "threegate operator\n"
    signature = SshKeygenSigner(path, workspace, tools).sign(MESSAGE, APPROVAL)
    signers = Signers((AllowedSigner("operator", public),))
    assert (
        verify(MESSAGE, Untrusted(signature), namespace=APPROVAL, signers=signers, at=NOW).principal
        == "operator"
    )


@pytest.mark.parametrize("taken", ["key", "key.pub"])
def test_existing_key_is_never_overwritten(
    taken: str, home: Path, workspace: Path, tools: SshTools
) -> None:
    put(home / taken, b"precious")
    with pytest.raises(UsageError, match="is already there"):
        make_key(home / "key", "c", workspace=workspace, tools=tools)
    assert (home / taken).read_bytes() == b"precious"


@pytest.mark.parametrize("comment", ["two\nlines", "\x1b[2J", "x" * 129, "ä"])
def test_comment_that_could_be_a_second_line_is_refused(
    comment: str, home: Path, workspace: Path, tools: SshTools
) -> None:
    with pytest.raises(UsageError, match="cannot be the comment"):
        make_key(home / "key", comment, workspace=workspace, tools=tools)
    assert not list(home.iterdir())


def test_key_is_not_made_where_no_directory_can_be(
    home: Path, workspace: Path, tools: SshTools
) -> None:
    put(home / "file", b"")
    with pytest.raises(GateUnavailable) as refused:
        make_key(home / "file" / "key", "c", workspace=workspace, tools=tools)
    assert code_of(refused) == "TG-KEY-013"


def test_public_half_needs_no_passphrase(home: Path, tools: SshTools) -> None:
    plain = put(home / "plain", private_file(KEY))
    locked = lock(put(home / "locked", private_file(KEY)), "secret")
    public = put(home / "public", f"{KEY.public_line} comment\n".encode())
    for path in (plain, locked, public):
        assert public_key_of(path, tools).blob == KEY.blob
    assert public_key_of(put(home / "token", token_file(TOKEN)), tools).blob == TOKEN.blob


def test_garbage_is_no_public_key(home: Path, tools: SshTools) -> None:
    with pytest.raises(GateUnavailable) as damaged:
        public_key_of(put(home / "a", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"), tools)
    assert code_of(damaged) == "TG-KEY-014"
    for data in (b"", b"nonsense", b"\0" * 100_000):
        with pytest.raises(SignatureRefused) as refused:
            public_key_of(put(home / "b", data), tools)
        assert code_of(refused) == "TG-KEY-001"


def test_agent_offers_only_keys_that_may_sign(home: Path, agent: SshTools) -> None:
    rsa = home / "rsa"
    make_rsa(rsa)
    assert agent_keys(agent) == []
    load(agent, rsa)
    assert agent_keys(agent) == []
    path = put(home / "key", private_file(KEY))
    load(agent, path)
    [offered] = agent_keys(agent)
    assert offered.key.blob == KEY.blob
    assert offered.comment == Untrusted(str(path))  # ssh-add's word for a key without comment


def test_no_agent_offers_nothing(home: Path, tools: SshTools) -> None:
    assert agent_keys(tools) == []
    dead = {**tools.environment, "SSH_AUTH_SOCK": str(home / "nobody")}
    assert agent_keys(replace(tools, environment=dead)) == []


def test_strength_names_the_weakest_way_in(home: Path, tools: SshTools, agent: SshTools) -> None:
    plain = put(home / "plain", private_file(KEY))
    public = put(home / "only.pub", KEY.public_line.encode())
    locked = lock(put(home / "locked", private_file(KEY)), "secret")
    sibling = put(home / "locked.pub", KEY.public_line.encode())
    token = put(home / "token", token_file(TOKEN))
    assert key_strength(plain, agent) == "plain-file"
    assert key_strength(locked, agent) == "passphrase"
    assert key_strength(sibling, agent) == "passphrase"
    assert key_strength(token, agent) == "fido2"
    with pytest.raises(GateUnavailable, match="no private half") as nowhere:
        key_strength(public, agent)
    assert code_of(nowhere) == "TG-KEY-013"
    load(agent, plain)
    strengths = [key_strength(path, agent) for path in (plain, locked, sibling, public)]
    assert strengths == ["plain-file", "agent", "agent", "agent"]
    assert key_strength(locked, tools) == "passphrase", "control: the agent made the difference"


def test_strength_of_a_file_ssh_keygen_refuses_is_not_guessed(home: Path, tools: SshTools) -> None:
    with pytest.raises(GateUnavailable, match="bad permissions") as refused:
        key_strength(put(home / "key", private_file(KEY), 0o644), tools)
    assert code_of(refused) == "TG-KEY-013"


# The tools --------------------------------------------------------------------------------


def test_missing_openssh_names_the_package(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threegate.sandbox.programs.SEARCH", (str(home),))
    with pytest.raises(GateUnavailable, match="ssh-keygen is not installed") as refused:
        SshTools.find({})
    assert refused.value.exit_code == os.EX_UNAVAILABLE
    assert "apt install openssh-client" in refused.value.hint


def test_environment_is_short(tools: SshTools, home: Path, workspace: Path) -> None:
    fake = put(home / "ssh-keygen", b"#!/bin/sh\nenv >&2\npwd >&2\nexit 1\n", 0o700)
    noisy = {
        **tools.environment,
        "HOME": "/h",
        "LD_PRELOAD": "/evil.so",
        "SSH_SK_PROVIDER": "/evil.so",
        "SSH_SK_HELPER": "/evil",
        "LC_ALL": "de_DE.UTF-8",
        "DISPLAY": "",
        "PYTHONPATH": "/evil",
    }
    found = SshTools.find(noisy)
    assert set(found.environment) == {"PATH", "HOME", "LC_ALL"}
    assert found.environment["LC_ALL"] == "C"
    key = put(home / "key", private_file(KEY))
    with pytest.raises(GateUnavailable) as refused:
        SshKeygenSigner(key, workspace, replace(found, keygen=fake)).sign(MESSAGE, APPROVAL)
    assert '"/"' in refused.value.message, "the last line is the directory it ran in"


ASKED_TO_STOP = b"""#!/bin/sh
printf $$ > "${0%/*}/pid"
trap 'touch "${0%/*}/asked"; exit 0' TERM
while :; do sleep 0.05; done
"""
DEAF = b"""#!/bin/sh
printf $$ > "${0%/*}/pid"
trap '' TERM
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize("script", [ASKED_TO_STOP, DEAF], ids=["polite", "deaf"])
def test_silent_tool_is_stopped_and_reported(
    script: bytes, home: Path, workspace: Path, tools: SshTools
) -> None:
    fake = put(home / "ssh-keygen", script, 0o700)
    slow = replace(tools, keygen=fake, human_timeout_seconds=0.5)
    key = put(home / "key.pub", KEY.public_line.encode())
    began = time.monotonic()
    with pytest.raises(GateUnavailable, match=r"no answer for 0\.5 seconds") as refused:
        SshKeygenSigner(key, workspace, slow).sign(MESSAGE, APPROVAL)
    assert code_of(refused) == "TG-KEY-015"
    assert time.monotonic() - began < 30
    # ssh-keygen restores the terminal's echo when it is asked to stop, not when it is killed.
    assert (home / "asked").exists() == (script == ASKED_TO_STOP)
    with pytest.raises(ProcessLookupError):
        os.kill(int((home / "pid").read_text()), 0)


def test_tool_that_vanished_is_an_error_in_words(
    home: Path, workspace: Path, tools: SshTools
) -> None:
    gone = replace(tools, keygen=home / "gone")
    key = put(home / "key.pub", KEY.public_line.encode())
    with pytest.raises(GateUnavailable, match="cannot run gone"):
        SshKeygenSigner(key, workspace, gone).sign(MESSAGE, APPROVAL)


def test_what_the_tool_says_is_escaped_and_cut(
    home: Path, workspace: Path, tools: SshTools
) -> None:
    shout = (
        b"#!/bin/sh\nprintf '\\033[2J%s' \"$(head -c 5000 /dev/zero | tr '\\0' x)\" >&2\nexit 1\n"
    )
    loud = replace(tools, keygen=put(home / "ssh-keygen", shout, 0o700))
    key = put(home / "key.pub", KEY.public_line.encode())
    with pytest.raises(GateUnavailable) as refused:
        SshKeygenSigner(key, workspace, loud).sign(MESSAGE, APPROVAL)
    assert "\\u{1b}[2Jxxx" in refused.value.message
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 300


def test_the_real_tools_are_found_by_absolute_path(tools: SshTools) -> None:
    assert tools.keygen == Path(shutil.which("ssh-keygen") or "")
    assert tools.keygen.is_absolute()
