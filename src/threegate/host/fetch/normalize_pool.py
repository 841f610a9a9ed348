"""From a record and raw bytes to the bytes of a packet: one fresh box each, never used again.

The box is chosen by what the document is: only the box that has a library for pages, PDF files
or packed files is given one.  A few threads wait for boxes; each keeps one locked and waiting while
there is more to do, so that the next job does not wait for its start.

SECURITY
    Hands hostile bytes to a process without any network, and takes its answer.  What a box
    says is bytes until `checking` has compared them with the record; a box that dies, takes
    too long or answers nonsense is a refusal like any other.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Final

from threegate.artifacts import media_types
from threegate.base.errors import ArtifactRejected, ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import (
    Normalize,
    NormalizeMany,
    PacketMade,
    PacketNotMade,
    RetrievalRecord,
    parse_made,
    parse_many,
)
from threegate.host.fetch.scans import given_tesseract
from threegate.host.gate_profiles import named_failure
from threegate.host.open_box import in_words, open_box
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import (
    FETCH_HTML,
    FETCH_NORMALIZE,
    FETCH_OCR,
    FETCH_OFFICE,
    FETCH_PDF,
    Profile,
)
from threegate.sandbox.session import GateAnswer, Prestarted

MAKERS: Final = 4  # and no more than there are processors
BOX_ENDED: Final = "TG-FET-072"


@dataclass(frozen=True, slots=True)
class NormalizeJob:
    """What one box is given."""

    item: int
    profile: Profile
    asked: Normalize = field(repr=False)

    @property
    def message(self) -> bytes:
        """Return what is sent: made when it is, for jobs may wait and bytes may be many."""
        return self.asked.to_bytes()


@dataclass(frozen=True, slots=True)
class ManyJob:
    """Files of one commit, which one box is given together."""

    items: tuple[int, ...]
    profile: Profile
    asked: NormalizeMany = field(repr=False)

    @property
    def message(self) -> bytes:
        """Return what is sent."""
        return self.asked.to_bytes()


@dataclass(frozen=True, slots=True)
class Answered:
    """The bytes of a packet, or why there are none."""

    item: int
    packet: Untrusted[bytes] | None
    error: ArtifactRejected | None


@dataclass(frozen=True, slots=True)
class AnsweredMany:
    """An answer for each file of a `ManyJob`; none if the box ended or broke the protocol."""

    items: tuple[int, ...]
    answers: tuple[Answered, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """No box can be had."""

    error: Exception


Told = Answered | AnsweredMany | Stopped


def profile_for(record: RetrievalRecord) -> Profile:
    """Return the box that can read the documents of a record, and no more than that."""
    types = {answer.read_as for answer in record.answers if answer.role == "document"}
    if any(map(media_types.languages_of, types)):
        return FETCH_OCR
    if media_types.PDF in types:
        return FETCH_PDF
    if types & media_types.OFFICE:
        return FETCH_OFFICE
    return FETCH_HTML if types & media_types.PAGES else FETCH_NORMALIZE


def job_for(item: int, record: RetrievalRecord, raws: tuple[bytes, ...]) -> NormalizeJob:
    """Return the job of making the packet of a record."""
    return NormalizeJob(item, profile_for(record), Normalize(record.to_bytes(), raws))


def many_job(jobs: Sequence[NormalizeJob]) -> ManyJob:
    """Return the job of making the packets of several files of one commit in one box."""
    pieces = [piece for job in jobs for piece in (job.asked.record, *job.asked.raws)]
    return ManyJob(tuple(job.item for job in jobs), FETCH_NORMALIZE, NormalizeMany(tuple(pieces)))


class Makers:
    """The threads; `tell` is called from them."""

    def __init__(
        self,
        machine: Machine,
        bundle: Bundle,
        *,
        tell: Callable[[Told], None],
        makers: int = min(MAKERS, os.cpu_count() or 1),
    ) -> None:
        self._machine, self._bundle, self._tell = machine, bundle, tell
        self._jobs: SimpleQueue[NormalizeJob | ManyJob | None] = SimpleQueue()
        self._most = makers
        self._left = 0  # jobs that are expected and have not come
        self._threads: list[threading.Thread] = []

    def expect(self, jobs: int) -> None:
        """Say how many jobs may still come: boxes are kept waiting for them."""
        self._left = jobs
        while len(self._threads) < min(self._most, jobs):
            thread = threading.Thread(target=self._work, name="normalize", daemon=True)
            self._threads.append(thread)
            thread.start()

    def reload(self, bundle: Bundle) -> None:
        """Start boxes under another policy from now on."""
        self._bundle = bundle

    def submit(self, job: NormalizeJob | ManyJob) -> None:
        """Queue a job; its result comes as an event."""
        self._jobs.put(job)

    def close(self) -> None:
        """Return when what was handed over is made and every box has ended."""
        self._left = 0
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        pools: dict[str, tuple[Bundle, Prestarted]] = {}
        try:
            self._pool(pools, FETCH_NORMALIZE)
            while (job := self._jobs.get()) is not None:
                pool = self._pool(pools, job.profile)
                answer = pool.run(job.message, refill=False)
                if isinstance(job, ManyJob):
                    self._tell(read_many(job.items, answer))
                else:
                    self._tell(read_answer(job.item, answer))
                if self._left > self._jobs.qsize():
                    pool.fill()
        except Exception as exc:  # noqa: BLE001  # the run raises it
            self._tell(Stopped(named_failure(exc)))
        finally:
            for _, pool in pools.values():
                pool.close()

    def _pool(self, pools: dict[str, tuple[Bundle, Prestarted]], profile: Profile) -> Prestarted:
        bundle, pool = self._bundle, pools.get(profile.name)
        if pool is None or pool[0] is not bundle:
            if pool is not None:  # its boxes were compared with the policy before this one
                pool[1].close()
            kind = partial(Prestarted, size=1)
            given = given_tesseract() if profile is FETCH_OCR else {}
            box = open_box(kind, self._machine, bundle, profile, given)
            pool = pools[profile.name] = bundle, box
        return pool[1]


def read_answer(item: int, answer: GateAnswer) -> Answered:
    """Return what a box made of a job, or why that is nothing."""
    with answer.message as file:
        data = file.read()
    why = answer.ended.why
    if why != "done":
        detail = f"the normalizer gave no packet: {in_words(why)}"
        return Answered(item, None, ArtifactRejected(detail, code=BOX_ENDED))
    return _made(item, data)


def read_many(items: tuple[int, ...], answer: GateAnswer) -> AnsweredMany:
    """Return what a box made of several files; nothing, unless there is an answer for each."""
    with answer.message as file:
        data = file.read()
    try:
        made = parse_many(Untrusted(data)).answers if answer.ended.why == "done" else ()
    except ProtocolBroken:
        made = ()
    if len(made) != len(items):
        return AnsweredMany(items, ())
    return AnsweredMany(items, tuple(map(_made, items, made)))


def _made(item: int, data: bytes) -> Answered:
    try:
        made = parse_made(Untrusted(data))
    except ProtocolBroken as exc:
        error = ArtifactRejected(
            f"the normalizer broke the protocol: {exc.message}", code=BOX_ENDED
        )
        return Answered(item, None, error)
    if isinstance(made, PacketNotMade):
        return Answered(item, None, ArtifactRejected(made.message, code=made.code))
    assert isinstance(made, PacketMade)
    return Answered(item, Untrusted(made.packet), None)
