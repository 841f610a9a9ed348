"""Whether a guest is what was promised: its own word, held against the machine it was given.

The names are evidence in the result, as what the guest said just before its job.  What keeps
a promise is outside: there is no network device, so there is no network.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from threegate.gates.tool_exec.era.guest_messages import GuestFacts
from threegate.gates.tool_exec.era.messages import GuestShape
from threegate.policy.ring.executor_profile import ExecutorProfile

# File systems that live in the guest alone; a shared folder would have another kind.
_OWN_KINDS: Final = frozenset(
    ("rootfs", "overlay", "tmpfs", "devtmpfs", "devpts", "proc", "sysfs", "erofs")
)


# What an executor tries itself just before a job, by its kind.
_PROOFS: Final = {
    "heavy-python": ("exec", "imports", "socket", "view"),
    "heavy-shell": ("commands", "exec", "programs", "socket"),
}


def _no_network(facts: GuestFacts, shape: GuestShape) -> bool:
    # A user-space kernel has a loopback of its own that is always up and leads nowhere.
    return all(
        name == "lo" and (not up or shape.kind == "process") for name, up in facts.interfaces
    )


def _own_mounts(facts: GuestFacts, _: GuestShape) -> bool:
    return all(kind in _OWN_KINDS for _, kind, _ in facts.mounts)


def _only_its_image(facts: GuestFacts, _: GuestShape) -> bool:
    shared = [row for row in facts.mounts if row[1] not in _OWN_KINDS]
    return shared == [("/", "9p", "ro")]


def _root_read_only(facts: GuestFacts, _: GuestShape) -> bool:
    modes = [mode for place, kind, mode in facts.mounts if place == "/" and kind != "rootfs"]
    return bool(modes) and all(mode == "ro" for mode in modes)


def _memory(facts: GuestFacts, shape: GuestShape) -> bool:
    promised = shape.memory_bytes // 1024
    return promised // 2 <= facts.memory_kib <= promised  # the kernel keeps some for itself


_PROMISES: Final[dict[str, Callable[[GuestFacts, GuestShape], bool]]] = {
    "guest-cpus": lambda facts, shape: facts.cpus == shape.cpus,
    "guest-empty-environment": lambda facts, _: facts.environment == 0,
    "guest-memory": _memory,
    "guest-no-network": _no_network,
    "guest-no-resolver": lambda facts, _: not facts.resolver,
    "guest-no-route": lambda facts, _: facts.routes == 0,
    "guest-no-shared-folder": _own_mounts,
    "guest-root-read-only": _root_read_only,
}


_INSTEAD: Final[dict[str, Callable[[GuestFacts, GuestShape], bool]]] = {
    # Its files come one by one from a process outside that sees the image and nothing else.
    "guest-only-its-image": _only_its_image,
}


def _promises(shape: GuestShape) -> dict[str, Callable[[GuestFacts, GuestShape], bool]]:
    if shape.kind == "machine":
        return _PROMISES
    return {k: v for k, v in _PROMISES.items() if k != "guest-no-shared-folder"} | _INSTEAD


def kept(facts: GuestFacts, shape: GuestShape, ring: ExecutorProfile) -> tuple[str, ...]:
    """Return the names of all promises, or raise `ValueError` with the first that is broken."""
    promises = _promises(shape)
    # A program of the profile is on a mount of its own, where it can be executed.
    rest = tuple(row for row in facts.mounts if row[0] not in ring.binaries)
    for name, holds in promises.items():
        if not holds(replace(facts, mounts=rest), shape):
            raise ValueError(name)
    if facts.ring != ring.digest:
        raise ValueError("guest-ring-applied")
    proofs = {*_PROOFS[ring.kind]}
    proofs |= {"offline"} if ring.network == "off" else set()
    proofs |= {"programs"} if ring.binaries else set()
    for name in sorted(proofs):
        if name not in facts.ring_proved:
            raise ValueError(f"guest-ring-{name}")
    return tuple(sorted((*promises, "guest-ring-applied", *(f"guest-ring-{n}" for n in proofs))))
