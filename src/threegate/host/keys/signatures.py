"""Signing by `ssh-keygen`: key files, agents and FIDO2 tokens, all the operator's own.

One of two modules of the host that start a process; `models/store.py` is the other.
ThreeGate never reads a private key: `ssh-keygen` does, or asks the agent or the token.  Every
signature is verified here, in-process, before it is handed on.

SECURITY
    Runs `ssh-keygen` and `ssh-add` from fixed places, with an argument list, a short
    environment and a time limit; what they print is foreign text.  If this module is wrong, the
    operator may be asked for an unintended signature.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from threegate.base.errors import GateUnavailable, SignatureRefused, UsageError
from threegate.base.text import quote, visible
from threegate.base.untrusted import Untrusted
from threegate.host.keys.keyfiles import (
    accepted_key_file,
    head_of,
    is_private,
    key_refused,
    private_file,
    refuse_inside,
)
from threegate.keys.public import (
    MAX_PUBLIC_LINE_BYTES,
    PublicKey,
    decode_base64,
    parse_key_blob,
    parse_public_line,
)
from threegate.keys.signers import NAMESPACES
from threegate.keys.sshsig import check_signature, parse_signature
from threegate.sandbox.programs import PATH, find_program, is_unexchangeable

HUMAN_TIMEOUT_SECONDS: Final = 120  # find the token, plug it in, touch it
TOOL_TIMEOUT_SECONDS: Final = 15
_GRACE_SECONDS: Final = 2
_STDERR_CHARS: Final = 160
_MAX_COMMENT_CHARS: Final = 128

# Variables with which ssh-keygen finds the agent and asks for a passphrase; none names a library
# to load (SSH_SK_PROVIDER, SSH_SK_HELPER, LD_PRELOAD).
_PASSED_ON: Final = (
    "HOME",
    "SSH_AUTH_SOCK",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "DISPLAY",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
)

UNKNOWN: Final = "unknown"
Strength = Literal["plain-file", "passphrase", "agent", "fido2"]
_Done = subprocess.CompletedProcess[bytes]


class Signer(Protocol):
    """A maker of signatures that `threegate.keys.sshsig.verify` accepts."""

    def sign(self, message: bytes, namespace: str) -> bytes:
        """Return an armored signature of `message`."""
        ...


@dataclass(frozen=True, slots=True)
class AgentKey:
    """One key of an SSH agent; the comment is foreign text."""

    key: PublicKey
    comment: Untrusted[str]


@dataclass(frozen=True, slots=True)
class SshTools:
    """OpenSSH as found on this machine, and the environment it is given."""

    keygen: Path
    environment: Mapping[str, str]
    human_timeout_seconds: float = HUMAN_TIMEOUT_SECONDS

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> "SshTools":
        """Return the tools of this machine, or raise `GateUnavailable`."""
        passed = {name: environment[name] for name in _PASSED_ON if environment.get(name)}
        asker = passed.get("SSH_ASKPASS")
        if asker is not None and not is_unexchangeable(Path(asker)):
            del passed["SSH_ASKPASS"]  # an askpass program would get the passphrase
        return cls(_find("ssh-keygen"), {**passed, "PATH": PATH, "LC_ALL": "C"})


def _say_nothing(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class SshKeygenSigner:
    """Signs with a private key file, or with a public key whose other half an agent holds."""

    key: Path
    workspace: Path
    tools: SshTools
    notify: Callable[[str], None] = _say_nothing  # called when a human has to act

    @property
    def kind(self) -> str:
        """What protects the key, as far as can be seen from here."""
        try:
            return key_strength(self.key, self.tools)
        except (GateUnavailable, SignatureRefused):
            return UNKNOWN

    def sign(self, message: bytes, namespace: str) -> bytes:
        """Return an armored signature of `message`, verified.

        Raises `GateUnavailable` if none was made, `SignatureRefused` if it does not hold.
        """
        if namespace not in NAMESPACES:  # this must never become a tool to sign anything else
            raise SignatureRefused(
                f"{quote(namespace)} is not a namespace to sign in", code="TG-KEY-004"
            )
        path = accepted_key_file(self.key, workspace=self.workspace)
        public = public_key_of(path, self.tools)
        if public.on_token:
            self.notify("touch your security key to sign")
        argv: list[str | Path] = [self.tools.keygen, "-Y", "sign", "-f", path, "-n", namespace, "-"]
        seconds = self.tools.human_timeout_seconds
        armored = _output(argv, self.tools, stdin=message, seconds=seconds)
        _verify_own(message, armored, namespace=namespace, public=public)
        return armored


def kind_of(signer: Signer) -> str:
    """Return what protects the key that a signer signs with, or `unknown`."""
    return str(getattr(signer, "kind", UNKNOWN))


def make_key(path: Path, comment: str, *, workspace: Path, tools: SshTools) -> PublicKey:
    """Make an ed25519 key at `path`, mode 0600, without passphrase; return its public half."""
    if len(comment) > _MAX_COMMENT_CHARS or not (comment.isascii() and comment.isprintable()):
        raise UsageError(f"{quote(comment)} cannot be the comment of a key")
    target = path.absolute()
    refuse_inside(target, workspace)
    for taken in (target, target.with_name(f"{target.name}.pub")):
        if os.path.lexists(taken):
            raise UsageError(f"{visible(str(taken))} is already there")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise key_refused("TG-KEY-013", target, "cannot be made: no directory") from exc
    _output([tools.keygen, "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", target], tools)
    return public_key_of(accepted_key_file(target, workspace=workspace), tools)


def public_key_of(path: Path, tools: SshTools) -> PublicKey:
    """Return the public half of a private or public key file, without asking for anything."""
    if not is_private(path):
        return parse_public_line(Untrusted(head_of(path, MAX_PUBLIC_LINE_BYTES + 1)))
    # Unlike `-y`, exporting needs no passphrase: the public half is not encrypted.
    exported = _output([tools.keygen, "-e", "-f", path.absolute()], tools)
    # RFC 4716: what is neither a `----` frame nor a `Name: value` header is base64.
    body = [line for line in exported.splitlines() if b"-" not in line and b":" not in line]
    return parse_key_blob(decode_base64(b"".join(body), MAX_PUBLIC_LINE_BYTES, what="public key"))


def agent_keys(tools: SshTools) -> list[AgentKey]:
    """Return the keys of the SSH agent that may sign here; none if there is no agent."""
    if "SSH_AUTH_SOCK" not in tools.environment:
        return []
    done = _start([_find("ssh-add"), "-L"], tools)
    if done.returncode != 0:  # 1: the agent holds nothing, 2: nobody listens there
        return []
    found = []
    for line in done.stdout.splitlines():
        try:
            key = parse_public_line(Untrusted(line))
        except SignatureRefused:  # RSA and other types are not for us
            continue
        comment = b" ".join(line.split(b" ", 2)[2:]).decode("utf-8", "replace")
        found.append(AgentKey(key, Untrusted(comment)))
    return found


def key_strength(path: Path, tools: SshTools) -> Strength:
    """Return what protects the key from a thief of this account.

    The weakest way in counts: a file without passphrase is a plain file even if an agent
    holds the key too, and a key with passphrase in an agent is `agent`, for the agent signs
    without asking (whether it confirms, `ssh-add -c`, cannot be seen from outside).
    Raises `GateUnavailable` if nobody here can sign with it.
    """
    public = public_key_of(path, tools)
    if public.on_token:
        return "fido2"
    private = private_file(path)
    opened = _start([tools.keygen, "-y", "-P", "", "-f", private], tools) if private else None
    if opened is not None and opened.returncode == 0:
        return "plain-file"
    if any(offered.key == public for offered in agent_keys(tools)):
        return "agent"
    if opened is not None and b"incorrect passphrase" in opened.stderr:
        return "passphrase"
    why = _reason(opened.stderr) if opened else "no private half in a file or an agent"
    raise key_refused("TG-KEY-013", path, f"cannot sign: {why}")


def _verify_own(message: bytes, armored: bytes, *, namespace: str, public: PublicKey) -> None:
    # A confused agent must not leave a bad approval behind.
    try:
        signature = parse_signature(Untrusted(armored))
        if signature.key != public or signature.namespace != namespace:
            raise SignatureRefused("it is by another key or for another namespace")
        check_signature(message, signature)
    except SignatureRefused as exc:
        raise SignatureRefused(
            f"the new signature does not hold: {exc.message}", code="TG-KEY-016"
        ) from exc


def _find(program: str) -> Path:
    found = find_program(program)
    if found is None:
        raise GateUnavailable(
            f"{program} is not installed", hint="install OpenSSH: sudo apt install openssh-client"
        )
    return found


def _output(
    argv: Sequence[str | Path],
    tools: SshTools,
    *,
    stdin: bytes = b"",
    seconds: float = TOOL_TIMEOUT_SECONDS,
) -> bytes:
    done = _start(argv, tools, stdin=stdin, seconds=seconds)
    if done.returncode != 0:
        raise GateUnavailable(
            f"ssh-keygen failed: {_reason(done.stderr)}",
            code="TG-KEY-014",
            hint="is the key in the agent (`ssh-add -l`), or its token plugged in?",
        )
    return done.stdout


def _start(
    argv: Sequence[str | Path],
    tools: SshTools,
    *,
    stdin: bytes = b"",
    seconds: float = TOOL_TIMEOUT_SECONDS,
) -> _Done:
    program, pipe = Path(argv[0]).name, subprocess.PIPE
    environment, signals = dict(tools.environment), _HeldSignals()
    try:
        os.stat(argv[0])  # else it is `setpriv` that says that it is not there
        with subprocess.Popen(
            [*_tied(), *argv],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=environment,
            cwd="/",
        ) as process:
            try:
                signals.release()
                out, err = process.communicate(stdin, timeout=seconds)
            except BaseException:  # timed out, or a signal ends us
                _stop(process)
                raise
    except OSError as exc:
        raise GateUnavailable(f"cannot run {program}: {exc.strerror}") from exc
    except subprocess.TimeoutExpired as exc:
        raise GateUnavailable(
            f"{program} gave no answer for {seconds:g} seconds", code="TG-KEY-015"
        ) from exc
    finally:
        signals.release()
    return _Done(argv, process.returncode, out, err)


def _tied() -> list[str]:
    """Return a command prefix that ends the command when we are killed.

    Otherwise a command that waits for a passphrase would go on reading the operator's terminal.
    Without `setpriv` of util-linux it does; its signature is then discarded.
    """
    found = find_program("setpriv")
    # Busybox has a `setpriv` too, a link, without this option.
    fits = found is not None and found.resolve().name == "setpriv"
    return [str(found), "--pdeathsig", "TERM"] if fits else []


class _HeldSignals:
    """Holds signals back while a process is started.

    Race: an exception from a handler between the start and the assignment would lose the process,
    which then goes on reading the operator's terminal.  Handlers, not a mask: a mask would be
    inherited, and Ctrl-C would not reach the process.
    """

    def __init__(self) -> None:
        self._came: list[int] = []
        self._before: dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():
            return  # handlers run in the main thread, so nothing can come between here
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):
                self._before[number] = signal.signal(number, self._hear)

    def _hear(self, number: int, _: object) -> None:
        self._came.append(number)

    def release(self) -> None:
        """Restore the handlers, and deliver the signals that came."""
        before, self._before = self._before, {}
        for number, handler in before.items():
            signal.signal(number, handler)
        came, self._came = self._came, []
        for number in came:
            signal.raise_signal(number)


def _stop(process: subprocess.Popen[bytes]) -> None:
    # Ask first: killed while it waits for a passphrase, it would leave the terminal without echo.
    process.terminate()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    told = [line for line in lines if line and line != "Signing data on standard input"]
    return quote(told[-1] if told else "no reason given", _STDERR_CHARS)
