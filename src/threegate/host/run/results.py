"""Immutable Tool Results, made from a sandbox's outcome and from what the host measured outside.

The sandbox supplies the outcome only: exit state, streams, files, refused acts, and in the lite
lane processor time, which counts as far as the clock outside allows.  The host knows whose run it
was, what confined it, what else it used and which versions took part.

SECURITY
    Reads streams chosen by hostile code.  Text that an artifact may not hold, or that would not
    fit, is escaped or shortened; its exact bytes become a blob.  A run's own words on violations
    are for people; file and line of a rule come from the policy, never from the run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.ids import make_id, sha256_hex
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import (
    Capture,
    OutputFile,
    ProbedMechanism,
    Resources,
    ToolResult,
    Version,
    Violation,
    outcome_sha256,
)
from threegate.base.limits import MAX_ERROR_BYTES
from threegate.base.text import first_forbidden, visible_lines
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era.messages import HeavyOutcome
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.handoff import states
from threegate.handoff.journal import Act, Put
from threegate.host.run.heavy.gateway import Passed
from threegate.policy.ring.executor_profile import (
    MAX_ARGUMENT_CHARS,
    MAX_VIOLATIONS,
    ExecutorProfile,
)

MONTY_WORKER: Final = "monty-worker"
MAX_SPELLED_CHARS: Final = 1024 * 1024  # of one stream inside the artifact
EXCERPT_CHARS: Final = 64 * 1024  # of a stream whose bytes are a blob
_INDENT_CHARS: Final = 4
STOPPED: Final = "limit:policy"  # ended because its rules were replaced
# These depend on more than the program: another machine, or another day, may end otherwise.
NOT_REPRODUCIBLE: Final = ("limit:time", "limit:memory", STOPPED, "crashed")
Outcome = tool_lite.LiteOutcome | HeavyOutcome
_Three = tuple[Capture, Capture, Capture]
_Texts = tuple[Untrusted[str], Untrusted[str], Untrusted[str]]
IMPORT: Final = "import"  # the construct of a refused import in the lite lane
_MODULE: Final = re.compile(r'module "([!-~]+)" is not on the list')


@dataclass(frozen=True, slots=True)
class Measured:
    """What the host saw of a run from outside."""

    started: str
    wall_ms: int
    peak_memory_bytes: int
    cpu_ms: int | None = None  # None: the lane reports it, bounded by the clock


@dataclass(frozen=True, slots=True)
class Confinement:
    """What confined a run; for lite the same for every run of a session."""

    profile_sha256: str
    evidence: tuple[ProbedMechanism, ...]
    versions: tuple[Version, ...]
    isolation: str = MONTY_WORKER


@dataclass(frozen=True, slots=True)
class MadeResult:
    """A result ready to be stored, with the streams that are kept as blobs."""

    id: str
    data: bytes
    blobs: tuple[bytes, ...]
    result: ToolResult

    def acts(self) -> list[Act]:
        """Return what stores it."""
        blobs = [Put(states.BLOBS, sha256_hex(blob), blob) for blob in self.blobs]
        accepted = states.directory_of("res", "accepted")
        return [*blobs, Put(accepted, f"{self.id}.md", self.data)]


def confinement_of(
    profile_sha256: str, proofs: Sequence[str], versions: Mapping[str, str]
) -> Confinement:
    """Return the evidence of a session in the form results carry it.

    One entry for each kind of proof: which calls, limits and paths were tried follows from
    the profile, and would be a hundred lines in every result.
    """
    names = sorted({proof.partition(":")[0] for proof in proofs})
    taking_part = tuple(Version(name, versions[name]) for name in sorted(versions))
    return Confinement(
        profile_sha256, tuple(ProbedMechanism(name, "in-force") for name in names), taking_part
    )


def make_result(
    request: ToolRequest,
    ids: tuple[str, str],
    outcome: Outcome,
    measured: Measured,
    box: Confinement,
    *,
    ring: ExecutorProfile | None = None,
    passed: Passed | None = None,
) -> MadeResult:
    """Return the result of a run of the request `ids[0]` under the approval `ids[1]`.

    `ring` is the profile it ran under, `passed` the notes of its gateway.  Raises
    `ArtifactRejected` for an outcome no result may carry.
    """
    left = _left(outcome)
    _refuse_more(request, left)
    captures, texts = _capture_all(left.streams, left.cut)
    files = tuple(OutputFile(name, len(raw), sha256_hex(raw)) for name, raw in left.files)
    result = ToolResult(
        request=ids[0],
        approval=ids[1],
        backend=request.backend,
        isolation=box.isolation,
        exit=outcome.exit,
        exit_code=left.exit_code,
        outcome_sha256=_digest(outcome, left, captures, files),
        value=captures[0],
        stdout=captures[1],
        stderr=captures[2],
        files=files,
        started=measured.started,
        resources=_used(outcome, measured),
        profile_sha256=box.profile_sha256,
        evidence=box.evidence,
        violations=violations_of(outcome, ring, passed),
        carried=() if passed is None else passed.carried(),
        versions=box.versions,
        integrity="external",
        confidentiality=request.confidentiality,
        value_text=texts[0],
        stdout_text=texts[1],
        stderr_text=texts[2],
    )
    return _made(result, _blobs(left, captures))


def _digest(
    outcome: Outcome, left: "_Left", captures: "_Three", files: tuple[OutputFile, ...]
) -> str:
    state, code = outcome.exit, left.exit_code
    return outcome_sha256(exit_state=state, exit_code=code, captures=captures, files=files)


def _made(result: ToolResult, blobs: tuple[bytes, ...]) -> MadeResult:
    data = registry.emit(result)
    registry.parse(Untrusted(data))  # store only what every reader will accept
    return MadeResult(make_id("res", data), data, blobs, result)


def _blobs(left: "_Left", captures: "_Three") -> tuple[bytes, ...]:
    kept = {raw for raw, seen in zip(left.streams, captures, strict=True) if seen.escaped}
    return tuple(sorted(kept | {data for _, data in left.files}))


@dataclass(frozen=True, slots=True)
class _Left:
    """The outputs of a run, in the same form for both lanes."""

    exit_code: int | None
    streams: tuple[bytes, bytes, bytes]
    cut: tuple[bool, bool, bool]
    files: tuple[tuple[str, bytes], ...]


def _left(outcome: Outcome) -> _Left:
    if isinstance(outcome, tool_lite.LiteOutcome):
        streams, cut = (outcome.value, outcome.stdout, _errors(outcome)), outcome.cut
        return _Left(None, streams, (cut.value, cut.stdout, cut.stderr), ())
    # The heavy lane has no value: a program leaves what it prints, and files.
    streams = (b"", outcome.stdout, _errors(outcome))
    return _Left(
        outcome.exit_code, streams, (False, outcome.cut.stdout, outcome.cut.stderr), outcome.files
    )


def _refuse_more(request: ToolRequest, left: _Left) -> None:
    # The lane enforces these limits; an owned sandbox need not.
    if sum(map(len, left.streams)) > request.limits.output_bytes + MAX_ERROR_BYTES:
        raise reject(ArtifactReason.OVERSIZE, "more output than the request may leave")
    most = {item.name: item.max_bytes for item in request.outputs}
    for name, data in left.files:
        if len(data) > most.get(name, -1):
            raise reject(ArtifactReason.OVERSIZE, "a file that the request may not leave")
    if sum(len(data) for _, data in left.files) > request.limits.disk_bytes:
        raise reject(ArtifactReason.OVERSIZE, "more files than the request may leave")


def _used(outcome: Outcome, measured: Measured) -> Resources:
    cpu_ms = measured.cpu_ms
    if cpu_ms is None:
        said = outcome.cpu_ms if isinstance(outcome, tool_lite.LiteOutcome) else 0
        cpu_ms = min(said, measured.wall_ms)  # the lite lane has one processor
    return Resources(measured.wall_ms, cpu_ms, measured.peak_memory_bytes)


def _capture_all(
    streams: tuple[bytes, bytes, bytes], cut: tuple[bool, bool, bool]
) -> tuple[_Three, _Texts]:
    value, stdout, stderr = (
        _captured(raw, truncated=c) for raw, c in zip(streams, cut, strict=True)
    )
    return (value[0], stdout[0], stderr[0]), (value[1], stdout[1], stderr[1])


def _errors(outcome: Outcome) -> bytes:
    """Return standard error, or the reason if nothing ran."""
    if outcome.message is not None:
        return f"{outcome.message} [{outcome.code}]".encode()
    if isinstance(outcome, tool_lite.LiteOutcome) and outcome.refusal is not None:
        found = outcome.refusal
        return f"line {found.line}: {found.construct}: {found.reason}".encode()
    return outcome.stderr


def _captured(raw: bytes, *, truncated: bool) -> tuple[Capture, Untrusted[str]]:
    text = _plain_text(raw)
    escaped = text is None
    if text is None:
        text = visible_lines(raw[:EXCERPT_CHARS].decode("utf-8", "backslashreplace"))
        text = text[:EXCERPT_CHARS]
    return Capture(len(raw), sha256_hex(raw), truncated, escaped), Untrusted(text)


def _plain_text(raw: bytes) -> str | None:
    """Return a stream as text if an artifact may hold it unchanged."""
    if len(raw) + _INDENT_CHARS * raw.count(b"\n") > MAX_SPELLED_CHARS:
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if first_forbidden(raw) is not None else text


def violations_of(
    outcome: Outcome, ring: ExecutorProfile | None, passed: Passed | None = None
) -> tuple[Violation, ...]:
    """Return what the ring refused; nothing where no profile was in force.

    Refusals by the gateway are known outside the guest, and come first.
    """
    if ring is None:
        return ()
    outside = () if passed is None else passed.violations()
    inside = (
        Violation(rule, ring.place(rule, argument), Untrusted(argument), line)
        for rule, argument, line in _tried(outcome, ring)
    )
    return (*outside, *inside)[:MAX_VIOLATIONS]


def _tried(outcome: Outcome, ring: ExecutorProfile) -> Iterator[tuple[str, str, int]]:
    if isinstance(outcome, HeavyOutcome):
        for one in outcome.violations:
            yield one.rule, one.argument, one.line
    elif outcome.refusal is not None and outcome.refusal.construct == IMPORT:
        found = _MODULE.search(outcome.refusal.reason)
        name = found[1][:MAX_ARGUMENT_CHARS] if found else IMPORT
        rule = ring.refusal(name.partition(".")[0]) or "allowed_imports"
        yield rule, name, outcome.refusal.line
