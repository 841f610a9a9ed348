"""What the host tells the second stage: everything it must lock, prove and then run.

Plain lines, because a JSON parser would cost as much as the rest of the start.  `stage2`
reads them.  They hold no secret: the host's process list shows them to everybody.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Path:
    """A place in the box and the Landlock rights on it: r(ead), w(rite), x(execute), i(octl)."""

    path: str
    rights: str


@dataclass(frozen=True, slots=True)
class Orders:
    """One start, as the second stage carries it out."""

    profile: str
    payload: str  # module:function, or `exec` with a program
    program: tuple[str, ...]
    modules: tuple[str, ...]
    keep_fds: tuple[int, ...]
    limits: tuple[tuple[str, int], ...]
    paths: tuple[Path, ...]
    ports: tuple[int, ...]
    landlock_abi: int  # what the host's kernel offers; anything else inside is a trick
    filter: bytes
    mdwe: bool
    numbers: tuple[tuple[str, int], ...]
    proofs: tuple[str, ...]
    narrow: bytes = b""  # a second filter, for the program that is started

    def text(self) -> str:
        """Return the orders as lines."""
        lines = [
            f"profile {self.profile}",
            f"payload {self.payload}",
            *(f"program {part}" for part in self.program),
            *(f"module {name}" for name in self.modules),
            *(f"keep {fd}" for fd in self.keep_fds),
            *(f"limit {name} {value}" for name, value in self.limits),
            *(f"path {item.rights} {item.path}" for item in self.paths),
            *(f"port {port}" for port in self.ports),
            f"landlock {self.landlock_abi}",
            f"filter {self.filter.hex()}",
            f"mdwe {int(self.mdwe)}",
            *(f"number {name} {value}" for name, value in self.numbers),
            *(f"proof {name}" for name in self.proofs),
            *([f"narrow {self.narrow.hex()}"] if self.narrow else []),
        ]
        assert all("\n" not in line for line in lines)
        return "\n".join(lines)
