"""What the run writes into the audit chain: questions before they leave, what came of them.

No question leaves before its entry is durable; if the log cannot be written, none does.
Used by one thread, the one that owns the workspace.
"""

from collections.abc import Mapping
from typing import Any, Final

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.references import Question, without_contact
from threegate.audit.writer import Events
from threegate.base.errors import ThreeGateError
from threegate.base.text import visible
from threegate.gates.fetch.retrieve.messages import Got, NotGot
from threegate.handoff.store import Store
from threegate.host.fetch.plan import Wish
from threegate.host.proxy.decisions import KIND as DECIDED
from threegate.policy.bundle import Bundle
from threegate.sandbox.launch import Evidence

ASKED: Final = "fetch.asked"
ANSWERED: Final = "fetch.answered"
FAILED: Final = "fetch.failed"
BOX: Final = "fetch.box"
RULES: Final = "fetch.rules"
MOST_HELD: Final = 128  # entries that wait for a write


class Recorder:
    """Collects entries, and writes them together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: list[tuple[str, Mapping[str, Any]]] = []

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Keep an entry for the next write, which comes soon."""
        self._held.append((kind, data))

    @property
    def is_full(self) -> bool:
        """Tell whether it is time to write."""
        return len(self._held) >= MOST_HELD

    def asked(self, wish: Wish, question: Question, *, keyed: bool) -> None:
        """Announce a question; a key that goes with it is not part of this URL."""
        about = {"reference": wish.reference, "request": wish.request_id}
        asked = {"role": question.role, "source": question.source, "url": question.shown}
        self.note(ASKED, {**about, **asked, "credential": keyed})

    def answered(self, question: Question, answer: Got | NotGot, tries: int) -> None:
        """Keep what came of a question."""
        hops = [[without_contact(url), status] for url, status in answer.hops]
        data: dict[str, Any] = {
            "asked": question.shown,
            "hops": hops,
            "status": answer.status,
            "tries": tries,
        }
        if isinstance(answer, Got):
            data |= {"bytes": len(answer.body), "sha256": sha256_hex(answer.body)}
            data |= {"limits": dict(answer.limits), "trust_anchor": answer.trust_anchor}
            data["url"] = without_contact(answer.url)
        else:
            data |= {"code": answer.code, "reason": answer.reason, "why": visible(answer.message)}
            data["url"] = None if answer.url is None else without_contact(answer.url)
        self.note(ANSWERED, data)

    def failed(self, wish: Wish, error: ThreeGateError) -> None:
        """Keep why a wish came to nothing."""
        about = {"reference": wish.reference, "request": wish.request_id}
        self.note(FAILED, {**about, "code": error.code, "why": visible(error.message)})

    def decided(self, line: Mapping[str, Any]) -> None:
        """Keep a decision of the proxy."""
        self.note(DECIDED, line)

    def box(self, evidence: Evidence, host: str | None) -> None:
        """Keep what confines a box that was started, and which host it asks."""
        self.note(BOX, {**evidence.plain(), "host": host})

    def rules(self, bundle: Bundle) -> None:
        """Keep which policy holds for questions from now on."""
        proxy = bundle.text("fetch", "proxy")
        self.note(RULES, {"generation": bundle.generation, "policy": bundle.digest, "proxy": proxy})

    def write(self, *, durable: bool = False) -> None:
        """Write what is kept; `durable` before something happens that it announces."""
        if not self._held:
            return
        events: Events = list(self._held)
        with self._store.locked() as journal:
            journal.log.append(events, durable=durable)
        self._held.clear()
