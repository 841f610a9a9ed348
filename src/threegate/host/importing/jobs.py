"""Packets in the making: records go to normalize sandboxes, and packets or refusals come back.

A file has a sandbox of its own.  Text files of one commit share one: they have one origin, and a
repository has thousands.  If a shared sandbox ends without an answer, each of its files gets one of
its own, so one hostile file costs the others time and not their packets.

SECURITY
    Hands hostile bytes to sandboxes.  A file that takes over a shared sandbox can change the text
    of packets of the same commit; the caller compares each with its record.
"""

from queue import SimpleQueue
from typing import Final

from threegate.gates.fetch.normalize.messages import MAX_MANY, MAX_MANY_BYTES, RetrievalRecord
from threegate.host.fetch.normalize_pool import (
    Answered,
    Makers,
    NormalizeJob,
    Stopped,
    Told,
    job_for,
    many_job,
)
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine

MAX_SHARED_BYTES: Final = MAX_MANY_BYTES // 8  # packets are larger than their bytes, within bounds


class PacketJobs:
    """The sandboxes of one import; used by one thread."""

    def __init__(self, bundle: Bundle) -> None:
        self._told: SimpleQueue[Told] = SimpleQueue()
        self._makers = Makers(find_machine(), bundle, tell=self._told.put)
        self._jobs: dict[int, NormalizeJob] = {}
        self._together: list[NormalizeJob] = []
        self._together_bytes = 0
        self._commit = ""
        self.waiting = 0  # sandboxes that have not answered

    def close(self) -> None:
        """End the sandboxes."""
        self._makers.close()

    def submit(
        self, item: int, record: RetrievalRecord, raws: tuple[bytes, ...], *, left: int
    ) -> None:
        """Have a packet made; `left` says how many more may come."""
        self._makers.expect(left)
        job = job_for(item, record, raws)
        if not _may_share(record):
            self._send(job)
            return
        commit = _commit_of(record)
        size = len(job.asked.record) + sum(map(len, raws))
        full = self._together_bytes + size > MAX_SHARED_BYTES or len(self._together) >= MAX_MANY
        if self._together and (full or commit != self._commit):
            self.flush()
        self._commit = commit
        self._jobs[item] = job
        self._together.append(job)
        self._together_bytes += size

    def flush(self) -> None:
        """Send what waits for others of the same commit."""
        if self._together:
            self._makers.submit(many_job(self._together))
            self.waiting += 1
        self._together, self._together_bytes = [], 0

    def take(self) -> tuple[Answered, ...]:
        """Wait for one sandbox and return its answers."""
        assert self.waiting, "nothing to wait for"
        told = self._told.get()
        if isinstance(told, Stopped):
            raise told.error
        self.waiting -= 1
        if isinstance(told, Answered):
            return (told,)
        jobs = [self._jobs.pop(item) for item in told.items]
        if not told.answers:
            for job in jobs:
                self._send(job)
        return told.answers

    def _send(self, job: NormalizeJob) -> None:
        self._makers.submit(job)
        self.waiting += 1


def _may_share(record: RetrievalRecord) -> bool:
    return len(record.answers) == 1 and record.answers[0].source == "git"


def _commit_of(record: RetrievalRecord) -> str:
    return record.answers[0].url.partition("/")[0]
