"""The gateway of one run: its sandbox, the proxy behind it, and their reports of what was carried.

    guest ──port──► engine ──pair──► gateway ──socket──► proxy ──► the hosts its request lists

The engine is handed one end of a pair of sockets and the gateway the other.  The guest has no
network device.  A sandbox without a network reads what it sends on that port, and asks through a
proxy that exists for this one run.

With `executor_network: kernel-allowlist` that proxy has its own uid.  Before any run speaks, it
resolves the names of the request's hosts, once; from then on the kernel lets it reach these
addresses and nothing else, not even name servers.

SECURITY
    Lets approved code speak to other machines.  Hosts and bytes are those of the approved
    request, within what policy grants any run.  The host reads notes of both sandboxes and never a
    byte of what they carry; each note is in the log before the next request.  Addresses that the
    proxy found go into the kernel's rules, so internal ones are refused here as well.  If this
    module is wrong, a run reaches hosts that nobody approved for it.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from threegate.artifacts.tool_request import GatewayTerms
from threegate.artifacts.tool_result import Carried, Violation
from threegate.base.credentials import marks_of
from threegate.base.errors import GateUnavailable, ThreeGateError
from threegate.base.forms import SYSTEM_ANCHOR
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.proxy.messages import Address
from threegate.gates.run_gateway import messages as said
from threegate.gates.run_gateway.messages import (
    GatewayNote,
    GatewayOpening,
    parse_note,
    parse_opened,
)
from threegate.handoff.store import Store
from threegate.host.fetch.credentials import all_credentials
from threegate.host.gate_profiles import refuse_unapplied_profile
from threegate.host.open_box import ended, open_box
from threegate.host.proxy.machine import anchors, certificates
from threegate.host.proxy.supervisor import LogWriter, Proxy, listening
from threegate.host.run.heavy import channels
from threegate.host.settings import Settings, unix_now
from threegate.policy.bundle import Bundle
from threegate.policy.decide import GATEWAY_RULES
from threegate.policy.hosts import refused_v4, refused_v6
from threegate.policy.purposes import RUNS
from threegate.policy.ring.executor_profile import MAX_VIOLATIONS, ExecutorProfile
from threegate.policy.sections.fetch import OWN_PROXY
from threegate.policy.sections.tool_exec import KERNEL
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import GATEWAY, PROXY, RUN_PROXY
from threegate.sandbox.reach import NO_FILTER, Reach, reaching
from threegate.sandbox.service import ServiceGate

ASKED: Final = "gateway.asked"  # the entry of the log, one for each ask of a run
NO_GATEWAY: Final = "TG-ERA-006"
OPEN_SECONDS: Final = 20.0
KEY_BYTES: Final = 16
_DIGEST: Final = "sha256:"
RULE: Final = "executor_network"
# The rule of the lane's `gateway` behind each refusal; other reasons are the profile's own rule.
_RULES: Final = {
    said.HOST: "hosts",
    said.ADDRESS: "hosts",
    said.METHOD: "methods",
    said.UP: "up_bytes",
    said.DOWN: "down_bytes",
    said.SPENT: "requests",
}
MakeProxy = Callable[..., Proxy]
StartProxy = Callable[[MakeProxy], AbstractContextManager[Evidence]]
HELD: Final = "gateway.held"  # entries of the log: the addresses before, what was counted after
PROOF: Final = "addresses"
TRIES: Final = 3  # of the proxy, at what the kernel must refuse (`fetch.proxy.pinning`)


@dataclass(frozen=True, slots=True)
class Outward:
    """What the network of a run needs of the operator and of the workspace."""

    root: Path  # of the workspace: its log, and the CA files that the policy lists
    runtime: Path | None
    credentials: Callable[[], Sequence[str]]  # every stored credential: none of them may leave
    clock: Callable[[], int]


def outward_of(root: Path, settings: Settings, clock: Callable[[], int] = unix_now) -> Outward:
    """Return what a gateway needs, as this workspace and its operator have it."""
    return Outward(root, settings.runtime_home, partial(all_credentials, settings), clock)


@dataclass(slots=True)
class Passed:
    """What a run asked and what was answered, by the notes of its gateway."""

    places: Mapping[str, str]
    notes: list[GatewayNote] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)

    def carried(self) -> tuple[Carried, ...]:
        """Return what passed, by host."""
        sent = [one for one in self.notes if one.up]
        hosts = sorted({one.host for one in sent})
        return tuple(
            Carried(
                host=host,
                requests=sum(one.host == host for one in sent),
                up_bytes=sum(one.up for one in sent if one.host == host),
                down_bytes=sum(one.down for one in sent if one.host == host),
            )
            for host in hosts
        )

    def violations(self) -> tuple[Violation, ...]:
        """Return what was refused, each once, with the rule that refused it."""
        found: dict[tuple[str, str, int], None] = {}
        for one in self.notes:
            if one.reason in self.places:
                argument = f"{one.method} {one.host or '?'}: {one.reason}"[:200]
                found[self.places[one.reason], argument, one.line] = None
        return tuple(
            Violation(RULE, place, Untrusted(argument), line)
            for place, argument, line in list(found)[:MAX_VIOLATIONS]
        )


def places_of(bundle: Bundle, ring: ExecutorProfile) -> dict[str, str]:
    """Return file and line of the rule behind each reason to refuse."""
    lane = {reason: str(bundle.ref(*GATEWAY_RULES, key)) for reason, key in _RULES.items()}
    return {reason: lane.get(reason, ring.rules[RULE]) for reason in said.REFUSALS}


def refuse_unusable(bundle: Bundle, ring: ExecutorProfile, outward: Outward | None) -> Outward:
    """Return what a gateway needs, or raise `GateUnavailable`; before a use is spent."""
    if outward is None:
        raise GateUnavailable("there is no gateway here", code=NO_GATEWAY)
    for profile in (GATEWAY, RUN_PROXY if ring.network == KERNEL else PROXY):
        refuse_unapplied_profile(bundle, profile)
    if bundle.text("fetch", "proxy") != OWN_PROXY:
        rule = bundle.ref("fetch", "proxy")
        hint = f"say `proxy: {OWN_PROXY}` in fetch.policy.md"
        detail = f"the proxy of {rule} serves packets only, and a gateway needs its own"
        raise GateUnavailable(detail, code=NO_GATEWAY, hint=hint)
    anchors(outward.root, bundle)
    return outward


@contextmanager
def opened_gateway(
    bundle: Bundle, network: GatewayTerms, ring: ExecutorProfile, outward: Outward
) -> Iterator[tuple[int, Passed]]:
    """Open the gateway of one run; yield the engine's end, and the notes so far.

    Raises `GateUnavailable` if it cannot be opened, or has ended meanwhile.
    """
    passed = Passed(places_of(bundle, ring))
    with ExitStack() as stack:
        store = Store.open(outward.root, clock=outward.clock)  # its own store: see `LogWriter`
        stack.callback(store.close)
        noter = LogWriter(store)
        proxy = partial(started_proxy, bundle)
        if ring.network == KERNEL:
            proxy = partial(held_proxy, bundle, noter)
        place = stack.enter_context(_proxy(proxy, network, outward, noter, passed))
        theirs = ExitStack()
        stack.callback(theirs.close)
        ours = stack.enter_context(ExitStack())
        engine, channel = channels.pair(ours, theirs)

        def note(data: bytes) -> None:
            found = parse_note(Untrusted(data))
            noter.note(ASKED, found.plain())
            passed.notes.append(found)

        given = {"proxy": str(place), "certificates": certificates()}
        kind = partial(ServiceGate, note=note, failed=partial(ended, GATEWAY))
        gate = open_box(kind, find_machine(), bundle, GATEWAY, given, keep_fds=(channel,))
        stack.callback(gate.close)
        stack.callback(ours.close)  # first: a gateway whose guest is gone ends
        opening = _opening(bundle, network, passed.places, outward, channel)
        gate.ask(opening.to_bytes(), parse_opened, seconds=OPEN_SECONDS)
        passed.evidence.append(gate.evidence)
        theirs.close()
        yield engine, passed
    if gate.fault is not None:  # a note that could not be read or stored
        raise gate.fault


@contextmanager
def _proxy(
    start: StartProxy,
    network: GatewayTerms,
    outward: Outward,
    noter: LogWriter,
    passed: Passed,
) -> Iterator[Path]:
    """Start the proxy of one run; yield its socket.  Raises the reason if it ended early."""
    ended: list[ThreeGateError] = []
    with listening(outward.runtime, purpose="run") as place:
        make = partial(
            Proxy,
            find_machine(),
            place,
            decided=noter.decided,
            gone=ended.append,
            purpose=RUNS,
            hosts=network.hosts,
        )
        with start(make) as evidence:
            passed.evidence.append(evidence)
            yield place.path
    if ended:
        raise ended[0]


def _opening(
    bundle: Bundle,
    network: GatewayTerms,
    places: Mapping[str, str],
    outward: Outward,
    channel: int,
) -> GatewayOpening:
    files = iter(anchors(outward.root, bundle))
    listed = tuple(
        (word.removeprefix(_DIGEST), None if word == SYSTEM_ANCHOR else next(files))
        for word in bundle.words("fetch", "trust_anchors")
    )
    key = secrets.token_bytes(KEY_BYTES)
    return GatewayOpening(
        channel_fd=channel,
        hosts=network.hosts,
        methods=tuple(bundle.words(*GATEWAY_RULES, "methods")),
        up_bytes=min(network.up_bytes, bundle.integer(*GATEWAY_RULES, "up_bytes")),
        down_bytes=min(network.down_bytes, bundle.integer(*GATEWAY_RULES, "down_bytes")),
        requests=bundle.integer(*GATEWAY_RULES, "requests"),
        seconds=bundle.integer(*GATEWAY_RULES, "deadline_seconds"),
        anchors=listed,
        key=key.hex(),
        marks=marks_of(outward.credentials(), key),
        places=places,
    )


@contextmanager
def started_proxy(bundle: Bundle, make: MakeProxy) -> Iterator[Evidence]:
    """Start a proxy that only its own rules restrict to its hosts; yield the evidence."""
    proxy = make()
    try:
        yield proxy.start(bundle)
    finally:
        proxy.close()


@contextmanager
def held_proxy(bundle: Bundle, noter: LogWriter, make: MakeProxy) -> Iterator[Evidence]:
    """Start a proxy that the kernel restricts to its hosts; yield the evidence.

    Raises `GateUnavailable`, at the end too if the kernel's rules went away meanwhile.
    """
    with reaching(RUN_PROXY.name) as reach:
        proxy = make(profile=RUN_PROXY, pin=True)
        try:
            evidence = proxy.start(bundle)
            _hold(bundle, proxy, reach, noter)
            yield replace(evidence, proofs=(*evidence.proofs, PROOF))
        finally:
            proxy.close()
        counted = reach.counted()
        noter.note(HELD, {"passed": counted.passed, "refused": counted.refused})


def _hold(bundle: Bundle, proxy: Proxy, reach: Reach, noter: LogWriter) -> None:
    """Let the proxy reach the addresses it found and nothing else, and have it try others."""
    refuse_inside(proxy.pinned)
    noter.announce(HELD, {"addresses": [str(one) for one in proxy.pinned]})
    reach.hold(proxy.pinned)
    before = reach.counted().refused
    proxy.reload(bundle)  # it tries forbidden addresses, and serves nobody before that
    if reach.counted().refused - before < TRIES:
        detail = "the kernel did not refuse the addresses that it must refuse"
        raise GateUnavailable(detail, code=NO_FILTER)


def refuse_inside(addresses: tuple[Address, ...]) -> None:
    """Raise `GateUnavailable` for an address that no name outside may lead to."""
    for address in addresses:
        inside = refused_v4() if address.version == 4 else refused_v6()
        if any(address in network for network in inside):
            detail = f"the proxy would dial {address}, which leads inside"
            raise GateUnavailable(detail, code=NO_FILTER)
