"""A report on one tool result: what ran, on which inputs, who approved it, and what came out.

SECURITY
    Shows what attacker-influenced code printed and left.  Text is set apart as foreign, images
    are decoded in a sandbox.  The approval's signature is checked again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.ids import short
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import Capture, ToolResult
from threegate.host.output import counted
from threegate.host.provenance.graph import Graph
from threegate.host.report.approvals import LoggedArrival, approval_card, stored
from threegate.host.report.collection import traced
from threegate.host.report.facts import (
    NOTHING,
    Block,
    Card,
    CheckStep,
    Computed,
    Fact,
    Foreign,
    Heading,
    Picture,
    ReportList,
    Title,
    line,
    loud,
    mono,
)
from threegate.host.report.layout import card_blocks, check_blocks, fact_list, file_blocks
from threegate.host.report.outputs import See, Viewer, computed_behind
from threegate.host.report.provenance import checks_of_run
from threegate.host.workspace.index import Index
from threegate.host.workspace.places import read_anywhere
from threegate.host.workspace.workspace import Workspace
from threegate.policy.leaves import sized

PURPOSE_CHARS: Final = 300  # of a title; a longer purpose follows it whole
FINISHED: Final = "finish"  # the change that stores the result of a run of this workspace


@dataclass(frozen=True, slots=True)
class Stream:
    """What a run returned or printed."""

    name: str
    capture: Capture
    text: str  # foreign


@dataclass(frozen=True, slots=True)
class RunReport:
    """The content of a report on a result."""

    id: str
    confidentiality: str
    loud: tuple[str, ...]
    purpose: str | None  # foreign; None: the request is not here any more
    code: str | None  # foreign: a program, or the words of a command one to a line
    streams: tuple[Stream, ...]
    ran: tuple[Fact, ...]
    inputs: tuple[Fact, ...]
    confined: tuple[Fact, ...]
    computed: tuple[Computed, ...]
    trace: Graph
    approval: Card
    checks: tuple[CheckStep, ...]


def gather_run(ws: Workspace, index: Index, result_id: str, see: See | None = None) -> RunReport:
    """Return the report on a stored result; `see` makes its images fit to be shown."""
    result = ws.store.read(result_id)
    assert isinstance(result, ToolResult)
    found = read_anywhere(ws.store, result.request)
    request = found if isinstance(found, ToolRequest) else None
    entries = stored(ws.store.journal.log, {result_id, result.approval})
    approval = approval_card(ws, result.approval, result_id, entries)
    return RunReport(
        id=result_id,
        confidentiality=result.confidentiality,
        loud=tuple(_loud(result, approval, entries.get(result_id))),
        purpose=None if request is None else request.purpose.open_for_display(),
        code=None if request is None else _code(request),
        streams=tuple(_streams(result)),
        ran=(Fact("result", result_id), *_ran(result, request)),
        inputs=tuple(_inputs(request)),
        confined=tuple(_confined(result)),
        computed=computed_behind(ws.store, (result_id,), see or Viewer(ws.bundle)),
        trace=traced(ws.store, index, result_id),
        approval=approval,
        checks=checks_of_run(result_id, result),
    )


def _loud(result: ToolResult, approval: Card, came: LoggedArrival | None) -> Iterator[str]:
    if result.exit != "ok":
        yield f"IT DID NOT END WELL: {result.exit}"
    for text in approval.loud:
        yield f"approval {short(approval.id)}: {text}"
    if came is None or came.op != FINISHED:
        yield "BROUGHT FROM ELSEWHERE: no run of this workspace left this result"


def _code(request: ToolRequest) -> str:
    words = [word.open_for_display() for word in request.argv]
    return "\n".join(words) or request.code.open_for_display()


def _streams(result: ToolResult) -> Iterator[Stream]:
    yield Stream("Value", result.value, result.value_text.open_for_display())
    yield Stream("Standard output", result.stdout, result.stdout_text.open_for_display())
    yield Stream("Standard error", result.stderr, result.stderr_text.open_for_display())


def _ran(result: ToolResult, request: ToolRequest | None) -> Iterator[Fact]:
    used = result.resources
    code = "" if result.exit_code is None else f", exit code {result.exit_code}"
    yield Fact("ended", f"{result.exit}{code}")
    yield Fact("started", result.started)
    yield Fact("took", f"{used.wall_ms} ms, {used.cpu_ms} ms of processor time")
    yield Fact("memory at most", sized(used.peak_memory_bytes))
    yield Fact("lane", f"{result.backend}, isolated by {result.isolation}")
    yield Fact("request", result.request)
    if request is None:
        yield Fact("its text", "not here any more")
    else:
        yield Fact("code", f"sha256 {request.code_sha256}")
        yield Fact("written by", "the operator" if request.origin == "operator" else "CORE")
    for row in result.carried:
        sent, came = sized(row.up_bytes), sized(row.down_bytes)
        yield Fact(
            f"asked {row.host}", f"{counted(row.requests, 'request')}, {sent} up, {came} down"
        )
    yield Fact("outcome", f"sha256 {result.outcome_sha256}")


def _inputs(request: ToolRequest | None) -> Iterator[Fact]:
    for item in () if request is None else request.inputs:
        yield Fact(item.name, f"{sized(item.bytes)}, {item.artifact}")
        if item.file is not None:
            yield Fact(
                f"{item.name} was read from a file called",
                item.file.open_for_display(),
                foreign=True,
            )


def _confined(result: ToolResult) -> Iterator[Fact]:
    yield Fact("profile", f"sha256 {result.profile_sha256}")
    proved = [item.mechanism for item in result.evidence if item.state == "in-force"]
    yield Fact("proved before the run", ", ".join(proved) or "nothing")
    for item in result.violations:
        where = f"{item.rule} ({item.place}), line {item.line}"
        yield Fact(f"refused by {where}", item.argument.open_for_display(), foreign=True)
    for version in result.versions:
        yield Fact(version.name, version.version)


def lay_out_run(report: RunReport) -> list[Block]:
    """Return the whole report."""
    return [
        *_top(report),
        *_came_out(report),
        Heading(2, "What ran"),
        fact_list(report.ran),
        *([] if report.code is None else [Foreign(report.code, fixed=True)]),
        Heading(2, "Inputs"),
        fact_list(report.inputs) if report.inputs else NOTHING,
        Heading(2, "How it was confined"),
        fact_list(report.confined),
        Heading(2, "Where it comes from"),
        Picture(report.trace),
        Heading(2, "Appendix: approval"),
        *card_blocks(report.approval),
        *check_blocks(report.checks),
    ]


def _top(report: RunReport) -> Iterator[Block]:
    purpose = " ".join((report.purpose or "").split())
    yield Title(f"Report on {short(report.id)}", purpose[:PURPOSE_CHARS] or short(report.id))
    if report.purpose is None:
        yield line("The request is not here any more.")
    elif report.purpose != purpose[:PURPOSE_CHARS]:
        yield Foreign(report.purpose)
    yield line("Tool result ", mono(short(report.id)))
    yield line(
        f"This report is {report.confidentiality}. Code made what follows; nobody checked it."
    )
    if report.loud:
        yield ReportList(tuple(line(loud(text)) for text in report.loud))


def _came_out(report: RunReport) -> Iterator[Block]:
    yield Heading(2, "What came out")
    shown = [stream for stream in report.streams if stream.capture.bytes]
    if not shown and not report.computed:
        yield NOTHING
    for stream in shown:
        cut = ", cut: the run wrote more" if stream.capture.truncated else ""
        yield Heading(3, f"{stream.name}, {sized(stream.capture.bytes)}{cut}")
        yield Foreign(stream.text, fixed=True)
        if stream.capture.escaped:
            yield line(
                "Spelled out or shortened here; its bytes are kept: ", mono(stream.capture.sha256)
            )
    for result in report.computed:
        yield Heading(3, "Files")
        yield from file_blocks(result)
