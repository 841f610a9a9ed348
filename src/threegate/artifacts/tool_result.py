"""Tool Result: what TOOL-EXEC hands back to CORE.

SECURITY
    Reads bytes written by TOOL-EXEC, which ran attacker-influenced code.
    Opens no files and starts nothing.  If this module is wrong, CORE believes
    a forged result; it still cannot fetch or execute.
"""

from dataclasses import dataclass
from typing import Final

from threegate.artifacts import limits as bounds
from threegate.artifacts.codec import BodySection, Format, section
from threegate.artifacts.ids import id_of, sha256_hex
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.tool_request import BACKENDS
from threegate.base import canonical
from threegate.base.forms import CONFIDENTIALITY, DIGEST, EXIT_STATE, FILE_NAME, HOST, NAME, TIME
from threegate.base.schema import (
    Boolean,
    Choice,
    Integer,
    ListOf,
    Named,
    Nullable,
    Pattern,
    Record,
    Text,
    plain_record,
    shapes_of,
    spec,
)
from threegate.base.untrusted import Untrusted

RING_RULES: Final = (
    *("allowed_binaries", "allowed_imports", "argument_rules", "denied_imports"),
    *("denied_patterns", "executor_network"),
)
_VERSION: Final = Pattern(r"[!-\[\]-~]{1,100}", "a version")


@dataclass(frozen=True, slots=True)
class Capture:
    """A stream as it was captured."""

    bytes: int = spec(Integer(), "number of bytes captured")
    sha256: str = spec(DIGEST, "digest of the captured bytes")
    truncated: bool = spec(Boolean(), "the run wrote more than was captured")
    escaped: bool = spec(
        Boolean(), "the text below spells characters out or is cut; the bytes themselves are a blob"
    )


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file the run left, kept as a blob."""

    name: str = spec(FILE_NAME, "plain file name")
    bytes: int = spec(Integer(), "its size")
    sha256: str = spec(DIGEST, "its digest")


@dataclass(frozen=True, slots=True)
class Resources:
    """What the run used, measured from outside."""

    wall_ms: int = spec(Integer(), "wall time")
    cpu_ms: int = spec(Integer(), "processor time")
    peak_memory_bytes: int = spec(
        Integer(), "largest memory seen; 0 if it ended before anybody looked"
    )


@dataclass(frozen=True, slots=True)
class ProbedMechanism:
    """One mechanism of the sandbox and its state, as probed before the run."""

    mechanism: str = spec(NAME, "which")
    state: str = spec(Choice("in-force", "not-applicable"), "what the probe showed")


@dataclass(frozen=True, slots=True)
class Violation:
    """An act that the interpreter ring refused: a statement of the sandbox, not a proof."""

    rule: str = spec(Choice(*RING_RULES), "which rule of its profile")
    place: str = spec(
        Pattern(r"[a-z0-9/._-]{1,120}:[0-9]{1,6}", "file and line"), "where policy says it"
    )
    argument: Untrusted[str] = spec(Text(200), "what was refused")
    line: int = spec(Integer(0, 1_000_000), "line of the code; 0 if unknown")


@dataclass(frozen=True, slots=True)
class Carried:
    """What passed between the run and one host, counted outside the guest."""

    host: str = spec(HOST, "which of the hosts the request lists")
    requests: int = spec(Integer(), "requests that were sent there")
    up_bytes: int = spec(Integer(), "bytes that left, headers included")
    down_bytes: int = spec(Integer(), "bytes that came, headers included")


@dataclass(frozen=True, slots=True)
class Version:
    """A component that took part."""

    name: str = spec(NAME, "component")
    version: str = spec(_VERSION, "its version or digest")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a run left; always untrusted."""

    request: str = spec(id_of("tr"), "the request that ran")
    approval: str = spec(id_of("ap"), "the approval it ran under")
    backend: str = spec(Choice(*BACKENDS), "the lane")
    isolation: str = spec(NAME, "what kind of boundary held the code")
    exit: str = spec(EXIT_STATE, "how it ended")
    exit_code: int | None = spec(
        Nullable(Integer(-255, 255)), "exit code, or minus a signal, where there was one"
    )
    outcome_sha256: str = spec(
        DIGEST, "digest over exit, exit_code, value, stdout, stderr and files"
    )
    value: Capture = spec(Record(Capture), "the value the code returned, as JSON text")
    stdout: Capture = spec(Record(Capture), "standard output")
    stderr: Capture = spec(Record(Capture), "standard error")
    files: tuple[OutputFile, ...] = spec(
        Named(Record(OutputFile), bounds.MAX_OUTPUTS), "files it left"
    )
    started: str = spec(TIME, "when it began")
    resources: Resources = spec(Record(Resources), "what it used")
    profile_sha256: str = spec(DIGEST, "the sandbox profile it ran in")
    evidence: tuple[ProbedMechanism, ...] = spec(
        Named(Record(ProbedMechanism), 256), "what the sandbox proved before the run"
    )
    violations: tuple[Violation, ...] = spec(
        ListOf(Record(Violation), 64), "what the interpreter ring refused while it ran"
    )
    carried: tuple[Carried, ...] = spec(
        Named(Record(Carried), bounds.MAX_GATEWAY_HOSTS),
        "what the gateway carried; empty without one",
    )
    versions: tuple[Version, ...] = spec(Named(Record(Version), 64), "what took part in the run")
    integrity: str = spec(Choice("external"), "a result is always external")
    confidentiality: str = spec(Choice(*CONFIDENTIALITY), "joined over request and inputs")
    value_text: Untrusted[str] = section(
        BodySection("Value", bounds.MAX_CAPTURE_CHARS), "the returned value"
    )
    stdout_text: Untrusted[str] = section(
        BodySection("Stdout", bounds.MAX_CAPTURE_CHARS), "standard output"
    )
    stderr_text: Untrusted[str] = section(
        BodySection("Stderr", bounds.MAX_CAPTURE_CHARS), "standard error"
    )

    def parents(self) -> tuple[str, ...]:
        """Return the ids this result was made from."""
        return (self.approval, self.request)


_FILE_SHAPES: Final = shapes_of(OutputFile)


def outcome_sha256(
    *,
    exit_state: str,
    exit_code: int | None,
    captures: tuple[Capture, Capture, Capture],
    files: tuple[OutputFile, ...],
) -> str:
    """Return the digest that a re-execution must reproduce."""
    # No times and no resources: they differ in every run.
    streams = [[item.sha256, item.truncated] for item in captures]
    left = [plain_record(_FILE_SHAPES, item) for item in files]
    outcome = {"exit": exit_state, "exit_code": exit_code, "files": left, "streams": streams}
    return sha256_hex(canonical.encode(outcome))


def _check(result: ToolResult) -> None:
    captures = (result.value, result.stdout, result.stderr)
    texts = (result.value_text, result.stdout_text, result.stderr_text)
    for name, capture, text in zip(("value", "stdout", "stderr"), captures, texts, strict=True):
        raw = text.open_for_validation().encode("utf-8")
        # An escaped text is not the captured bytes; those are a blob of this digest.
        if not capture.escaped and (len(raw), sha256_hex(raw)) != (capture.bytes, capture.sha256):
            raise reject(ArtifactReason.DIGEST_MISMATCH, f"{name} is not the text it names")
    outcome = outcome_sha256(
        exit_state=result.exit, exit_code=result.exit_code, captures=captures, files=result.files
    )
    if result.outcome_sha256 != outcome:
        raise reject(
            ArtifactReason.DIGEST_MISMATCH, "outcome_sha256 is not the digest of the outcome"
        )
    if result.backend == "monty" and result.files:
        raise reject(ArtifactReason.BACKEND, "the monty lane has no files")
    if (result.exit == "ok") and result.exit_code not in (None, 0):
        raise reject(ArtifactReason.INCONSISTENT, "exit ok with an exit code that is not 0")


FORMAT: Final = Format(
    ToolResult,
    prefix="res",
    version=1,
    title="Tool Result",
    max_bytes=bounds.MAX_RESULT_BYTES,
    check=_check,
)
