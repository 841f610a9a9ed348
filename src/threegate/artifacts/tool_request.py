"""Tool Request: what TOOL-EXEC should run, on which inputs, within which limits.

SECURITY
    Reads drafts written by CORE, which reads hostile text, and requests by the operator.
    Code is an indented text: nothing in it can become a key, a limit or another request.
    If this module is wrong, what runs is not what the human was shown.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from threegate.artifacts import limits as bounds
from threegate.artifacts.codec import BodySection, Format, section
from threegate.artifacts.ids import id_of, sha256_hex
from threegate.artifacts.labels import INTEGRITY, check_origin
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.base import canonical
from threegate.base.forms import (
    CONFIDENTIALITY,
    DIGEST,
    FILE_NAME,
    HOST,
    IDENTIFIER,
    NAME,
    NONCE,
    TIME,
)
from threegate.base.limits import MAX_INPUTS, MAX_REQUEST_BYTES
from threegate.base.schema import (
    Choice,
    Either,
    Integer,
    ListOf,
    Named,
    Nullable,
    Pattern,
    Record,
    Sorted,
    Text,
    spec,
)
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted

# The command of a tool request: one program and its arguments, never a shell sentence.
#
# SECURITY: CORE may have drafted the arguments from hostile text. No shell ever sees them, so a
# shell operator among them is harmless; it is refused because a reviewer would read it as one. The
# lists of names exist for clear refusals: the sandbox is the boundary, not this code.

_PROGRAM: Final = re.compile(r"\A[A-Za-z0-9_./+][A-Za-z0-9_./+-]*\Z")
_SHELL: Final = re.compile(
    r"\A(?:.*/)?(?:(?:a|ba|c|da|elvi|fi|hu|k|lk|mk|o|ok|pdk|po|pw|r|rba|rk|rz|sa|tc|xon|ya|z)?sh"
    r"|busybox|nu|toybox)(?:[0-9.-][0-9a-z.-]*)?\Z"
)
# These run the program named in their arguments: `env sh` is a shell as surely as `sh` is.
_RUNNER: Final = re.compile(
    r"\A(?:.*/)?(?:chroot|chrt|command|doas|env|exec|find|flock|ionice|ltrace|nice|nohup|nsenter"
    r"|parallel|prlimit|proot|runuser|script|setarch|setpriv|setsid|stdbuf|strace|su|sudo"
    r"|systemd-run|taskset|time|timeout|unshare|watch|xargs)\Z"
)
_RETRIEVER: Final = re.compile(
    r"\A(?:.*/)?(?:aria2c|axel|curl|ftp|httpie|https?|links|lynx|nc|ncat|netcat|rsync|scp|sftp"
    r"|socat|ssh|telnet|tftp|w3m|wget2?)\Z"
)
_OURSELVES: Final = re.compile(r"\A(?:.*/)?threegate(?:[0-9.-].*)?\Z")
_OPERATOR: Final = re.compile(
    r"""\A(?:
        [0-9]*[<>](?!=).*       # >file 2>&1 <<EOF <(list); >=1.0 is a version
        | &>.* | [|;&].*        # |cat &&
        | \S*[;&|]              # ls;
        | \$\(.* | `.*          # $(list)
    )\Z""",
    re.VERBOSE,
)
# Matches only at the start of a word: from every letter on, 4,096 letters take 30 ms.
_URL: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[0-9+.-]*[A-Za-z][A-Za-z0-9+.-]*://|\A[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:"
)
_REQUEST_ID: Final = re.compile(r"(?:tr|fr|ap)-[0-9a-f]{12}")


def check_command(argv: list[str]) -> None:
    """Raise `ArtifactRejected` unless `argv` is one program with its arguments."""
    if not argv:
        return
    _check_program(argv[0])
    _check_no_shell(argv)
    for argument in argv[1:]:
        if _OPERATOR.match(argument):
            raise reject(ArtifactReason.COMMAND, f"{quote(argument)} is a shell operator")
        # Runs never retrieve: a remote place belongs into a fetch request.
        if _URL.search(argument):
            raise reject(
                ArtifactReason.RETRIEVAL, f"argument {quote(argument)} names a remote place"
            )
        # A run must not start the next one.
        if _REQUEST_ID.search(argument):
            raise reject(
                ArtifactReason.NAMES_REQUEST, f"argument {quote(argument)} names a request"
            )


def _check_program(program: str) -> None:
    if _PROGRAM.match(program) is None:
        raise reject(ArtifactReason.COMMAND, f"{quote(program)} is a command line, not a program")
    if _RETRIEVER.match(program):
        raise reject(ArtifactReason.RETRIEVAL, f"{quote(program)} retrieves")
    if _OURSELVES.match(program):
        raise reject(ArtifactReason.NAMES_REQUEST, f"{quote(program)} would start a request")


def _check_no_shell(argv: list[str]) -> None:
    if _SHELL.match(argv[0]):
        raise reject(ArtifactReason.COMMAND, f"{quote(argv[0])} is a shell")
    runs_another = _RUNNER.match(argv[0]) is not None
    for argument, following in pairwise([*argv[1:], ""]):
        # A runner may take the whole line in one argument: `env -S "sh -c …"`.
        words = argument.replace("=", " ").split() if runs_another else [argument]
        named = any(map(_SHELL.match, words))
        if named and (runs_another or following.startswith("-")):
            raise reject(ArtifactReason.COMMAND, f"{quote(argument)} is a shell")


BACKENDS: Final = ("monty", "era")
FUNCTIONS: Final = ("json_dumps", "json_loads", "regex_findall", "sha256_hex")
NO_NETWORK: Final = "none"
GATEWAY: Final = "gateway"


@dataclass(frozen=True, slots=True)
class MontyRefusal:
    """Monty's own refusal of the code, as the host stored it."""

    record: str = spec(DIGEST, "digest of the stored refusal record")
    construct: Untrusted[str] = spec(Text(200), "what Monty cannot express")
    line: int = spec(Integer(1, 1_000_000), "line of the code")
    reason: Untrusted[str] = spec(Text(), "Monty's words")


@dataclass(frozen=True, slots=True)
class Escalation:
    """Why the request needs the heavy lane."""

    reason: str = spec(Choice("not-expressible", "files", "binary"), "the one reason")
    refusal: MontyRefusal | None = spec(
        Nullable(Record(MontyRefusal)), "required by `not-expressible`, null otherwise"
    )


@dataclass(frozen=True, slots=True)
class Input:
    """Data the code may read, by digest."""

    name: str = spec(IDENTIFIER, "the name the code sees")
    artifact: str = spec(
        Pattern("(?:rp|res|an|blob)-[0-9a-f]{64}", "an id (rp, res, an) or `blob-` and a SHA-256"),
        "what it is",
    )
    bytes: int = spec(Integer(), "its size")
    file: Untrusted[str] | None = spec(
        Nullable(Text(200)),
        "name of the file it was read from, without its folder; null for all else",
    )


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What the run may use at most; policy may allow less."""

    wall_ms: int = spec(Integer(1, 86_400_000), "wall time")
    memory_bytes: int = spec(Integer(1, 2**40), "memory")
    output_bytes: int = spec(Integer(0, 2**40), "stdout, stderr and value together")
    recursion: int = spec(Integer(1, 100_000), "depth of calls")
    cpus: int = spec(Integer(1, 256), "processors")
    processes: int = spec(Integer(1, 100_000), "processes at a time")
    disk_bytes: int = spec(Integer(0, 2**40), "bytes in output files")


@dataclass(frozen=True, slots=True)
class GatewayTerms:
    """The hosts a run may ask through the gateway, and how much may pass; policy may allow less."""

    hosts: tuple[str, ...] = spec(
        Sorted(HOST, bounds.MAX_GATEWAY_HOSTS, least=1), "whole names, no patterns"
    )
    up_bytes: int = spec(Integer(0, 2**40), "bytes that may leave")
    down_bytes: int = spec(Integer(0, 2**40), "bytes that may come")

    def __str__(self) -> str:
        return f"gateway to {', '.join(self.hosts)}, up {self.up_bytes}, down {self.down_bytes}"


Network = str | GatewayTerms


def network_word(network: Network) -> str:
    """Return the kind of a network in one word."""
    return GATEWAY if isinstance(network, GatewayTerms) else network


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A file the run is expected to leave."""

    name: str = spec(FILE_NAME, "plain file name")
    max_bytes: int = spec(Integer(1, 2**40), "the most it may hold")


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """What to run."""

    created: str = spec(TIME, "when the host stored it")
    nonce: str = spec(NONCE, "stamped by the host: asking again is a new request")
    origin: str = spec(Choice("operator", "core"), "who wrote it")
    backend: str = spec(Choice(*BACKENDS), "the lane; always explicit")
    why_not_monty: Escalation | None = spec(
        Nullable(Record(Escalation)), "required by `era`, null for `monty`"
    )
    profile: str = spec(NAME, "the interpreter ring's profile")
    argv: tuple[Untrusted[str], ...] = spec(
        ListOf(Text(bounds.MAX_ARGUMENT_CHARS), bounds.MAX_ARGUMENTS),
        "program and arguments, `era` only; empty when there is code",
    )
    code_sha256: str = spec(DIGEST, "digest of the text under Code")
    inputs: tuple[Input, ...] = spec(Named(Record(Input), MAX_INPUTS), "data the run may read")
    functions: tuple[str, ...] = spec(
        Sorted(Choice(*FUNCTIONS), len(FUNCTIONS)), "external functions, `monty` only"
    )
    limits: RunLimits = spec(Record(RunLimits), "what it may use at most")
    outputs: tuple[OutputSpec, ...] = spec(
        Named(Record(OutputSpec), bounds.MAX_OUTPUTS), "files it will leave, `era` only"
    )
    network: Network = spec(
        Either(Choice(NO_NETWORK), Record(GatewayTerms)),
        "`none` unless policy and approval name another",
    )
    integrity: str = spec(Choice(*INTEGRITY), "`external` when any source shaped it")
    confidentiality: str = spec(Choice(*CONFIDENTIALITY), "joined over `derived_from`")
    derived_from: tuple[str, ...] = spec(
        Sorted(id_of("rp", "an", "res"), bounds.MAX_DERIVED_FROM),
        "every artifact its author could read; set by the host",
    )
    purpose: Untrusted[str] = section(
        BodySection("Purpose", bounds.MAX_PURPOSE_CHARS, 1), "what the result is for"
    )
    code: Untrusted[str] = section(
        BodySection("Code", bounds.MAX_CODE_CHARS), "the program, character for character"
    )
    risks: Untrusted[str] = section(
        BodySection("Risks", bounds.MAX_PURPOSE_CHARS, 1), "what could go wrong, by its author"
    )

    def parents(self) -> tuple[str, ...]:
        """Return the ids this request was made from, inputs included."""
        data = (i.artifact for i in self.inputs if not i.artifact.startswith("blob-"))
        return tuple(sorted({*self.derived_from, *data}))


def refusal_record(*, code_sha256: str, construct: str, line: int, reason: str) -> bytes:
    """Return the bytes of the refusal record the host stores for this code."""
    record = {"code_sha256": code_sha256, "construct": construct, "format": "refusal/1"}
    return canonical.encode({**record, "line": line, "reason": reason})


def _check(request: ToolRequest) -> None:
    for item in request.inputs:
        if item.file is not None and not item.artifact.startswith("blob-"):
            raise reject(
                ArtifactReason.INCONSISTENT, f"input {item.name} is an artifact and not a file"
            )
    code = request.code.open_for_validation()
    if request.code_sha256 != sha256_hex(code.encode("utf-8")):
        raise reject(ArtifactReason.DIGEST_MISMATCH, "code_sha256 is not the digest of the code")
    # With both, a reviewer could read one while the other runs.
    if bool(code) == bool(request.argv):
        raise reject(
            ArtifactReason.BACKEND, "a request has either code or argv, not both and not neither"
        )
    check_origin(request.origin, request.integrity, request.parents())
    check_command([argument.open_for_validation() for argument in request.argv])
    if request.backend == "monty":
        _check_monty(request)
    else:
        _check_era(request)


def _check_monty(request: ToolRequest) -> None:
    asked = request.limits
    forbidden = {
        "why_not_monty": request.why_not_monty is not None,
        "argv": bool(request.argv),
        "outputs": bool(request.outputs),
        "network": request.network != "none",
        # The lite lane has one thread and no disk; other values would mislead the reviewer.
        "limits": (asked.cpus, asked.processes, asked.disk_bytes) != (1, 1, 0),
    }
    for name, present in forbidden.items():
        if present:
            raise reject(
                ArtifactReason.BACKEND, f"{name} asks for what the monty lane does not have"
            )


def _check_era(request: ToolRequest) -> None:
    why = request.why_not_monty
    if why is None:
        raise reject(ArtifactReason.BACKEND, "era without why_not_monty")
    if request.functions:
        raise reject(ArtifactReason.BACKEND, "functions belong to the monty lane")
    if (why.refusal is not None) != (why.reason == "not-expressible"):
        raise reject(
            ArtifactReason.REFUSAL, "a refusal goes with not-expressible, and only with it"
        )
    if why.reason == "files" and not request.outputs:
        raise reject(ArtifactReason.BACKEND, "why_not_monty says files, but outputs is empty")
    if (why.reason == "binary") != bool(request.argv):
        raise reject(ArtifactReason.BACKEND, "binary goes with argv, and only with it")
    if why.refusal is not None:
        _check_refusal(why.refusal, request.code_sha256)


def _check_refusal(refusal: MontyRefusal, code_sha256: str) -> None:
    record = refusal_record(
        code_sha256=code_sha256,
        construct=refusal.construct.open_for_validation(),
        line=refusal.line,
        reason=refusal.reason.open_for_validation(),
    )
    # A stored refusal of other code must not open the heavy lane.
    if refusal.record != sha256_hex(record):
        raise reject(ArtifactReason.REFUSAL, "the attached refusal is not one of this code")


FORMAT: Final = Format(
    ToolRequest,
    prefix="tr",
    version=1,
    title="Tool Request",
    max_bytes=MAX_REQUEST_BYTES,
    check=_check,
)
