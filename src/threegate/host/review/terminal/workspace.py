"""The workspace as the interactive review uses it.

SECURITY
    An approval covers the sheet that was shown: the sheet is kept here from the moment it was
    read, with its bytes and the digest of the policy it was judged by.  Foreign text leaves this
    module only as lines that are spelled out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.artifacts.ids import short
from threegate.base.errors import GateUnavailable, HandoffTampered
from threegate.handoff.states import state_of
from threegate.host.keys.signatures import Signer, kind_of
from threegate.host.output import counted
from threegate.host.review import approval, decisions
from threegate.host.review.approval import Signing, statement
from threegate.host.review.characters import exposed, spelled_bytes
from threegate.host.review.parts import StyledLine, StyledSpan
from threegate.host.review.render import lines
from threegate.host.review.requests import WAITING, read_request
from threegate.host.review.sheet import QueueItem, ReviewSheet, listed, read_sheet, total
from threegate.host.review.terminal import state as shown
from threegate.host.review.terminal.cells import Spell
from threegate.host.review.terminal.pager import PagedDocument, document
from threegate.host.workspace.live import LiveWorkspace

MAX_LISTED: Final = 200  # the oldest; the others come up as these are decided
_PURPOSE_CHARS: Final = 300
_AGAIN: Final = StyledSpan("      : ", "dim")


@dataclass
class WorkspaceReview:
    """One open workspace; `tell` speaks on the terminal while somebody else has it."""

    live: LiveWorkspace
    signing: Signing
    tell: Callable[[str], None]
    spell: Spell
    tampered: dict[str, HandoffTampered] = field(default_factory=dict)  # all that were found so far
    _shown: dict[str, ReviewSheet] = field(default_factory=dict)

    def changed(self) -> bool:
        """Tell whether anything was decided or came in since the list was read."""
        return self.live.changed()

    def waiting(self) -> shown.ReviewQueue:
        """Return the waiting requests, after expiry and voided approvals are settled."""
        self.live.follow(always=True)
        decisions.sweep(self.live.ws, self.tampered)
        self.live.follow(always=False)  # takes in what the sweep itself changed
        aside: dict[str, HandoffTampered] = {}
        ws, index = self.live.ws, self.live.index
        items = listed(ws, index, WAITING, limit=MAX_LISTED, skip=0, aside=aside)
        found = tuple(map(self._waiting, items))
        self.tampered |= aside
        wrong = {one: f"{exc.message} [{exc.code}]" for one, exc in self.tampered.items()}
        return shown.ReviewQueue(found, total(index, WAITING) - len(aside), wrong)

    def state(self, request_id: str) -> str:
        """Return the state of a request that no longer waits."""
        place = self.live.ws.store.locate(request_id)
        return "gone" if place is None else state_of(place)

    def sheet(self, request_id: str) -> shown.OpenedSheet:
        """Return everything about a request; the same again as long as nothing changed."""
        self.live.follow(always=True)
        found = read_sheet(self.live.ws, request_id, self.live.index)
        before = self._shown.get(request_id)
        if before is not None and replace(found, now=before.now) == before:
            found = before  # only its age differs: the seen rows stay seen
        self._shown[request_id] = found
        words = statement(found, uses=1, begin=found.now, end=found.now + 1).split("\n")
        return shown.OpenedSheet(
            request_id,
            document(lines(found), self.spell),
            self._terms(),
            tuple(_notices(found)),
            tuple(words[1:]),  # without the first, about uses and time: they are still chosen
            approval.objection(self.live.ws, found),
        )

    def raw(self, request_id: str) -> PagedDocument:
        """Return the bytes: printable ASCII as it is, backslashes doubled, others in hex."""
        data, _, _ = read_request(self.live.ws, request_id)
        return document(_numbered(data.split(b"\n")), self.spell)

    def approve(self, request_id: str, *, uses: int, seconds: int) -> str:
        """Sign and keep an approval of the sheet that was shown."""
        self.live.follow(always=True)
        sheet, ws = self._shown[request_id], self.live.ws
        terms = approval.Terms(uses, seconds, accept_rule_of_two=sheet.rule_of_two.joined)
        signer, key = self.signing(ws)
        self.tell(f"signing an approval of {request_id}, {counted(uses, 'use')}")
        given = approval.approve(ws, sheet, Patient(signer), key, terms, given="terminal")
        until = f"until {given.approval.not_after}, {counted(uses, 'use')}"
        self.tell(f"approved {request_id} {until}: {given.id}")
        return f"approved {short(request_id)} {until}"

    def deny(self, request_id: str, reason: str) -> str:
        """Deny a request."""
        self.live.follow(always=True)
        decisions.deny(self.live.ws, request_id, reason)
        return f"denied {short(request_id)}"

    # -- helpers -------------------------------------------------------------------------

    def _waiting(self, item: QueueItem) -> shown.WaitingRequest:
        first = item.purpose.partition("\n")[0][:_PURPOSE_CHARS]
        purpose = self.spell(exposed(first))
        about = (item.id, item.state, item.origin, item.age_seconds)
        return shown.WaitingRequest(*about, item.flags, purpose)

    def _terms(self) -> shown.TermsChoice:
        bounds = approval.TermBounds.of(self.live.ws.bundle)
        return shown.TermsChoice(1, bounds.usual_seconds, bounds)


@dataclass(frozen=True, slots=True)
class Patient:
    """A signer that Ctrl-C interrupts without ending the review: then nothing is signed."""

    signer: Signer

    @property
    def kind(self) -> str:
        """What protects the key."""
        return kind_of(self.signer)

    def sign(self, message: bytes, namespace: str) -> bytes:
        """Return the signature, or raise `GateUnavailable`."""
        try:
            return self.signer.sign(message, namespace)
        except KeyboardInterrupt as exc:
            raise GateUnavailable("signing was interrupted", code="TG-KEY-014") from exc


def _notices(sheet: ReviewSheet) -> Iterable[str]:
    """Yield warnings about parts of the request that are easily overlooked."""
    if sheet.flags:
        yield f"! {counted(len(sheet.flags), 'flag')}: {', '.join(_names(sheet))}"
    if sheet.rule_of_two.joined:
        yield "! joins external input, confidential data and network: y accepts that by name"


def _names(sheet: ReviewSheet) -> list[str]:
    return sorted({flag.name for flag in sheet.flags})


def _numbered(rows: Iterable[bytes]) -> Iterable[StyledLine]:
    for number, row in enumerate(rows, 1):
        head = StyledSpan(f"{number:>5} | ", "dim")
        yield StyledLine((StyledSpan(spelled_bytes(row)),), head, _AGAIN)
