"""What a run would ask, of whom, within which bounds: nothing is contacted, nothing written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from threegate.artifacts.ids import short
from threegate.base.errors import PolicyDenied
from threegate.base.forms import REDACTED
from threegate.host.fetch.budgets import Budgets, Left
from threegate.host.fetch.credentials import credential_for
from threegate.host.fetch.plan import SEARCH, Wish, decide, is_allowed
from threegate.host.fetch.rules import Rule, left_for, rule_for
from threegate.host.output import counted
from threegate.host.settings import Settings
from threegate.host.workspace.fetched import Cache, not_older
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.decision import Ask
from threegate.policy.hosts import parse_url
from threegate.policy.leaves import BYTES


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """One question: whether it would be asked, and if not why not."""

    reference: str
    source: str
    url: str
    host: str
    verdict: str  # ask | ask-if | here | waits | refused
    why: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """How a host would be asked."""

    host: str
    questions: int
    rule: Rule
    left: Left


@dataclass(frozen=True, slots=True)
class Foreseen:
    """How many references a run would refuse, and how many would wait for approval."""

    references: int
    refused: int
    waiting: int

    @property
    def exit_codes(self) -> tuple[int, ...]:
        """Return the codes of the refusals."""
        return (PolicyDenied.exit_code,) * self.refused

    @property
    def told(self) -> str:
        """Return the end of a line for people, empty if all would be asked for."""
        words = {"refused": self.refused, "held for approval": self.waiting}
        parts = [f"{count} would be {word}" for word, count in words.items() if count]
        of = counted(self.references, "reference")
        return f"; of {of}, {', '.join(parts)}" if parts else ""


def foresee(bundle: Bundle, wishes: Sequence[Wish]) -> Foreseen:
    """Judge every reference as a run does: by its first question."""
    judged = [(wish, decide(bundle, wish, wish.questions[0])) for wish in wishes]
    denied = [(wish, found) for wish, found in judged if not is_allowed(found, wish)]
    # A search cannot be held: it is refused where policy says `ask`.
    waiting = sum(isinstance(found, Ask) and wish.scheme != SEARCH for wish, found in denied)
    return Foreseen(len(wishes), len(denied) - waiting, waiting)


def rehearse(
    ws: Workspace, settings: Settings, wishes: Sequence[Wish], *, max_age_seconds: int
) -> Iterator[Rehearsed]:
    """Yield every question of every wish."""
    cache = Cache(ws.store, ws.seals)
    since = not_older(ws.clock(), max_age_seconds)
    try:
        for wish in wishes:
            fresh = max_age_seconds > 0 and wish.leave is None
            here = cache.newest(wish.plan, since=since) if fresh else None
            yield from _rehearsed(ws, settings, wish, here)
    finally:
        cache.close()


def _rehearsed(
    ws: Workspace, settings: Settings, wish: Wish, here: str | None
) -> Iterator[Rehearsed]:
    for question in wish.questions:
        decision = decide(ws.bundle, wish, question)
        verdict, why = "ask", ""
        if not is_allowed(decision, wish):
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
        yield Rehearsed(wish.reference, question.source, url, host, verdict, why)


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


def bounds(ws: Workspace, budgets: Budgets, rehearsed: Sequence[Rehearsed]) -> Iterator[Bounds]:
    """Yield how each host that would be asked is asked."""
    asked = [item.host for item in rehearsed if item.verdict in ("ask", "ask-if")]
    for host in dict.fromkeys(asked):
        rule = rule_for(ws.bundle, host)
        if rule is not None:
            yield Bounds(host, asked.count(host), rule, left_for(budgets, ws.bundle, rule))


def line(item: Rehearsed) -> str:
    """Return one line for people."""
    if item.verdict == "here":
        return f"already here {short(item.why)}"
    words = {"ask-if": "perhaps ask", "waits": "needs approval"}
    why = f" ({item.why})" if item.why else ""
    return f"{words.get(item.verdict, item.verdict)} {item.source} {item.url}{why}"


def host_line(item: Bounds) -> str:
    """Return one line for people."""
    rule, left = item.rule, item.left
    rate = f"{rule.rate_per_minute} a minute, {rule.concurrency} at a time"
    room = f"{left.requests} requests left in this minute, {_rough(left.bytes)} left today"
    return f"{item.host}: {counted(item.questions, 'question')} at most, {rate}; {room}"


def _rough(count: int) -> str:
    """Return a number of bytes to the whole MiB below, or KiB where there is none."""
    return BYTES.show(count - count % (2**20 if count >= 2**20 else 2**10))


def host_document(item: Bounds) -> dict[str, Any]:
    """Return the same for scripts."""
    return {
        "host": item.host,
        "questions": item.questions,
        "rate_per_minute": item.rule.rate_per_minute,
        "concurrency": item.rule.concurrency,
        "requests_left": item.left.requests,
        "bytes_left": item.left.bytes,
    }
