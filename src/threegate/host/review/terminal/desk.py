"""The workspace as the interactive review uses it.

SECURITY
    What is approved is the sheet that was shown: it is kept here from the moment it was read,
    with its bytes and the digest of the policy it was judged by.  Foreign text leaves this
    module only as lines that are spelled out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.artifacts.ids import short
from threegate.base.errors import GateUnavailable, HandoffTampered, ThreeGateError
from threegate.handoff.states import state_of
from threegate.host.keys.signatures import Signer, kind_of
from threegate.host.output import counted
from threegate.host.review import approval, decisions
from threegate.host.review.approval import Signing, statement
from threegate.host.review.characters import exposed
from threegate.host.review.parts import StyledLine, StyledSpan
from threegate.host.review.render import lines
from threegate.host.review.requests import WAITING, read_request
from threegate.host.review.sheet import QueueItem, Sheet, listed, read_sheet, total
from threegate.host.review.terminal import state as shown
from threegate.host.review.terminal.cells import Spell
from threegate.host.review.terminal.pager import PagedDocument, document
from threegate.host.workspace.changes import Mark, followed, mark_of
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace

MAX_LISTED: Final = 200  # the oldest; the others come up as these are decided
_PURPOSE_CHARS: Final = 300
_AGAIN: Final = StyledSpan("      : ", "dim")


@dataclass
class WorkspaceDesk:
    """One open workspace; `tell` speaks on the terminal while somebody else has it."""

    ws: Workspace
    index: Index
    signing: Signing
    tell: Callable[[str], None]
    spell: Spell
    meddled: dict[str, HandoffTampered] = field(default_factory=dict)  # all that were found so far
    _shown: dict[str, Sheet] = field(default_factory=dict)
    _mark: Mark = ("", 0)

    def changed(self) -> bool:
        """Tell whether the log grew: everything that happens is announced there."""
        return mark_of(self.ws.root) != self._mark

    def waiting(self) -> shown.ReviewQueue:
        """Return the requests that wait, after time and policy decided theirs."""
        self._follow()
        decisions.sweep(self.ws, self.meddled)
        self._mark = mark_of(self.ws.root)
        self.index.catch_up(_silent)
        aside: dict[str, HandoffTampered] = {}
        items = listed(self.ws, self.index, WAITING, limit=MAX_LISTED, skip=0, aside=aside)
        found = tuple(map(self._waiting, items))
        self.meddled |= aside
        wrong = {one: f"{exc.message} [{exc.code}]" for one, exc in self.meddled.items()}
        return shown.ReviewQueue(found, total(self.index, WAITING) - len(aside), wrong)

    def fate(self, request_id: str) -> str:
        """Return where a request is that waits no more."""
        place = self.ws.store.locate(request_id)
        return "gone" if place is None else state_of(place)

    def sheet(self, request_id: str) -> shown.OpenedSheet:
        """Return everything about a request; the same again as long as nothing changed."""
        self._follow()
        self.index.catch_up(_silent)
        found = read_sheet(self.ws, request_id, self.index)
        before = self._shown.get(request_id)
        if before is not None and replace(found, now=before.now) == before:
            found = before  # only its age is another: what was seen of it stays seen
        self._shown[request_id] = found
        words = statement(found, uses=1, begin=found.now, end=found.now + 1).split("\n")
        return shown.OpenedSheet(
            request_id,
            document(lines(found), self.spell),
            self._terms(),
            tuple(_notices(found)),
            tuple(words[1:]),  # the first one is about uses and time, which are still chosen
            self._refusal(found),
        )

    def raw(self, request_id: str) -> PagedDocument:
        """Return the bytes: printable ASCII as it is, backslashes doubled, others in hex."""
        data, _, _ = read_request(self.ws, request_id)
        rows = data.decode("latin-1").split("\n")
        return document(_numbered(rows), self.spell)

    def approve(self, request_id: str, *, uses: int, seconds: int) -> str:
        """Sign and keep an approval of the sheet that was shown."""
        self._follow()
        sheet = self._shown[request_id]
        terms = approval.Terms(uses, seconds, accept_rule_of_two=sheet.rule_of_two.joined)
        signer, key = self.signing(self.ws)
        self.tell(f"signing an approval of {request_id}, {counted(uses, 'use')}")
        given = approval.approve(self.ws, sheet, Patient(signer), key, terms, given="terminal")
        until = f"until {given.approval.not_after}, {counted(uses, 'use')}"
        self.tell(f"approved {request_id} {until}: {given.id}")
        return f"approved {short(request_id)} {until}"

    def deny(self, request_id: str, reason: str) -> str:
        """Deny a request."""
        self._follow()
        decisions.deny(self.ws, request_id, reason)
        return f"denied {short(request_id)}"

    # -- helpers -------------------------------------------------------------------------

    def _follow(self) -> None:
        self.ws = followed(self.ws)

    def _waiting(self, item: QueueItem) -> shown.WaitingRequest:
        first = item.purpose.partition("\n")[0][:_PURPOSE_CHARS]
        purpose = self.spell(exposed(first))
        about = (item.id, item.state, item.origin, item.age_seconds)
        return shown.WaitingRequest(*about, item.flags, purpose)

    def _terms(self) -> shown.TermsChoice:
        path = ("handoff", "approval")
        usual = self.ws.bundle.integer(*path, "lifetime_seconds")
        return shown.TermsChoice(
            uses=1,
            seconds=usual,
            usual_seconds=usual,
            max_uses=self.ws.bundle.integer(*path, "max_uses"),
            max_seconds=self.ws.bundle.integer(*path, "max_lifetime_seconds"),
        )

    def _refusal(self, sheet: Sheet) -> str:
        """Return what stands against any approval, so that nobody is asked in vain."""
        try:
            approval.refuse(self.ws, sheet, approval.Terms(accept_rule_of_two=True))
        except ThreeGateError as exc:
            return f"{exc.message} [{exc.code}]"
        return ""


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


def _notices(sheet: Sheet) -> Iterable[str]:
    """Yield what the reviewer says yes to that is easily forgotten."""
    if sheet.flags:
        yield f"! {counted(len(sheet.flags), 'flag')}: {', '.join(_names(sheet))}"
    if sheet.rule_of_two.joined:
        yield "! joins external input, confidential data and network: y accepts that by name"


def _names(sheet: Sheet) -> list[str]:
    return sorted({flag.name for flag in sheet.flags})


def _numbered(rows: Iterable[str]) -> Iterable[StyledLine]:
    for number, row in enumerate(rows, 1):
        text = row.replace("\\", "\\\\")
        words = "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" for c in text)
        yield StyledLine((StyledSpan(words),), StyledSpan(f"{number:>5} | ", "dim"), _AGAIN)


def _silent(_: int, __: int) -> None:
    return None
