"""The real normalize box: one message in, one answer out."""

import time
from dataclasses import dataclass

from tests.support.boxes import said
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import (
    Normalize,
    PacketMade,
    PacketNotMade,
    parse_made,
)
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import FETCH_NORMALIZE, Profile
from threegate.sandbox.session import run_gate
from threegate.sandbox.supervise import Ended

PAYLOAD = "threegate.gates.fetch.normalize.gate:serve"


@dataclass(frozen=True, slots=True)
class Boxed:
    """What a box answered, if it did, and how it ended."""

    answer: PacketMade | PacketNotMade | None
    ended: Ended
    seconds: float


def boxed(message: Normalize, profile: Profile = FETCH_NORMALIZE, payload: str = PAYLOAD) -> Boxed:
    """Give one message to a fresh box."""
    begin = time.monotonic()
    answer = run_gate(find_machine(), Start(profile, payload, {}), message.to_bytes())
    data = said(answer)
    found = parse_made(Untrusted(data)) if data else None
    return Boxed(found, answer.ended, time.monotonic() - begin)
