"""The proxy as a service: it decides by one bundle until it is told to end or to read it again.

SECURITY
    The bundle is a file whose owner decides what FETCH may reach: nobody's signature is asked
    for here, so it belongs to root or to whoever runs the proxy.  One that cannot be read, or
    is older than the one in force, ends the proxy with all its tunnels.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final

from threegate.base.errors import PolicyInvalid, ThreeGateError
from threegate.base.limits import MAX_BUNDLE_BYTES
from threegate.base.text import visible
from threegate.host.proxy.supervisor import Proxy, listening_at
from threegate.policy.bundle import Bundle, parse_bundle
from threegate.sandbox.machine import find_machine

_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
Tell = Callable[[dict[str, Any]], None]


def read_bundle(path: Path) -> Bundle:
    """Return the bundle in a file, or raise `PolicyInvalid`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BUNDLE_BYTES + 1)
    except OSError as exc:
        detail = f"cannot read {visible(str(path))}: {os.strerror(exc.errno or 0)}"
        hint = "`threegate infra write DIR` makes a bundle.json"
        raise PolicyInvalid(detail, hint=hint) from exc
    return parse_bundle(data)


def serve(socket: Path, read: Callable[[], Bundle], tell: Tell) -> None:
    """Serve until a signal says to end; SIGHUP reads the bundle again.

    `tell` hears each decision before anything comes of it: where it fails, the proxy ends.
    """
    heard: SimpleQueue[int | ThreeGateError] = SimpleQueue()
    with listening_at(socket) as listening, _signals(heard):
        bundle = read()
        proxy = Proxy(find_machine(), listening, decided=tell, gone=heard.put)
        try:
            proxy.start(bundle)
            tell(_in_force(bundle))
            while (word := heard.get()) == signal.SIGHUP:
                bundle = _newer(read(), bundle)
                proxy.reload(bundle)
                tell(_in_force(bundle))
            if isinstance(word, ThreeGateError):
                raise word
        finally:
            proxy.close()


def _in_force(bundle: Bundle) -> dict[str, Any]:
    return {"event": "in-force", "generation": bundle.generation, "policy": bundle.digest}


def _newer(found: Bundle, before: Bundle) -> Bundle:
    if found.generation < before.generation:
        detail = f"generation {found.generation} is older than {before.generation}, in force now"
        raise PolicyInvalid(detail, hint="start the proxy anew if that is meant")
    return found


@contextmanager
def _signals(heard: "SimpleQueue[int | ThreeGateError]") -> Iterator[None]:
    """Put signals into the queue; the queue may be used inside a handler."""

    def put(number: int, _: FrameType | None) -> None:
        heard.put(number)

    before = {number: signal.signal(number, put) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
