"""Keys, signatures and `ssh-keygen` for tests.

Writes the wire format on its own, without the code under test, and can spell what no
honest signer would: that is what the tests are for.
"""

import base64
import hashlib
import itertools
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

PLAIN = b"ssh-ed25519"
SK = b"sk-ssh-ed25519@openssh.com"
APPROVAL = "threegate-approval"
NOW = 1_794_780_000  # 2026-11-15
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
HEAD = b"-----BEGIN SSH SIGNATURE-----\n"
FOOT = b"-----END SSH SIGNATURE-----\n"


def s(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def armored(blob: bytes) -> bytes:
    text = base64.b64encode(blob)
    return HEAD + b"".join(text[i : i + 70] + b"\n" for i in range(0, len(text), 70)) + FOOT


def dearmored(text: bytes) -> bytes:
    return base64.b64decode(text.removeprefix(HEAD).removesuffix(FOOT).replace(b"\n", b""))


@dataclass(frozen=True)
class Key:
    """A key pair whose secret the test holds, as a plain key or as a soft FIDO2 token."""

    seed: bytes
    on_token: bool = False
    application: bytes = b"ssh:"

    @property
    def private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @property
    def type_name(self) -> bytes:
        return SK if self.on_token else PLAIN

    @property
    def point(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @property
    def blob(self) -> bytes:
        tail = s(self.application) if self.on_token else b""
        return s(self.type_name) + s(self.point) + tail

    @property
    def public_line(self) -> str:
        return f"{self.type_name.decode()} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode()
        return f"SHA256:{digest.rstrip('=')}"

    def signer_line(self, principal: str = "operator", options: str = "") -> bytes:
        return f'{principal} namespaces="threegate-*"{options} {self.public_line}\n'.encode()


@dataclass
class Forge:
    """One signature with every part open to change; `blob` puts them together."""

    key: Key
    message: bytes = b"approve this"
    namespace: bytes = APPROVAL.encode()
    hash_name: bytes = b"sha512"
    flags: int = 1
    counter: int = 7
    magic: bytes = b"SSHSIG"
    version: int = 1
    reserved: bytes = b""
    key_blob: bytes | None = None
    sig_type: bytes | None = None
    sig_raw: bytes | None = None
    claimed: dict[str, bytes] = field(default_factory=dict)
    tails: dict[str, bytes] = field(default_factory=dict)

    def to_sign(self) -> bytes:
        hashed = getattr(hashlib, self.hash_name.decode())(self.message).digest()
        text = b"SSHSIG" + s(self.namespace) + s(b"") + s(self.hash_name) + s(hashed)
        if not self.key.on_token:
            return text
        app = hashlib.sha256(self.key.application).digest()
        return app + struct.pack(">BI", self.flags, self.counter) + hashlib.sha256(text).digest()

    def raw(self) -> bytes:
        return self.key.private.sign(self.to_sign()) if self.sig_raw is None else self.sig_raw

    def inner(self) -> bytes:
        token = struct.pack(">BI", self.flags, self.counter) if self.key.on_token else b""
        name = self.key.type_name if self.sig_type is None else self.sig_type
        return s(name) + s(self.raw()) + token + self.tails.get("inner", b"")

    def blob(self) -> bytes:
        key_blob = self.key.blob if self.key_blob is None else self.key_blob
        return (
            self.magic
            + struct.pack(">I", self.version)
            + s(key_blob + self.tails.get("key", b""))
            + s(self.claimed.get("namespace", self.namespace))
            + s(self.reserved)
            + s(self.claimed.get("hash", self.hash_name))
            + s(self.inner())
            + self.tails.get("outer", b"")
        )

    def armored(self) -> bytes:
        return armored(self.blob())


def spell(at: int) -> str:
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(at))


@dataclass
class SshKeygen:
    """The other implementation."""

    directory: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def verify(
        self,
        message: bytes,
        signature: bytes,
        *,
        signers: bytes,
        namespace: str = APPROVAL,
        principal: str = "operator",
        at: int = NOW,
    ) -> bool:
        number = next(self._numbers)
        sig, allowed = self.directory / f"{number}.sig", self.directory / f"{number}.signers"
        sig.write_bytes(signature)
        allowed.write_bytes(signers)
        argv = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", principal]
        argv += ["-n", namespace, "-s", str(sig), f"-Overify-time={spell(at)}"]
        done = subprocess.run(argv, input=message, capture_output=True, timeout=30, check=False)
        sig.unlink()
        allowed.unlink()
        # ssh-keygen exits 255 for a refusal; anything else would be a broken test.
        assert done.returncode in {0, 255}, done.stderr
        return done.returncode == 0


def token_file(key: Key, comment: bytes = b"token") -> bytes:
    """Return the file `ssh-keygen -t ed25519-sk` leaves behind: a handle, not a secret."""
    check = struct.pack(">II", 1, 1)
    handle = s(b"handle") + s(b"")  # key handle, reserved
    private = check + key.blob + b"\x01" + handle + s(comment)
    private += bytes(range(1, 1 + -len(private) % 8))
    head = b"openssh-key-v1\0" + s(b"none") + s(b"none") + s(b"") + struct.pack(">I", 1)
    text = base64.b64encode(head + s(key.blob) + s(private))
    lines = [text[i : i + 70] + b"\n" for i in range(0, len(text), 70)]
    begin, end = (b"-----" + word + b" OPENSSH PRIVATE KEY-----\n" for word in (b"BEGIN", b"END"))
    return begin + b"".join(lines) + end


def private_file(key: Key) -> bytes:
    """Return the private key file of a plain key."""
    return key.private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def lock(path: Path, passphrase: str) -> Path:
    """Put a passphrase on a private key file."""
    argv = ["ssh-keygen", "-q", "-p", "-P", "", "-N", passphrase, "-a", "1", "-f", str(path)]
    subprocess.run(argv, check=True, capture_output=True, timeout=30)
    return path


def put(path: Path, data: bytes, mode: int = 0o600) -> Path:
    """Write a file that never was readable by anybody else."""
    path.touch(mode)
    path.write_bytes(data)
    path.chmod(mode)
    return path


@contextmanager
def running_agent(directory: Path) -> Iterator[Path]:
    """Run an SSH agent and yield its socket."""
    socket = directory / "agent"
    argv = ["ssh-agent", "-D", "-a", str(socket)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(500):
                if socket.exists():
                    break
                time.sleep(0.01)
            yield socket
        finally:
            process.terminate()


# -- Loads vector files: a first line `expect: VERDICT`, then the bytes.

VECTORS = Path(__file__).parents[1] / "unit" / "keys" / "vectors"


def load(kind: str, verdict: str) -> dict[str, tuple[str, bytes]]:
    """Return name -> (expectation, bytes); an empty or missing directory is a failure."""
    found = {}
    for path in sorted((VECTORS / kind / verdict).glob("*.txt")):
        head, _, body = path.read_bytes().partition(b"\n")
        key, _, expected = head.decode("ascii").partition(": ")
        if key != "expect" or (expected == "ok") != (verdict == "accept"):
            raise AssertionError(f"{path} does not say what to expect")
        found[path.stem] = (expected, body)
    if not found:
        raise AssertionError(f"no vectors for {kind}/{verdict}")
    return found


# -- An SSH agent that does what the test says: a soft FIDO2 token, or a confused one.
# Speaks the two requests of draft-miller-ssh-agent that signing needs.

LIST, KEYS, SIGN, SIGNED, FAILURE = 11, 12, 13, 14, 5
Answer = Callable[[Key, bytes], bytes]  # the key, what to sign -> the inner signature


def honest(key: Key, data: bytes, *, flags: int = 1, counter: int = 5) -> bytes:
    """Sign as a file key or, with a touch, as a token does."""
    if not key.on_token:
        return s(key.type_name) + s(key.private.sign(data))
    tail = struct.pack(">BI", flags, counter)
    signed = hashlib.sha256(key.application).digest() + tail + hashlib.sha256(data).digest()
    return s(key.type_name) + s(key.private.sign(signed)) + tail


def _field(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    return data[at + 4 : end], end


def _reply(key: Key, request: bytes, answer: Answer) -> bytes:
    if request[:1] == bytes([LIST]):
        return struct.pack(">BI", KEYS, 1) + s(key.blob) + s(b"soft token")
    if request[:1] == bytes([SIGN]):
        _, at = _field(request, 1)
        data, _ = _field(request, at)
        return bytes([SIGNED]) + s(answer(key, data))
    return bytes([FAILURE])


def _serve(listener: socket.socket, key: Key, answer: Answer) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # closed: the test is over
            return
        with connection, connection.makefile("rwb") as stream:
            while head := stream.read(4):
                stream.write(s(_reply(key, stream.read(int.from_bytes(head, "big")), answer)))
                stream.flush()


@contextmanager
def soft_agent(path: Path, key: Key, answer: Answer = honest) -> Iterator[Path]:
    """Run the agent on the socket `path`."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=_serve, args=(listener, key, answer), daemon=True)
        thread.start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    assert not thread.is_alive()
