"""Counts of what the console did, as Prometheus reads them; no names and no ids."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from threegate.console.workspace_threads import Desk

STATES: Final = ("draft", "held", "approved", "claimed", "done", "denied", "expired")
BOUNDS_MS: Final = (10, 25, 50, 100, 200, 500, 1000, 5000)


class Metrics:
    """What was counted since the console began."""

    def __init__(self) -> None:
        self._answers: Counter[int] = Counter()
        self._refused: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._within: Counter[int] = Counter()
        self._seconds = 0.0

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer and how long it took."""
        self._answers[int(status)] += 1
        self._seconds += seconds
        for bound in BOUNDS_MS:
            self._within[bound] += seconds * 1000 <= bound

    def refused(self, code: str) -> None:
        """Count a request that was not let in."""
        self._refused[code] += 1

    def failed(self, code: str) -> None:
        """Count a page of an error."""
        self._failed[code] += 1

    def ran(self, outcome: str) -> None:
        """Count what became of an approved request."""
        self._runs[outcome] += 1

    def states(self, desk: Desk) -> bytes:
        """Return everything as text, with how many requests are in each state."""
        found = {state: desk.index.count(("fr", "tr"), state=state) for state in STATES}
        return "".join(f"{line}\n" for line in self._lines(found)).encode("ascii")

    def _lines(self, states: dict[str, int]) -> Iterator[str]:
        yield from _family("requests", "gauge", "state", states)
        yield from _family("http_answers_total", "counter", "status", self._answers)
        yield from _family("refused_total", "counter", "code", self._refused)
        yield from _family("failed_total", "counter", "code", self._failed)
        yield from _family("runs_total", "counter", "outcome", self._runs)
        yield "# TYPE threegate_http_seconds histogram"
        for bound in BOUNDS_MS:
            label = f'{{le="{bound / 1000:g}"}}'
            yield f"threegate_http_seconds_bucket{label} {self._within[bound]}"
        total = self._answers.total()
        yield f'threegate_http_seconds_bucket{{le="+Inf"}} {total}'
        yield f"threegate_http_seconds_sum {self._seconds:.6f}"
        yield f"threegate_http_seconds_count {total}"


def _family(
    name: str, kind: str, label: str, values: "dict[str, int] | Counter[str] | Counter[int]"
) -> Iterator[str]:
    yield f"# TYPE threegate_{name} {kind}"
    for key, value in sorted(values.items(), key=lambda pair: str(pair[0])):
        yield f'threegate_{name}{{{label}="{key}"}} {value}'
