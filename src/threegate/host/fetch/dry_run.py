"""A dry run: the questions, hosts and limits of a run; nothing is contacted or written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from threegate.artifacts.ids import short
from threegate.base.errors import PolicyDenied
from threegate.base.forms import REDACTED
from threegate.host.fetch.budgets import BudgetLeft, Budgets
from threegate.host.fetch.credentials import credential_for
from threegate.host.fetch.host_rules import HostLimits, left_for, rule_for
from threegate.host.fetch.targets import SEARCH, FetchTarget, decide, is_allowed
from threegate.host.output import counted
from threegate.host.settings import Settings
from threegate.host.workspace.fetched import FetchCache, not_older
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.decision import Ask
from threegate.policy.hosts import parse_url
from threegate.policy.leaves import BYTES


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """One question, whether it would be asked, and why not."""

    reference: str
    source: str
    url: str
    host: str
    verdict: str  # ask | ask-if | here | waits | refused
    why: str


@dataclass(frozen=True, slots=True)
class HostBounds:
    """Number of questions to a host, its rule and the rest of its budget."""

    host: str
    questions: int
    rule: HostLimits
    left: BudgetLeft


@dataclass(frozen=True, slots=True)
class DryRunTotals:
    """Numbers of references that a run would refuse or hold for approval."""

    references: int
    refused: int
    waiting: int

    @property
    def exit_codes(self) -> tuple[int, ...]:
        """Return the codes of the refusals."""
        return (PolicyDenied.exit_code,) * self.refused

    @property
    def words(self) -> str:
        """Return the end of a line for people; empty if all would be asked."""
        words = {"refused": self.refused, "held for approval": self.waiting}
        parts = [f"{count} would be {word}" for word, count in words.items() if count]
        of = counted(self.references, "reference")
        return f"; of {of}, {', '.join(parts)}" if parts else ""


def dry_run_totals(bundle: Bundle, targets: Sequence[FetchTarget]) -> DryRunTotals:
    """Judge every reference by its first question, as a run does."""
    judged = [(target, decide(bundle, target, target.questions[0])) for target in targets]
    denied = [(target, found) for target, found in judged if not is_allowed(found, target)]
    # A list cannot be held: it is refused where policy says `ask`.
    waiting = sum(isinstance(found, Ask) and target.scheme != SEARCH for target, found in denied)
    return DryRunTotals(len(targets), len(denied) - waiting, waiting)


def plan_questions(
    ws: Workspace, settings: Settings, targets: Sequence[FetchTarget], *, max_age_seconds: int
) -> Iterator[PlannedQuestion]:
    """Yield every question of every target."""
    cache = FetchCache(ws.store, ws.seals)
    since = not_older(ws.clock(), max_age_seconds)
    try:
        for target in targets:
            fresh = max_age_seconds > 0 and target.approved is None
            here = cache.newest(target.plan, since=since) if fresh else None
            yield from _questions_of(ws, settings, target, here)
    finally:
        cache.close()


def _questions_of(
    ws: Workspace, settings: Settings, target: FetchTarget, here: str | None
) -> Iterator[PlannedQuestion]:
    for question in target.questions:
        decision = decide(ws.bundle, target, question)
        verdict, why = "ask", ""
        if not is_allowed(decision, target):
            verdict = "waits" if isinstance(decision, Ask) else "refused"
            why = decision.reason
        elif here is not None:
            verdict, why = "here", here
        elif question.after is not None:
            verdict, why = "ask-if", f"if {question.after} does not have it"
        url, host = question.shown, _host(question.url)
        if (
            rule_for(ws.bundle, host) is not None
            and credential_for(settings, ws.bundle, host) is not None
        ):
            url = _with_key(ws, host, url)
        yield PlannedQuestion(target.reference, question.source, url, host, verdict, why)


def _with_key(ws: Workspace, host: str, url: str) -> str:
    rule = rule_for(ws.bundle, host)
    assert rule is not None
    place = ws.bundle.text("fetch", "hosts", rule.pattern, "credential")
    kind, _, name = place.partition(":")
    if kind == "header":
        return url
    return f"{url}{'&' if '?' in url else '?'}{name}={REDACTED}"


def _host(url: str) -> str:
    try:
        return parse_url(url).host
    except ValueError:
        return ""


def bounds(
    ws: Workspace, budgets: Budgets, planned: Sequence[PlannedQuestion]
) -> Iterator[HostBounds]:
    """Yield the limits of each host that would be asked."""
    asked = [item.host for item in planned if item.verdict in ("ask", "ask-if")]
    for host in dict.fromkeys(asked):
        rule = rule_for(ws.bundle, host)
        if rule is not None:
            yield HostBounds(host, asked.count(host), rule, left_for(budgets, ws.bundle, rule))


def line(item: PlannedQuestion) -> str:
    """Return one line for people."""
    if item.verdict == "here":
        return f"already here {short(item.why)}"
    words = {"ask-if": "perhaps ask", "waits": "needs approval"}
    why = f" ({item.why})" if item.why else ""
    return f"{words.get(item.verdict, item.verdict)} {item.source} {item.url}{why}"


def host_line(item: HostBounds) -> str:
    """Return one line for people."""
    rule, left = item.rule, item.left
    rate = f"{rule.rate_per_minute} a minute, {rule.concurrency} at a time"
    room = f"{left.requests} requests left in this minute, {_rough(left.bytes)} left today"
    return f"{item.host}: {counted(item.questions, 'question')} at most, {rate}; {room}"


def _rough(count: int) -> str:
    """Return a number of bytes to the whole MiB below, or KiB where there is none."""
    return BYTES.show(count - count % (2**20 if count >= 2**20 else 2**10))


def host_document(item: HostBounds) -> dict[str, Any]:
    """Return the same for scripts."""
    return {
        "host": item.host,
        "questions": item.questions,
        "rate_per_minute": item.rule.rate_per_minute,
        "concurrency": item.rule.concurrency,
        "requests_left": item.left.requests,
        "bytes_left": item.left.bytes,
    }
