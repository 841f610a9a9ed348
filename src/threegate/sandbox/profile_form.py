"""The form of a profile: the data of one process's sandbox."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from threegate.base import canonical

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

NewCode = Literal["none", "linked", "any"]
# To trace its own children; to make files that are memory; to change its root, which takes a
# capability; to see a /proc of its own; to make pairs of sockets for packets.
Grant = Literal["ptrace", "memfd", "chroot", "proc", "seqpacket"]


@dataclass(frozen=True, slots=True)
class Bind:
    """A path in the sandbox for a file, directory or socket of the host, given at start.

    A `library` is a shared library; the libraries that it needs are in view with it.
    """

    slot: str
    inside: str
    kind: Literal["file", "directory", "socket", "library"]


@dataclass(frozen=True, slots=True)
class Profile:
    """One process: what it sees, what it may do, how much of it."""

    name: str
    purpose: str
    packages: tuple[str, ...]  # parts of threegate in view, besides the common base
    libraries: tuple[str, ...]  # installed packages in view; nothing else of site-packages
    modules: tuple[str, ...]  # imported before the lock: nothing native can be loaded later
    binds: tuple[Bind, ...]  # read-only places
    devices: tuple[str, ...]
    scratch_bytes: int  # size of a private /tmp that dies with the process; 0: none
    host_network: bool
    families: tuple[str, ...]  # socket families it may open
    connect_ports: tuple[int, ...]  # TCP, only with host_network
    executables: tuple[str, ...]  # slots it may execute; empty: nothing at all
    processes_may_fork: bool
    new_code: NewCode
    memory_bytes: int
    cpu_seconds: int
    processes: int
    open_files: int
    file_bytes: int  # largest file it may write, in its own /tmp
    output_bytes: int
    stderr_bytes: int
    deadline_seconds: int
    # The most one process serves: one job; jobs of one confidentiality under one policy, one
    # after the other (`session`); or every client while the host's supervisor lives.
    reuse: Literal["one job", "one session", "one start"]
    # What its program cannot do without and no other box has; most have none.
    grants: tuple[Grant, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the profile as plain data."""
        value: dict[str, Any] = _listed(asdict(self))
        if not self.grants:
            del value["grants"]  # a box without any is spelled as before there were grants
        return value

    def to_bytes(self) -> bytes:
        """Return the one spelling of the profile; its digest goes into every result."""
        return canonical.encode(self.plain())


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value
