"""Rate and byte budgets per host name: they belong to the user and are shared by all workspaces.

Two workspaces must not ask a server twice as often.  A budget is one small file in the user's state
directory, changed under a lock and durable before anything is spent.  Days are UTC.  The time of a
budget never goes back, so a clock that does refills nothing.  After `audit clock` has set the time
back, amounts spent in the future count as spent now.

SECURITY
    Reads files that other programs of the user may have damaged.  A file that is not a valid budget
    denies everything for its host until the operator has looked at it.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.audit.entry import time_of
from threegate.base import canonical
from threegate.base.errors import (
    HandoffTampered,
    PolicyDenied,
    StorageFailed,
    UsageError,
    WorkspaceBusy,
)
from threegate.base.text import quote, visible
from threegate.handoff.disk import held, read_file, storage_errors
from threegate.host.atomic_file import replace_at
from threegate.host.settings import Settings
from threegate.host.workspace.workspace import Workspace
from threegate.policy.leaves import sized

WINDOW_SECONDS: Final = 60
DAY_SECONDS: Final = 86_400
MAX_FILE_BYTES: Final = 16_384
FORMAT: Final = "budget/1"
DIRECTORY: Final = "budgets"  # below the user's state directory
OVER_RATE: Final = "TG-BUD-001"
OVER_BYTES: Final = "TG-BUD-002"
UNREADABLE: Final = "TG-BUD-003"
_FILE_MODE: Final = 0o600
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9_])?")
_MAX_COUNT: Final = 2**53 - 1


class RateSpent(PolicyDenied):
    """Too many requests in this minute; `wait_seconds` is the time until one more may be made."""

    code = OVER_RATE

    def __init__(self, message: str, *, hint: str, wait_seconds: int | None) -> None:
        super().__init__(message, hint=hint)
        self.wait_seconds = wait_seconds  # None: waiting does not help


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """The rest of a budget now."""

    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Spent:
    """The spent budget of a host: requests of the last minute by second, bytes of one day."""

    host: str
    now: int = 0  # the latest time ever seen
    size: int = 0  # bytes of the day of `now`
    recent: tuple[tuple[int, int], ...] = ()  # (second, requests), oldest first

    def at(self, clock: int) -> "_Spent":
        """Return the part that still counts now; a clock that went back changes nothing."""
        now = max(clock, self.now)
        same_day = now // DAY_SECONDS == self.now // DAY_SECONDS
        recent = tuple(item for item in self.recent if item[0] > now - WINDOW_SECONDS)
        return _Spent(self.host, now, self.size if same_day else 0, recent)

    def with_more(self, requests: int, size: int) -> "_Spent":
        """Return this with something spent now."""
        recent = self.recent
        if requests and recent and recent[-1][0] == self.now:
            recent = (*recent[:-1], (self.now, recent[-1][1] + requests))
        elif requests:
            recent = (*recent, (self.now, requests))
        return _Spent(self.host, self.now, self.size + size, recent)

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        recent = [list(item) for item in self.recent]
        value = {"bytes": self.size, "format": FORMAT, "host": self.host}
        return canonical.encode({**value, "now": self.now, "recent": recent})


class Budgets:
    """The budgets of one user; `path` is created at the first use."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self._path, self._clock = path, clock

    def spend(
        self,
        host: str,
        *,
        requests: int = 0,
        bytes: int = 0,  # noqa: A002 -- the unit is the name
        rate_per_minute: int,
        bytes_per_day: int,
    ) -> None:
        """Spend both or neither; raise `PolicyDenied` with a hint when to try again."""
        if not _HOST.fullmatch(host):
            raise UsageError(f"{quote(host)} is not a host name in lower case")
        if not 0 <= requests <= _MAX_COUNT or not 0 <= bytes <= _MAX_COUNT:
            raise UsageError("amounts of a budget are whole numbers from zero")
        with self._locked() as directory:
            spent = self._read(directory, host).at(self._clock())
            _refuse_rate(spent, requests, rate_per_minute, self._clock())
            _refuse_bytes(spent, bytes, bytes_per_day)
            _write(directory, f"{host}.json", spent.with_more(requests, bytes).to_bytes())

    def open(self) -> None:
        """Raise an error that would stop every question, before the first is asked."""
        with self._locked():
            pass

    def charge(self, host: str, size: int) -> None:
        """Record bytes that have arrived, even beyond the budget."""
        assert _HOST.fullmatch(host), host
        assert 0 <= size <= _MAX_COUNT
        with self._locked() as directory:
            spent = self._read(directory, host).at(self._clock())
            _write(directory, f"{host}.json", spent.with_more(0, size).to_bytes())

    def left(self, host: str, *, rate_per_minute: int, bytes_per_day: int) -> BudgetLeft:
        """Return the rest of a budget without spending."""
        assert _HOST.fullmatch(host), host
        with self._locked() as directory:
            spent = self._read(directory, host).at(self._clock())
        used = sum(count for _, count in spent.recent)
        return BudgetLeft(max(0, rate_per_minute - used), max(0, bytes_per_day - spent.size))

    def set_clock(self) -> None:
        """Treat times in the future as now: the operator signed that they were wrong.

        Nothing is refunded: spent amounts count for this minute and this day.
        """
        with self._locked() as directory:
            for name in os.listdir(directory):
                host = name.removesuffix(".json")
                if _HOST.fullmatch(host) and host != name:
                    spent, now = self._read(directory, host), self._clock()
                    if spent.now > now:
                        requests = sum(count for _, count in spent.recent)
                        moved = _Spent(host, now, spent.size).with_more(requests, 0)
                        _write(directory, name, moved.to_bytes())

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            detail = (
                f"cannot open {visible(str(self._path))}: {os.strerror(exc.errno or 0).lower()}"
            )
            hint = "spent budgets are stored there; XDG_STATE_HOME names another directory"
            raise StorageFailed(detail, hint=hint) from exc
        try:
            _refuse_open(directory, self._path)
            with held(directory):
                yield directory
        except WorkspaceBusy as exc:
            hint = "another threegate command is using them; try again"
            raise WorkspaceBusy("the budgets were not free in time", hint=hint) from exc
        finally:
            os.close(directory)

    def _read(self, directory: int, host: str) -> _Spent:
        name = f"{host}.json"
        try:
            data = read_file(directory, name, max_bytes=MAX_FILE_BYTES, mode=_FILE_MODE)
            return _parse(data, host)
        except FileNotFoundError:
            return _Spent(host)
        except (HandoffTampered, StorageFailed, ValueError, KeyError, TypeError) as exc:
            where = visible(str(self._path / name))
            hint = f"look at {where}; without it the budget of {host} starts at zero"
            raise PolicyDenied(
                f"the budget of {host} is not readable", code=UNREADABLE, hint=hint
            ) from exc


def budgets_of(settings: Settings, ws: Workspace) -> Budgets:
    """Return the user's budgets, with the clock of a workspace."""
    return Budgets(settings.state_home / DIRECTORY, ws.clock)


def _refuse_open(directory: int, path: Path) -> None:
    info = os.fstat(directory)
    if info.st_uid != os.geteuid() or info.st_mode & 0o022:
        hint = f"chown and chmod 700 {visible(str(path))}"
        raise PolicyDenied("others can change the budgets", code=UNREADABLE, hint=hint)


def _parse(data: bytes, host: str) -> _Spent:
    """Return the budget in a file; raise ValueError, KeyError or TypeError if it is invalid."""
    value: Any = canonical.decode(data)
    recent = tuple((int(second), int(count)) for second, count in value["recent"])
    spent = _Spent(host, int(value["now"]), int(value["bytes"]), recent)
    seconds = [second for second, _ in recent]
    numbers = [spent.now, spent.size, *seconds, *(count for _, count in recent)]
    if spent.to_bytes() != data or not all(0 <= number <= _MAX_COUNT for number in numbers):
        raise ValueError("not a budget")
    if seconds != sorted(set(seconds)) or any(second > spent.now for second in seconds):
        raise ValueError("not a budget")
    return spent


def _refuse_rate(spent: _Spent, requests: int, rate_per_minute: int, clock: int) -> None:
    used = sum(count for _, count in spent.recent)
    if not requests or used + requests <= rate_per_minute:
        return
    hint = "ask for less at a time, or raise the rate in fetch.policy.md"
    free, wait = rate_per_minute, None
    for second, count in reversed(spent.recent):
        if requests > rate_per_minute:
            break  # waiting does not help
        free -= count
        if free < requests:
            wait = second + WINDOW_SECONDS - clock
            hint = f"try again in {wait} seconds"
            break
    detail = f"{used} of {rate_per_minute} requests a minute to {spent.host} are used"
    raise RateSpent(f"{detail}, {requests} more are asked for", hint=hint, wait_seconds=wait)


def _refuse_bytes(spent: _Spent, size: int, bytes_per_day: int) -> None:
    if not size or spent.size + size <= bytes_per_day:
        return
    tomorrow = time_of((spent.now // DAY_SECONDS + 1) * DAY_SECONDS)
    hint = "ask for less, or raise the budget in fetch.policy.md"
    if size <= bytes_per_day:
        hint = f"try again after {tomorrow}, or raise the budget in fetch.policy.md"
    used, most = sized(spent.size), sized(bytes_per_day)
    detail = f"{used} of {most} a day from {spent.host} are used"
    raise PolicyDenied(f"{detail}, {sized(size)} more are asked for", code=OVER_BYTES, hint=hint)


def _write(directory: int, name: str, data: bytes) -> None:
    with storage_errors("write the budget"):
        replace_at(directory, name, data)
