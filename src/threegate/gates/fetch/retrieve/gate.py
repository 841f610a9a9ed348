"""The program of a fetch-retrieve sandbox: receives its rules once, then answers questions.

One process serves one first host under one policy, and the host ends it after an answer that
involved another host.  It starts empty and writes nothing.

SECURITY
    Reads what the host sends.  Only our own messages leave: an unexpected error becomes the
    answer `TG-FET-025`, not a traceback.
"""

import platform
import select
import ssl
from typing import Final

from threegate import __version__
from threegate.base.errors import ThreeGateError
from threegate.base.greeting import GateReady, GateRefused
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.retrieve.answers import bug, sentence
from threegate.gates.fetch.retrieve.messages import (
    GREETING,
    PROTOCOL,
    RetrieveOpening,
    parse_opening,
    parse_question,
)
from threegate.gates.fetch.retrieve.retriever import Retriever
from threegate.gates.fetch.retrieve.rules import anchors_of, rules_of
from threegate.gates.http_library.tunnel import GatewayProxy, Tunnels, make_anchors
from threegate.policy.bundle import parse_bundle
from threegate.sandbox import payload
from threegate.sandbox.channel import read_message, write_message
from threegate.sandbox.payload import ANSWERS_FD, REQUESTS_FD

IDLE_SECONDS: Final = 1.0  # how long a connection is kept for the next question


def serve() -> None:
    """Answer questions until the host hangs up; the payload of a fetch-retrieve sandbox."""
    payload.serve(_serve)


def _serve() -> None:
    first = read_message(REQUESTS_FD, parse_opening.most_bytes)
    if first is None:
        return
    opened = open_with(parse_opening(Untrusted(first)))
    if isinstance(opened, GateRefused):
        write_message(ANSWERS_FD, opened.to_bytes())
        return
    write_message(ANSWERS_FD, GateReady(PROTOCOL, versions()).to_bytes())
    while (message := _next(opened)) is not None:
        ask = parse_question(Untrusted(message))
        try:
            answer = opened.answer(ask).to_bytes()
        except Exception:  # noqa: BLE001  # see SECURITY
            answer = bug().to_bytes()
        write_message(ANSWERS_FD, answer)
    opened.close()


def _next(opened: Retriever) -> bytes | None:
    """Return the next question; close the kept connection if none comes soon.

    It holds one of the few tunnels that the rule of its host grants.
    """
    if not select.select([REQUESTS_FD], [], [], IDLE_SECONDS)[0]:
        opened.close()
    return read_message(REQUESTS_FD, parse_question.most_bytes)


def versions() -> dict[str, str]:
    """Return the versions of the software in this process."""
    return {
        "openssl": ssl.OPENSSL_VERSION.split(" ")[1],
        "python": platform.python_version(),
        "threegate": __version__,
    }


def open_with(opening: RetrieveOpening) -> Retriever | GateRefused:
    """Return a retriever for these rules, or why there is none."""
    try:
        bundle = parse_bundle(opening.bundle)
        anchors = make_anchors(anchors_of(bundle, opening.anchors))
        rules = rules_of(bundle, opening.purpose)
    except ThreeGateError as exc:
        return GREETING.refused(exc.code, sentence(exc.message))
    way = GatewayProxy(anchors) if rules.gateway else Tunnels(anchors)
    return Retriever(rules, way)
