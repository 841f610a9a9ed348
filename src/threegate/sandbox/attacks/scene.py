"""The host's side of an attack: canaries, a leaked descriptor, a key, controls; removed after."""

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threegate.base.errors import GateUnavailable
from threegate.sandbox.attacks.base import call
from threegate.sandbox.attacks.outside import Outsider
from threegate.sandbox.attacks.results import Said, said_of
from threegate.sandbox.runtime import runtime_directory

SESSION_KEYRING = -3
KEYCTL_UNLINK = 9
CONTROL_SECONDS = 120
END_SECONDS = 10
LEAKED_FD = 200


@dataclass(slots=True)
class Scene:
    """One uid's canary, its secret, and what an attacker is told."""

    outsider: Outsider
    directory: Path
    secret: str
    facts: dict[str, Any]
    canary: subprocess.Popen[bytes]
    _seen: set[str] = field(default_factory=set)
    _signals: int = 0
    _controls: dict[str, Said] = field(default_factory=dict)

    def reached(self) -> set[str]:
        """Return what reached the canary since the last question: tokens, and `signal`."""
        assert self.canary.stdin and self.canary.stdout
        self.canary.stdin.write(b"seen\n")
        self.canary.stdin.flush()
        answer = json.loads(self.canary.stdout.readline())
        fresh = set(answer["seen"]) - self._seen
        if answer["signals"] > self._signals:
            fresh.add("signal")
        self._seen |= fresh
        self._signals = answer["signals"]
        return fresh

    def control(self, names: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Said]:
        """Make the attempts without a box, each in a process of its own; once for each uid."""
        missing = [name for name in names if name not in self._controls]
        if missing:
            self._controls |= self._control(missing, facts)
        return self._controls

    def forget(self, names: Sequence[str]) -> None:
        """Make these controls again: they depend on the limits of a profile."""
        for name in names:
            self._controls.pop(name, None)

    def _control(self, names: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Said]:
        request = {"facts": facts, "names": list(names), "fork": True, "lock": ""}
        process = self.outsider.start(
            "threegate.sandbox.attacks.payload:control_main",
            env={"HOME": str(self.directory), "TG_SECRET": self.secret},
            pass_fds=(LEAKED_FD,),
            stderr=subprocess.DEVNULL,
        )
        out, _ = process.communicate(json.dumps(request).encode(), timeout=CONTROL_SECONDS)
        found = [json.loads(line) for line in _lines(out)]
        return {item["name"]: said_of(item) for item in found if "name" in item}


def _lines(out: bytes) -> list[bytes]:
    """Return the lines that are reports; an attempt that worked may have printed others."""
    return [line[line.index(b"{") :] for line in out.splitlines() if line.endswith(b"}")]


@contextlib.contextmanager
def scene(outsider: Outsider) -> Iterator[Scene]:
    """Set everything up for one uid, and take it down whatever happens."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(runtime_directory(None, "attack")).path
        uid = os.geteuid() if outsider.uid is None else outsider.uid
        for path in (directory, directory / "canary", directory / "control"):
            path.mkdir(mode=0o755, exist_ok=True)
            path.chmod(0o755)
            os.chown(path, uid, -1)
        secret = f"secret-{secrets.token_hex(8)}"
        canary = stack.enter_context(_canary(outsider, directory / "canary", secret))
        told = canary.stdout.readline() if canary.stdout else b""
        if not told:
            raise GateUnavailable("the canary did not start", code="TG-BOX-040")
        key = stack.enter_context(_session_key(secret))
        stack.enter_context(_leaked(directory / "canary"))
        facts = json.loads(told) | {"key_name": key, "leaked_fd": LEAKED_FD, "uid": uid}
        yield Scene(outsider, directory, secret, facts, canary)


@contextlib.contextmanager
def _canary(outsider: Outsider, directory: Path, secret: str) -> Iterator[subprocess.Popen[bytes]]:
    process = outsider.start(
        "threegate.sandbox.attacks.canary:main", [str(directory), secret], env={"TG_SECRET": secret}
    )
    try:
        yield process
    finally:
        _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Close its input, which tells it to go; kill it if it does not."""
    for stream in (process.stdin, process.stdout):
        if stream:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _session_key(secret: str) -> Iterator[str]:
    """Put a key where every process of this session can find it."""
    name = f"threegate-canary-{os.getpid()}"
    value = secret.encode()
    try:
        key = call("add_key", b"user", name.encode(), value, len(value), SESSION_KEYRING)
    except OSError:
        yield name  # no keys on this machine: the control will say so
        return
    try:
        yield name
    finally:
        call("keyctl", KEYCTL_UNLINK, key, SESSION_KEYRING)


@contextlib.contextmanager
def _leaked(directory: Path) -> Iterator[None]:
    """Hold an inheritable directory open: what a sloppy caller would pass on."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    os.dup2(fd, LEAKED_FD, inheritable=True)
    os.close(fd)
    try:
        yield
    finally:
        os.close(LEAKED_FD)
