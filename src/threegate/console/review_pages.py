"""The pages on which the operator decides: the inbox, a request, yes and no.

SECURITY
    A yes is a form with two tokens: the session's, and one that was made when the request was
    shown and is worth something once.  At the yes the request is read and judged again; unless
    everything that was shown is still so, nothing is signed.
"""

from functools import partial
from typing import Final

from threegate.artifacts.ids import digest_of as digits_of
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.console.application import Call
from threegate.console.messages import Malformed, Response, as_json, redirect
from threegate.console.sessions import LEAST_LOOK_SECONDS, ShownRequest
from threegate.console.sheet_parts import digest_of, needs_typing, parts_of
from threegate.console.workspace_threads import Desk
from threegate.host.output import counted
from threegate.host.provenance.headlines import Headline, headline_of
from threegate.host.provenance.retraction import headlines_on_retracted, lookup
from threegate.host.request.expressible import Use, answer_of, asking
from threegate.host.review import approval, decisions
from threegate.host.review.approval import Signing, statement
from threegate.host.review.characters import on_one_line
from threegate.host.review.requests import read_request
from threegate.host.review.sheet import Sheet, read_sheet
from threegate.host.workspace.places import read_anywhere
from threegate.policy.leaves import SECONDS

MOST_MADE: Final = 25
TYPED: Final = 8  # digits of a request's id that a yes to era or network takes
STALE: Final = "TG-CON-009"
NOT_SHOWN: Final = "TG-CON-010"
NOT_TYPED: Final = "TG-CON-011"
TOO_SOON: Final = "TG-CON-012"
_AGAIN: Final = "look at it again, then decide"


async def inbox(call: Call) -> Response:
    """Show what waits."""
    number = page_number(call.request.query.get("page", "1"))
    page, retracted = await call.app.reading.do(
        lambda desk: (
            call.app.inbox.page(desk, number),
            headlines_on_retracted(desk.ws.store, desk.index),
        )
    )
    return call.page("inbox", page=page, retracted=retracted)


def page_number(text: str) -> int:
    """Return the number of a page; raise `Malformed`."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:7]) < 1_000_000):
        raise Malformed("that is not a page")
    return int(text[:7])


async def request(call: Call) -> Response:
    """Show everything about a request; each time it is shown makes one form for a yes."""
    heard = call.app.events.position  # what happens while it is read is news to the page
    look = partial(_looked_at, call.subject)
    sheet, refusal, most, usual, made = await call.app.reading.do(look)
    digest = digest_of(sheet)
    view = call.session.show(sheet.id, digest, call.app.clock())
    words = statement(sheet, uses=1, begin=sheet.now, end=sheet.now + 1).split("\n")[1:]
    return call.page(
        "request",
        sheet=sheet,
        parts=parts_of(sheet),
        digest=digest,
        view=view,
        refusal=refusal,
        means=words,
        typed=digits_of(sheet.id)[:TYPED] if needs_typing(sheet) else "",
        made=made,
        asks_monty=_is_for_monty(sheet),
        most=most,
        usual=usual,
        heard=heard,
    )


def _made_of(request_id: str, desk: Desk) -> list[Headline]:
    """Return the packets or results that came of a request, as many as a page shows."""
    made = [one for one in desk.index.made_from(request_id) if prefix_of(one) in ("rp", "res")]
    look = lookup(partial(read_anywhere, desk.ws.store), desk.index)
    return [headline_of(one, look) for one in made[:MOST_MADE]]


def _is_for_monty(sheet: Sheet) -> bool:
    return sheet.waits and sheet.lane == "monty" and sheet.tool is not None


async def verdict(call: Call) -> Response:
    """Ask the lite lane, in its box, whether it can express a program; nothing is written down."""
    return as_json({"words": await call.app.slow.do(partial(_verdict, call.subject))})


def _verdict(request_id: str, desk: Desk) -> str:
    sheet = read_sheet(desk.ws, request_id, desk.index, similar=False)
    if not _is_for_monty(sheet) or not isinstance(sheet.request, ToolRequest):
        return "has nothing to say to it"
    request = sheet.request
    use = Use(request.functions, [item.name for item in request.inputs], request.profile)
    with asking(desk.ws) as ask:
        answer = answer_of(ask, request.code.open_for_display(), use)
    if answer.refused is None:
        return f"can express it, {counted(len(answer.warnings), 'warning')}"
    refused = answer.refused
    return on_one_line(f"refuses line {refused.line}: {refused.construct}: {refused.reason}")


def _looked_at(
    request_id: str, desk: Desk
) -> tuple[Sheet, str, dict[str, int], dict[str, str], list[Headline]]:
    sheet = read_sheet(desk.ws, request_id, desk.index)
    desk.follow(always=False)  # it may have ended since: then its result is shown with its state
    made = _made_of(request_id, desk)
    refusal = ""
    try:
        approval.refuse(desk.ws, sheet, approval.Terms(accept_rule_of_two=True))
    except ThreeGateError as exc:
        refusal = f"{exc.message} [{exc.code}]"
    path = ("handoff", "approval")
    numbers = {name: desk.ws.bundle.integer(*path, name) for name in ("max_uses",)}
    for name in ("lifetime_seconds", "max_lifetime_seconds"):
        numbers[name] = desk.ws.bundle.integer(*path, name)
    shown = {name.removesuffix("_seconds"): SECONDS.show(value) for name, value in numbers.items()}
    return sheet, refusal, numbers, shown, made


async def raw(call: Call) -> Response:
    """Show the bytes: printable ASCII as it is, backslashes doubled, others in hex."""
    data, _, state = await call.app.reading.do(lambda desk: read_request(desk.ws, call.subject))
    rows = [spelled_bytes(row) for row in data.split(b"\n")]
    return call.page("bytes", id=call.subject, state=state, rows=rows)


def spelled_bytes(row: bytes) -> str:
    """Return bytes as printable ASCII from which they can be read back."""
    text = row.decode("latin-1").replace("\\", "\\\\")
    return "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" for c in text)


async def approve(call: Call) -> Response:
    """Sign and keep an approval of what was shown, or say why not."""
    form = call.request.form()
    view = call.session.take(form.get("view", ""))
    if view is None:
        raise PolicyDenied("this form was used already, or is too old", code=STALE, hint=_AGAIN)
    if view.request != call.subject or view.digest != form.get("shown", ""):
        raise PolicyDenied("the form is for something else", code=NOT_SHOWN, hint=_AGAIN)
    if call.app.clock() - view.since < LEAST_LOOK_SECONDS:
        raise PolicyDenied("nobody can have read it in that time", code=TOO_SOON, hint=_AGAIN)
    terms = _terms(form)
    given = await call.app.deciding.do(
        partial(approved, view, form.get("typed", ""), terms, call.app.signing)
    )
    uses = given.approval.max_uses
    call.session.said = (
        f"approved {short(given.request)} until {given.approval.not_after}, uses: {uses}"
    )
    call.app.events.tell("approved", request=given.request, approval=given.id)
    for dispatcher in call.app.dispatchers:
        dispatcher.wake()
    return redirect(f"/request/{given.request}")


def approved(
    view: ShownRequest, typed: str, terms: approval.Terms, signing: Signing, desk: Desk
) -> approval.GivenApproval:
    """Return the approval of what `view` showed; raise unless all of that is still so."""
    sheet = read_sheet(desk.ws, view.request, desk.index)
    if digest_of(sheet) != view.digest:
        detail = f"{short(view.request)} is not what was shown any more"
        raise PolicyDenied(detail, code=NOT_SHOWN, hint=_AGAIN)
    if needs_typing(sheet) and typed.strip().lower() != digits_of(sheet.id)[:TYPED]:
        detail = f"the first {TYPED} digits of {short(sheet.id)} were not typed"
        raise PolicyDenied(detail, code=NOT_TYPED, hint=_AGAIN)
    signer, key = signing(desk.ws)
    return approval.approve(desk.ws, sheet, signer, key, terms, given="console")


def _terms(form: dict[str, str]) -> approval.Terms:
    uses, lifetime = form.get("uses", "1"), form.get("lifetime", "")
    if not (uses.isascii() and uses.isdigit() and len(uses) < 6):
        raise UsageError("the number of uses is not a number")
    try:
        seconds = SECONDS.parse(lifetime) if lifetime else None
    except ValueError as exc:
        raise UsageError("that is not a length of time", hint="like 30m, 2h or 1d") from exc
    return approval.Terms(int(uses), seconds, form.get("rule_of_two") == "accepted")


async def deny(call: Call) -> Response:
    """Say no, with a reason."""
    reason = call.request.form().get("reason", "").replace("\r\n", "\n")
    await call.app.deciding.do(lambda desk: decisions.deny(desk.ws, call.subject, reason))
    call.session.said = f"denied {short(call.subject)}"
    call.app.events.tell("denied", request=call.subject)
    return redirect("/inbox")


async def leave(call: Call) -> Response:
    """End the session."""
    call.app.sessions.leave(call.request.cookie(call.app.cookie))
    gone = f"{call.app.cookie}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
    return redirect("/inbox", ("Set-Cookie", gone))


async def events(call: Call) -> Response:
    """Stream what happens."""
    if call.app.events.full:
        raise Malformed("too many pages listen")
    last = call.request.headers.get("last-event-id") or call.request.query.get("after", "")
    return Response(kind="text/event-stream; charset=utf-8", stream=call.app.events.stream(last))
