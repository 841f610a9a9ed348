"""`executor_network: kernel-allowlist`: the proxy of a run, held by the kernel to its hosts.

The same gateway, and behind it the same proxy with a uid of its own.  Before any run speaks it asks
for the names of the request's hosts, once, and the kernel lets it reach these addresses from then
on and nothing else, name servers included.

SECURITY
    What the proxy says it found goes into the kernel's rules: addresses of the inside are
    refused here as well.  If this module is wrong, a run is called held that is not.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.gates.fetch.proxy.messages import Address
from threegate.host.proxy.supervisor import LogWriter, Proxy
from threegate.policy.bundle import Bundle, Compiled
from threegate.policy.decision import Decision
from threegate.policy.hosts import refused_v4, refused_v6
from threegate.policy.ring.compiler import EXECUTORS, Executors, compile_ring, may_enforce, without
from threegate.policy.ring.executor_profile import ExecutorProfile
from threegate.policy.sections.tool_exec import KERNEL, RING
from threegate.sandbox.launch import Evidence
from threegate.sandbox.profiles import RUN_PROXY
from threegate.sandbox.reach import NO_FILTER, Reach, missing, reaching

MakeProxy = Callable[..., Proxy]
StartProxy = Callable[[MakeProxy], AbstractContextManager[Evidence]]
HELD: Final = "gateway.held"  # entries of the log: the addresses before, what was counted after
PROOF: Final = "addresses"
TRIES: Final = 3  # of the proxy, at what the kernel must refuse (`fetch.proxy.pinning`)


def compile_here(policy: Compiled, kind: str, name: str) -> ExecutorProfile:
    """Return a profile as an executor of this machine enforces it, or raise `ProfileRejected`."""
    return compile_ring(policy, kind, name, executors=_executors_for(policy, name))


def may_enforce_here(policy: Compiled, kind: str, name: str) -> Decision:
    """Decide whether an executor of this machine can hold code to the profile `name`."""
    return may_enforce(policy, kind, name, executors=_executors_for(policy, name))


def _executors_for(policy: Compiled, name: str) -> Executors:
    """Return what executors can hold code to here; the kernel is asked if the profile needs it."""
    if says_kernel(policy, name) and missing() is not None:
        return without(KERNEL)
    return EXECUTORS


def says_kernel(policy: Compiled, name: str) -> bool:
    """Tell whether a profile says `kernel-allowlist`."""
    path = ("tool-exec", RING, name)
    return policy.has(*path) and policy.text(*path, "executor_network") == KERNEL


@contextmanager
def started_proxy(bundle: Bundle, make: MakeProxy) -> Iterator[Evidence]:
    """Start a proxy that nothing but its own rules holds to its hosts; yield what was proved."""
    proxy = make()
    try:
        yield proxy.start(bundle)
    finally:
        proxy.close()


@contextmanager
def held_proxy(bundle: Bundle, noter: LogWriter, make: MakeProxy) -> Iterator[Evidence]:
    """Start a proxy and have the kernel hold it; yield what was proved.

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
    """Let it reach what it found and nothing else, and have it try."""
    refuse_inside(proxy.pinned)
    noter.announce(HELD, {"addresses": [str(one) for one in proxy.pinned]})
    reach.hold(proxy.pinned)
    before = reach.counted().refused
    proxy.reload(bundle)  # it tries what must be refused, and serves nobody before that
    if reach.counted().refused - before < TRIES:
        detail = "the kernel was not seen to refuse what it must"
        raise GateUnavailable(detail, code=NO_FILTER)


def refuse_inside(addresses: tuple[Address, ...]) -> None:
    """Raise `GateUnavailable` for an address that no name outside may lead to."""
    for address in addresses:
        inside = refused_v4() if address.version == 4 else refused_v6()
        if any(address in network for network in inside):
            detail = f"the proxy would dial {address}, which leads inside"
            raise GateUnavailable(detail, code=NO_FILTER)
