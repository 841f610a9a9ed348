"""From a question to its answer: hop after hop, each judged like the first.

In this order, for every hop: the URL in its one spelling; a rule for its host; a connection
through the proxy with a certificate that an anchor verifies; the head within its bounds; then
the status.  A redirect's body is never read.  A body is read if its type is listed for the
host, and handed back if its bytes have that type.

SECURITY
    Reads bytes of web servers while it holds a credential.  If this module is wrong, it hands
    back bytes that came from another host or are not of their declared type.  A kept connection
    is used for the same host only, after a response that was read to its end with nothing
    behind it: a response never answers a question it was not made for.
"""

import time
from dataclasses import dataclass
from typing import Final, Protocol

from threegate.base.credentials import Secret
from threegate.base.errors import PolicyDenied
from threegate.base.text import quote
from threegate.gates.fetch.retrieve.answers import got, not_got, part_of, refuse_status, sentence
from threegate.gates.fetch.retrieve.hops import (
    Address,
    HopRequest,
    check_url,
    first_hop,
    follow,
    next_hop,
)
from threegate.gates.fetch.retrieve.messages import REDIRECTS, FetchQuestion, Got, NotGot
from threegate.gates.fetch.retrieve.rules import RetrieveRules, check_authority
from threegate.gates.fetch.retrieve.types import declared_type, read_as
from threegate.gates.http_library.client import (
    NOT_CHANGED,
    ConnectionLost,
    Deadline,
    Exchange,
    Failure,
    NotRetrieved,
    ResponseHead,
)
from threegate.gates.http_library.tunnel import Connection

# The proxy grants a tunnel the bytes and the time of one question: reuse it only while both last.
_BYTES_PART: Final = 4
_TIME_PART: Final = 3


class Way(Protocol):
    """How servers are reached: through tunnels, or through a gateway."""

    absolute: bool

    def open(self, host: str, deadline: Deadline) -> Connection:
        """Return a connection to `host`."""

    def check(self, head: ResponseHead) -> None:
        """Raise `NotRetrieved` if a response is the proxy's and not the server's."""


@dataclass(frozen=True, slots=True)
class OpenResponse:
    """A response whose head was read, and whose body was not."""

    connection: Connection
    exchange: Exchange
    head: ResponseHead

    def body(self, most: int, deadline: Deadline) -> bytes:
        """Return the whole body, or raise `NotRetrieved`."""
        return self.exchange.body(self.connection.stream, most=most, deadline=deadline)

    def close(self) -> None:
        """Close the connection."""
        self.connection.stream.close()


class Connections:
    """Sends the requests of hops; keeps one connection, to the host asked last."""

    def __init__(self, rules: RetrieveRules, way: Way) -> None:
        self._rules, self._way = rules, way
        self._kept: Connection | None = None

    def ask(self, hop: HopRequest, deadline: Deadline) -> "OpenResponse":
        """Send a request and return its response; raise `NotRetrieved`."""
        kept = self._take(hop.address.host)
        if kept is not None:
            try:
                return self._exchange(hop, kept, deadline)
            except ConnectionLost:  # the server closed it while it was not in use
                kept.stream.close()
        connection = self._way.open(hop.address.host, deadline)
        try:
            return self._exchange(hop, connection, deadline)
        except ConnectionLost as exc:
            message = "the connection broke off before an answer"
            raise NotRetrieved(Failure.CUT, message) from exc

    def _exchange(
        self, hop: HopRequest, connection: Connection, deadline: Deadline
    ) -> "OpenResponse":
        exchange = hop.exchange(
            contact=self._rules.contact,
            absolute=self._way.absolute,
            max_head_bytes=self._rules.header_bytes,
        )
        try:
            connection.stream.send(exchange.request, deadline)
            head = exchange.head(connection.stream, deadline)
            self._way.check(head)
        except BaseException:
            connection.stream.close()
            raise
        return OpenResponse(connection, exchange, head)

    def keep(self, answered: "OpenResponse") -> None:
        """Keep a connection whose response was read to its end, if it may be used again."""
        stream = answered.connection.stream
        if answered.head.keeps and not answered.exchange.behind and not stream.has_more:
            self.drop()
            self._kept = answered.connection
        else:
            stream.close()

    def drop(self) -> None:
        """Close the connection that was kept."""
        if self._kept is not None:
            self._kept.stream.close()
            self._kept = None

    def _take(self, host: str) -> Connection | None:
        kept = self._kept
        if kept is None:
            return None
        most = self._rules.for_host(kept.host).response_bytes // _BYTES_PART
        old = time.monotonic() - kept.since > self._rules.seconds / _TIME_PART
        if kept.host != host or old or kept.stream.received > most:
            self.drop()
            return None
        self._kept = None
        return kept


# The loop over hops.

NO_TYPE: Final = "application/octet-stream"  # of a response without a body


@dataclass(slots=True)
class _Question:
    """One question and its state."""

    ask: FetchQuestion
    deadline: Deadline
    secret: Secret
    hops: list[tuple[str, int]]
    at: str | None = None  # the current URL, as it is reported


class Retriever:
    """Answers questions under one set of rules."""

    def __init__(self, rules: RetrieveRules, way: Way) -> None:
        self._rules, self._connections = rules, Connections(rules, way)

    def answer(self, ask: FetchQuestion) -> Got | NotGot:
        """Return the answer, or why there is none; nothing a server does raises an error."""
        case = _Question(ask, Deadline(self._rules.seconds), Secret(ask.credential), [])
        try:
            return self._answer(case)
        except NotRetrieved as exc:
            self._connections.drop()
            return not_got(exc, case.secret, url=case.at, hops=tuple(case.hops))
        except PolicyDenied as exc:
            return NotGot(exc.code, Failure.NOT_ALLOWED.reason, sentence(exc.message), case.at, ())

    def close(self) -> None:
        """Close the connection that was kept for the next question."""
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
        """Return the target of a redirect, judged like the first URL."""

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
