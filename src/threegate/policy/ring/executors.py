"""What each kind of executor can enforce, declared; a kind that is not here runs nothing.

An executor gets a code mode by a declaration here, not by a layer of its own.  One without a
code mode gets an explicit no-op, and only with proof that it can start nothing: the
names in `must_prove` are those its box tried and found refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from threegate.policy.sections.tool_exec import NETWORKS, OFF

MONTY: Final = "monty"
HEAVY_PYTHON: Final = "heavy-python"
HEAVY_SHELL: Final = "heavy-shell"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one kind of executor can hold code to."""

    lane: str | None  # whose network and places it has; none without a code mode
    code_mode: bool = True
    imports: bool = False  # refuses imports in the code it runs
    networks: frozenset[str] = frozenset((OFF,))
    binaries: bool = False  # only these can be started, by the kernel's rule
    patterns: bool = False  # sees every command before it is started
    must_prove: frozenset[str] = frozenset()


# Programs that run Python: whoever may start one imports past every hook.
PYTHON_PROGRAMS: Final = ("python", "pypy")
# Programs that start others as their own scripts say, where no rule about a command can look.
COMMAND_INTERPRETERS: Final = frozenset(
    (
        *("ash", "bash", "busybox", "csh", "dash", "ed", "ex", "expect", "fish", "gdb", "ksh"),
        *("lua", "make", "node", "nodejs", "octave", "perl", "php", "R", "rbash", "Rscript"),
        *("ruby", "sh", "tclsh", "tcsh", "toybox", "vi", "vim", "zsh"),
    )
)

EXECUTORS: Final[Mapping[str, Abilities]] = MappingProxyType(
    {
        MONTY: Abilities("monty", imports=True),
        HEAVY_PYTHON: Abilities("era", imports=True, binaries=True, networks=frozenset(NETWORKS)),
        HEAVY_SHELL: Abilities("era", binaries=True, patterns=True),
        # Runtimes that compute and run no code of anybody's; their boxes may start nothing.
        "model-server": Abilities(None, code_mode=False, must_prove=frozenset(("exec", "fork"))),
        "embedder": Abilities(None, code_mode=False, must_prove=frozenset(("exec", "fork"))),
    }
)


def without(network: str) -> Mapping[str, Abilities]:
    """Return the executors as they are on a machine that cannot hold one to this network."""
    return {
        kind: replace(able, networks=able.networks - {network}) for kind, able in EXECUTORS.items()
    }


def executor_of(backend: str, *, command: bool) -> str:
    """Return the kind of executor that runs a request of a lane."""
    if backend == "monty":
        return MONTY
    return HEAVY_SHELL if command else HEAVY_PYTHON
