"""A run of FETCH: wishes in, packets in the workspace out, everything in the audit chain.

One thread, the one that calls, owns the workspace: it plans, writes the log, checks and stores.
Askers, makers and the proxy's supervisor tell it what happens through one queue.  Running the
same wishes again is resuming: what is here is not asked for, what failed is tried again.

SECURITY
    Takes what boxes say as bytes.  No question leaves before its entry in the log is
    durable; if the log cannot be written, nothing is asked.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from queue import Empty
from typing import Final

from threegate.artifacts.references import Question
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import (
    ArtifactRejected,
    PolicyDenied,
    ProtocolBroken,
    ThreeGateError,
)
from threegate.gates.fetch.retrieve.messages import FetchQuestion, Got
from threegate.handoff import states
from threegate.host.fetch import network, normalize_pool, schedule
from threegate.host.fetch.advice import no_network, unknown
from threegate.host.fetch.items import Item
from threegate.host.fetch.log_entries import Recorder
from threegate.host.fetch.normalize_pool import job_for
from threegate.host.fetch.pace import NO_NETWORK
from threegate.host.fetch.plan import Wish, host_of, judged, refusal
from threegate.host.fetch.ports import Credentials, Moment, Report, Sides, Told
from threegate.host.fetch.retrieve_pool import failed
from threegate.host.fetch.rules import rule_for
from threegate.host.fetch.schedule import Errand, Key
from threegate.host.fetch.storage import Shelf
from threegate.host.workspace import applied
from threegate.host.workspace.fetched import Cache, Known, not_older
from threegate.host.workspace.workspace import Workspace

MOST_ITEMS: Final = 64  # under way at once
MOST_DOCUMENTS: Final = 8  # of them with a document, which may be as large as a rule allows
MOST_BYTES: Final = 256 * 1024 * 1024  # held by all of them
TICK_SECONDS: Final = 0.25
PATIENCE_SECONDS: Final = 10.0  # for what is on its way when a run is stopped
LOOK_SECONDS: Final = 1.0  # between two looks whether another policy was applied
NO_RECORD: Final = "TG-FET-077"
UNKNOWN: Final = "TG-NRM-003"  # no source knows the work: nothing to keep, nothing wrong


class Run:
    """One run; used once, by one thread."""

    def __init__(
        self,
        ws: Workspace,
        sides: Sides,
        *,
        credentials: Credentials,
        max_age_seconds: int,
        show: Callable[[Moment], None] = lambda _: None,
    ) -> None:
        self._ws, self._sides, self._bundle = ws, sides, ws.bundle
        self._credentials, self._max_age, self._show = credentials, max_age_seconds, show
        self._recorder = Recorder(ws.store)
        self._cache = Cache(ws.store, ws.seals)
        self._shelf = Shelf(ws.store, self._cache, ws.now)
        self._items: dict[int, Item] = {}
        self._changed: set[int] = set()  # items to look at again
        self._under_way: dict[Key, Known | None] = {}
        self._opened, self._halted = False, 0.0  # when it was stopped, if it was
        self._fatal: Exception | None = None
        self._unmade = False  # a maker ended with its job: nobody will answer for it
        self._looked, self._pointer = time.monotonic(), self._in_force()

    def fetch(
        self, wishes: Sequence[Wish], *, stop: Callable[[], bool] = lambda: False
    ) -> Generator[Report, None, None]:
        """Retrieve every wish and say of each what became of it.

        Once `stop` says so nothing more is asked; what is complete is stored.  Raises what
        ended the run early, after storing the same.
        """
        waiting = deque(enumerate(wishes))
        try:
            while waiting or self._items:
                if (stop() or self._fatal is not None) and not self._halted:
                    self._halted = time.monotonic()
                    self._sides.asks.stop()
                if self._halted:
                    waiting.clear()
                    self._drop_incomplete()
                else:
                    yield from self._begin(waiting)
                    self._look_at_policy()
                yield from self._ask_due()
                if self._items:
                    yield from self._hear()
        finally:
            self._close()
        if self._fatal is not None:
            raise self._fatal

    # -- beginning and asking ------------------------------------------------------

    def _begin(self, waiting: "deque[tuple[int, Wish]]") -> Iterator[Report]:
        while waiting and self._has_room(waiting[0][1]):
            number, wish = waiting.popleft()
            error = refusal(self._bundle, wish)
            known = self._here(wish)
            if error is not None:
                yield Report(number, wish, "refused", error=error)
            elif known is not None:
                yield Report(number, wish, "already", *known)
            else:
                self._items[number] = Item(number, wish)
                self._changed.add(number)
        self._sides.makes.expect(len(self._items) + len(waiting))

    def _has_room(self, wish: Wish) -> bool:
        """Tell whether one more may be under way: what was retrieved is held in memory."""
        items = self._items.values()
        documents = sum(item.wish.wants_document for item in items)
        few = len(items) < MOST_ITEMS and sum(item.size for item in items) < MOST_BYTES
        return few and not (wish.wants_document and documents >= MOST_DOCUMENTS)

    def _here(self, wish: Wish) -> tuple[str, ResearchPacket] | None:
        """Return the packet that makes asking unnecessary; what was approved is asked for."""
        if wish.leave is not None or self._max_age == 0:
            return None
        since = not_older(self._ws.clock(), self._max_age)
        found = self._cache.newest(wish.plan, since=since)
        packet = None if found is None else self._ws.store.read(found)
        if found is None or not isinstance(packet, ResearchPacket):
            return None
        same = packet.reference.open_for_validation() == wish.reference
        return (found, packet) if same else None

    def _ask_due(self) -> Iterator[Report]:
        """Announce and send every question that is due; make what is complete."""
        errands: list[Errand] = []
        while self._changed:
            item = self._items[min(self._changed)]  # in the order they were named
            self._changed.remove(item.number)
            if not self._halted:
                for index, question in item.due():
                    self._prepare(item, index, question, errands)
            if item.is_complete and item.answers:
                self._show(Moment(item.number, item.wish.reference, "making the packet"))
                self._sides.makes.submit(job_for(item.number, item.record(), item.raws()))
            elif item.is_complete:
                yield self._failed(item)
        if errands:
            self._send(errands)

    def _prepare(self, item: Item, index: int, question: Question, errands: list[Errand]) -> None:
        refused = judged(self._bundle, item.wish, question)
        if refused is not None:
            item.missed(index, refused)
            self._changed.add(item.number)
            return
        known = self._cache.known(question, item.wish.confidentiality)
        errand = self._errand(item, index, question, known)
        self._under_way[errand.key] = known
        errands.append(errand)

    def _errand(self, item: Item, index: int, question: Question, known: Known | None) -> Errand:
        host = host_of(question)
        rule = rule_for(self._bundle, host)
        assert rule is not None, "the question was judged"
        leave = item.wish.leave
        ask = FetchQuestion(
            question.url,
            question.accept,
            rule.response_bytes,
            etag=None if known is None else known.etag,
            last_modified=None if known is None else known.last_modified,
            credential=self._credentials(self._bundle, host),
            authority=None if leave is None else leave.authority,
        )
        return Errand((item.number, index), host, ask, item.wish.confidentiality)

    def _send(self, errands: Sequence[Errand]) -> None:
        if not self._opened:
            self._opened = True
            self._sides.asks.open()
            self._recorder.rules(self._bundle)
        for errand in errands:
            number, index = errand.key
            wish = self._items[number].wish
            keyed = errand.ask.credential is not None
            self._recorder.asked(wish, wish.questions[index], keyed=keyed)
        self._recorder.write(durable=True)
        for errand in errands:
            self._sides.asks.submit(errand)

    # -- hearing -------------------------------------------------------------------

    def _hear(self) -> Iterator[Report]:
        """Take what was told, waiting a moment for the first.

        Not without end: whoever tells more than we write must not keep us from looking up.
        """
        try:
            told = self._sides.told.get(timeout=TICK_SECONDS)
            while not self._recorder.is_full:
                yield from self._take(told)
                told = self._sides.told.get_nowait()
            yield from self._take(told)
        except Empty:
            pass
        self._recorder.write()

    def _take(self, told: Told) -> Iterator[Report]:
        match told:
            case network.Decided(line):
                self._recorder.decided(line)
            case network.Opened(evidence, host):
                self._recorder.box(evidence, host)
            case network.Gone(error) | schedule.Broken(error):
                self._fatal = self._fatal or error
            case normalize_pool.Stopped(error):
                self._fatal, self._unmade = self._fatal or error, True
            case schedule.Asking(errand):
                self._moment(errand, f"asking {errand.host}")
            case schedule.Waiting(errand, seconds, why):
                words = f"waiting {seconds:.0f} s for {errand.host}: {why}"
                self._moment(errand, words, seconds)
            case schedule.Done():
                self._done(told)
            case normalize_pool.Answered(number):
                item = self._items.pop(number, None)
                if item is not None:
                    yield self._made(item, told)

    def _moment(self, errand: Errand, words: str, seconds: float = 0.0) -> None:
        item = self._items.get(errand.key[0])
        if item is not None:
            self._show(Moment(item.number, item.wish.reference, words, seconds))

    def _done(self, told: schedule.Done) -> None:
        number, index = told.errand.key
        known, item = self._under_way.pop(told.errand.key, None), self._items.get(number)
        if item is None:  # it was given up
            return
        answer, question = told.answer, item.wish.questions[index]
        self._changed.add(number)
        if answer is None:  # the run was stopped before it left
            return
        if not isinstance(answer, Got) and answer.code == NO_NETWORK:
            self._fatal = self._fatal or no_network()  # the same for every other question
            self._recorder.answered(question, answer, told.tries)
            return
        if isinstance(answer, Got):
            try:
                self._take_answer(item, index, answer, known)
            except ProtocolBroken as exc:  # a URL that grew beyond its bound, a time out of range
                item.missed(index, failed(NO_RECORD, f"cannot be recorded: {exc.message}"))
        else:
            item.missed(index, answer)
        self._recorder.answered(question, answer, told.tries)

    def _take_answer(self, item: Item, index: int, got: Got, known: Known | None) -> None:
        if got.status == 200:
            kept = item.answered(index, got, self._ws.now())
            # After a redirect the validator is another host's, and the first is asked with it.
            if kept is not None and not got.hops:
                question = item.wish.questions[index]
                self._shelf.expect(item.number, question, replace(got, body=b""), kept)
            return
        assert known is not None, "nobody else is told that nothing changed"
        try:
            body = self._ws.store.read_file(states.BLOBS, known.answer.sha256)
        except FileNotFoundError:
            item.missed(index, failed(NO_RECORD, "what did not change was forgotten meanwhile"))
            return
        item.unchanged(index, known.answer, body)

    # -- ends ----------------------------------------------------------------------

    def _made(self, item: Item, told: normalize_pool.Answered) -> Report:
        wish, record, raws = item.wish, item.record(), item.raws()
        self._recorder.write()
        try:
            packet, packet_id, new = self._shelf.store(wish, item.number, record, raws, told)
        except ArtifactRejected as exc:
            # A document is read or unreadable: a box that calls it unknown hides what it read.
            if exc.code == UNKNOWN and not any(one.role == "document" for one in record.answers):
                error = unknown(wish, exc)
                self._recorder.failed(wish, error)
                return Report(item.number, wish, "failed", hosts=item.hosts, error=error)
            kept = self._shelf.refuse(exc, record, raws, told)
            self._recorder.failed(wish, exc)
            return Report(item.number, wish, "refused", hosts=item.hosts, error=exc, kept=kept)
        status = "made" if new else "already"
        return Report(item.number, wish, status, packet_id, packet, item.hosts)

    def _failed(self, item: Item) -> Report:
        del self._items[item.number]
        error = item.failure()
        self._recorder.failed(item.wish, error)
        status = "refused" if error.exit_code == 77 else "failed"
        return Report(item.number, item.wish, status, hosts=item.hosts, error=error)

    def _drop_incomplete(self) -> None:
        """Give up what cannot be completed; answers that can be asked for again cheaply stay."""
        late = time.monotonic() - self._halted > PATIENCE_SECONDS
        if late:
            self._under_way.clear()
        busy = {number for number, _ in self._under_way}
        for number in [*self._items]:
            item = self._items[number]
            lost = late and self._unmade if item.is_complete else number not in busy
            if lost:
                self._shelf.keep(number, item.record(), item.raws())
                self._changed.discard(number)
                del self._items[number]

    def _in_force(self) -> str | None:
        """Return the pointer to the policy in force, which must be the one we were given."""
        store = self._ws.store
        with store.locked() as journal:
            if applied.read_current(store).digest != self._bundle.digest:
                raise PolicyDenied("the policy was changed meanwhile", hint="run it again")
            return journal.current

    def _look_at_policy(self) -> None:
        """Put another policy in force that was applied meanwhile, for all that is still to come."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked, store = time.monotonic(), self._ws.store
        with store.locked() as journal:
            if journal.current == self._pointer:
                return
            self._pointer, self._bundle = journal.current, applied.read_current(store)
        store.journal.quotas = applied.quotas_of(self._bundle)
        try:
            self._sides.makes.reload(self._bundle)
            if self._opened:
                self._sides.asks.reload(self._bundle)
                self._recorder.rules(self._bundle)
        except ThreeGateError as exc:  # what is complete is stored first
            self._fatal = self._fatal or exc

    def _close(self) -> None:
        """End both sides, and record what they told last."""
        try:
            self._sides.asks.close()
            self._sides.makes.close()
        finally:
            while not self._sides.told.empty():
                told = self._sides.told.get()
                if isinstance(told, network.Decided):
                    self._recorder.decided(told.line)
                elif isinstance(told, network.Gone):
                    self._fatal = self._fatal or told.error
            self._recorder.write(durable=True)
            self._cache.close()
