"""Messages between the host and a tool-lite box, and who sends them.

| message | sent by | answered by |
|---|---|---|
| `Opening` | host, first | `Ready`, or `Refused` and the box is of no use |
| `Job` | host | `Outcome` |
| `Check` | host | `Checked` |
| `Adopt`, `Prove` | host | see `tool_lite_rules` |

SECURITY
    Either side may be owned: the box runs hostile code, and the box believes no host.
    Every field is checked when a message is built, by whoever builds it, so there is no
    message object that breaks a rule.  What is text here stays foreign text: it has one
    line, bounded, of characters that may stand in an artifact, and says whatever its
    sender wanted.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from threegate.base import greeting, limits, wire
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.base.wire import (
    Packed,
    fields_of,
    need,
    need_bytes,
    need_number,
    need_sentence,
    need_word,
    parts_of,
)
from threegate.gates.tool_exec.monty import rule_messages as tool_lite_rules
from threegate.gates.tool_exec.monty.rule_messages import Adopt, Prove, adopt_of, prove_of

PROTOCOL: Final = tool_lite_rules.PROTOCOL
Mode = Literal["run", "replay"]
MODES: Final = ("run", "replay")

EXIT_STATE: Final = re.compile("ok|error|crashed|limit:[a-z-]{1,32}|refused:[a-z-]{1,64}")
REFUSED_APPROVAL: Final = "refused:approval"
OTHER_FUNCTIONS: Final = "TG-FUN-001"  # code of an opening that pins functions the box has not
# Construct of what is no Python: a slip, and no reason for another lane, which could not run it.
NOT_PYTHON: Final = "not-python"
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Opening:
    """The rules a box works under from now on: a compiled bundle."""

    bundle: bytes

    def __post_init__(self) -> None:
        need_bytes(self.bundle, limits.MAX_BUNDLE_BYTES, "bundle")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "opening", {}, [self.bundle])


@dataclass(frozen=True, slots=True)
class Ready(greeting.Ready):
    """The box agrees with the rules and can work."""

    protocol: ClassVar[str] = PROTOCOL


@dataclass(frozen=True, slots=True)
class Refused(greeting.Refused):
    """The box cannot work under these rules."""

    protocol: ClassVar[str] = PROTOCOL


@dataclass(frozen=True, slots=True)
class Job:
    """One approved request with its inputs, to be run once.

    `at` is the time an old approval is judged at; it counts in mode `replay` only.
    """

    mode: Mode
    at: int
    request: bytes
    approval: bytes
    signature: bytes
    inputs: tuple[tuple[str, bytes], ...]

    def __post_init__(self) -> None:
        need(self.mode in MODES, "no such mode")
        need_number(self.at, 2**53 - 1, "at")
        need_bytes(self.request, limits.MAX_REQUEST_BYTES, "request")
        need_bytes(self.approval, limits.MAX_APPROVAL_BYTES, "approval")
        need_bytes(self.signature, limits.MAX_SIGNATURE_BYTES, "signature")
        _need_names([name for name, _ in self.inputs], "inputs")
        for name, document in self.inputs:
            need_bytes(document, limits.MAX_INPUT_BYTES, f"input {name}")
        total = sum(len(document) for _, document in self.inputs)
        need(total <= limits.MAX_INPUT_BYTES, "inputs are too large")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        names = [name for name, _ in self.inputs]
        documents = [document for _, document in self.inputs]
        fields = {"at": self.at, "inputs": names, "mode": self.mode}
        return wire.pack(
            PROTOCOL, "job", fields, [self.request, self.approval, self.signature, *documents]
        )


@dataclass(frozen=True, slots=True)
class Check:
    """Can the interpreter express this code?  Nothing of it runs."""

    code: str
    functions: tuple[str, ...]
    inputs: tuple[str, ...]
    profile: str

    def __post_init__(self) -> None:
        need(type(self.code) is str, "code is not text")
        need_bytes(self.encoded(), limits.MAX_CODE_BYTES, "code")
        _need_names(self.functions, "functions")
        _need_names(self.inputs, "inputs")
        need_word(self.profile, greeting.NAME, "profile")

    def encoded(self) -> bytes:
        """Return the code as UTF-8."""
        try:
            return self.code.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise ProtocolBroken("code holds a lone surrogate") from exc

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        named = {"functions": list(self.functions), "inputs": list(self.inputs)}
        return wire.pack(PROTOCOL, "check", {**named, "profile": self.profile}, [self.encoded()])


@dataclass(frozen=True, slots=True)
class RefusalFound:
    """What the interpreter cannot express, where, and why."""

    construct: str
    line: int
    reason: str

    def __post_init__(self) -> None:
        need_sentence(self.construct, limits.MAX_CONSTRUCT_CHARS, "construct")
        need_number(self.line, limits.MAX_LINE, "line", least=1)
        need_sentence(self.reason, limits.MAX_LINE_CHARS, "reason")

    def plain(self) -> dict[str, Any]:
        """Return the refusal as a field."""
        return {"construct": self.construct, "line": self.line, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended.  `code` and `message` say why nothing ran; then there is no output."""

    exit: str
    value: bytes = b""
    stdout: bytes = b""
    stderr: bytes = b""
    value_truncated: bool = False
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    calls: tuple[tuple[str, int], ...] = ()
    cpu_ms: int = 0
    refusal: RefusalFound | None = None
    code: str | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        need_word(self.exit, EXIT_STATE, "exit")
        for what in ("value", "stdout", "stderr"):
            need_bytes(getattr(self, what), limits.MAX_STREAM_BYTES, what)
            need(type(getattr(self, f"{what}_truncated")) is bool, f"{what} is cut or not")
        need(self.exit == "ok" or not self.value, "a value of a run that did not end")
        _need_names([name for name, _ in self.calls], "calls")
        for _, count in self.calls:
            need_number(count, limits.MAX_CALLS, "calls", least=1)
        need_number(self.cpu_ms, limits.MAX_CPU_MS, "cpu_ms")
        self._check_refusal()

    def _check_refusal(self) -> None:
        refused = self.exit.startswith("refused:")
        need(self.refusal is None or refused, "a refusal of what was not refused")
        need((self.code is None) == (self.message is None), "code and message go together")
        denied = self.exit == REFUSED_APPROVAL
        need((self.code is not None) == denied, "a code goes with a refused approval")
        if denied:
            need_word(self.code, greeting.CODE, "code")
            need_sentence(self.message, limits.MAX_LINE_CHARS, "message")
            need(not (self.stdout or self.stderr or self.calls), "output of what did not run")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "calls": [[name, count] for name, count in self.calls],
            "code": self.code,
            "cpu_ms": self.cpu_ms,
            "cut": [self.value_truncated, self.stdout_truncated, self.stderr_truncated],
            "exit": self.exit,
            "message": self.message,
            "refusal": None if self.refusal is None else self.refusal.plain(),
        }
        return wire.pack(PROTOCOL, "outcome", fields, [self.value, self.stdout, self.stderr])


@dataclass(frozen=True, slots=True)
class Checked:
    """Nothing stands in the way, or the first thing that does; and what looks like a slip."""

    refusal: RefusalFound | None
    warnings: tuple[RefusalFound, ...] = ()

    def __post_init__(self) -> None:
        need(len(self.warnings) <= limits.MAX_WARNINGS, "too many warnings")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        refusal = None if self.refusal is None else self.refusal.plain()
        warnings = [warning.plain() for warning in self.warnings]
        return wire.pack(PROTOCOL, "checked", {"refusal": refusal, "warnings": warnings}, [])


def parse_opening(data: Untrusted[bytes]) -> Opening:
    """Return the opening in `data`, or raise `ProtocolBroken`; used inside the box."""
    packed = _unpack(data, limits.MAX_HEADER_BYTES + limits.MAX_BUNDLE_BYTES, "opening")
    fields_of(packed)
    return Opening(*parts_of(packed, 1))


def parse_greeting(data: Untrusted[bytes]) -> Ready | Refused:
    """Return the answer to an opening, or raise `ProtocolBroken`; used by the host."""
    return greeting.parse_greeting(data, Ready, Refused)


def parse_ask(data: Untrusted[bytes]) -> "Ask":
    """Return what the host asks in `data`, or raise `ProtocolBroken`; used inside the box."""
    packed = _unpack(data, limits.MAX_ASK_BYTES, *_ASKS)
    return _ASKS[packed.kind](packed)


def parse_outcome(data: Untrusted[bytes]) -> Outcome:
    """Return the outcome in `data`, or raise `ProtocolBroken`; used by the host."""
    packed = _unpack(data, limits.MAX_ANSWER_BYTES, "outcome")
    names = ("calls", "code", "cpu_ms", "cut", "exit", "message", "refusal")
    calls, code, cpu_ms, cut, state, message, refusal = fields_of(packed, *names)
    need(type(cut) is list and len(cut) == 3, "cut is not three marks")
    value, stdout, stderr = parts_of(packed, 3)
    return Outcome(
        exit=state,
        value=value,
        stdout=stdout,
        stderr=stderr,
        value_truncated=cut[0],
        stdout_truncated=cut[1],
        stderr_truncated=cut[2],
        calls=_calls(calls),
        cpu_ms=cpu_ms,
        refusal=_refusal(refusal),
        code=code,
        message=message,
    )


def parse_checked(data: Untrusted[bytes]) -> Checked:
    """Return the answer to a check, or raise `ProtocolBroken`; used by the host."""
    packed = _unpack(data, limits.MAX_HEADER_BYTES, "checked")
    parts_of(packed, 0)
    refusal, warnings = fields_of(packed, "refusal", "warnings")
    need(type(warnings) is list and len(warnings) <= limits.MAX_WARNINGS, "too many warnings")
    return Checked(_refusal(refusal), tuple(_found(warning) for warning in warnings))


def _unpack(data: Untrusted[bytes], most_bytes: int, *kinds: str) -> Packed:
    return wire.unpack_due(data, *kinds, protocol=PROTOCOL, most_bytes=most_bytes)


def _job(packed: Packed) -> Job:
    at, names, mode = fields_of(packed, "at", "inputs", "mode")
    need(type(names) is list, "inputs is not a list")
    request, approval, signature, *documents = parts_of(packed, 3 + len(names))
    return Job(mode, at, request, approval, signature, tuple(zip(names, documents, strict=True)))


def _check(packed: Packed) -> Check:
    functions, inputs, profile = fields_of(packed, "functions", "inputs", "profile")
    need(type(functions) is list and type(inputs) is list, "not a list of names")
    (raw,) = parts_of(packed, 1)
    need_bytes(raw, limits.MAX_CODE_BYTES, "code")
    try:
        code = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ProtocolBroken("code is not UTF-8") from exc
    return Check(code, tuple(functions), tuple(inputs), profile)


def _calls(value: Any) -> tuple[tuple[str, int], ...]:
    need(type(value) is list, "calls is not a list")
    need(all(type(item) is list and len(item) == 2 for item in value), "calls are pairs")
    return tuple((name, count) for name, count in value)


def _refusal(value: Any) -> RefusalFound | None:
    return None if value is None else _found(value)


def _found(value: Any) -> RefusalFound:
    need(type(value) is dict, "refusal is not an object")
    need(tuple(value) == ("construct", "line", "reason"), "unexpected fields of a refusal")
    return RefusalFound(**value)


Ask = Job | Check | Adopt | Prove
_ASKS: Final[dict[str, Callable[[Packed], Ask]]] = {
    "adopt": adopt_of,
    "check": _check,
    "job": _job,
    "prove": prove_of,
}


def _need_names(names: Any, what: str) -> None:
    need(len(names) <= limits.MAX_INPUTS, f"too many {what}")
    for name in names:
        need_word(name, _IDENTIFIER, f"a name in {what}")
    need(list(names) == sorted(set(names)), f"{what} are not sorted, or one stands twice")
