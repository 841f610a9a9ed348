"""A run of FETCH: targets in, packets in the workspace out, every step in the audit log.

The calling thread owns the workspace: it plans, writes the log, checks and stores.  The threads
that ask, the threads that make packets and the proxy's supervisor send it events through one
queue.  Running the same targets again resumes: stored packets are not asked for, failures are
tried again.

SECURITY
    Treats everything from sandboxes as bytes to parse.  No question leaves before its log entry is
    durable; if the log cannot be written, nothing is asked.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
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
from threegate.host.fetch.host_rules import NO_NETWORK, rule_for
from threegate.host.fetch.items import FetchItem, FetchMoment, FetchReport, no_network, unknown
from threegate.host.fetch.normalize_pool import job_for
from threegate.host.fetch.open_access import has_document, may_follow, notes_on, open_copies
from threegate.host.fetch.ports import Credentials, FetchEvent, Normalization, Retrieval
from threegate.host.fetch.retrieve_pool import failed
from threegate.host.fetch.schedule import FetchTask, Key
from threegate.host.fetch.storage import FetchLog, PacketStore, parse_packet
from threegate.host.fetch.targets import FetchTarget, host_of, judged, refusal
from threegate.host.workspace import applied
from threegate.host.workspace.fetched import FetchCache, KnownAnswer, not_older
from threegate.host.workspace.workspace import Workspace

MOST_ITEMS: Final = 64  # under way at once
MOST_DOCUMENTS: Final = 8  # under way with a document, which may be as large as a rule allows
MOST_BYTES: Final = 256 * 1024 * 1024  # held in memory
TICK_SECONDS: Final = 0.25
PATIENCE_SECONDS: Final = 10.0  # for questions under way when a run is stopped
LOOK_SECONDS: Final = 1.0  # between two checks for a new policy
NO_RECORD: Final = "TG-FET-077"
UNKNOWN: Final = "TG-NRM-003"  # no source knows the work


class FetchRun:
    """One run, used once by one thread."""

    def __init__(
        self,
        ws: Workspace,
        events: "SimpleQueue[FetchEvent]",
        retrieval: Retrieval,
        normalization: Normalization,
        *,
        credentials: Credentials,
        max_age_seconds: int,
        show: Callable[[FetchMoment], None] = lambda _: None,
    ) -> None:
        self._ws, self._bundle, self._events = ws, ws.bundle, events
        self._retrieval, self._normalization = retrieval, normalization
        self._credentials, self._max_age, self._show = credentials, max_age_seconds, show
        self._log = FetchLog(ws.store)
        self._cache = FetchCache(ws.store, ws.seals)
        self._packets = PacketStore(ws.store, self._cache, ws.now)
        self._items: dict[int, FetchItem] = {}
        self._changed: set[int] = set()  # items to look at again
        self._under_way: dict[Key, KnownAnswer | None] = {}
        self._opened, self._halted = False, 0.0  # when it was stopped, if it was
        self._fatal: Exception | None = None
        self._unmade = False  # a thread that makes packets ended: its job gets no answer
        self._looked, self._pointer = time.monotonic(), self._in_force()

    def fetch(
        self, targets: Sequence[FetchTarget], *, stop: Callable[[], bool] = lambda: False
    ) -> Generator[FetchReport, None, None]:
        """Retrieve every target and yield a report for each.

        After `stop` returns true nothing more is asked, and complete items are stored.  Raises the
        error that ended the run early, after storing them too.
        """
        waiting = deque(enumerate(targets))
        try:
            while waiting or self._items:
                if (stop() or self._fatal is not None) and not self._halted:
                    self._halted = time.monotonic()
                    self._retrieval.stop()
                if self._halted:
                    waiting.clear()
                    self._drop_incomplete()
                else:
                    yield from self._begin(waiting)
                    self._look_at_policy()
                yield from self._ask_due()
                if self._items:
                    yield from self._take_events()
        finally:
            self._close()
        if self._fatal is not None:
            raise self._fatal

    # -- beginning and asking ------------------------------------------------------

    def _begin(self, waiting: "deque[tuple[int, FetchTarget]]") -> Iterator[FetchReport]:
        while waiting and self._has_room(waiting[0][1]):
            number, target = waiting.popleft()
            error = refusal(self._bundle, target)
            known = self._here(target)
            if error is not None:
                yield FetchReport(number, target, "refused", error=error)
            elif known is not None:
                notes = notes_on(self._bundle, target, known[1])
                yield FetchReport(number, target, "already", *known, notes=notes)
            else:
                self._items[number] = FetchItem(number, target)
                self._changed.add(number)
        self._normalization.expect(len(self._items) + len(waiting))

    def _has_room(self, target: FetchTarget) -> bool:
        """Tell whether one more may be under way: answers are held in memory."""
        items = self._items.values()
        documents = sum(item.target.wants_document for item in items)
        few = len(items) < MOST_ITEMS and sum(item.size for item in items) < MOST_BYTES
        return few and not (target.wants_document and documents >= MOST_DOCUMENTS)

    def _here(self, target: FetchTarget) -> tuple[str, ResearchPacket] | None:
        """Return a recent packet of the same questions; approved requests are always asked."""
        if target.approved is not None or self._max_age == 0:
            return None
        since = not_older(self._ws.clock(), self._max_age)
        found = self._cache.newest(target.plan, since=since)
        packet = None if found is None else self._ws.store.read(found)
        if found is None or not isinstance(packet, ResearchPacket):
            return None
        same = packet.reference.open_for_validation() == target.reference
        return (found, packet) if same else None

    def _ask_due(self) -> Iterator[FetchReport]:
        """Record and send every due question; submit complete items."""
        tasks: list[FetchTask] = []
        while self._changed:
            item = self._items[min(self._changed)]  # in the order they were named
            self._changed.remove(item.number)
            if not self._halted:
                for index, question in item.due():
                    self._prepare(item, index, question, tasks)
            if item.is_complete and item.answers:
                self._show(FetchMoment(item.number, item.target.reference, "making the packet"))
                self._normalization.submit(job_for(item.number, item.record(), item.raws()))
            elif item.is_complete:
                yield self._failed(item)
        if tasks:
            self._send(tasks)

    def _prepare(
        self, item: FetchItem, index: int, question: Question, tasks: list[FetchTask]
    ) -> None:
        refused = judged(self._bundle, item.target, question)
        if refused is not None:
            item.missed(index, refused)
            self._changed.add(item.number)
            return
        known = self._cache.known(question, item.target.confidentiality)
        task = self._task(item, index, question, known)
        self._under_way[task.key] = known
        tasks.append(task)

    def _task(
        self, item: FetchItem, index: int, question: Question, known: KnownAnswer | None
    ) -> FetchTask:
        host = host_of(question)
        rule = rule_for(self._bundle, host)
        assert rule is not None, "the question was judged"
        approved = item.target.approved
        ask = FetchQuestion(
            question.url,
            question.accept,
            rule.response_bytes,
            etag=None if known is None else known.etag,
            last_modified=None if known is None else known.last_modified,
            # An address that a source named never gets the operator's key.
            credential=None if item.is_followed(index) else self._credentials(self._bundle, host),
            authority=None if approved is None else approved.authority,
        )
        return FetchTask((item.number, index), host, ask, item.target.confidentiality)

    def _send(self, tasks: Sequence[FetchTask]) -> None:
        if not self._opened:
            self._opened = True
            self._retrieval.open()
            self._log.rules(self._bundle)
        for task in tasks:
            number, index = task.key
            item, keyed = self._items[number], task.ask.credential is not None
            self._log.asked(item.target, item.questions[index], keyed=keyed)
        self._log.write(durable=True)
        for task in tasks:
            self._retrieval.submit(task)

    # -- events --------------------------------------------------------------------

    def _take_events(self) -> Iterator[FetchReport]:
        """Take the waiting events, after a short wait for the first.

        Bounded: a sender of endless events must not keep the run from its other work.
        """
        try:
            told = self._events.get(timeout=TICK_SECONDS)
            while not self._log.is_full:
                yield from self._take(told)
                told = self._events.get_nowait()
            yield from self._take(told)
        except Empty:
            pass
        self._log.write()

    def _take(self, told: FetchEvent) -> Iterator[FetchReport]:
        match told:
            case network.ProxyDecided(line):
                self._log.decided(line)
            case network.BoxOpened(evidence, host):
                self._log.box(evidence, host)
            case network.ProxyGone(error) | schedule.ScheduleBroken(error):
                self._fatal = self._fatal or error
            case normalize_pool.Stopped(error):
                self._fatal, self._unmade = self._fatal or error, True
            case schedule.TaskStarted(task):
                self._moment(task, f"asking {task.host}")
            case schedule.TaskWaiting(task, seconds, why):
                words = f"waiting {seconds:.0f} s for {task.host}: {why}"
                self._moment(task, words, seconds)
            case schedule.TaskDone():
                self._done(told)
            case normalize_pool.Answered(number):
                item = self._items.get(number)
                if item is not None and not self._asks_copy(item, told):
                    del self._items[number]
                    yield self._made(item, told)

    def _moment(self, task: FetchTask, words: str, seconds: float = 0.0) -> None:
        item = self._items.get(task.key[0])
        if item is not None:
            self._show(FetchMoment(item.number, item.target.reference, words, seconds))

    def _done(self, told: schedule.TaskDone) -> None:
        number, index = told.task.key
        known, item = self._under_way.pop(told.task.key, None), self._items.get(number)
        if item is None:  # it was abandoned
            return
        answer, question = told.answer, item.questions[index]
        self._changed.add(number)
        if answer is None:  # the run was stopped before it left
            return
        if not isinstance(answer, Got) and answer.code == NO_NETWORK:
            self._fatal = self._fatal or no_network()  # the same for every other question
            self._log.answered(question, answer, told.tries)
            return
        if isinstance(answer, Got):
            try:
                self._take_answer(item, index, answer, known)
            except ProtocolBroken as exc:  # a URL beyond its bound, a time out of range
                item.missed(index, failed(NO_RECORD, f"cannot be recorded: {exc.message}"))
        else:
            item.missed(index, answer)
        self._log.answered(question, answer, told.tries)

    def _take_answer(
        self, item: FetchItem, index: int, got: Got, known: KnownAnswer | None
    ) -> None:
        if got.status == 200:
            kept = item.answered(index, got, self._ws.now())
            # After a redirect the validator belongs to another host.
            if kept is not None and not got.hops:
                question = item.questions[index]
                self._packets.expect(item.number, question, replace(got, body=b""), kept)
            return
        assert known is not None, "only a conditional question can be answered with 304"
        try:
            body = self._ws.store.read_file(states.BLOBS, known.answer.sha256)
        except FileNotFoundError:
            item.missed(index, failed(NO_RECORD, "the unchanged answer was forgotten meanwhile"))
            return
        item.unchanged(index, known.answer, body)

    def _asks_copy(self, item: FetchItem, told: normalize_pool.Answered) -> bool:
        """Add the question for the next open copy, if one is wanted; tell whether it did."""
        if told.packet is None or not may_follow(item.target):
            return False
        try:
            packet = parse_packet(told.packet, item.record())
        except ArtifactRejected:  # refused for good in `_made`
            return False
        if item.copies is None:  # only now: no document was read yet
            item.copies = deque(open_copies(self._bundle, item.target, packet).questions)
        if has_document(packet) or not item.copies:
            return False
        item.followed.append(item.copies.popleft())
        self._changed.add(item.number)
        return True

    # -- ends ----------------------------------------------------------------------

    def _made(self, item: FetchItem, told: normalize_pool.Answered) -> FetchReport:
        target, record, raws = item.target, item.record(), item.raws()
        self._log.write()
        try:
            packet, packet_id, new = self._packets.store(target, item.number, record, raws, told)
        except ArtifactRejected as exc:
            # A document is read or unreadable: a sandbox that calls it unknown hides what it read.
            if exc.code == UNKNOWN and not any(one.role == "document" for one in record.answers):
                error = unknown(target, exc)
                self._log.failed(target, error)
                return FetchReport(item.number, target, "failed", hosts=item.hosts, error=error)
            kept = self._packets.refuse(exc, record, raws, told)
            self._log.failed(target, exc)
            return FetchReport(
                item.number, target, "refused", hosts=item.hosts, error=exc, kept=kept
            )
        status, notes = "made" if new else "already", notes_on(self._bundle, target, packet)
        return FetchReport(item.number, target, status, packet_id, packet, item.hosts, notes=notes)

    def _failed(self, item: FetchItem) -> FetchReport:
        del self._items[item.number]
        error = item.failure()
        self._log.failed(item.target, error)
        status = "refused" if error.exit_code == 77 else "failed"
        return FetchReport(item.number, item.target, status, hosts=item.hosts, error=error)

    def _drop_incomplete(self) -> None:
        """Abandon incomplete items; answers that make asking again cheap are kept."""
        late = time.monotonic() - self._halted > PATIENCE_SECONDS
        if late:
            self._under_way.clear()
        busy = {number for number, _ in self._under_way}
        for number in [*self._items]:
            item = self._items[number]
            lost = late and self._unmade if item.is_complete else number not in busy
            if lost:
                self._packets.keep(number, item.record(), item.raws())
                self._changed.discard(number)
                del self._items[number]

    def _in_force(self) -> str | None:
        """Return the pointer to the policy in force, which must be the given one."""
        store = self._ws.store
        with store.locked() as journal:
            if applied.read_current(store).digest != self._bundle.digest:
                raise PolicyDenied(
                    "another command changed the policy meanwhile", hint="run it again"
                )
            return journal.current

    def _look_at_policy(self) -> None:
        """Continue under a policy that was applied meanwhile."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked, store = time.monotonic(), self._ws.store
        with store.locked() as journal:
            if journal.current == self._pointer:
                return
            self._pointer, self._bundle = journal.current, applied.read_current(store)
        store.journal.quotas = applied.quotas_of(self._bundle)
        try:
            self._normalization.reload(self._bundle)
            if self._opened:
                self._retrieval.reload(self._bundle)
                self._log.rules(self._bundle)
        except ThreeGateError as exc:  # raised after complete items are stored
            self._fatal = self._fatal or exc

    def _close(self) -> None:
        """End both sides, and record their last events."""
        try:
            self._retrieval.close()
            self._normalization.close()
        finally:
            while not self._events.empty():
                told = self._events.get()
                if isinstance(told, network.ProxyDecided):
                    self._log.decided(told.line)
                elif isinstance(told, network.ProxyGone):
                    self._fatal = self._fatal or told.error
            self._log.write(durable=True)
            self._cache.close()
