"""Connections to servers: a new one for each hop, or the one kept from the last question.

SECURITY
    A kept connection is used for the same host only, after an answer that was read to its
    end with nothing behind it: an answer never meets a question it was not made for.
"""

import time
from dataclasses import dataclass
from typing import Final, Protocol

from threegate.gates.fetch.retrieve.requests import HopRequest
from threegate.gates.fetch.retrieve.rules import RetrieveRules
from threegate.gates.http_library.client import (
    ConnectionLost,
    Deadline,
    Exchange,
    Failure,
    NotRetrieved,
    ResponseHead,
)
from threegate.gates.http_library.tunnel import Connection

# A tunnel carries the bytes of one answer and lives for the time of one question; whoever
# uses it again must be done before either is spent.
_BYTES_PART: Final = 4
_TIME_PART: Final = 3


class Way(Protocol):
    """How servers are reached."""

    absolute: bool

    def open(self, host: str, deadline: Deadline) -> Connection:
        """Return a connection to `host`."""

    def check(self, head: ResponseHead) -> None:
        """Raise `NotRetrieved` if an answer is not the server's own."""


@dataclass(frozen=True, slots=True)
class OpenResponse:
    """A server that has answered: the head of its response, and the way to the rest."""

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
    """Asks hops; keeps one connection, to the host asked last."""

    def __init__(self, rules: RetrieveRules, way: Way) -> None:
        self._rules, self._way = rules, way
        self._kept: Connection | None = None

    def ask(self, hop: HopRequest, deadline: Deadline) -> "OpenResponse":
        """Send a request and return the head of its answer; raise `NotRetrieved`."""
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
        """Keep a connection whose answer was read to its end, if it may be used again."""
        stream = answered.connection.stream
        if answered.head.keeps and not answered.exchange.behind and not stream.has_more:
            self.drop()
            self._kept = answered.connection
        else:
            stream.close()

    def drop(self) -> None:
        """Let go of the connection that was kept."""
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
