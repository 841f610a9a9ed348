"""A model on another machine: what may leave for it, and the one way there.

The host is the one that policy names and somebody signed.  A box without a network speaks TLS
with it through a proxy of its own, which reaches that host and no other.

SECURITY
    Lets questions and sources leave this machine.  What leaves is judged by labels that the
    host worked out itself, and stands in the log, durably, before it does.  If this module is
    wrong, something is sent to that one host that should have stayed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.ids import short
from threegate.base.errors import GateUnavailable, PolicyDenied, ThreeGateError
from threegate.base.forms import CONFIDENTIALITY, SYSTEM_ANCHOR
from threegate.gates.model.messages import Remote
from threegate.host.fetch.credentials import BEARER
from threegate.host.models.choice import ChosenModel, ModelBox
from threegate.host.proxy.machine import anchors, certificates
from threegate.host.proxy.supervisor import Noter, Proxy, listening
from threegate.host.workspace.places import read_anywhere
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import MODEL
from threegate.policy.sections.fetch import OWN_PROXY
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import BRIDGE_REMOTE

LEAVES: Final = "ask.remote"  # the entry of the log, before anything leaves
NO_PROXY: Final = "TG-MDL-022"
NO_KEY: Final = "TG-MDL-024"
TOO_CONFIDENTIAL: Final = "TG-MDL-025"
MOST_NAMED: Final = 5
_DIGEST: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a model on another machine needs of the operator and of the workspace."""

    root: Path  # of the workspace, for the CA files the policy lists
    credential: Callable[[str], str | None]  # what goes into the header for a host
    noter: Noter


def may_leave(ws: Workspace, model: ChosenModel, readable: Sequence[str], level: str) -> None:
    """Raise `PolicyDenied` if a question over this is more confidential than may leave.

    `level` is that of everything behind `readable`; the sources that make it so are named.
    """
    rule = ("core", "model", "remote_confidentiality")
    most = ws.bundle.text(*rule)
    if _rank(level) <= _rank(most):
        return
    found = [one for one in readable if _rank(_level_of(ws, one)) > _rank(most)]
    named = ", ".join(short(one) for one in found[:MOST_NAMED]) or "what they were made from"
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    detail = f"{level} material may not leave for {model.host}: {named}{more}"
    hint = f"{ws.bundle.ref(*rule)} lets {most} leave; name sources with --packets"
    raise PolicyDenied(detail, code=TOO_CONFIDENTIAL, hint=f"{hint}, or ask --extractive")


def announce(ws: Workspace, model: ChosenModel, readable: Sequence[str], level: str) -> None:
    """Write what is about to be sent where; nothing has left before this returns."""
    data = {
        "artifacts": sorted(readable),
        "confidentiality": level,
        "host": model.host,
        "model": model.name,
        "policy": ws.bundle.digest,
    }
    Noter(ws.store).announce(LEAVES, data)


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
    """Start the proxy of a remote model and yield the box that goes through it.

    Raises `GateUnavailable`; what ended the proxy is raised in place of what came of it.
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
    """Return the header a key goes into, and what stands there; or raise `GateUnavailable`."""
    place = bundle.value("core", "model", "remote_credential")
    if place is None:
        return None, None
    assert isinstance(place, str)
    key = leaving.credential(host)
    if key is None:
        hint = f"`threegate credential set {host}`"
        detail = f"no key is kept for {host}, and the policy says that it takes one"
        raise GateUnavailable(detail, code=NO_KEY, hint=hint)
    if place == BEARER:
        return "Authorization", key
    return place.removeprefix("header:"), key
