"""What of our own goes into an image: the init and the agent, as they were installed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, disk_errors

NO_INIT: Final = "TG-IMG-032"
NO_AGENT: Final = "TG-IMG-033"
# What the agent has in common with host and gate, so that all judge alike.
SHARED: Final = ("policy/ring/commands.py",)


@dataclass(frozen=True, slots=True)
class Ours:
    """The bytes of both."""

    init: bytes
    agent: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Sources:
    """What of our own goes into an image."""

    init: Path
    agent: Path

    @classmethod
    def usual(cls) -> "Sources":
        """Return what this program was installed with."""
        ours = Path(__file__).resolve().parents[2]
        init = ours / "host/images/native/bin/init"
        return cls(init, ours / "gates/tool_exec/era/guest")

    def read(self) -> Ours:
        """Return the bytes of both; raise `GateUnavailable` if one is not here."""
        with disk_errors("read the guest's agent"):
            agent = {
                path.relative_to(self.agent).as_posix(): path.read_bytes()
                for path in sorted(self.agent.rglob("*.py"))
            }
            ours = Path(__file__).resolve().parents[2]
            agent |= {f"threegate/{name}": (ours / name).read_bytes() for name in SHARED}
        if "__main__.py" not in agent:
            raise GateUnavailable("this program carries no guest agent", code=NO_AGENT)
        return Ours(_init(self.init), agent)


def _init(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        hint = "`make setup` compiles it"
        raise GateUnavailable("the guest's init is not compiled", code=NO_INIT, hint=hint) from exc
