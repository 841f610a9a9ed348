"""The only way to start a gate from the host: compare the signed profile, then start the sandbox.

`open_box` is the only code outside `sandbox/` that may build a `Start`; an import contract in
`pyproject.toml` enforces it.  So no gate starts unless the policy in force was signed with its
profile or with a wider one.

SECURITY
    If this module is wrong, a gate starts in a sandbox that nobody signed, or the operator reads
    the wrong reason for its end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from threegate.base.errors import GateUnavailable, ProtocolBroken
from threegate.base.greeting import GateRefused
from threegate.base.untrusted import Untrusted
from threegate.host.gate_profiles import named_failure, refuse_unapplied_profile
from threegate.policy.bundle import Compiled
from threegate.sandbox import profiles
from threegate.sandbox.box import Start
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import Profile
from threegate.sandbox.session import Session

T = TypeVar("T")
G = TypeVar("G")

PROGRAM: Final = "exec"  # the payload of a sandbox that runs one program instead of our Python
_DIFF: Final = "`threegate policy diff` shows what is in force"
_AGAIN: Final = "ask again; nothing was stored"
_ENGINES: Final = "`threegate doctor` tries each engine; policy names those that may be used"


@dataclass(frozen=True, slots=True)
class Gate:
    """How one gate is started, and what the operator reads if it fails."""

    payload: str
    title: str
    code: str  # of an end without an answer
    hint: str
    refused_hint: str = ""  # for a gate that starts and then refuses its opening


_PROXY: Final = Gate(
    "threegate.gates.fetch.proxy.gate:serve",
    "the proxy",
    "TG-FET-064",
    "what was retrieved is stored; run the command again, it goes on where it stopped",
)
_BRIDGE: Final = Gate(
    "threegate.gates.model.bridge.gate:serve", "the model server", "TG-MDL-030", _AGAIN
)
_ENGINE: Final = Gate(PROGRAM, "the engine", "TG-ERA-002", _ENGINES)


def _normalizer(module: str) -> Gate:
    payload = f"threegate.gates.fetch.normalize.{module}:serve"
    return Gate(payload, "the normalizer", "TG-FET-072", "")


# One row for each profile that the host starts.
GATES: Final[Mapping[str, Gate]] = {
    profiles.PROXY.name: _PROXY,
    profiles.RUN_PROXY.name: _PROXY,
    profiles.FETCH_RETRIEVE.name: Gate(
        "threegate.gates.fetch.retrieve.gate:serve", "fetch-retrieve", "TG-FET-065", "", _DIFF
    ),
    # Each of the five sees the code of every reader, but only its own libraries.
    profiles.FETCH_NORMALIZE.name: _normalizer("gate"),
    profiles.FETCH_HTML.name: _normalizer("gate_html"),
    profiles.FETCH_PDF.name: _normalizer("gate_pdf"),
    profiles.FETCH_OFFICE.name: _normalizer("gate_office"),
    profiles.FETCH_OCR.name: _normalizer("gate_ocr"),
    profiles.CORE.name: Gate("threegate.gates.core.gate:serve", "CORE", "TG-COR-010", _AGAIN),
    profiles.MODEL_SERVER.name: Gate(
        "threegate.gates.model.server.gate:serve", "the model server", "TG-MDL-030", _AGAIN
    ),
    profiles.BRIDGE.name: _BRIDGE,
    profiles.BRIDGE_SOCKET.name: _BRIDGE,
    profiles.BRIDGE_REMOTE.name: Gate(
        "threegate.gates.model.bridge.remote_gate:serve", "the model server", "TG-MDL-030", _AGAIN
    ),
    profiles.EMBEDDER.name: Gate(
        "threegate.gates.model.embedder.gate:serve",
        "the embedder",
        "TG-EMB-021",
        "run it again; none of the texts were kept",
        "`threegate model remove` removes the model, `model pull` brings it again",
    ),
    profiles.TOOL_LITE.name: Gate(
        "threegate.gates.tool_exec.gate:serve",
        "the lite lane",
        "TG-LITE-001",
        "`threegate doctor` shows whether its sandbox works here",
        "`threegate policy diff` and `threegate policy apply`: the functions are signed",
    ),
    profiles.TOOL_HEAVY.name: Gate(
        "threegate.gates.tool_exec.era.gate:serve", "the heavy lane", "TG-ERA-002", _ENGINES
    ),
    profiles.ENGINE.name: _ENGINE,
    profiles.RUNSC_KERNEL.name: _ENGINE,
    profiles.RUNSC_FILES.name: _ENGINE,
    profiles.GATEWAY.name: Gate(
        "threegate.gates.run_gateway.gate:serve", "the gateway", "TG-ERA-006", ""
    ),
    profiles.IMAGE_READER.name: Gate(
        "threegate.gates.image_reader.gate:serve", "the image decoder", "TG-GATE-001", ""
    ),
    profiles.GIT_READER.name: Gate(
        "threegate.gates.git_reader.gate:serve",
        "the reader of git objects",
        "TG-GIT-010",
        "what was imported is stored; run the command again, it goes on where it stopped",
    ),
    profiles.PAGE_DRAWER.name: Gate(
        "threegate.gates.page_drawer.gate:serve",
        "the page drawer",
        "TG-GATE-001",
        "the packet and its text are unchanged",
    ),
    profiles.ZOTERO_READER.name: Gate(
        "threegate.gates.zotero_reader.gate:serve",
        "the Zotero reader",
        "TG-GATE-001",
        "the library is unchanged; its folder `storage` can be imported as files",
    ),
}

# The reasons of `sandbox.supervise.Ended.why`, for people.
_ENDINGS: Final = {
    "deadline": "it took longer than allowed",
    "output": "it sent more than allowed",
    "protocol": "it broke the protocol",
    "crashed": "it crashed or reached a limit",
    "exit": "it stopped too early",
    "interrupted": "it was interrupted",
}


def open_box(
    kind: Callable[[Machine, Start], T],
    machine: Machine,
    policy: Compiled,
    profile: Profile,
    given: Mapping[str, str] | None = None,
    *,
    program: tuple[str, ...] = (),
    keep_fds: tuple[int, ...] = (),
    ports: tuple[int, ...] = (),
    cpus: tuple[int, ...] = (),
) -> T:
    """Start a gate under the policy in force; `kind` decides how it is talked to.

    Raises `GateUnavailable`: the profile is not the signed one, the lock was not proved, or the
    machine has run out of processes or descriptors.
    """
    refuse_unapplied_profile(policy, profile)
    payload = GATES[profile.name].payload
    start = Start(profile, payload, given or {}, program, keep_fds=keep_fds, ports=ports, cpus=cpus)
    try:
        return kind(machine, start)
    except OSError as exc:
        raise named_failure(exc) from exc


def open_session(
    machine: Machine,
    policy: Compiled,
    profile: Profile,
    given: Mapping[str, str],
    *,
    opening: bytes,
    parse: Callable[[Untrusted[bytes]], G | GateRefused],
    seconds: float,
    proved: Callable[[Evidence], None] = lambda _: None,
) -> tuple[Session, G]:
    """Open a session, send the opening and return the session with the gate's greeting.

    `proved` sees the evidence before anything is sent.  Raises `GateUnavailable` if there is
    no greeting, or if the gate refuses the opening.
    """
    session = open_box(Session.open, machine, policy, profile, given)
    try:
        proved(session.evidence)
        reply = session.ask(opening, deadline_seconds=seconds)
        if reply.why != "done":
            raise ended(profile, reply.why)
        try:
            greeting = parse(Untrusted(reply.message))
        except ProtocolBroken as exc:
            raise ended(profile, "protocol") from exc
        if isinstance(greeting, GateRefused):
            hint = GATES[profile.name].refused_hint
            raise GateUnavailable(greeting.message, code=greeting.code, hint=hint)
    except BaseException:
        session.close()
        raise
    return session, greeting


def ended(profile: Profile, why: str) -> GateUnavailable:
    """Return the error for a gate that ended without an answer."""
    gate = GATES[profile.name]
    return GateUnavailable(f"{gate.title} ended: {in_words(why)}", code=gate.code, hint=gate.hint)


def in_words(why: str) -> str:
    """Return why a gate ended, for people."""
    return _ENDINGS.get(why, why)
