"""What is under way, for people who wait: a line per item on a terminal, long waits elsewhere."""

from collections.abc import Callable, Sequence
from typing import Final

from threegate.host.fetch.ports import Moment, Report

MOST_SHOWN: Final = 10
LONG_SECONDS: Final = 10.0


class Progress:
    """Keeps what each item is doing, and draws it."""

    def __init__(
        self,
        draw: Callable[[Sequence[str]], None],
        total: int = 0,
        *,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`note` says what is worth a line where nothing is drawn: long waits."""
        self.total, self._draw, self._note = total, draw, note
        self._now: dict[int, str] = {}
        self._ended: dict[str, int] = {}

    def moment(self, moment: Moment) -> None:
        """Take what an item is doing now."""
        self._now[moment.number] = f"  {moment.reference}: {moment.words}"
        self._draw(self.lines())
        if moment.wait_seconds >= LONG_SECONDS:
            self._note(f"{moment.reference}: {moment.words}")

    def ended(self, report: Report) -> None:
        """Take what became of an item."""
        self._now.pop(report.number, None)
        self._ended[report.status] = self._ended.get(report.status, 0) + 1
        self._draw(self.lines())

    def lines(self) -> list[str]:
        """Return the lines to draw: the total first, then items, the oldest first."""
        counts = ", ".join(f"{count} {status}" for status, count in self._ended.items())
        done = sum(self._ended.values())
        head = f"fetching: {done} of {self.total}" + (f" ({counts})" if counts else "")
        shown = [self._now[number] for number in sorted(self._now)[:MOST_SHOWN]]
        more = len(self._now) - len(shown)
        return [head, *shown, *([f"  and {more} more"] if more else [])]
