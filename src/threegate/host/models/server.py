"""The served model, on this machine or another: its sandbox, its socket, and its end.

    with ModelServer.start(bundle, machine, cache) as server:
        ...  # bind server.socket into the sandbox of CORE

When the sandbox ends for any reason, `server.refuse_ended` raises the reason.  A model on another
machine is on the one host that the signed policy names.  A sandbox without a network speaks TLS
with it through its own proxy, which reaches that host and no other.

SECURITY
    Reads the messages of a process that reads a model file and CORE's requests.  The model it
    serves is compared with the policy; anything that breaks the protocol ends the sandbox.  Lets
    questions and sources leave this machine.  They are judged by labels that the host computed
    itself, and recorded in the log, durably, before they leave.  If this module is wrong, something
    is sent to that one host that should have stayed.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from threegate.artifacts import registry
from threegate.artifacts.ids import short
from threegate.base.errors import GateUnavailable, PolicyDenied, ProtocolBroken, ThreeGateError
from threegate.base.forms import CONFIDENTIALITY, SYSTEM_ANCHOR
from threegate.base.greeting import GateRefused
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import Served
from threegate.gates.model.messages import (
    GREETING,
    Embedded,
    ModelProgress,
    ModelReady,
    Remote,
    parse_progress,
)
from threegate.host.fetch.credentials import BEARER
from threegate.host.models.choice import (
    ChosenModel,
    ModelBox,
    Noted,
    Opening,
    box_of,
    chosen,
    no_op_of,
)
from threegate.host.open_box import ended, open_box
from threegate.host.proxy.machine import anchors, certificates
from threegate.host.proxy.supervisor import LogWriter, Proxy, listening
from threegate.host.workspace.places import read_anywhere
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import MODEL
from threegate.policy.sections.fetch import OWN_PROXY
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import BRIDGE_REMOTE
from threegate.sandbox.service import ServiceGate

LEAVES: Final = "ask.remote"  # the log entry, before anything leaves
NO_PROXY: Final = "TG-MDL-022"
NO_KEY: Final = "TG-MDL-024"
TOO_CONFIDENTIAL: Final = "TG-MDL-025"
MOST_NAMED: Final = 5
_DIGEST: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a model on another machine needs: CA files, the operator's key and the log."""

    root: Path  # of the workspace, for the CA files that the policy lists
    credential: Callable[[str], str | None]  # the header value for a host
    noter: LogWriter


def may_leave(ws: Workspace, model: ChosenModel, readable: Sequence[str], level: str) -> None:
    """Raise `PolicyDenied` if a question on these sources is too confidential to leave.

    `level` is that of everything behind `readable`; the error names the sources that cause it.
    """
    rule = ("core", "model", "remote_confidentiality")
    most = ws.bundle.text(*rule)
    if _rank(level) <= _rank(most):
        return
    found = [one for one in readable if _rank(_level_of(ws, one)) > _rank(most)]
    named = ", ".join(short(one) for one in found[:MOST_NAMED]) or "their sources"
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    detail = f"{level} material may not leave for {model.host}: {named}{more}"
    hint = f"{ws.bundle.ref(*rule)} lets {most} leave; name sources with --packets"
    raise PolicyDenied(detail, code=TOO_CONFIDENTIAL, hint=f"{hint}, or ask --extractive")


def announce(ws: Workspace, model: ChosenModel, readable: Sequence[str], level: str) -> None:
    """Record what is about to be sent where; nothing leaves before this returns."""
    data = {
        "artifacts": sorted(readable),
        "confidentiality": level,
        "host": model.host,
        "model": model.name,
        "policy": ws.bundle.digest,
    }
    # Durable before the first byte leaves: a crash must not hide a transfer.
    LogWriter(ws.store).announce(LEAVES, data)


def _rank(level: str) -> int:
    return CONFIDENTIALITY.index(level)


def _level_of(ws: Workspace, artifact_id: str) -> str:
    artifact = read_anywhere(ws.store, artifact_id)
    return CONFIDENTIALITY[0] if artifact is None else registry.labels_of(artifact).confidentiality


@contextmanager
def remote_box(
    bundle: Bundle,
    model: ChosenModel,
    machine: Machine,
    runtime: Path | None,
    leaving: Leaving | None,
) -> Iterator[ModelBox]:
    """Start the proxy of a remote model and yield the sandbox that uses it.

    Raises `GateUnavailable`; an end of the proxy is raised in place of its consequences.
    """
    if leaving is None:
        hint = "name an `embedded` model or a `bridge` for this"
        detail = f"a model on {model.host} answers `threegate ask`, and nothing else"
        raise GateUnavailable(detail, code=NO_PROXY, hint=hint)
    if bundle.text("fetch", "proxy") != OWN_PROXY:
        rule = bundle.ref("fetch", "proxy")
        hint = f"say `proxy: {OWN_PROXY}` in fetch.policy.md, or name a model on this machine"
        detail = f"the proxy of {rule} serves packets only, and a remote model needs its own"
        raise GateUnavailable(detail, code=NO_PROXY, hint=hint)
    opening = _opening_for(bundle, model, leaving)
    ended: list[ThreeGateError] = []
    with listening(runtime, purpose="model-proxy") as place:
        proxy = Proxy(
            machine, place, decided=leaving.noter.decided, gone=ended.append, purpose=MODEL
        )
        try:
            proxy.start(bundle)
            given = {"proxy": str(place.path), "certificates": certificates()}
            yield ModelBox(BRIDGE_REMOTE, opening, given)
        except GateUnavailable:
            if ended:
                raise ended[0] from None
            raise
        finally:
            proxy.close()


def _opening_for(bundle: Bundle, model: ChosenModel, leaving: Leaving) -> Callable[[int], Remote]:
    assert model.host is not None
    rules = ("core", "model")
    files = iter(anchors(leaving.root, bundle))
    listed = tuple(
        (word.removeprefix(_DIGEST), None if word == SYSTEM_ANCHOR else next(files))
        for word in bundle.words("fetch", "trust_anchors")
    )
    header, key = _key_for(bundle, model.host, leaving)
    host, name = model.host, model.name

    def opening(fd: int) -> Remote:
        return Remote(
            listen_fd=fd,
            name=name,
            host=host,
            context_tokens=model.context_tokens,
            deadline_seconds=model.deadline_seconds,
            requests=bundle.integer(*rules, "remote_requests"),
            sent_bytes=bundle.integer(*rules, "remote_bytes"),
            anchors=listed,
            header=header,
            credential=key,
        )

    return opening


def _key_for(bundle: Bundle, host: str, leaving: Leaving) -> tuple[str | None, str | None]:
    """Return name and value of the header for a key; or raise `GateUnavailable`."""
    place = bundle.value("core", "model", "remote_credential")
    if place is None:
        return None, None
    assert isinstance(place, str)
    key = leaving.credential(host)
    if key is None:
        hint = f"`threegate credential set {host}`"
        detail = f"no key is stored for {host}, and the policy requires one"
        raise GateUnavailable(detail, code=NO_KEY, hint=hint)
    if place == BEARER:
        return "Authorization", key
    return place.removeprefix("header:"), key


LOAD_SECONDS: Final = 600.0  # a large file from a slow disk
# Hints for refusals of a sandbox, by code.
_HINTS: Final = {
    "TG-MDL-010": "start your model server, or correct `endpoint` in policy/core.policy.md",
    "TG-MDL-014": "load that model in your server, or correct `name` in policy/core.policy.md",
    "TG-MDL-015": "remove the file with `threegate model remove` and pull it again",
    "TG-MDL-016": "it may need more memory than there is, or be of another kind than GGUF",
}
_REMOTE_HINTS: Final = {
    "TG-MDL-010": "`threegate audit show` shows the proxy decision; --extractive needs no model",
    "TG-MDL-013": "`threegate credential list` shows whether a key is stored, and where it goes",
    "TG-MDL-014": "correct `name` in policy/core.policy.md: it must be the name on that machine",
}

Progress = Callable[[ModelProgress], None]


class ModelServer:
    """A running model; `refuse_ended` may be called from any thread."""

    def __init__(
        self, model: ChosenModel, socket: Path, gate: ServiceGate, ready: ModelReady
    ) -> None:
        self.model, self.socket, self._gate = model, socket, gate
        self.served: Served = ready.served  # the model that the policy names
        self.versions: dict[str, str] = dict(ready.versions)  # of the software it runs on

    @classmethod
    @contextmanager
    def start(
        cls,
        bundle: Bundle,
        machine: Machine,
        cache: Path,
        *,
        runtime: Path | None = None,
        progress: Progress = lambda _: None,
        leaving: Leaving | None = None,
        noted: Noted = lambda _: None,
    ) -> Iterator[Self]:
        """Serve the model the policy names, and no other; raise `GateUnavailable`.

        Without `leaving`, a model on another machine is refused.  `noted` gets the proofs that the
        sandbox runs no code; a sandbox without them loads nothing.
        """
        model = chosen(bundle)
        with ExitStack() as stack:
            if model.kind == "remote":
                way = remote_box(bundle, model, machine, runtime, leaving)
                box = stack.enter_context(way)
            else:
                box = box_of(model, cache)
            place = stack.enter_context(listening(runtime, purpose="model"))
            kind = partial(
                ServiceGate,
                note=lambda note: progress(parse_progress(Untrusted(note))),
                failed=partial(ended, box.profile),
            )
            keep = (place.fd,)
            gate = open_box(
                kind, machine, bundle, box.profile, box.given, keep_fds=keep, ports=box.ports
            )
            stack.callback(gate.close)
            # A sandbox that could start a program does not even learn the name of the model.
            no_op = no_op_of(gate.evidence)
            opening = box.opening(place.fd)
            parse = partial(_ready, opening)
            ready = gate.ask(opening.to_bytes(), parse, seconds=LOAD_SECONDS)
            _let_go(place.fd)
            noted(no_op)
            yield cls(model, place.path, gate, ready)

    @property
    def evidence(self) -> Evidence:
        """The evidence of its confinement."""
        return self._gate.evidence

    def close(self) -> None:
        """End it.  Only after this is it known whether it had ended earlier."""
        self._gate.close()

    def refuse_ended(self) -> None:
        """Raise `GateUnavailable` with the reason if it ended without being told to."""
        if self._gate.error is not None:
            raise self._gate.error


def _ready(opening: Opening, answer: Untrusted[bytes]) -> ModelReady:
    found = GREETING.parse(answer)
    if isinstance(found, GateRefused):
        hint = (_REMOTE_HINTS if isinstance(opening, Remote) else _HINTS).get(found.code, "")
        raise GateUnavailable(f"no model: {found.message}", code=found.code, hint=hint)
    sha256 = opening.sha256 if isinstance(opening, Embedded) else None
    if found.served != Served(opening.name, sha256, opening.context_tokens):
        raise ProtocolBroken("the sandbox serves another model than it was told to")
    return found


def _let_go(fd: int) -> None:
    """Leave the socket to the sandbox alone: when it ends, waiting clients see that at once."""
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.dup2(nothing, fd, inheritable=False)  # the number stays in use until it is closed
    finally:
        os.close(nothing)
