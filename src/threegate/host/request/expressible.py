"""Whether Monty can express a program, asked of the lane itself, and its refusals written down.

SECURITY
    The answer comes from a box that read hostile code.  Its words are foreign text; what
    counts is that this host asked, about this very code, and wrote the answer down.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import refusal_record
from threegate.base.errors import ArtifactRejected, PolicyDenied
from threegate.base.text import quote
from threegate.gates.tool_exec.monty.messages import (
    NOT_PYTHON,
    CheckCode,
    CodeChecked,
    RefusalFound,
)
from threegate.handoff.refusals import keep_refusal
from threegate.host.request.options import offered_functions
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

Ask = Callable[[CheckCode], CodeChecked]

NOT_EXPRESSIBLE = "TG-REQ-001"


@dataclass(frozen=True, slots=True)
class Use:
    """What a program may rely on: names that are bound, and modules of a profile."""

    functions: Sequence[str]
    inputs: Sequence[str]
    profile: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal of one program, with the digest of its record."""

    code_sha256: str
    construct: str
    line: int
    reason: str
    record: str
    source: str  # the line it stands in
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
class Answer:
    """What the lane says about a program: what stands in the way, and what looks like a slip."""

    refused: Refused | None
    warnings: tuple[RefusalFound, ...] = ()


class NotExpressible(ArtifactRejected):
    """Monty cannot express the code of a request as it was asked for."""

    code = NOT_EXPRESSIBLE

    def __init__(self, refused: Refused) -> None:
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


def judge(ws: Workspace, ask: Ask, code: str, use: Use) -> Answer:
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
    return Answer(replace(beyond, kept=True))


def _refuse_unoffered(bundle: Bundle, use: Use) -> None:
    path = ("tool-exec", "lanes", "monty", "profiles")
    if use.profile not in bundle.words(*path):
        hint = f"it offers {', '.join(bundle.words(*path))}"
        detail = f"profile {quote(use.profile)} is not offered to monty by {bundle.ref(*path)}"
        raise PolicyDenied(detail, hint=hint)
    for name in sorted(set(use.functions) - set(offered_functions(bundle))):
        where = bundle.ref("tool-exec", "functions")
        raise PolicyDenied(f"function {name} is not offered by {where}")


def answer_of(ask: Ask, code: str, use: Use) -> Answer:
    """Return what Monty says about a program that may use this; nothing is written down."""
    check = CheckCode(code, tuple(sorted(use.functions)), tuple(sorted(use.inputs)), use.profile)
    checked = ask(check)
    found = checked.refusal
    if found is None:
        return Answer(None, checked.warnings)
    digest = sha256_hex(code.encode("utf-8"))
    construct, line, reason = found.construct, found.line, found.reason
    record = refusal_record(code_sha256=digest, construct=construct, line=line, reason=reason)
    lines = code.split("\n")
    source = lines[line - 1] if line <= len(lines) else ""
    return Answer(Refused(digest, construct, line, reason, sha256_hex(record), source))


def widest(bundle: Bundle, inputs: Iterable[str]) -> Use:
    """Return the most that policy can give a program in the lite lane."""
    profile = bundle.text("tool-exec", "lanes", "monty", "default_profile")
    return Use(tuple(offered_functions(bundle)), tuple(inputs), profile)
