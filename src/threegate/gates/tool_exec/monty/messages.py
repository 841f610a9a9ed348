"""Messages between the host and a tool-lite sandbox.

SECURITY
    Either side may be compromised: the sandbox runs hostile code, and does not trust the host.
    Text here stays foreign text: one bounded line of characters that are allowed in an artifact.
    A compromised sandbox can claim to enforce what it does not: `Enforced` counts for the host
    only if it equals what the host computes itself, and no answer widens anything.
"""

from collections.abc import Mapping
from typing import Final, Literal

from threegate.base.forms import CODE, DIGEST, EXIT_STATE, IDENTIFIER, NAME
from threegate.base.greeting import GateReady, Greeting
from threegate.base.limits import (
    KIB,
    MAX_APPROVAL_BYTES,
    MAX_BUNDLE_BYTES,
    MAX_COUNT,
    MAX_INPUTS,
    MAX_LINE,
    MAX_REQUEST_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_STREAM_BYTES,
    MIB,
)
from threegate.base.message_parts import NamedParts, RawPart, Utf8
from threegate.base.message_shapes import RecordRow, RowShape, SortedRecord, TableShape, TextLine
from threegate.base.messages import CheckedRecord, Message, head, message, parser_of, part, record
from threegate.base.schema import (
    Boolean,
    Choice,
    Integer,
    ListOf,
    Named,
    Nullable,
    Pattern,
    Sorted,
)
from threegate.base.wire import need

PROTOCOL: Final = "tool-lite/1"
MAX_INPUT_BYTES: Final = 256 * MIB  # all inputs together: what any policy can allow at most
MAX_CODE_BYTES: Final = 256 * KIB
MAX_CALLS: Final = 2**31
MAX_CPU_MS: Final = 2**40
MAX_WARNINGS: Final = 16
MAX_CONSTRUCT_CHARS: Final = 200
MAX_TRIES: Final = 256
MAX_SYSTEM_CALLS: Final = 512
MAX_PROFILES: Final = 64

Mode = Literal["run", "replay"]

REFUSED_APPROVAL: Final = "refused:approval"
OTHER_FUNCTIONS: Final = "TG-FUN-001"  # code of an opening that pins functions the sandbox has not
# Construct of code that is not Python: a slip. Another lane could not run it either.
NOT_PYTHON: Final = "not-python"
_NAMES: Final = Sorted(IDENTIFIER, MAX_INPUTS)
_TRIES: Final = ListOf(Pattern(r"[a-z0-9-]{1,32}(?::[!-~ ]{1,200})?", "a forbidden act"), MAX_TRIES)
_CALL: Final = Pattern(r"[a-z0-9_]{1,64}", "the name of a system call")

GREETING: Final = Greeting(PROTOCOL, GateReady)


@message(PROTOCOL, "opening", sender="host, first", answer="`GateReady` or `Refused`")
class LiteOpening(Message):
    """The rules a sandbox works under from now on."""

    bundle: bytes = part(RawPart(MAX_BUNDLE_BYTES), "the compiled policy")


@message(PROTOCOL, "job", sender="host", answer="`LiteOutcome`")
class LiteJob(Message):
    """One approved request with its inputs, to be run once."""

    mode: Mode = head(Choice("run", "replay"), "whether an old run is repeated")
    at: int = head(Integer(0, MAX_COUNT), "when an old approval is judged; in mode `replay` only")
    request: bytes = part(RawPart(MAX_REQUEST_BYTES), "the tool request")
    approval: bytes = part(RawPart(MAX_APPROVAL_BYTES), "its approval")
    signature: bytes = part(RawPart(MAX_SIGNATURE_BYTES), "the signature of the approval")
    inputs: tuple[tuple[str, bytes], ...] = part(
        NamedParts(_NAMES, MAX_INPUT_BYTES, total_bytes=MAX_INPUT_BYTES), "JSON documents by name"
    )


@message(PROTOCOL, "check", sender="host", answer="`CodeChecked`")
class CheckCode(Message):
    """Can the interpreter express this code?  Nothing of it runs."""

    code: str = part(RawPart(MAX_CODE_BYTES, Utf8()), "the program")
    functions: tuple[str, ...] = head(_NAMES, "external functions it may call")
    inputs: tuple[str, ...] = head(_NAMES, "names of its inputs")
    profile: str = head(NAME, "the profile of the ring")


@message(PROTOCOL, "adopt", sender="host", answer="`GateReady`; or `Refused`: the rules stay")
class Adopt(Message):
    """The rules from now on: the bundle that follows the one in force, with its signature."""

    bundle: bytes = part(RawPart(MAX_BUNDLE_BYTES), "the compiled policy")
    signature: bytes = part(RawPart(MAX_SIGNATURE_BYTES), "the operator's, of the bundle")


@message(PROTOCOL, "prove", sender="host", answer="`Enforced`")
class Prove(Message):
    """Try these forbidden acts once more, and say which rules are in force."""

    tries: tuple[str, ...] = head(_TRIES, "forbidden acts")
    numbers: Mapping[str, int] = head(
        TableShape(_CALL, Integer(0, 2**31 - 1), MAX_SYSTEM_CALLS), "of the system calls tried"
    )


@message(PROTOCOL, "enforced", sender="sandbox")
class Enforced(Message):
    """What a sandbox holds code to, found by trying, and which forbidden acts failed just now."""

    generation: int = head(Integer(1, MAX_COUNT), "of the policy")
    policy: str = head(DIGEST, "digest of the bundle")
    rings: Mapping[str, str] = head(
        TableShape(NAME, DIGEST, MAX_PROFILES), "digest of what each profile lets through"
    )
    tried: tuple[str, ...] = head(_TRIES, "forbidden acts that failed just now")


@record
class RefusalFound(CheckedRecord):
    """What the interpreter cannot express, where, and why."""

    construct: str = head(TextLine(MAX_CONSTRUCT_CHARS), "what it is")
    line: int = head(Integer(1, MAX_LINE), "of the code")
    reason: str = head(TextLine(), "why")


@record
class LiteCut(CheckedRecord):
    """Which streams of a run are cut off."""

    value: bool = head(Boolean(), "the value of the last expression", default=False)
    stdout: bool = head(Boolean(), "standard output", default=False)
    stderr: bool = head(Boolean(), "standard error", default=False)


@message(PROTOCOL, "outcome", sender="sandbox")
class LiteOutcome(Message):
    """How a job ended.  `code` and `message` say why nothing ran; then there is no output."""

    exit: str = head(EXIT_STATE, "how it ended")
    value: bytes = part(RawPart(MAX_STREAM_BYTES), "of the last expression, JSON", default=b"")
    stdout: bytes = part(RawPart(MAX_STREAM_BYTES), "standard output", default=b"")
    stderr: bytes = part(RawPart(MAX_STREAM_BYTES), "standard error", default=b"")
    cut: LiteCut = head(RecordRow(LiteCut), "which of these are cut off", default=LiteCut())
    calls: tuple[tuple[str, int], ...] = head(
        Named(RowShape(IDENTIFIER, Integer(1, MAX_CALLS)), MAX_INPUTS),
        "external functions, and how often each was called",
        default=(),
    )
    cpu_ms: int = head(Integer(0, MAX_CPU_MS), "processor time", default=0)
    refusal: RefusalFound | None = head(
        Nullable(SortedRecord(RefusalFound)), "what the interpreter refused", default=None
    )
    code: str | None = head(Nullable(CODE), "of a refused approval", default=None)
    message: str | None = head(Nullable(TextLine()), "of a refused approval", default=None)

    def check(self) -> None:
        refused, denied = self.exit.startswith("refused:"), self.exit == REFUSED_APPROVAL
        need(self.exit == "ok" or not self.value, "a value of a run that did not end")
        need(self.refusal is None or refused, "a refusal of what was not refused")
        need((self.code is not None) == denied, "a code goes with a refused approval")
        need((self.message is not None) == denied, "a message goes with a refused approval")
        ran = self.stdout or self.stderr or self.calls
        need(not (denied and ran), "output of what did not run")


@message(PROTOCOL, "checked", sender="sandbox")
class CodeChecked(Message):
    """Nothing is in the way, or the first construct that is; and what looks like a slip."""

    refusal: RefusalFound | None = head(
        Nullable(SortedRecord(RefusalFound)), "the first construct that is refused"
    )
    warnings: tuple[RefusalFound, ...] = head(
        ListOf(SortedRecord(RefusalFound), MAX_WARNINGS), "what looks like a slip", default=()
    )


parse_opening: Final = parser_of(LiteOpening)
parse_ask: Final = parser_of(LiteJob, CheckCode, Adopt, Prove)
parse_outcome: Final = parser_of(LiteOutcome)
parse_checked: Final = parser_of(CodeChecked)
parse_enforced: Final = parser_of(Enforced)
