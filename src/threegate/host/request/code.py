"""The code of a request: where it comes from, and whether Monty can express it.

SECURITY
    Reads programs that somebody else may have written.  Nothing here parses or runs them: the
    sandbox does.  Code with characters that a reader would not see is refused with its line.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO, Final

from threegate.artifacts import registry
from threegate.artifacts.codec import decode
from threegate.artifacts.draft import is_draft
from threegate.artifacts.ids import is_short_id, sha256_hex
from threegate.artifacts.limits import MAX_CODE_CHARS
from threegate.artifacts.registry import Artifact
from threegate.artifacts.tool_request import ToolRequest, refusal_record
from threegate.base.errors import ArtifactRejected, PolicyDenied, UsageError
from threegate.base.limits import MAX_REQUEST_BYTES
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import (
    NOT_PYTHON,
    CheckCode,
    CodeChecked,
    RefusalFound,
)
from threegate.handoff.refusals import keep_refusal
from threegate.host.request.inputs import looks_like_artifact
from threegate.host.workspace.drafts import completer
from threegate.host.workspace.offered_files import STDIN, named, read_regular, read_standard_input
from threegate.host.workspace.places import refuse_absent, resolve
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

# Whether Monty can express a program. The lane itself is asked, and its refusals are recorded.
#
# SECURITY: the answer comes from a sandbox that read hostile code. Its words are foreign text;
# what counts is that this host asked about exactly this code and recorded the answer.

Ask = Callable[[CheckCode], CodeChecked]

NOT_EXPRESSIBLE = "TG-REQ-001"


@dataclass(frozen=True, slots=True)
class LaneUse:
    """What a program may rely on: names that are bound, and modules of a profile."""

    functions: Sequence[str]
    inputs: Sequence[str]
    profile: str


@dataclass(frozen=True, slots=True)
class ExpressRefused:
    """A refusal of one program, with the digest of its record."""

    code_sha256: str
    construct: str
    line: int
    reason: str
    record: str
    source: str  # the line that contains it
    kept: bool = False

    @property
    def hint(self) -> str:
        """Return what the operator can do."""
        if self.construct == NOT_PYTHON:
            return "correct that line: no lane runs what is not Python"
        if self.kept:
            return "change that line; `--backend era --why not-expressible` asks for the heavy lane"
        return "change that line, or ask for what it needs: policy offers it"

    def plain(self) -> dict[str, Any]:
        """Return it as a document has it."""
        return asdict(self)

    def attached(self) -> dict[str, Any]:
        """Return it as a request carries it."""
        found = self.plain()
        return {key: found[key] for key in ("record", "construct", "line", "reason")}

    def keep(self, ws: Workspace) -> None:
        """Write it down in the workspace."""
        keep_refusal(
            ws.store,
            code_sha256=self.code_sha256,
            construct=self.construct,
            line=self.line,
            reason=self.reason,
        )


@dataclass(frozen=True, slots=True)
class ExpressAnswer:
    """The lane's verdict on a program: the first obstacle, and apparent slips."""

    refused: ExpressRefused | None
    warnings: tuple[RefusalFound, ...] = ()


class NotExpressible(ArtifactRejected):
    """Monty cannot express the code of a request as it was asked for."""

    code = NOT_EXPRESSIBLE

    def __init__(self, refused: ExpressRefused) -> None:
        slip = f"line {refused.line} of the code is not Python"
        beyond = f"Monty cannot express line {refused.line} of the code"
        super().__init__(slip if refused.construct == NOT_PYTHON else beyond, hint=refused.hint)
        self.refused = refused


@contextmanager
def asking(ws: Workspace) -> Iterator[Ask]:
    """Yield the way to ask the real lane; its box is started for the first question."""
    from threegate.host.run.lite import LiteBox, open_lite

    with ExitStack() as stack:
        started: list[LiteBox] = []

        def ask(check: CheckCode) -> CodeChecked:
            if not started:
                started.append(stack.enter_context(open_lite(ws.bundle)))
            return started[0].check(check)

        yield ask


def judge(ws: Workspace, ask: Ask, code: str, use: LaneUse) -> ExpressAnswer:
    """Return whether Monty can express a program that may use this.

    A refusal is written down if all that policy offers would not help either: code that
    lacks no more than what it could have asked for is not beyond Monty.
    """
    _refuse_unoffered(ws.bundle, use)
    answer = answer_of(ask, code, use)
    if answer.refused is None or answer.refused.construct == NOT_PYTHON:
        return answer
    beyond = answer_of(ask, code, widest(ws.bundle, use.inputs)).refused
    if beyond is None:
        return answer
    beyond.keep(ws)
    return ExpressAnswer(replace(beyond, kept=True))


def _refuse_unoffered(bundle: Bundle, use: LaneUse) -> None:
    path = ("tool-exec", "lanes", "monty", "profiles")
    if use.profile not in bundle.words(*path):
        hint = f"it offers {', '.join(bundle.words(*path))}"
        detail = f"profile {quote(use.profile)} is not offered to monty by {bundle.ref(*path)}"
        raise PolicyDenied(detail, hint=hint)
    for name in sorted(set(use.functions) - set(offered_functions(bundle))):
        where = bundle.ref("tool-exec", "functions")
        raise PolicyDenied(f"function {name} is not offered by {where}")


def answer_of(ask: Ask, code: str, use: LaneUse) -> ExpressAnswer:
    """Return what Monty says about a program that may use this; nothing is written down."""
    check = CheckCode(code, tuple(sorted(use.functions)), tuple(sorted(use.inputs)), use.profile)
    checked = ask(check)
    found = checked.refusal
    if found is None:
        return ExpressAnswer(None, checked.warnings)
    digest = sha256_hex(code.encode("utf-8"))
    construct, line, reason = found.construct, found.line, found.reason
    record = refusal_record(code_sha256=digest, construct=construct, line=line, reason=reason)
    lines = code.split("\n")
    source = lines[line - 1] if line <= len(lines) else ""
    return ExpressAnswer(
        ExpressRefused(digest, construct, line, reason, sha256_hex(record), source)
    )


def offered_functions(bundle: Bundle) -> list[str]:
    """Return the external functions that policy offers."""
    return sorted(bundle.words("tool-exec", "functions"))


def widest(bundle: Bundle, inputs: Iterable[str]) -> LaneUse:
    """Return the most that policy can give a program in the lite lane."""
    profile = bundle.text("tool-exec", "lanes", "monty", "default_profile")
    return LaneUse(tuple(offered_functions(bundle)), tuple(inputs), profile)


MAX_CODE_BYTES: Final = 4 * MAX_CODE_CHARS  # four bytes to a character at most


@dataclass(frozen=True, slots=True)
class Program:
    """Code to be checked, and its request, if there is one; a command has no code."""

    code: str
    request: ToolRequest | None = None

    def use(self, bundle: Bundle) -> LaneUse:
        """Return what a request's code may rely on in the lite lane."""
        assert self.request is not None
        inputs = [one.name for one in self.request.inputs]
        if self.request.backend != "monty":
            return widest(bundle, inputs)
        return LaneUse(self.request.functions, inputs, self.request.profile)


def read_code(name: str, stdin: BinaryIO) -> str:
    """Return the text of a program, character for character."""
    if is_short_id(name):
        hint = "code comes from a file; a result may be data: `--input NAME=ID`"
        raise UsageError(f"{quote(name)} is an artifact, and no artifact is code", hint=hint)
    with named(_about(name)):
        return code_of(_read(name, stdin, MAX_CODE_BYTES))


def code_of(data: Untrusted[bytes]) -> str:
    """Return the text of a program that was handed over, character for character."""
    if looks_like_artifact(data):
        hint = "code is a program alone; `threegate admit` takes drafts"
        raise UsageError("it is an artifact, and no artifact is code", hint=hint)
    return _code(data)


def read_program(ws: Workspace, name: str, stdin: BinaryIO) -> Program:
    """Return the code in a file or draft, or of a stored request."""
    if is_short_id(name):
        request_id = resolve(ws.store, name)
        refuse_absent(ws.store, request_id)
        return _program(ws.store.read(request_id), quote(name))
    with named(_about(name)):
        data = _read(name, stdin, MAX_REQUEST_BYTES)
        if not looks_like_artifact(data) and not is_draft(data):
            return Program(_code(data))
        return _program(registry.parse(completer(ws)(data)), "it")


def _code(data: Untrusted[bytes]) -> str:
    code = decode(data, MAX_CODE_BYTES)
    if not code:
        raise UsageError("it is empty", hint="a program has at least one line")
    return code


def _read(name: str, stdin: BinaryIO, most: int) -> Untrusted[bytes]:
    if name == STDIN:
        return Untrusted(read_standard_input(stdin, most_bytes=most))
    return Untrusted(read_regular(name, most_bytes=most))


def _program(artifact: Artifact, what: str) -> Program:
    if not isinstance(artifact, ToolRequest):
        hint = "`threegate request list` shows those that are here"
        raise UsageError(f"{what} is not a tool request", hint=hint)
    return Program(artifact.code.open_for_validation(), artifact)


def _about(name: str) -> str:
    return "standard input" if name == STDIN else quote(name)
