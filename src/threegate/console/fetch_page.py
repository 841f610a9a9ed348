"""The page on which the operator asks for sources, and what all pages have that ask for something.

SECURITY
    Nothing here leaves the machine.  What is asked for in a browser becomes a request that
    waits, as if anybody else had asked: it takes the operator's signature, so a click alone
    fetches nothing.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from threegate.artifacts.references import Reference
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.base.untrusted import Untrusted
from threegate.console.application import Call
from threegate.console.messages import MAX_BODY_BYTES, Response, redirect
from threegate.console.workspace_threads import Desk
from threegate.host.bibliography.entries import Unreadable
from threegate.host.bibliography.reader import read_list
from threegate.host.fetch.held import hold
from threegate.policy.leaves import BYTES

LEVELS: Final = ("public", "internal", "confidential")
WANTS: Final = ("metadata", "full-text")
PURPOSE: Final = "Asked for by the operator in the console."
MOST_TOLD: Final = 10
_FETCH_FIELDS: Final = ("references", "purpose", "want", "confidentiality")


async def fetch(call: Call) -> Response:
    """Show the form for sources."""
    return _fetch_form(call, {}, [])


def _fetch_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    fields = {name: typed.get(name, "") for name in _FETCH_FIELDS}
    choices = {"levels": LEVELS, "wants": WANTS, "most": BYTES.show(MAX_BODY_BYTES)}
    return call.page("fetch", status_of(problems), typed=fields, problems=problems, **choices)


def status_of(problems: Sequence[str]) -> int:
    """Return what a form is answered with that has, or has not, problems."""
    return HTTPStatus.UNPROCESSABLE_ENTITY if problems else HTTPStatus.OK


async def fetch_wanted(call: Call) -> Response:
    """Hold requests for the sources that were named; nobody is contacted."""
    typed = call.request.form()
    try:
        references = _references(typed.get("references", ""))
        act = partial(hold_wanted, references, typed)
        ids = await call.app.deciding.do(act)
    except ThreeGateError as exc:
        return _fetch_form(call, typed, told_of(exc))
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


def hold_wanted(references: Sequence[Reference], typed: Mapping[str, str], desk: Desk) -> list[str]:
    """Hold requests for these references, as the fields of a form say; return their ids."""
    if desk.ws.bundle.text("fetch", "operator_requests") == "deny":
        where = desk.ws.bundle.ref("fetch", "operator_requests")
        raise PolicyDenied(f"nobody could approve this: denied by {where}")
    want = one_of(WANTS, typed.get("want", WANTS[0]))
    level = one_of(LEVELS, typed.get("confidentiality", LEVELS[0]))
    purpose = text_of(typed, "purpose") or PURPOSE
    return hold(desk.ws, references, want=want, confidentiality=level, purpose=purpose)


def one_of(allowed: Sequence[str], value: str) -> str:
    """Return a choice that was offered; raise `UsageError`."""
    if value not in allowed:
        raise UsageError("that is none of the choices")
    return value


def text_of(typed: Mapping[str, str], name: str) -> str:
    """Return what was typed in a field, with plain line ends and nothing around it."""
    return typed.get(name, "").replace("\r\n", "\n").strip()


def told_of(error: ThreeGateError) -> list[str]:
    """Return an error in the lines of a form."""
    return [f"{error.message} [{error.code}]", *([error.hint] if error.hint else [])]
