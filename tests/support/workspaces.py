"""Real workspaces for tests: a throw-away key, the shipped policy, a clock the test moves."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from tests.support import samples
from tests.support.samples import box
from tests.support.sshlab import Forge, Key, private_file, put
from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis, Claim
from threegate.artifacts.approval import PolicySection
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.audit.verify import verify_log
from threegate.base.untrusted import Untrusted
from threegate.handoff import approvals, states
from threegate.handoff.admission import FETCH, admit
from threegate.handoff.claims import End, RunClaim, claim_group, finish_group
from threegate.handoff.journal import Put
from threegate.handoff.packet_admission import admit_packet
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.verify import FileFold, Finding, verify_files
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


# -- Stores to attack: real directories, a real log, a clock that stands still.

NOW = "2026-11-15T12:00:00Z"
UNIX_NOW = 1_794_744_000


def clock() -> int:
    return UNIX_NOW


def make_store(root: Path) -> None:
    """Make an empty store at `root`."""
    root.mkdir(mode=0o700, parents=True)
    Store.create(root, workspace="0" * 32, clock=clock)


def adopt(root: Path, action: Callable[[Store], None]) -> None:
    """Run an action in a process of its own, so that its claims are dead afterwards."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action(Store.open(root, clock=clock))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the preparation failed"


def files_of(root: Path) -> frozenset[str]:
    """Return every file of the store with its directory and digest; leases without."""
    return frozenset(
        f"{directory}/{name} {_digest(root / directory / name)}"
        for directory in states.NAMES
        for name in os.listdir(root / directory)
    )


def _digest(path: Path) -> str:
    return "" if path.parent.name == "leases" else sha256_hex(path.read_bytes())


def findings(root: Path) -> list[Finding]:
    """Return every difference between log and disk; the log itself must verify."""
    fold = FileFold()
    report = verify_log(root / AUDIT, visit=fold.feed)
    assert report.problem is None, report.problem
    store = Store.open(root, clock=clock)
    try:
        return list(verify_files(store.directories, fold))
    finally:
        store.close()


def audited(root: Path) -> frozenset[str]:
    """Open the store, which settles what a crash left; check everything; return its files."""
    store = Store.open(root, clock=clock)
    with store.locked():
        pass
    store.close()
    assert findings(root) == []
    return files_of(root)


# -- Requests that a human said yes to, as far as the handoff is concerned: nobody signed.

SIGNATURE = b"a signature, which the handoff only keeps\n"
ROOM = 4096


def approval_bytes(request_id: str, **changes: Any) -> bytes:
    """Return an approval of a request of either kind."""
    kind: dict[str, Any] = {"request": request_id}
    if request_id.startswith("fr-"):
        sections = tuple(PolicySection(name, samples.digest(name)) for name in ("fetch", "signers"))
        kind |= {"backend": "fetch", "limits": None, "functions_sha256": None, "policy": sections}
    return registry.emit(samples.approval(**{**kind, **changes}))


def approve(store: Store, request_id: str, **changes: Any) -> RunClaim:
    """Approve a held request; return what claims it."""
    data = approval_bytes(request_id, **changes)
    approval_id = approvals.approve(
        store, request_id=request_id, approval=data, signature=SIGNATURE, detail={}
    )
    return RunClaim(request_id, approval_id, changes.get("max_uses", 1))


def take(store: Store, *claims: RunClaim, room: int = ROOM) -> None:
    """Claim what must be there to be claimed; raise what refused the first that is not."""
    for refused in claim_group(store, claims, reserve_bytes=room):
        raise refused.error


def claim(store: Store, request_id: str, **changes: Any) -> RunClaim:
    """Approve a held request and claim it."""
    made = approve(store, request_id, **changes)
    take(store, made)
    return made


def finish(store: Store, request_id: str, to: str = "done") -> None:
    """End the claim of a request."""
    finish_group(store, [End(request_id, to)])


# -- Artifacts that descend from each other, admitted into a workspace.
# packet -> analysis -> later (the second reads the first) | \-> request -> approval -> result \->
# fetch (a draft of CORE's) bystander (has nothing to do with them)


@dataclass(frozen=True)
class Family:
    """Ids, the oldest first."""

    packet: str
    analysis: str
    fetch: str
    later: str
    request: str
    approval: str
    result: str

    def ids(self) -> list[str]:
        return list(astuple(self))


def analysis_of(*sources: str, **changes: Any) -> Analysis:
    """Return an analysis that read these artifacts."""
    read = tuple(sorted(sources))
    base: dict[str, Any] = {
        "selection": read,
        "derived_from": read,
        "claims": (Claim("unchecked", ()),),
        "claim_texts": (box("Colder ice is tougher."),),
        "quotes": (),
        "confidentiality": "internal",
    }
    return samples.analysis(**{**base, **changes})


def keep_approval(ws: Workspace, request: str) -> str:
    """Keep a signed approval of a request; return its id."""
    data = registry.emit(samples.approval(request=request))
    approval = f"ap-{registry.id_of(samples.approval(request=request)).partition('-')[2]}"
    signature = soft_signer().sign(data, "threegate-approval")
    directory = states.directory_of("ap", "accepted")
    puts = [
        Put(directory, f"{approval}.md", data),
        Put(directory, f"{approval}.sig", signature),
    ]
    with ws.store.locked() as journal:
        journal.run("approve", puts)
    return approval


def make_family(ws: Workspace, word: str = "ice", raw: bytes = b"raw") -> Family:
    """Admit one of each, made from each other; `word` stands in every text."""
    digest = keep_blob(ws, raw)
    text = f"A sentence about {word}."
    (packet,) = take_in(ws, samples.packet(text, raw_sha256=digest, raw_bytes=len(raw)))
    (analysis,) = take_in(ws, analysis_of(packet, answer=box(text)))
    (later,) = take_in(ws, analysis_of(packet, analysis, answer=box(f"{text} Again.")))
    external = {"integrity": "external", "purpose": box(text)}
    (fetch,) = take_in(
        ws,
        samples.fetch_request(
            origin="core", derived_from=(packet,), confidentiality="internal", **external
        ),
    )
    (request,) = take_in(
        ws,
        samples.tool_request(inputs=(), derived_from=tuple(sorted((packet, analysis))), **external),
    )
    approval = keep_approval(ws, request)
    (result,) = take_in(ws, samples.tool_result(value=text, request=request, approval=approval))
    return Family(packet, analysis, fetch, later, request, approval, result)


def places(ws: Workspace, ids: Sequence[str]) -> list[str | None]:
    """Return the state of each, None for what is in none."""
    found = (ws.store.locate(artifact_id) for artifact_id in ids)
    return [None if place is None else states.state_of(place) for place in found]
