"""Requests in tests: to review in a workspace with a clock the test moves, approved, and run."""

import io
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import samples
from tests.support.samples import box, digest
from tests.support.workspaces import (
    OPERATOR,
    SoftSigner,
    make_workspace,
    public_of,
    soft_signer,
    take_in,
)
from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, Approval, PolicySection
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import FUNCTIONS, ToolRequest
from threegate.audit.entry import time_of
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import (
    CheckCode,
    CodeChecked,
    LiteJob,
    LiteOutcome,
    RefusalFound,
)
from threegate.gates.tool_exec.monty.screen import SourceBounds, screen
from threegate.handoff.approvals import approve as approve_approvals
from threegate.host.output import Output
from threegate.host.review.approval import GivenApproval, Terms, approve
from threegate.host.review.render import lines
from threegate.host.review.sheet import ReviewSheet, read_sheet
from threegate.host.review.terminal.cells import print_lines
from threegate.host.run import lifecycle
from threegate.host.run.lite import LiteRun
from threegate.host.run.results import confinement_of
from threegate.host.workspace.drafts import lanes_of
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import Bundle, functions_sha256


def program(code: str = samples.CODE, **changes: Any) -> ToolRequest:
    """Return a request that the shipped policy lets a human approve."""
    texts = {"code": box(code), "code_sha256": digest(code)}
    return samples.tool_request(**{"inputs": (), "profile": "pure", **texts, **changes})


def drafted(request: ToolRequest | FetchRequest, **changes: Any) -> Any:
    """Return the request as CORE would have drafted it."""
    return replace(request, origin="core", integrity="external", **changes)


def held(ws: Workspace, request: ToolRequest | FetchRequest | None = None) -> ReviewSheet:
    """Take a request in and return its sheet."""
    (request_id,) = take_in(ws, program() if request is None else request)
    return read_sheet(ws, request_id)


def approved(ws: Workspace, sheet: ReviewSheet, terms: Terms | None = None) -> GivenApproval:
    """Approve as the operator."""
    return approve(ws, sheet, soft_signer(), public_of(), terms)


@dataclass(frozen=True)
class Meddler:
    """Signs as the operator does, but something happens while it does."""

    meanwhile: Callable[[], object]
    signer: SoftSigner

    def sign(self, message: bytes, namespace: str) -> bytes:
        self.meanwhile()
        return self.signer.sign(message, namespace)


def meddler(meanwhile: Callable[[], object]) -> Meddler:
    return Meddler(meanwhile, soft_signer())


class Screen(io.StringIO):
    """A terminal of some width that keeps what it was sent."""

    def __init__(self, *, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


def printed(sheet: ReviewSheet, *, colour: bool = False) -> list[str]:
    """Return the rows that are printed of a sheet, as to a pipe."""
    screen = Screen(tty=False)
    print_lines(Output(screen, io.StringIO(), io.StringIO()), lines(sheet), colour=colour)
    return screen.getvalue().split("\n")


def code_read_back(rows: list[str]) -> str:
    """Return the code that the rows of a sheet show, every character as it was."""
    start = next(number for number, row in enumerate(rows) if row.startswith("code, "))
    found: list[str] = []
    for row in rows[start + 2 :]:
        if not row or row == "  (no line break at the end)":  # neither has a gutter
            break
        gutter, text = row[:8], row[8:]
        if gutter == "      : ":
            found[-1] += text
        else:
            assert gutter.endswith(("| ", "! ")), row
            found.append(text)
    return "\n".join(map(unspelled, found))


def unspelled(text: str) -> str:
    """Return what a text was before characters of it were spelled out."""
    first, *rest = text.split("\\u{")
    pairs = (part.partition("}") for part in rest)
    return first + "".join(chr(int(point, 16)) + after for point, _, after in pairs)


# -- Approved requests in a real workspace, signed without starting `ssh-keygen`.


def now() -> int:
    return int(time.time())


def live_workspace(base: Path) -> Workspace:
    """Return a workspace whose clock is the machine's, as a box's is."""
    return make_workspace(base, clock=now)


def request_for(ws: Workspace, code: str, **changes: Any) -> ToolRequest:
    """Return a request as the operator would make it, within the lane's defaults."""
    lane = lanes_of(ws.bundle)["monty"]
    base = samples.tool_request(
        created=ws.now(),
        nonce=secrets.token_hex(16),
        profile=lane.profile,
        limits=lane.limits,
        inputs=(),
        functions=(),
        code=Untrusted(code),
        code_sha256=sha256_hex(code.encode()),
    )
    return replace(base, **changes)


def approval_for(ws: Workspace, request: ToolRequest, **changes: Any) -> Approval:
    """Return the approval the operator would sign for a request."""
    sections = BOUND_SECTIONS[request.backend]
    base = samples.approval(
        request=registry.id_of(request),
        backend=request.backend,
        limits=request.limits,
        network=request.network,
        functions_sha256=functions_sha256(ws.bundle),
        policy=tuple(PolicySection(name, ws.bundle.section_digest(name)) for name in sections),
        approver=OPERATOR,
        nonce=secrets.token_hex(16),
        not_before=ws.now(),
        not_after=time_of(ws.clock() + 3600),
        max_uses=1,
    )
    return replace(base, **changes)


def approve_for(ws: Workspace, request: ToolRequest, **changes: Any) -> str:
    """Sign and keep an approval for a request that waits; return its id."""
    data = registry.emit(approval_for(ws, request, **changes))
    signature = soft_signer().sign(data, NAMESPACE)
    request_id = registry.id_of(request)
    return approve_approvals(
        ws.store, request_id=request_id, approval=data, signature=signature, detail={}
    )


def approved_request(ws: Workspace, code: str, *, uses: int = 1, **changes: Any) -> str:
    """Return the id of a new request that is approved and waits to run."""
    request = request_for(ws, code, **changes)
    (request_id,) = take_in(ws, request)
    approve_for(ws, request, max_uses=uses)
    return request_id


# -- The lite lane with a box that answers whatever a test wants, as an owned one could.

Answer = Callable[[LiteJob], LiteRun]
BOX = confinement_of("0" * 64, ("seccomp:socket",), {"monty": "0", "threegate": "0"})


def ran(outcome: LiteOutcome) -> LiteRun:
    """Return an ordinary run with this outcome."""
    return LiteRun(outcome, wall_ms=1, peak_memory_bytes=1)


def ok(_: LiteJob) -> LiteRun:
    return ran(LiteOutcome("ok", value=b"1"))


def install(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Let `run_requests` talk to boxes that answer like this."""

    class FakeBox:
        box = BOX

        def run(self, job: LiteJob, *, wall_ms: int) -> LiteRun:
            assert wall_ms > 0
            return answer(job)

        def kill(self) -> None:
            """It has answered already."""

    class FakeBoxes:
        def __init__(self, bundle: Bundle) -> None:
            self.bundle = bundle

        def box(self, confidentiality: str) -> FakeBox:
            assert confidentiality
            return FakeBox()

        def close(self) -> None:
            """Nothing was started."""

    monkeypatch.setattr(lifecycle, "Boxes", FakeBoxes)


# -- The lite lane without its box: the same screen, and a record of what was asked.

MODULES = frozenset({"csv", "json", "math", "re"})


@dataclass
class UnboxedLane:
    """Answers checks as the lane does before its interpreter sees anything."""

    asked: list[CheckCode] = field(default_factory=list)

    def __call__(self, check: CheckCode) -> CodeChecked:
        self.asked.append(check)
        found = screen(check.code, SourceBounds(64 * 1024, 8, MODULES))
        if found is None:
            return CodeChecked(_missing(check))
        return CodeChecked(RefusalFound(found.construct, found.line, found.reason))


def _missing(check: CheckCode) -> RefusalFound | None:
    """Return the first external function that is called and not there."""
    for line, text in enumerate(check.code.split("\n"), 1):
        for name in FUNCTIONS:
            if f"{name}(" in text and name not in check.functions:
                return RefusalFound("unresolved-reference", line, f"{name} is not defined")
    return None
