"""Executors as a pool sees them: what each kind can do, and the place of one.

Each kind says what it answers when it is read back, so that a pool compares without knowing
what an import or a snapshot is.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from threegate.host.run.warm.states import Status
from threegate.policy.bundle import Bundle


@dataclass(frozen=True, slots=True)
class Signed:
    """A policy with the signature that put it in force."""

    bundle: Bundle
    armored: bytes


class Executor(Protocol):
    """One started executor."""

    @property
    def alive(self) -> bool:
        """Tell whether it can be given work."""

    def adopt(self, signed: Signed) -> None:
        """Hand it the next rules; raises `PolicyDenied` if it refuses them."""

    def enforced(self) -> object:
        """Have it try everything again; return what it says it enforces."""

    def stop(self) -> None:
        """End it from any thread, whatever it does."""

    def close(self) -> None:
        """End it."""


E = TypeVar("E", bound=Executor)
E_co = TypeVar("E_co", bound=Executor, covariant=True)


class Kind(Protocol[E_co]):
    """How executors of a kind are started, and what they can take over while they wait."""

    name: str

    def wanted(self, bundle: Bundle) -> bool:
        """Tell whether there is to be any under these rules."""

    def start(self, bundle: Bundle) -> E_co:
        """Start one under these rules, or raise `GateUnavailable`."""

    def needs_restart(self, old: Bundle, new: Bundle) -> str:
        """Return why one that waits cannot take `new` over, or nothing."""

    def expected(self, bundle: Bundle) -> object:
        """Return what one that enforces these rules answers."""


@dataclass(eq=False, slots=True)
class Slot(Generic[E]):
    """The place of one executor; whoever holds the pool's lock may look."""

    status: Status
    executor: E | None = None
    bundle: Bundle | None = None  # what the executor enforces, as it was read back
    working: bool = False  # its thread is at it
    taken: bool = False  # it runs, or is about to
    stuck: bool = False  # nothing more is tried before the next push
    asked: int = 0  # how often it was asked to be read back
    answering: int = 0  # up to which of these its thread is at it
    answered: int = 0
    again_at: float = 0.0
    since: float = 0.0
