"""Pages of the workspace itself: its policy, its log, and the confinement of the gates."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from threegate.audit.entry import Entry
from threegate.base.errors import ThreeGateError
from threegate.console.messages import Malformed, Response
from threegate.console.page import Call, ConsolePage, page_number, pages_of
from threegate.host.command_context import Context
from threegate.host.diagnosis import key_of_operator, of_policy
from threegate.host.output import Output
from threegate.host.policy.changes import edited
from threegate.host.policy.rules import SECTIONS, rules_of
from threegate.host.run.warm.executors import Row, live_executors
from threegate.host.settings import unix_now
from threegate.host.status import overview
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.text_form import entry_line, history
from threegate.host.workspace.verification import Verification, verify_workspace
from threegate.host.workspace.verification import Verification as Report
from threegate.policy.bundle import diff
from threegate.policy.nodes import Change
from threegate.sandbox.doctor import Diagnosis, examine

PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class PolicyView:
    """The policy in force, and what the files would change."""

    generation: int
    digest: str
    sections: list[tuple[str, list[tuple[str, str, str]]]]
    changes: tuple[Change, ...]
    problem: str
    executors: list[Row]


async def policy(call: Call) -> Response:
    """Show the rules in force, and the differences in the files."""
    return call.show("policy", rules=await call.app.reading.do(_rules))


def _rules(live: LiveWorkspace) -> PolicyView:
    bundle = live.ws.bundle
    sections = [(name, list(rules_of(bundle, name))) for name in SECTIONS]
    changes: tuple[Change, ...] = ()
    problem = ""
    try:
        changes = tuple(diff(bundle, edited(live.ws)))
    except ThreeGateError as exc:
        problem = f"{exc.message} [{exc.code}]"
    rows = live_executors(live.ws.store.journal.log)
    return PolicyView(bundle.generation, bundle.digest, sections, changes, problem, rows)


async def audit(call: Call) -> Response:
    """Show a page of the log, newest first."""
    number = page_number(call)
    entries, total = await call.app.reading.do(partial(_entries, number))
    return _timeline(call, entries, total, number, None)


def _entries(number: int, live: LiveWorkspace) -> tuple[list[Entry], int]:
    log, skip = live.ws.store.journal.log, (number - 1) * PAGE
    return history(log, None, limit=PAGE, skip=skip, progress=lambda _: None)


def _timeline(
    call: Call, entries: list[Entry], total: int, number: int, report: Verification | None
) -> Response:
    rows = [(one.seq, one.time, one.kind, entry_line(one)) for one in reversed(entries)]
    pages = pages_of(total, PAGE)
    return call.show("audit", rows=rows, total=total, number=number, pages=pages, report=report)


async def verify(call: Call) -> Response:
    """Compare the whole workspace with its log."""
    report = await call.app.slow.do(partial(_verified, call.app.asking.quiet))
    entries, total = await call.app.reading.do(partial(_entries, 1))
    return _timeline(call, entries, total, 1, report)


def _verified(out: Output, live: LiveWorkspace) -> Report:
    ws = live.ws
    return verify_workspace(
        ws.root, given=[], clock=unix_now, progress=out.progress, seals=ws.seals
    )


async def doctor(call: Call) -> Response:
    """Show the state of the workspace; the sandboxes are tried on request."""
    return call.show("doctor", facts=await _facts(call), diagnosis=None, key=None)


async def examined(call: Call) -> Response:
    """Start every gate and show what confines it."""
    if not call.app.examining.take():
        raise Malformed("the sandboxes were tried a moment ago")
    context = replace(call.app.context, out=call.app.asking.quiet)
    diagnosis = await call.app.slow.do(partial(_diagnosed, context))
    key = key_of_operator(context)
    return call.show("doctor", facts=await _facts(call), diagnosis=diagnosis, key=key)


def _diagnosed(context: Context, live: LiveWorkspace) -> Diagnosis:
    """Return the findings of `threegate doctor` in this workspace."""
    ours = of_policy(context, live.ws.root, live.ws.bundle)
    return Diagnosis((*examine(lambda _: None).checks, *ours))


async def _facts(call: Call) -> dict[str, Any]:
    return await call.app.reading.do(lambda live: overview(live.ws, live.index))


PAGES: Final = (
    ConsolePage("/policy", policy, title="Policy", listed=True, follows=True),
    ConsolePage("/audit", audit, verify, title="Audit", listed=True, follows=True),
    ConsolePage("/doctor", doctor, examined, title="Doctor", listed=True, follows=True),
)
