"""Rules that come while a box waits: taken over if they are the next ones, read back by trying.

SECURITY
    Reads a bundle and its signature from the host.  A box goes forward only: to the bundle
    that names the one in force as its predecessor, has a higher number and is signed by
    somebody the one in force allows.  What it says it enforces is not what it was told: every
    module is offered to the very check that programs go through, and every act the box must
    not be able to do is tried again.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from threegate.base.errors import PolicyDenied
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import Adopt, Enforced, Prove
from threegate.gates.tool_exec.monty.screen import Bounds, screen
from threegate.keys import sshsig
from threegate.policy.bundle import NAMESPACE, Bundle
from threegate.policy.ring import compiler
from threegate.policy.ring.compiler import compile_ring
from threegate.policy.sections.tool_exec import MONTY_MODULES
from threegate.sandbox.proofs import prove

ROLLED_BACK: Final = "TG-PSH-001"
NOT_NEXT: Final = "TG-PSH-002"
LANE: Final = ("tool-exec", "lanes", "monty", "profiles")
# No profile of this lane can allow them; one that lets them through is not read back as it is.
NEVER: Final = ("ctypes", "os", "random", "socket", "subprocess", "sys", "time")


def refuse_unless_next(bundle: Bundle, found: Bundle, ask: Adopt, *, at: int) -> None:
    """Raise `PolicyDenied` unless `found` was signed to follow `bundle`."""
    if found.generation <= bundle.generation:
        message = f"generation {found.generation} does not come after {bundle.generation}"
        raise PolicyDenied(message, code=ROLLED_BACK)
    if found.previous != bundle.digest:
        raise PolicyDenied("the bundle follows another one than this box enforces", code=NOT_NEXT)
    armored = Untrusted(ask.signature)
    sshsig.verify(ask.bundle, armored, namespace=NAMESPACE, signers=bundle.signers, at=at)


def enforced(bundle: Bundle, ask: Prove, bounds_for: Callable[[Bundle, str], Bounds]) -> Enforced:
    """Return what is in force here; raises whatever shows that the lock is not."""
    numbers = dict(ask.numbers)
    for name in ask.tries:
        prove(name, numbers)
    rings = {}
    for name in bundle.words(*LANE):
        bounds = bounds_for(bundle, name)
        through = [
            one for one in (*MONTY_MODULES, *NEVER) if screen(f"import {one}", bounds) is None
        ]
        ring = compile_ring(bundle, compiler.MONTY, name)
        rings[name] = replace(ring, imports=tuple(sorted(through))).digest
    return Enforced(bundle.generation, bundle.digest, rings, ask.tries)
