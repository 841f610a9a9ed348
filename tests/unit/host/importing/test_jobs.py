"""Files of one commit share a sandbox; one that ends leaves each of them a sandbox of its own."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.support.normalization import ask, got
from tests.support.policies import policy
from threegate.base.errors import ArtifactRejected
from threegate.gates.fetch.normalize.messages import MAX_MANY, RetrievalRecord
from threegate.host.fetch.normalize_pool import (
    Answered,
    AnsweredMany,
    ManyJob,
    NormalizeJob,
    Told,
)
from threegate.host.importing import jobs
from threegate.host.importing.jobs import PacketJobs

ERROR = ArtifactRejected("refused")


@dataclass
class FakeMakers:
    """Answers at once; a shared sandbox ends without an answer if it holds the hostile file."""

    tell: Callable[[Told], None]
    hostile: int | None = None
    sent: list[NormalizeJob | ManyJob] = field(default_factory=list)

    def expect(self, jobs: int) -> None:
        del jobs

    def submit(self, job: NormalizeJob | ManyJob) -> None:
        self.sent.append(job)
        if isinstance(job, NormalizeJob):
            self.tell(Answered(job.item, None, ERROR))
        elif self.hostile in job.items:
            self.tell(AnsweredMany(job.items, ()))
        else:
            self.tell(
                AnsweredMany(job.items, tuple(Answered(one, None, ERROR) for one in job.items))
            )

    def close(self) -> None:
        pass


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeMakers]:
    found: list[FakeMakers] = []

    def make(_: object, __: object, *, tell: Callable[[Told], None]) -> FakeMakers:
        found.append(FakeMakers(tell))
        return found[-1]

    monkeypatch.setattr(jobs, "Makers", make)
    return found


def record(
    name: str, commit: str = "ab" * 20, source: str = "git"
) -> tuple[RetrievalRecord, bytes]:
    url = f"git:{commit}/{name}" if source == "git" else f"file:{name}"
    raw = name.encode()
    one = got(source, raw, "text/plain", role="document", url=url, media_type="")
    return ask([one])[0], raw


def taken(task: PacketJobs) -> list[int]:
    task.flush()
    found: list[int] = []
    while task.waiting:
        found += [one.item for one in task.take()]
    return found


def test_files_of_one_commit_share_a_sandbox_up_to_its_limit(made: list[FakeMakers]) -> None:
    task = PacketJobs(policy().bundle())
    for number in range(MAX_MANY + 3):
        one, raw = record(f"f{number}")
        task.submit(number, one, (raw,), left=1)
    assert taken(task) == list(range(MAX_MANY + 3))
    assert [len(job.items) for job in made[0].sent if isinstance(job, ManyJob)] == [MAX_MANY, 3]


# claim TG-C-594
def test_other_commits_and_other_files_do_not_share_it(made: list[FakeMakers]) -> None:
    task = PacketJobs(policy().bundle())
    given = [record("a"), record("b", source="file"), record("c"), record("d", "cd" * 20)]
    for number, (one, raw) in enumerate(given):
        task.submit(number, one, (raw,), left=1)
    assert sorted(taken(task)) == [0, 1, 2, 3]
    shared = [job.items for job in made[0].sent if isinstance(job, ManyJob)]
    assert shared == [(0, 2), (3,)]


# claim TG-C-594
def test_a_sandbox_that_ends_costs_its_other_files_no_packet(made: list[FakeMakers]) -> None:
    task = PacketJobs(policy().bundle())
    made[0].hostile = 1
    for number in range(3):
        one, raw = record(f"f{number}")
        task.submit(number, one, (raw,), left=1)
    assert sorted(taken(task)) == [0, 1, 2]
    alone = [job.item for job in made[0].sent if isinstance(job, NormalizeJob)]
    assert alone == [0, 1, 2], "each in a sandbox of its own"
