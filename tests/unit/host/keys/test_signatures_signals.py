"""Signals while somebody signs: `ssh-keygen` never goes on without us, reading the terminal."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.sshlab import APPROVAL, Key, private_file, put
from threegate.base.errors import GateUnavailable
from threegate.host.keys.signatures import SshKeygenSigner, SshTools

SILENT = '#!/bin/sh\ncase $1 in -e) exec ssh-keygen "$@";; esac\nexec sleep 600\n'


class Ended(BaseException):
    """Raised by a handler, as those of the interactive review do."""


def raise_ended(_: int, __: object) -> None:
    raise Ended


@pytest.fixture
def signer(tmp_path: Path) -> SshKeygenSigner:
    """Return a signer whose tool reads the key and then waits for a human."""
    tool = put(tmp_path / "tool", SILENT.encode(), 0o700)
    key = put(tmp_path / "key", private_file(Key(b"\x01" * 32)))
    (tmp_path / "ws").mkdir()
    return SshKeygenSigner(key, tmp_path / "ws", SshTools(tool, {"PATH": os.environ["PATH"]}))


def started(monkeypatch: pytest.MonkeyPatch, number: int) -> list[subprocess.Popen[bytes]]:
    """Let a signal come at the worst moment: the process runs, and nobody knows it yet."""
    found: list[subprocess.Popen[bytes]] = []

    class Slow(subprocess.Popen[bytes]):
        def __init__(self, argv: Any, **options: Any) -> None:
            super().__init__(argv, **options)
            if "sign" in argv:
                found.append(self)
                signal.raise_signal(number)

    monkeypatch.setattr("threegate.host.keys.signatures.subprocess.Popen", Slow)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_worst_moment_leaves_no_process_behind(
    monkeypatch: pytest.MonkeyPatch, signer: SshKeygenSigner, number: int
) -> None:
    before = signal.signal(number, raise_ended)
    try:
        found = started(monkeypatch, number)
        with pytest.raises(Ended):
            signer.sign(b"approve this\n", APPROVAL)
        (process,) = found
        assert process.returncode == -signal.SIGTERM, "it was asked to end, and waited for"
        assert signal.getsignal(number) is raise_ended, "handlers are put back"
    finally:
        signal.signal(number, before)


def test_dispositions_that_are_not_ours_stay(
    monkeypatch: pytest.MonkeyPatch, signer: SshKeygenSigner
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        found = started(monkeypatch, signal.SIGHUP)
        timed = SshKeygenSigner(
            signer.key, signer.workspace, SshTools(signer.tools.keygen, signer.tools.environment, 1)
        )
        with pytest.raises(GateUnavailable, match="gave no answer"):
            timed.sign(b"approve this\n", APPROVAL)
        assert found[0].returncode is not None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
