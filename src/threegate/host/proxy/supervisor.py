"""The proxy's supervisor: starts its box, gives it the rules, hears every decision.

It is a thread of its own, because a box ends with the thread that started it and because the
proxy waits for whoever reads its decisions.  When the proxy ends for any reason, nothing can
be asked any more, and whoever started it is told.

SECURITY
    Reads what a process with the network says.  What is not a decision in the protocol ends
    it, with every tunnel it holds.
"""

import io
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final

from threegate.base.errors import GateUnavailable, ProtocolBroken, ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.proxy.messages import Address, InForce, Rules, parse_in_force
from threegate.host.gate_profiles import named_failure, refuse_unapplied_profile
from threegate.host.proxy.decisions import parse_decision
from threegate.host.proxy.machine import own_addresses, resolver
from threegate.host.proxy.sockets import Listening
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import PACKETS
from threegate.sandbox.box import Start
from threegate.sandbox.channel import frames
from threegate.sandbox.launch import Evidence, not_started
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import PROXY, Profile
from threegate.sandbox.session import START_SECONDS, start_gate
from threegate.sandbox.supervise import Line

PAYLOAD: Final = "threegate.gates.fetch.proxy.gate:serve"
RULES_SECONDS: Final = 20.0
CLOSE_SECONDS: Final = 5.0
SLICE_SECONDS: Final = 0.1  # how long an order waits at most for the thread to look up
PROXY_GONE: Final = "TG-FET-064"

Decided = Callable[[dict[str, Any]], None]
Gone = Callable[[ThreeGateError], None]


class Proxy:
    """A running proxy; `reload` and `close` may be called from any thread."""

    def __init__(
        self,
        machine: Machine,
        listening: Listening,
        *,
        decided: Decided,
        gone: Gone,
        purpose: str = PACKETS,
        hosts: tuple[str, ...] = (),
        profile: Profile = PROXY,
        pin: bool = False,
    ) -> None:
        self._machine, self._listening, self._purpose = machine, listening, purpose
        self._hosts, self._profile, self._pin = hosts, profile, pin
        self.pinned: tuple[Address, ...] = ()  # what it found out at its start, if it was to
        self._decided, self._gone = decided, gone
        self._orders: SimpleQueue[tuple[Bundle, Future[InForce]]] = SimpleQueue()
        self._close = Event()
        self._opened: Future[Evidence] = Future()
        self._line: Line | None = None
        self._thread = Thread(target=self._run, name="proxy", daemon=True)

    def start(self, bundle: Bundle) -> Evidence:
        """Start the box and put the rules in force; raise `GateUnavailable`."""
        refuse_unapplied_profile(bundle, self._profile)
        self._thread.start()
        evidence = self._opened.result()
        self.pinned = self.reload(bundle).pinned
        return evidence

    def reload(self, bundle: Bundle) -> InForce:
        """Put rules in force for new and for open tunnels; return when they hold."""
        answer: Future[InForce] = Future()
        self._orders.put((bundle, answer))
        while True:
            alive = self._thread.is_alive()
            try:
                return answer.result(timeout=SLICE_SECONDS)
            except TimeoutError:
                if not alive:  # it ended before it could see the order
                    raise _ended("it is not there any more") from None

    def close(self) -> None:
        """End the proxy with every tunnel it holds."""
        self._close.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            line = self._open()
        except Exception as exc:  # noqa: BLE001  # whoever waits for the start raises it
            self._opened.set_exception(named_failure(exc))
            return
        why: str | None = "interrupted"
        error: Exception | None = None
        try:
            why = self._serve(line)
        except Exception as exc:  # noqa: BLE001  # told to whoever started us, below
            error = exc
        ended = line.end(why)
        self._refuse_orders()
        # Told while it is closed as well: from there on no decision was heard.
        if error is not None or not self._close.is_set():
            if not isinstance(error, ThreeGateError):
                error = _ended(ended.why if error is None else type(error).__name__)
            self._gone(error)

    def _open(self) -> Line:
        fd = self._listening.fd
        start = Start(self._profile, PAYLOAD, {"resolver": resolver()}, keep_fds=(fd,))
        started, evidence = start_gate(self._machine, start)
        line = Line(started, self._profile, note=lambda note: self._decided(parse_decision(note)))
        why = line.greet(time.monotonic() + START_SECONDS)
        if why is not None or not line.is_ready:
            raise not_started(self._profile.name, line.end(why))
        self._opened.set_result(evidence)
        return line

    def _serve(self, line: Line) -> str | None:
        """Return why the box must be ended, None if it is gone already."""
        asked = False
        while not self._close.is_set():
            try:
                bundle, answer = self._orders.get(timeout=None if asked else SLICE_SECONDS)
            except Empty:
                continue
            with _answering(answer) as answered:
                answered(self._apply(line, bundle))
            asked = True
            why = self._listen(line)
            if why != "order":
                return why
        if not line.is_gone:
            line.hang_up()
        return line.wait_for_end(time.monotonic() + CLOSE_SECONDS)

    def _listen(self, line: Line) -> str | None:
        """Hear decisions until there is an order, or the end."""
        while self._orders.empty():
            if self._close.is_set():
                return "order"
            why = line.wait_for_end(time.monotonic() + SLICE_SECONDS)
            if why != "deadline":
                return why
        return "order"

    def _apply(self, line: Line, bundle: Bundle) -> InForce:
        answer = io.BytesIO()
        fd, purpose = self._listening.fd, self._purpose
        own = own_addresses()
        rules = Rules(bundle.bundle_bytes(), fd, own, purpose, self._hosts, self._pin)
        line.expect(answer)
        line.send(frames(rules.to_bytes()))
        why = line.wait_for_answer(time.monotonic() + RULES_SECONDS)
        if why is not None or not line.is_answered:
            raise _ended(f"it did not take the rules ({why or 'it ended'})")
        found = parse_in_force(Untrusted(answer.getvalue()))
        if (found.generation, found.policy) != (bundle.generation, bundle.digest) or (
            found.pinned and not self._pin
        ):
            raise ProtocolBroken("the proxy put other rules in force")
        return found

    def _refuse_orders(self) -> None:
        while not self._orders.empty():
            self._orders.get()[1].set_exception(_ended("it is not there any more"))


@contextmanager
def _answering(answer: "Future[InForce]") -> Iterator[Callable[[InForce], None]]:
    """Let whoever gave an order have its error as well."""
    try:
        yield answer.set_result
    except BaseException as exc:
        answer.set_exception(exc)
        raise


def _ended(why: str) -> GateUnavailable:
    hint = "what was retrieved is stored; run the command again, it goes on where it stopped"
    return GateUnavailable(f"the proxy ended: {why}", code=PROXY_GONE, hint=hint)
