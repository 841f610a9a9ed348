"""From a question to its answer: hop after hop, each judged like the first.

In this order, for every hop: the URL in its one spelling; a rule for its host; a connection
through the proxy with a certificate that an anchor vouches for; the head within its bounds;
then the status.  A redirect's body is never read.  A body is read if its type is listed for
the host, and handed back if its bytes are of that type.

SECURITY
    Reads bytes of web servers, and holds a credential while it does.  If this module is
    wrong, bytes are handed back that came from elsewhere, or are not what they are called.
"""

import time
from dataclasses import dataclass
from typing import Final

from threegate.base.credentials import Secret
from threegate.base.errors import PolicyDenied
from threegate.base.text import quote
from threegate.gates.fetch.retrieve.answers import got, not_got, sentence
from threegate.gates.fetch.retrieve.authority import check_authority
from threegate.gates.fetch.retrieve.connections import Connections, OpenResponse, Way
from threegate.gates.fetch.retrieve.messages import REDIRECTS, Ask, Got, NotGot
from threegate.gates.fetch.retrieve.parts import part_of
from threegate.gates.fetch.retrieve.requests import HopRequest, first_hop, next_hop
from threegate.gates.fetch.retrieve.rules import RetrieveRules
from threegate.gates.fetch.retrieve.statuses import refuse_status
from threegate.gates.fetch.retrieve.types import declared_type, read_as
from threegate.gates.fetch.retrieve.urls import Address, check_url, follow
from threegate.gates.http_library.client import (
    NOT_CHANGED,
    Deadline,
    Failure,
    NotRetrieved,
    ResponseHead,
)

NO_TYPE: Final = "application/octet-stream"  # of what has no body


@dataclass(slots=True)
class _Question:
    """One question on its way."""

    ask: Ask
    deadline: Deadline
    secret: Secret
    hops: list[tuple[str, int]]
    at: str | None = None  # the URL that is being asked for, as it is reported


class Retriever:
    """Answers one question after the other under one set of rules."""

    def __init__(self, rules: RetrieveRules, way: Way) -> None:
        self._rules, self._connections = rules, Connections(rules, way)

    def answer(self, ask: Ask) -> Got | NotGot:
        """Return what came of a question; raises nothing that a server could bring about."""
        case = _Question(ask, Deadline(self._rules.seconds), Secret(ask.credential), [])
        try:
            return self._answer(case)
        except NotRetrieved as exc:
            self._connections.drop()
            return not_got(exc, case.secret, url=case.at, hops=tuple(case.hops))
        except PolicyDenied as exc:
            return NotGot(exc.code, Failure.NOT_ALLOWED.reason, sentence(exc.message), case.at, ())

    def close(self) -> None:
        """Let go of what was kept for the next question."""
        self._connections.drop()

    def _answer(self, case: _Question) -> Got:
        hop = self._first(case)
        seen = {hop.address.text}
        while True:
            case.at = hop.shown
            answered = self._connections.ask(hop, case.deadline)
            if answered.head.status not in REDIRECTS:
                return self._finish(case, hop, answered)
            answered.close()  # a redirect's body is never read
            address = self._redirect(case, hop, answered.head)
            if address.text in seen:
                raise NotRetrieved(Failure.LOOP, "the redirects lead in a circle")
            seen.add(address.text)
            hop = next_hop(case.ask, address)

    def _first(self, case: _Question) -> HopRequest:
        try:
            address = check_url(case.ask.url)
        except ValueError as exc:
            raise NotRetrieved(Failure.URL, f"URL refused: {exc}") from exc
        case.at = address.text
        rule = self._rules.for_host(address.host)
        check_authority(self._rules, case.ask, now=int(time.time()))
        return first_hop(case.ask, address, rule)

    def _redirect(self, case: _Question, hop: HopRequest, head: ResponseHead) -> Address:
        """Return where a redirect leads, once that was judged like the first URL."""

        def refused(why: Failure, message: str) -> NotRetrieved:
            return NotRetrieved(why, message, status=head.status)

        location = head.header("location")
        if location is None:
            raise refused(Failure.LOCATION, "a redirect without a location")
        if case.secret.stands_in_text(location):
            raise refused(Failure.LOCATION, "a redirect that would carry the credential on")
        try:
            address = follow(hop.address, location)
        except ValueError as exc:
            raise refused(Failure.LOCATION, f"redirect refused: {exc}") from exc
        try:
            self._rules.for_host(address.host)
        except NotRetrieved as exc:
            message = f"redirects to {quote(address.host)}, which no rule covers"
            raise refused(Failure.LOCATION, message) from exc
        if len(case.hops) >= self._rules.redirects:
            raise refused(Failure.REDIRECTS, f"more than {self._rules.redirects} redirects")
        case.hops.append((hop.shown, head.status))
        return address

    def _finish(self, case: _Question, hop: HopRequest, answered: OpenResponse) -> Got:
        try:
            types, total, body = self._body(case, hop, answered)
        except BaseException:
            answered.close()
            raise
        self._connections.keep(answered)
        way = {"url": hop.shown, "anchor": answered.connection.anchor}
        hops = tuple(case.hops)
        head, secret = answered.head, case.secret
        return got(head, secret, **way, hops=hops, types=types, body=body, total=total)

    def _body(
        self, case: _Question, hop: HopRequest, answered: OpenResponse
    ) -> tuple[tuple[str, str], int | None, bytes]:
        head = answered.head
        if head.status == NOT_CHANGED and hop.conditional:
            return (NO_TYPE, NO_TYPE), None, b""
        rule = self._rules.for_host(hop.address.host)
        if rule.content_types is None:
            part = part_of(case.ask, head)
            body = answered.body(part.size, case.deadline)
            part.refuse_other(body)
            return (NO_TYPE, NO_TYPE), part.total, body
        refuse_status(head, now=time.time())
        name = declared_type(head.header("content-type"), rule.content_types)
        body = answered.body(min(rule.response_bytes, case.ask.most_bytes), case.deadline)
        if case.secret.stands_in(body):
            raise NotRetrieved(Failure.REPEATED, "the answer repeats the credential")
        return (name, read_as(name, body)), None, body
