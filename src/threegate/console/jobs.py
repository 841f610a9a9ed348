"""Something that takes a while, one at a time in a thread of its own, and how far it is."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from threegate.base.errors import ThreeGateError, UsageError
from threegate.console.workspace_threads import Desk, WorkspaceThread

MAX_STEPS: Final = 100
Tell = Callable[..., None]


@dataclass(slots=True)
class ConsoleJob:
    """One thing that is being done; the words of its steps are ours."""

    steps: list[str] = field(default_factory=list)
    error: ThreeGateError | None = None
    over: bool = False

    def step(self, words: str) -> None:
        """Note how far it is."""
        if words not in self.steps:
            del self.steps[MAX_STEPS:]
            self.steps.append(words)


J = TypeVar("J", bound=ConsoleJob)


class JobRunner(ABC, Generic[J]):
    """Does one job after the other, and remembers the last."""

    def __init__(self, office: WorkspaceThread, tell: Tell, what: str) -> None:
        self.office, self._tell, self._what = office, tell, what
        self.job: J | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Tell whether something is being done."""
        return self.job is not None and not self.job.over

    def begin(self, job: J, work: Callable[[Desk], None]) -> None:
        """Begin; raise `UsageError` while another one is being done."""
        if self.busy:
            raise UsageError(f"another {self._what} is under way", hint="wait for its end")
        self.job = job
        self._task = asyncio.create_task(self._do(job, work))

    async def _do(self, job: J, work: Callable[[Desk], None]) -> None:
        try:
            await self.office.do(work)
        except ThreeGateError as exc:
            job.error = exc
        except Exception as exc:  # noqa: BLE001 -- told on the page; the console goes on
            job.error = ThreeGateError(f"unexpected {type(exc).__name__}")
            self._tell("bug", kind=type(exc).__name__, where=self._what)
        job.over = True
        self.ended(job)

    @abstractmethod
    def ended(self, job: J) -> None:
        """Tell the pages that a job is over."""
