"""Real workspaces for tests: a throw-away key, the shipped policy, a clock the test moves."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.sshlab import Forge, Key, private_file, put
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import FETCH, admit, admit_packet
from threegate.handoff.journal import Put
from threegate.host.keys.operator import DEFAULT_PRINCIPAL, Operator, remember
from threegate.host.keys.signatures import SshKeygenSigner, SshTools
from threegate.host.settings import Settings
from threegate.host.workspace.setup import init_workspace, prepare_root
from threegate.host.workspace.workspace import Workspace, open_workspace
from threegate.keys.public import PublicKey, parse_key_blob

START = 1_794_780_000  # 2026-11-15, a little after the samples were made
OPERATOR = "operator"
OPEN: list[Workspace] = []  # closed after the test that made them, by tests/conftest.py


@dataclass
class Clock:
    """Shows what the test says."""

    now: int = START

    def __call__(self) -> int:
        return self.now


@dataclass(frozen=True)
class SoftSigner:
    """Signs as `ssh-keygen` does, without starting it."""

    key: Key

    def sign(self, message: bytes, namespace: str) -> bytes:
        return Forge(self.key, message=message, namespace=namespace.encode()).armored()


def key_of(name: str = OPERATOR) -> Key:
    """Return the throw-away key of that name, always the same one."""
    return Key(hashlib.sha256(name.encode()).digest())


def public_of(name: str = OPERATOR) -> PublicKey:
    return parse_key_blob(key_of(name).blob)


def soft_signer(name: str = OPERATOR) -> SoftSigner:
    return SoftSigner(key_of(name))


def key_file(base: Path, name: str = OPERATOR) -> Path:
    """Return the private key file of that name below `base`, with its public half beside it."""
    path = base / "keys" / name
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        put(path, private_file(key_of(name)))
        put(path.with_suffix(".pub"), f"{key_of(name).public_line} {name}\n".encode(), 0o644)
    return path


def ssh_signer(base: Path, root: Path, name: str = OPERATOR) -> SshKeygenSigner:
    """Return the signer that runs `ssh-keygen` with that key."""
    tools = SshTools.find({})
    return SshKeygenSigner(key_file(base, name), root, tools)


def settings_for(base: Path) -> Settings:
    """Return the places of a user whose home is `base`."""
    return Settings(base / "config", base / "state", workspace=None, cwd=base)


def make_workspace(
    base: Path, *, name: str = "ws", clock: Callable[[], int] | None = None
) -> Workspace:
    """Return a new open workspace at `base`/`name`; the operator's key is remembered."""
    root, clock = base / name, clock or Clock()
    operator = Operator(key_file(base), public_of())
    prepare_root(root)
    init_workspace(
        root,
        operator=operator,
        principal=DEFAULT_PRINCIPAL,
        signer=soft_signer(),
        clock=clock,
    )
    remember(settings_for(base), operator)
    ws = open_workspace(root, clock=clock, seals=root.with_name(f"{root.name}-seals"))
    OPEN.append(ws)
    return ws


def take_in(ws: Workspace, *artifacts: Artifact) -> list[str]:
    """Admit artifacts that must be accepted; return their ids."""
    items = [Untrusted(registry.emit(artifact)) for artifact in artifacts]
    answers = list(admit(ws.store, items, now=ws.now))
    assert {answer.status for answer in answers} == {"accepted"}, answers
    return [answer.id for answer in answers if answer.id is not None]


def fetched_in(ws: Workspace, *artifacts: Artifact) -> list[str]:
    """Take artifacts in, packets as `fetch` stores them; return their ids."""
    found = []
    for artifact in artifacts:
        if isinstance(artifact, ResearchPacket):
            packet = Untrusted(registry.emit(artifact))
            found.append(admit_packet(ws.store, packet, blobs=(), op=FETCH, detail={})[0])
        else:
            found += take_in(ws, artifact)
    return found


def keep_blob(ws: Workspace, data: bytes) -> str:
    """Keep raw bytes; return their digest."""
    digest = sha256_hex(data)
    with ws.store.locked() as journal:
        journal.run("blob", [Put(states.BLOBS, digest, data)])
    return digest


def files_below(root: Path) -> dict[str, bytes]:
    """Return path and content of every file below `root`."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}
