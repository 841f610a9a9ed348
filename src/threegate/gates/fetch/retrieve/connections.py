"""Connections to servers: a new one for each hop, or the one kept from the last question.

SECURITY
    A kept connection is used for the same host only, after an answer that was read to its
    end with nothing behind it: an answer never meets a question it was not made for.
"""

import time
from typing import Final, Protocol

from threegate.gates.fetch.retrieve.requests import Hop
from threegate.gates.fetch.retrieve.rules import Rules
from threegate.gates.https.heads import Head
from threegate.gates.https.refused import NotRetrieved, Stale, Why
from threegate.gates.https.stream import Deadline
from threegate.gates.https.ways import Connection

# A tunnel carries the bytes of one answer and lives for the time of one question; whoever
# uses it again must be done before either is spent.
_BYTES_PART: Final = 4
_TIME_PART: Final = 3


class Way(Protocol):
    """How servers are reached."""

    absolute: bool

    def open(self, host: str, deadline: Deadline) -> Connection:
        """Return a connection to `host`."""

    def check(self, head: Head) -> None:
        """Raise `NotRetrieved` if an answer is not the server's own."""


class Connections:
    """Asks hops; keeps one connection, to the host asked last."""

    def __init__(self, rules: Rules, way: Way) -> None:
        self._rules, self._way = rules, way
        self._kept: Connection | None = None

    def ask(self, hop: Hop, deadline: Deadline) -> tuple[Connection, Head]:
        """Send a request and return the head of its answer; raise `NotRetrieved`."""
        kept = self._take(hop.address.host)
        if kept is not None:
            try:
                return kept, self._exchange(hop, kept, deadline)
            except Stale:  # the server closed it while nobody asked
                kept.stream.close()
        connection = self._way.open(hop.address.host, deadline)
        try:
            return connection, self._exchange(hop, connection, deadline)
        except Stale as exc:
            message = "the connection broke off before an answer"
            raise NotRetrieved(Why.CUT, message) from exc

    def _exchange(self, hop: Hop, connection: Connection, deadline: Deadline) -> Head:
        request = hop.to_bytes(contact=self._rules.contact, absolute=self._way.absolute)
        try:
            connection.stream.send(request, deadline)
            head = connection.stream.head(self._rules.header_bytes, deadline)
            self._way.check(head)
        except BaseException:
            connection.stream.close()
            raise
        return head

    def keep(self, connection: Connection, head: Head) -> None:
        """Keep a connection whose answer was read to its end, if it may be used again."""
        if head.keeps and connection.stream.is_empty:
            self.drop()
            self._kept = connection
        else:
            connection.stream.close()

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
