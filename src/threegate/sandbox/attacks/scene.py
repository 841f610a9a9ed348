"""The host's side of an attack: canaries, a leaked descriptor, a key, controls; removed afterwards.

Canaries and controls are our own Python without a box, as an ordinary uid.  As root the uid is
given up before anything runs.  That uid may not be able to enter the interpreter's directory (a
pyenv in root's home): then the child covers that directory, in a mount namespace of its own, with
an empty one that leads to the interpreter and nothing else.
"""

import contextlib
import errno
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import threegate
from threegate.base.errors import GateUnavailable
from threegate.sandbox import kernel
from threegate.sandbox.attacks.base import Said, call, said_of
from threegate.sandbox.machine import Machine, reachable
from threegate.sandbox.runtime import runtime_directory

_RUN = "import sys;sys.path[:0]={paths!r};from {module} import {function};{function}()"
_NEW_MOUNTS = 0x00020000
_PRIVATE = 0x4000 | 0x40000
_BIND = 0x1000 | 0x4000


@dataclass(frozen=True, slots=True)
class Outsider:
    """How to start Python as one uid; None means our own."""

    uid: int | None
    unshare: int
    groups: tuple[int, ...] = ()  # besides the one of its own

    def start(
        self,
        target: str,
        arguments: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        stderr: int | None = None,
        paths: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start `module:function` with pipes to its input and output."""
        module, _, function = target.partition(":")
        paths = [*paths, *_search_path()]
        code = _RUN.format(paths=paths, module=module, function=function)
        needed = [os.path.realpath(sys.base_prefix), *paths]
        return subprocess.Popen(
            [os.path.realpath(sys.executable), "-I", "-S", "-B", "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(env or {}),
            cwd="/",
            pass_fds=pass_fds,
            preexec_fn=None if self.uid is None else self._become(self.uid, needed),
        )

    def _become(self, uid: int, needed: Sequence[str]) -> Callable[[], None]:
        return become(uid, needed, self.unshare, self.groups)


def _search_path() -> list[str]:
    source = str(Path(threegate.__file__).resolve().parent.parent)
    return [source, *(path for path in sys.path if path.endswith("-packages"))]


def become(
    uid: int, needed: Sequence[str], unshare: int, groups: Sequence[int] = ()
) -> Callable[[], None]:
    """Return what a child of root does before it runs: open the way, give up root."""
    hidden = [path for path in needed if not reachable(Path(path))]
    closed = sorted({_first_closed(path) for path in hidden})

    def child() -> None:
        if hidden:
            kernel.syscall(unshare, _NEW_MOUNTS)
            kernel.mount("none", "/", None, _PRIVATE)
            opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in hidden}
            os.umask(0o022)
            for top in closed:
                kernel.mount("tmpfs", top, "tmpfs", 0)
                os.chmod(top, 0o755)
            for path, fd in opened.items():
                os.makedirs(path, exist_ok=True)
                kernel.mount(f"/proc/self/fd/{fd}", path, None, _BIND)
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)

    return child


def _first_closed(path: str) -> str:
    """Return the uppermost directory of a path that others cannot enter."""
    above = [path, *map(str, Path(path).parents)]
    return next(item for item in reversed(above) if not reachable(Path(item)))


def outsider(machine: Machine, profile: str) -> Outsider:
    """Return an outsider of the same uid as the profile's gate."""
    return Outsider(machine.uid_for(profile), machine.arch.numbers["unshare"])


# Whether the host's firewall knows the gates: send a datagram to ourselves as one of them.

_DISCARD: Final = ("127.0.0.1", 9)
_REFUSED, _SENT = 0, 1


def says_nothing(uid: int) -> bool:
    """Tell whether a datagram of `uid` is refused before it is made; for root only.

    It goes to loopback, where the rules refuse a gate as well: nothing leaves the machine.
    """
    child = os.fork()  # of this package; it makes four system calls
    if child == 0:
        os._exit(_try(uid))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == _REFUSED


def _try(uid: int) -> int:
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError:  # this root may not become others, so nothing was found out
        return _SENT
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", _DISCARD)
    except OSError as exc:
        return _REFUSED if exc.errno == errno.EPERM else _SENT
    return _SENT


SESSION_KEYRING = -3
KEYCTL_UNLINK = 9
CONTROL_SECONDS = 120
END_SECONDS = 10
LEAKED_FD = 200


@dataclass(slots=True)
class Scene:
    """One uid's canary, its secret, and the facts for an attacker."""

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
    """Set everything up for one uid, and take it down at the end, also after an error."""
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
