"""The proxy's supervisor: starts its box, gives it the rules, reads every decision.

When the proxy ends for any reason, nothing can be asked through it any more, and its owner is
told.

SECURITY
    Reads what a process with the network says.  A note that is not a decision in the protocol
    ends the proxy, with every tunnel it holds.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from threegate.base.errors import ProtocolBroken, ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.proxy.messages import Address, InForce, ProxyRules, parse_in_force
from threegate.host.open_box import ended, open_box
from threegate.host.proxy.decisions import parse_decision
from threegate.host.proxy.machine import own_addresses, resolver
from threegate.host.proxy.sockets import Listening
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import PACKETS
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import PROXY, Profile
from threegate.sandbox.service import ServiceGate

RULES_SECONDS: Final = 20.0

Decided = Callable[[dict[str, Any]], None]
Gone = Callable[[ThreeGateError], None]


class Proxy:
    """A running proxy; `reload` and `close` may be called from any thread."""

    def __init__(
        self,
        machine: Machine,
        listening: Listening,
        *,
        decided: Decided,
        gone: Gone,
        purpose: str = PACKETS,
        hosts: tuple[str, ...] = (),
        profile: Profile = PROXY,
        pin: bool = False,
    ) -> None:
        self._machine, self._listening, self._purpose = machine, listening, purpose
        self._hosts, self._profile, self._pin = hosts, profile, pin
        self.pinned: tuple[Address, ...] = ()  # what it found out at its start, if it was to
        self._decided, self._gone = decided, gone
        self._gate: ServiceGate | None = None

    def start(self, bundle: Bundle) -> Evidence:
        """Start the box and put the rules in force; raise `GateUnavailable`."""
        kind = partial(
            ServiceGate,
            note=lambda note: self._decided(parse_decision(note)),
            failed=partial(ended, self._profile),
            gone=self._gone,
        )
        given, fds = {"resolver": resolver()}, (self._listening.fd,)
        gate = open_box(kind, self._machine, bundle, self._profile, given, keep_fds=fds)
        self._gate = gate
        self.pinned = self.reload(bundle).pinned
        return gate.evidence

    def reload(self, bundle: Bundle) -> InForce:
        """Put rules in force for new and for open tunnels; return when they hold."""
        assert self._gate is not None

        def parse(answer: Untrusted[bytes]) -> InForce:
            found = parse_in_force(answer)
            same = (found.generation, found.policy) == (bundle.generation, bundle.digest)
            if not same or (found.pinned and not self._pin):
                raise ProtocolBroken("the proxy put other rules in force")
            return found

        fd, own, data = self._listening.fd, own_addresses(), bundle.bundle_bytes()
        rules = ProxyRules(data, fd, own, self._purpose, self._hosts, self._pin)
        return self._gate.ask(rules.to_bytes(), parse, seconds=RULES_SECONDS)

    def close(self) -> None:
        """End the proxy with every tunnel it holds."""
        if self._gate is not None:
            self._gate.close()
