"""Pages on which the operator asks for something: sources to fetch, a program to run.

SECURITY
    Nothing here leaves the machine or runs.  What is asked for in a browser becomes a request
    that waits, as if anybody else had asked: it takes the operator's signature, so a click
    alone reaches no network.  Inputs are artifacts; no form can name a file.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from threegate.artifacts.ids import is_id
from threegate.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.host.bibliography.entries import Unreadable
from threegate.host.bibliography.reading import read_list
from threegate.host.console.application import Call
from threegate.host.console.messages import Response, redirect
from threegate.host.console.offices import Desk
from threegate.host.expressing import NotExpressible, asking
from threegate.host.fetching.holding import hold
from threegate.host.output import counted
from threegate.host.reporting.spelling import on_one_line
from threegate.host.request_options import offered_functions
from threegate.host.requesting import Made, Wanted, make_request
from threegate.protocol.references import Reference
from threegate.untrusted import Untrusted

LEVELS: Final = ("public", "internal", "confidential")
WANTS: Final = ("metadata", "full-text")
PURPOSE: Final = "Asked for by the operator in the console."
MOST_TOLD: Final = 10
_FUNCTION: Final = "function-"
_FETCH_FIELDS: Final = ("references", "purpose", "want", "confidentiality")
_RUN_FIELDS: Final = ("purpose", "code", "inputs", "confidentiality")


async def fetch(call: Call) -> Response:
    """Show the form for sources."""
    return _fetch_form(call, {}, [])


def _fetch_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    fields = {name: typed.get(name, "") for name in _FETCH_FIELDS}
    choices = {"levels": LEVELS, "wants": WANTS}
    return call.page("fetch", _status(problems), typed=fields, problems=problems, **choices)


def _status(problems: Sequence[str]) -> int:
    return HTTPStatus.UNPROCESSABLE_ENTITY if problems else HTTPStatus.OK


async def fetch_wanted(call: Call) -> Response:
    """Hold requests for the sources that were named; nobody is contacted."""
    typed = call.request.form()
    try:
        references = _references(typed.get("references", ""))
        act = partial(_held, references, typed)
        ids = await call.app.deciding.do(act)
    except ThreeGateError as exc:
        return _fetch_form(call, typed, [f"{exc.message} [{exc.code}]", *_hints(exc)])
    call.app.events.tell("held", requests=len(ids))
    return redirect(f"/request/{ids[0]}" if len(ids) == 1 else "/inbox")


def _references(text: str) -> tuple[Reference, ...]:
    """Return what a list names; a line that names nothing is said, and nothing is held then."""
    try:
        found = read_list(Untrusted(text.encode("utf-8")))
    except Unreadable as exc:
        raise UsageError(f"that is no list of sources: {exc}") from exc
    if found.problems:
        told = [f"line {one.line}: {one.message}" for one in found.problems[:MOST_TOLD]]
        more = len(found.problems) - MOST_TOLD
        raise UsageError("; ".join([*told, *([f"{more} more"] if more > 0 else [])]))
    if not found.references:
        raise UsageError("that names nothing to fetch")
    return found.references


def _held(references: Sequence[Reference], typed: Mapping[str, str], desk: Desk) -> list[str]:
    if desk.ws.bundle.text("fetch", "operator_requests") == "deny":
        where = desk.ws.bundle.ref("fetch", "operator_requests")
        raise PolicyDenied(f"nobody could approve this: denied by {where}")
    want = _one_of(WANTS, typed.get("want", WANTS[0]))
    level = _one_of(LEVELS, typed.get("confidentiality", LEVELS[0]))
    purpose = typed.get("purpose", "").replace("\r\n", "\n").strip() or PURPOSE
    return hold(desk.ws, references, want=want, confidentiality=level, purpose=purpose)


async def run(call: Call) -> Response:
    """Show the form for a program."""
    return await _run_form(call, call.request.query, [])


async def _run_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    offered = await call.app.reading.do(lambda desk: offered_functions(desk.ws.bundle))
    fields = {name: typed.get(name, "") for name in _RUN_FIELDS}
    choices = {"levels": LEVELS, "offered": offered, "chosen": _chosen(typed)}
    return call.page("run", _status(problems), typed=fields, problems=problems, **choices)


def _chosen(typed: Mapping[str, str]) -> list[str]:
    return [name.removeprefix(_FUNCTION) for name in typed if name.startswith(_FUNCTION)]


async def run_wanted(call: Call) -> Response:
    """Hold a request for a program; nothing runs."""
    typed = call.request.form()
    try:
        wanted = _wanted(typed)
        made = await call.app.slow.do(partial(_made, wanted))
    except ThreeGateError as exc:
        refused = [_refusal(exc)] if isinstance(exc, NotExpressible) else []
        told = [f"{exc.message} [{exc.code}]", *refused, *_hints(exc)]
        return await _run_form(call, typed, told)
    call.app.events.tell("held", requests=1)
    if made.warnings:
        lines = (f"line {one.line}: {one.construct}: {one.reason}" for one in made.warnings)
        words = counted(len(made.warnings), "warning")
        call.session.said = on_one_line(f"{words} of the type checker: {'; '.join(lines)}")
    return redirect(f"/request/{made.id}")


def _made(wanted: Wanted, desk: Desk) -> Made:
    with asking(desk.ws) as ask:
        return make_request(desk.ws, wanted, ask)


def _wanted(typed: Mapping[str, str]) -> Wanted:
    inputs = [line.strip() for line in typed.get("inputs", "").splitlines() if line.strip()]
    for one in inputs:
        # Anything else would be the name of a file, and a form opens none.
        if not is_id(one.partition("=")[2]):
            raise UsageError("an input is a name, = and the id of a packet, result or answer")
    level = typed.get("confidentiality", "")
    return Wanted(
        purpose=typed.get("purpose", "").replace("\r\n", "\n").strip(),
        code=typed.get("code", "").replace("\r\n", "\n"),
        confidentiality=_one_of(LEVELS, level) if level else None,
        inputs=inputs,
        functions=_chosen(typed),
    )


def _one_of(allowed: Sequence[str], value: str) -> str:
    if value not in allowed:
        raise UsageError("that is none of the choices")
    return value


def _refusal(error: NotExpressible) -> str:
    return f"{error.refused.construct}: {error.refused.reason}"


def _hints(error: ThreeGateError) -> list[str]:
    return [error.hint] if error.hint else []
