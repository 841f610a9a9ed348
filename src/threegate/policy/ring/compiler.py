"""Compiles a ring profile for one kind of executor: a pure function, run by host and gate.

A profile that an executor could not hold code to is rejected with the rule's file and line,
and nothing starts.  The rules, in order; the first that fails decides:

 1. the kind of executor is declared;
 2. one without a code mode has proved that it can start nothing: a no-op, said as such;
 3. the profile exists and the executor's lane offers it;
 4. its network is one the executor has, and not more than its lane's;
 5. the executor holds code to import rules, and has files where its lane grants any;
 6. its programs can be held: by an executor that starts any, none of them a Python where
    imports could not be held in it;
 7. its denied patterns can be held, where there is any program to start: by an executor that
    sees commands, and with no program that runs commands of its own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from threegate.base.errors import PolicyDenied
from threegate.base.text import quote
from threegate.policy.bundle import Compiled
from threegate.policy.decision import NO_RULE, Allow, Decision, Deny, RuleRef
from threegate.policy.ring.commands import ArgumentRule, CommandRefusal, base, names_of
from threegate.policy.ring.executor_profile import ARGUMENT_RULES, FIELDS, ExecutorProfile
from threegate.policy.sections.tool_exec import KERNEL, NETWORKS, OFF, RING

# What each kind of executor can enforce. A kind that is not declared here runs nothing.
#
# An executor gets a code mode by a declaration here. One without a code mode gets an explicit no-
# op, and only with proof that it can start nothing: `must_prove` names what its sandbox tried and
# found refused.

MONTY: Final = "monty"
HEAVY_PYTHON: Final = "heavy-python"
HEAVY_SHELL: Final = "heavy-shell"


@dataclass(frozen=True, slots=True)
class Abilities:
    """The rules that one kind of executor can enforce."""

    lane: str | None  # whose network and places it has; none without a code mode
    code_mode: bool = True
    imports: bool = False  # nothing is imported against the rules: refused, or there is no Python
    networks: frozenset[str] = frozenset((OFF,))
    files: bool = False  # has a place to write to, of as many bytes as its lane grants
    binaries: bool = False  # only these can be started, by the kernel's rule
    patterns: bool = False  # sees every command before it is started
    must_prove: frozenset[str] = frozenset()


# Programs that run Python: code that may start one imports past every hook.
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
    """Return the executors of a machine that cannot enforce this network rule."""
    return {
        kind: replace(able, networks=able.networks - {network}) for kind, able in EXECUTORS.items()
    }


def executor_of(backend: str, *, command: bool) -> str:
    """Return the kind of executor that runs a request of a lane."""
    if backend == "monty":
        return MONTY
    return HEAVY_SHELL if command else HEAVY_PYTHON


NOT_ENFORCEABLE: Final = "TG-RNG-001"
UNKNOWN_EXECUTOR: Final = "TG-RNG-002"
NOT_PROVED: Final = "TG-RNG-003"

Executors = Mapping[str, Abilities]
_SECTION: Final = "tool-exec"
GATEWAY_CLIENT: Final = "threegate_gateway"
_NEEDS: Final = {KERNEL: ": it needs nftables, which root alone may set"}
_HINT: Final = "`threegate ring why` shows what a profile lets a request do"


class ProfileRejected(PolicyDenied):
    """An executor cannot enforce this profile, so it runs nothing under it."""

    code = NOT_ENFORCEABLE

    def __init__(self, reason: str, rule: RuleRef | None, *, code: str = NOT_ENFORCEABLE) -> None:
        where = f" ({rule})" if rule is not None else ""
        super().__init__(f"{reason}{where}", code=code, hint=_HINT)
        self.reason, self.rule = reason, rule


@dataclass(frozen=True, slots=True)
class NoOp:
    """The recorded answer for an executor that runs no code, and what proved it."""

    kind: str
    proved: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} runs no code: no rule applies (proved: {', '.join(self.proved)})"


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the lane of an executor permits, independent of the profile."""

    network: str  # the widest
    disk_bytes: int  # of what it may write; a request's own limit is this at most


def runtime_of(policy: Compiled, lane: str) -> Runtime:
    """Return the runtime of a lane, from its network and file rules."""
    path = (_SECTION, "lanes", lane)
    disk_bytes = policy.integer(*path, "max", "disk_bytes")
    network = policy.text(*path, "network") if policy.has(*path, "network") else OFF
    return Runtime(network, disk_bytes)


def compile_ring(
    policy: Compiled, kind: str, name: str, *, executors: Executors = EXECUTORS
) -> ExecutorProfile:
    """Return the profile `name` as an executor of this kind enforces it.

    Raises `ProfileRejected`.
    """
    able = executors.get(kind)
    if able is None or not able.code_mode:
        reason = f"no executor {quote(kind)} with a code mode is declared"
        raise ProfileRejected(reason, None, code=UNKNOWN_EXECUTOR)
    assert able.lane is not None, kind
    offered = (_SECTION, "lanes", able.lane, "profiles")
    if name not in policy.words(*offered):
        raise ProfileRejected(f"profile {quote(name)} is not offered", policy.ref(*offered))
    _refuse_unenforceable(policy, kind, name, able)
    path = (_SECTION, RING, name)
    denied = policy.words(*path, "denied_imports")
    network = policy.text(*path, "executor_network")
    # The gateway's client is there with a gateway, and with nothing else.
    client = {GATEWAY_CLIENT} if network != OFF else set()
    allowed = {*policy.words(*path, "allowed_imports")} - {GATEWAY_CLIENT}
    allowed = (allowed | client) - {*denied}
    if policy.has(_SECTION, "lanes", able.lane, "imports"):
        allowed &= {*policy.words(_SECTION, "lanes", able.lane, "imports")}
    return ExecutorProfile(
        kind=kind,
        profile=name,
        imports=tuple(sorted(allowed)),
        denied_imports=tuple(sorted(denied)),
        network=network,
        binaries=tuple(sorted(policy.words(*path, "allowed_binaries"))),
        patterns=tuple(policy.words(*path, "denied_patterns")),
        arguments=tuple(rules_about(policy, policy.words(*path, "allowed_binaries"))),
        rules=dict(_places(policy, name)),
    )


def offline(ring: ExecutorProfile) -> ExecutorProfile:
    """Return a profile without its network."""
    imports = tuple(name for name in ring.imports if name != GATEWAY_CLIENT)
    return replace(ring, network=OFF, imports=imports)


def compile_no_op(kind: str, proved: frozenset[str], *, executors: Executors = EXECUTORS) -> NoOp:
    """Return the no-op of an executor without a code mode, or raise `ProfileRejected`.

    `proved` are the acts its box tried just before it began, and found refused.
    """
    able = executors.get(kind)
    if able is None or able.code_mode:
        reason = f"no executor {quote(kind)} without a code mode is declared"
        raise ProfileRejected(reason, None, code=UNKNOWN_EXECUTOR)
    missing = sorted(able.must_prove - proved)
    if missing or not able.must_prove:
        reason = f"{kind} has not proved that it can start nothing: {', '.join(missing)}"
        raise ProfileRejected(reason, None, code=NOT_PROVED)
    return NoOp(kind, tuple(sorted(able.must_prove)))


def may_enforce(
    policy: Compiled, kind: str, name: str, *, executors: Executors = EXECUTORS
) -> Decision:
    """Decide whether an executor of this kind can enforce the profile `name`."""
    try:
        compile_ring(policy, kind, name, executors=executors)
    except ProfileRejected as exc:
        return Deny(exc.rule, exc.reason)
    if not policy.has(_SECTION, RING, name):
        return Deny(None, NO_RULE)
    return Allow(policy.ref(_SECTION, RING, name), f"{kind} can enforce profile {name}")


def beyond_every_executor(policy: Compiled) -> Iterator[tuple[RuleRef, str]]:
    """Yield each offered profile that no executor of the lane can enforce: its place, the reason.

    Networks are left out: which of them there are is a matter of the machine.
    """
    for lane in sorted(policy.words(_SECTION, "lanes")):
        kinds = [(kind, able) for kind, able in EXECUTORS.items() if able.lane == lane]
        for name in sorted(policy.words(_SECTION, "lanes", lane, "profiles")):
            found = [next(_beyond(policy, kind, name, able), None) for kind, able in kinds]
            if found and found[-1] is not None and None not in found:
                path, reason = found[-1]
                yield policy.ref(*path), f"profile {name}: {reason}"


def _refuse_unenforceable(policy: Compiled, kind: str, name: str, able: Abilities) -> None:
    for field, reason in _unenforceable(policy, kind, name, able):
        raise ProfileRejected(f"profile {name}: {reason}", policy.ref(*field))


def _unenforceable(
    policy: Compiled, kind: str, name: str, able: Abilities
) -> Iterator[tuple[tuple[str, ...], str]]:
    path = (_SECTION, RING, name)
    network = policy.text(*path, "executor_network")
    if network not in able.networks:
        why = _NEEDS.get(network, "")
        yield (*path, "executor_network"), f"{kind} has no network {network}{why}"
    assert able.lane is not None
    widest = runtime_of(policy, able.lane).network
    if NETWORKS.index(network) > NETWORKS.index(widest):
        yield (*path, "executor_network"), f"network {network} is more than its lane's {widest}"
    yield from _beyond(policy, kind, name, able)


def _beyond(
    policy: Compiled, kind: str, name: str, able: Abilities
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each rule, except that of the network, that an executor cannot enforce."""
    path = (_SECTION, RING, name)
    assert able.lane is not None
    if not able.imports:  # an empty list means none: that too must be enforced
        yield (*path, "allowed_imports"), f"{kind} does not refuse imports"
    if runtime_of(policy, able.lane).disk_bytes and not able.files:
        where = (_SECTION, "lanes", able.lane, "max", "disk_bytes")
        yield where, f"{kind} has no files to write, and its lane grants them"
    binaries = policy.words(*path, "allowed_binaries")
    denied = policy.words(*path, "denied_patterns")
    if binaries and not able.binaries:
        yield (*path, "allowed_binaries"), f"{kind} starts no programs"
    for binary in sorted(binaries):
        if binary.rpartition("/")[2].startswith(PYTHON_PROGRAMS):
            reason = f"{kind} cannot hold the imports of {binary}"
            yield (*path, "allowed_binaries", binary), reason
        if denied and not names_of(binary).isdisjoint(COMMAND_INTERPRETERS):
            reason = f"{binary} runs commands that no denied pattern sees"
            yield (*path, "allowed_binaries", binary), reason
    if binaries and denied and not able.patterns:
        yield (*path, "denied_patterns"), f"{kind} does not see the commands of its code"


def _places(policy: Compiled, name: str) -> Iterator[tuple[str, str]]:
    path = (_SECTION, RING, name)
    for field in FIELDS:
        yield field, str(policy.ref(*path, field))
        if field in ("denied_imports", "denied_patterns"):
            for item in policy.words(*path, field):
                yield f"{field}/{item}", str(policy.ref(*path, field, item))
    yield ARGUMENT_RULES, str(policy.ref(_SECTION, ARGUMENT_RULES))
    for rule in rules_about(policy, policy.words(*path, "allowed_binaries")):
        place = policy.ref(_SECTION, ARGUMENT_RULES, rule.name)
        yield f"{ARGUMENT_RULES}/{rule.name}", str(place)


def rules_about(policy: Compiled, binaries: Collection[str]) -> Iterator[ArgumentRule]:
    """Yield the argument rules, reduced to these programs."""
    names = [(name, names_of(name)) for name in sorted({*map(base, binaries)})]
    for name in sorted(policy.words(_SECTION, ARGUMENT_RULES)):
        path = (_SECTION, ARGUMENT_RULES, name)
        programs = policy.words(*path, "programs")
        about = tuple(name for name, known in names if not known.isdisjoint(programs))
        if not about:
            continue
        denied, required = policy.words(*path, "denied"), policy.words(*path, "required")
        yield ArgumentRule(name, about, tuple(sorted(denied)), tuple(sorted(required)))


# Whether policy lets a command start: checked before review, before a claim, and in the gate.
#
# SECURITY: reads the words of a command from a stored request. If this is wrong, a human is asked
# about something that policy denies; the guest checks again before it starts anything.

COMMAND_REFUSED: Final = "TG-RNG-004"


def may_command(policy: Compiled, kind: str, name: str, argv: Sequence[str]) -> Decision:
    """Decide whether an executor of this kind may start a command under the profile `name`."""
    try:
        ring = compile_ring(policy, kind, name)
    except ProfileRejected as exc:
        return Deny(exc.rule, exc.reason)
    found = ring.command(argv)
    if found is None:
        path = (_SECTION, RING, name, "allowed_binaries")
        return Allow(policy.ref(*path), f"no rule of profile {name} refuses the command")
    return Deny(_place(policy, name, found), _reason(found))


def refuse_command(policy: Compiled, kind: str, name: str, argv: Sequence[str]) -> None:
    """Raise `PolicyDenied` for a command that may not begin."""
    decision = may_command(policy, kind, name, argv)
    if isinstance(decision, Deny):
        error = decision.error("the command is")
        raise PolicyDenied(error.message, code=COMMAND_REFUSED, hint=error.hint)


def _place(policy: Compiled, name: str, found: CommandRefusal) -> RuleRef:
    if found.rule == ARGUMENT_RULES:
        return policy.ref(_SECTION, ARGUMENT_RULES, found.item)
    path = (_SECTION, RING, name, found.rule)
    return policy.ref(*path) if found.rule == "allowed_binaries" else policy.ref(*path, found.item)


def _reason(found: CommandRefusal) -> str:
    argument = quote(found.argument)
    if found.rule == "allowed_binaries":
        return f"program {argument} is not allowed"
    if found.rule == ARGUMENT_RULES:
        return f"argument rule {found.item} refuses {argument}"
    return f"pattern {quote(found.item)} is denied: {argument}"
