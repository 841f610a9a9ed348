"""The page of a request: its whole sheet, and the operator's approval or denial.

The sheet has the same lines as `threegate review show`, in parts.

SECURITY
    Shows exactly the lines that the terminal shows.  An approval is a form with two tokens: the
    session's, and one that was made when the request was shown and works once.  Before the
    signature the request is read and judged again.  Unless the digest of all shown lines is the
    same, nothing is signed.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from threegate.artifacts.ids import digest_of as digits_of
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import PolicyDenied
from threegate.base.text import visible
from threegate.console.access import LEAST_LOOK_SECONDS, ShownRequest
from threegate.console.messages import Response, as_json, redirect
from threegate.console.page import Call, ConsolePage
from threegate.host.output import counted
from threegate.host.provenance.headlines import Headline, headline_of, lookup
from threegate.host.request.code import LaneUse, answer_of, asking
from threegate.host.review import approval, decisions
from threegate.host.review.approval import Signing, statement
from threegate.host.review.characters import on_one_line, spelled_bytes
from threegate.host.review.parts import StyledLine, StyledSpan, plain
from threegate.host.review.render import lines
from threegate.host.review.requests import read_request
from threegate.host.review.sheet import ReviewSheet, read_sheet
from threegate.host.workspace.live import LiveWorkspace
from threegate.host.workspace.places import read_anywhere
from threegate.policy.leaves import SECONDS


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One line: its margin and its text."""

    margin: str
    spans: tuple[StyledSpan, ...]


@dataclass(frozen=True, slots=True)
class SheetPart:
    """The lines under one title of ours."""

    title: str
    rows: tuple[SheetRow, ...]


def parts_of(sheet: ReviewSheet) -> list[SheetPart]:
    """Return the sheet in parts, in the order of the terminal."""
    found: list[tuple[str, list[SheetRow]]] = []
    for line in lines(sheet):
        if not found or line.section != found[-1][0]:
            found.append((line.section, []))
        if _is_text(line):
            found[-1][1].append(SheetRow(line.head.text, line.spans))
    return [SheetPart(title, tuple(rows)) for title, rows in found]


def _is_text(line: StyledLine) -> bool:
    """Tell titles and the space before them from everything else."""
    if line.spans and line.spans[0].style == "title":
        return line.section == "request"
    return bool(line.spans or line.head.text)


def digest_of(sheet: ReviewSheet) -> str:
    """Return the digest of everything that is shown, except the age."""
    still = replace(sheet, now=0)
    text = "\n".join([sheet.id, sheet.policy, *_texts(still)])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _texts(sheet: ReviewSheet) -> Iterator[str]:
    for line in lines(sheet):
        yield visible(line.head.text + plain(line.spans))


def needs_typing(sheet: ReviewSheet) -> bool:
    """Tell whether an approval needs typing, not only a click: network and heavy lane."""
    return sheet.lane == "era" or sheet.rule_of_two.network


MOST_MADE: Final = 25
TYPED: Final = 8  # digits of a request's id that a yes to era or network needs
STALE: Final = "TG-CON-009"
NOT_SHOWN: Final = "TG-CON-010"
NOT_TYPED: Final = "TG-CON-011"
TOO_SOON: Final = "TG-CON-012"
_AGAIN: Final = "look at it again, then decide"


async def request(call: Call) -> Response:
    """Show a request; each showing makes one form for an approval."""
    heard = call.app.events.position  # before reading: later events are news to this page
    look = partial(_looked_at, call.subject)
    sheet, refusal, bounds, made = await call.app.reading.do(look)
    digest = digest_of(sheet)
    view = call.session.show(sheet.id, digest, call.app.clock())
    words = statement(sheet, uses=1, begin=sheet.now, end=sheet.now + 1).split("\n")[1:]
    return call.show(
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
        max_uses=bounds.max_uses,
        lifetime=SECONDS.show(bounds.usual_seconds),
        max_lifetime=SECONDS.show(bounds.max_seconds),
        heard=heard,
    )


def _made_of(request_id: str, live: LiveWorkspace) -> list[Headline]:
    """Return the packets or results that a request led to, as many as a page shows."""
    made = [one for one in live.index.made_from(request_id) if prefix_of(one) in ("rp", "res")]
    look = lookup(partial(read_anywhere, live.ws.store), live.index)
    return [headline_of(one, look) for one in made[:MOST_MADE]]


def _is_for_monty(sheet: ReviewSheet) -> bool:
    return sheet.waits and sheet.lane == "monty" and sheet.tool is not None


async def verdict(call: Call) -> Response:
    """Ask the lite lane, in its sandbox, whether it can express a program; nothing is stored."""
    return as_json({"words": await call.app.slow.do(partial(_verdict, call.subject))})


def _verdict(request_id: str, live: LiveWorkspace) -> str:
    sheet = read_sheet(live.ws, request_id, live.index, similar=False)
    if not _is_for_monty(sheet) or not isinstance(sheet.request, ToolRequest):
        return "has nothing to say to it"
    request = sheet.request
    use = LaneUse(request.functions, [item.name for item in request.inputs], request.profile)
    with asking(live.ws) as ask:
        answer = answer_of(ask, request.code.open_for_display(), use)
    if answer.refused is None:
        return f"can express it, {counted(len(answer.warnings), 'warning')}"
    refused = answer.refused
    return on_one_line(f"refuses line {refused.line}: {refused.construct}: {refused.reason}")


def _looked_at(
    request_id: str, live: LiveWorkspace
) -> tuple[ReviewSheet, str, approval.TermBounds, list[Headline]]:
    sheet = read_sheet(live.ws, request_id, live.index)
    live.follow(always=False)  # it may have ended since: then its result is shown with its state
    refusal = approval.objection(live.ws, sheet)
    return sheet, refusal, approval.TermBounds.of(live.ws.bundle), _made_of(request_id, live)


async def raw(call: Call) -> Response:
    """Show the bytes: printable ASCII as it is, backslashes doubled, others in hex."""
    data, _, state = await call.app.reading.do(lambda live: read_request(live.ws, call.subject))
    rows = [spelled_bytes(row) for row in data.split(b"\n")]
    return call.show("bytes", id=call.subject, state=state, rows=rows)


async def approve(call: Call) -> Response:
    """Sign and keep an approval of what was shown, or say why not."""
    form = call.request.form()
    # Any attempt spends the token, so a refused form cannot be replayed.
    view = call.session.take(form.get("view", ""))
    if view is None:
        raise PolicyDenied("this form was used already, or is too old", code=STALE, hint=_AGAIN)
    # A form of one request, posted to the path of another.
    if view.request != call.subject or view.digest != form.get("shown", ""):
        raise PolicyDenied("the form is for something else", code=NOT_SHOWN, hint=_AGAIN)
    if call.app.clock() - view.since < LEAST_LOOK_SECONDS:
        raise PolicyDenied("nobody can have read it in that time", code=TOO_SOON, hint=_AGAIN)
    accepted = form.get("rule_of_two") == "accepted"
    uses, lifetime = form.get("uses", "1"), form.get("lifetime", "")
    terms = approval.Terms.read(uses, lifetime, accept_rule_of_two=accepted)
    given = await call.app.deciding.do(
        partial(approved, view, form.get("typed", ""), terms, call.app.signing)
    )
    granted = f"until {given.approval.not_after}, uses: {given.approval.max_uses}"
    call.session.said = f"approved {short(given.request)} {granted}"
    call.app.events.tell("approved", request=given.request, approval=given.id)
    for dispatcher in call.app.dispatchers:
        dispatcher.wake()
    return redirect(f"/request/{given.request}")


def approved(
    view: ShownRequest, typed: str, terms: approval.Terms, signing: Signing, live: LiveWorkspace
) -> approval.GivenApproval:
    """Return the approval of what `view` showed; raise if any of it changed."""
    sheet = read_sheet(live.ws, view.request, live.index)
    # TOCTOU: request, policy or flags may have changed since the page was shown.
    if digest_of(sheet) != view.digest:
        detail = f"{short(view.request)} has changed since it was shown"
        raise PolicyDenied(detail, code=NOT_SHOWN, hint=_AGAIN)
    if needs_typing(sheet) and typed.strip().lower() != digits_of(sheet.id)[:TYPED]:
        detail = f"the first {TYPED} digits of {short(sheet.id)} were not typed"
        raise PolicyDenied(detail, code=NOT_TYPED, hint=_AGAIN)
    signer, key = signing(live.ws)
    return approval.approve(live.ws, sheet, signer, key, terms, given="console")


async def deny(call: Call) -> Response:
    """Deny a request, with a reason."""
    reason = call.request.form().get("reason", "").replace("\r\n", "\n")
    await call.app.deciding.do(lambda live: decisions.deny(live.ws, call.subject, reason))
    call.session.said = f"denied {short(call.subject)}"
    call.app.events.tell("denied", request=call.subject)
    return redirect("/inbox")


PAGES: Final = (
    ConsolePage("/request/ID", request, follows=True),
    ConsolePage("/request/ID/bytes", raw),
    ConsolePage("/request/ID/verdict", verdict),
    ConsolePage("/request/ID/approve", post=approve),
    ConsolePage("/request/ID/deny", post=deny),
)
