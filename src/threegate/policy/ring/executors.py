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
    imports: bool = False  # nothing is imported against the rules: refused, or there is no Python
    networks: frozenset[str] = frozenset((OFF,))
    files: bool = False  # has a place to write to, of as many bytes as its lane grants
    binaries: bool = False  # only these can be started, by the kernel's rule
    patterns: bool = False  # sees every command before it is started
    must_prove: frozenset[str] = frozenset()


# Programs that run Python: whoever may start one imports past every hook.
PYTHON_PROGRAMS: Final = (
    *("bpython", "graalpy", "ipython", "jython", "micropython", "pdb", "pydoc", "pypy", "pytest"),
    *("python", "xonsh"),
)
# Programs that start others as their own scripts say, where no rule about a command can look;
# each also in every version and variant: lua5.4, vim.tiny, bash-static.
COMMAND_INTERPRETERS: Final = frozenset(
    (
        *("ash", "bash", "busybox", "clisp", "csh", "dash", "deno", "ed", "elvish", "emacs", "erl"),
        *("ex", "expect", "fish", "gdb", "ghci", "gnuplot", "groovy", "guile", "irb", "java"),
        *("jjs", "jshell", "julia", "ksh", "lldb", "lua", "luajit", "luatex", "m4", "make", "mksh"),
        *("node", "nodejs", "nu", "nvim", "ocaml", "octave", "perl", "php", "pwsh", "qjs", "R"),
        *("racket", "rbash", "rksh", "Rscript", "ruby", "runghc", "rvim", "rzsh", "sbcl", "sh"),
        *("tclsh", "tcsh", "texlua", "toybox", "vi", "view", "vim", "vimdiff", "wish", "yash"),
        "zsh",
    )
)

EXECUTORS: Final[Mapping[str, Abilities]] = MappingProxyType(
    {
        MONTY: Abilities("monty", imports=True),
        HEAVY_PYTHON: Abilities(
            "era", imports=True, files=True, binaries=True, networks=frozenset(NETWORKS)
        ),
        # It runs no Python: no profile holds a program that does.
        HEAVY_SHELL: Abilities("era", imports=True, files=True, binaries=True, patterns=True),
        # Runtimes that compute and run no code of anybody's; their boxes may start nothing.
        **dict.fromkeys(
            ("model-server", "embedder", "bridge", "bridge-socket", "bridge-remote"),
            Abilities(None, code_mode=False, must_prove=frozenset(("exec", "fork"))),
        ),
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
