"""What the host tells the proxy, and what the proxy says about it.

A proxy keeps the purpose it was given first (`policy.purposes`).  One for a run is told the hosts
that the run's request lists: it knows no other, whatever the bundle allows.  With `pin` it
asks for their names once, says which addresses it would dial, and dials no other afterwards; by
the time it gets its rules again the kernel must hold it to these, which it tries before it answers.

Decisions come as notes, one line of canonical JSON each, whenever one is made.

SECURITY
    The proxy believes no host further than this: a bundle is parsed again, and there is no
    message that widens anything beyond it.  The host reads the answer as foreign bytes.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

from threegate.base.forms import DESCRIPTOR, DIGEST
from threegate.base.limits import MAX_BUNDLE_BYTES, MAX_COUNT
from threegate.base.message_parts import RawPart
from threegate.base.messages import FlatMessage, FlatParser, flat_message, head, part
from threegate.base.schema import Boolean, Integer, ListOf, Mismatch, Pattern, ShapeRule
from threegate.base.wire import need
from threegate.policy.purposes import PACKETS, PURPOSE, RUNS

PROTOCOL: Final = "proxy/1"
MAX_OWN_ADDRESSES: Final = 1_024
MAX_HOSTS: Final = 32
MAX_PINNED: Final = 1_024
Address = IPv4Address | IPv6Address


class AddressShape:
    """An IP address in its one spelling."""

    def build(self, value: Any) -> Address:
        try:
            address = ip_address(value) if type(value) is str else None
        except ValueError as exc:
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "is not an address") from exc
        if address is None or str(address) != value:
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "is not an address")
        return address

    def plain(self, value: Address) -> str:
        return str(value)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def describe(self) -> str:
        return "an IP address"


@flat_message(
    PROTOCOL,
    "rules",
    sender="host, first and at every change of policy",
    answer="`InForce`, or the proxy ends",
    constants={"protocol": PROTOCOL},
)
class ProxyRules(FlatMessage):
    """The policy in force from now on, where to listen, and which addresses are ours."""

    bundle: bytes = part(RawPart(MAX_BUNDLE_BYTES), "the compiled policy")
    listen_fd: int = head(DESCRIPTOR, "the listening socket")
    own: tuple[Address, ...] = head(
        ListOf(AddressShape(), MAX_OWN_ADDRESSES), "addresses of this machine"
    )
    purpose: str = head(PURPOSE, "what the proxy is for", default=PACKETS)
    hosts: tuple[str, ...] = head(
        ListOf(Pattern(r"[a-z0-9.-]{1,253}", "a host"), MAX_HOSTS),
        "of a run; any other purpose has its hosts in the bundle",
        default=(),
    )
    pin: bool = head(Boolean(), "whether addresses are to be found out once", default=False)

    def check(self) -> None:
        need(bool(self.hosts) == (self.purpose == RUNS), "hosts go with a run")
        need(self.purpose == RUNS or not self.pin, "a pin goes with a run")


@flat_message(PROTOCOL, "in force", sender="proxy", constants={"protocol": PROTOCOL})
class InForce(FlatMessage):
    """Which policy the proxy decides by, for new tunnels and for open ones."""

    generation: int = head(Integer(1, MAX_COUNT), "of the policy")
    policy: str = head(DIGEST, "digest of the bundle")
    pinned: tuple[Address, ...] = head(
        ListOf(AddressShape(), MAX_PINNED), "what it would dial, if it was to pin", default=()
    )


parse_rules: Final = FlatParser(ProxyRules)
parse_in_force: Final = FlatParser(InForce)
