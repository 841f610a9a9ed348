"""From an image file of a run to one that can be shown: a fresh box each, then our own writer.

SECURITY
    Hands a stranger's bytes to a process without network and takes points from it, within
    bounds.  No byte of the file itself is ever shown.  A box that dies, takes too long or breaks
    the protocol is a refusal in words; so is a machine on which no box can be had.
"""

from typing import Final

from threegate.base.errors import GateUnavailable, ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.image_reader.messages import (
    DAMAGED,
    MAX_PIXELS,
    MAX_SIDE,
    OTHER_KIND,
    TOO_LARGE,
    Decode,
    NotRead,
    parse_pixels,
)
from threegate.host.gate_profiles import named_failure, refuse_unapplied_profile
from threegate.host.report.facts import Image
from threegate.host.report.png import image_of
from threegate.policy.bundle import Bundle
from threegate.sandbox.box import Start
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import IMAGE_READER
from threegate.sandbox.session import run_gate

PAYLOAD: Final = "threegate.gates.image_reader.gate:serve"
_WHY: Final = {
    OTHER_KIND: "it is neither a PNG nor a JPEG file",
    DAMAGED: "it is damaged, or not a picture that can be decoded",
    TOO_LARGE: f"it has more than {MAX_PIXELS} points, or a side of more than {MAX_SIDE}",
}
_ENDED: Final = {
    "deadline": "decoding it took longer than it may",
    "output": "its decoder said more than it may",
    "crashed": "decoding it was ended by the limits of its box",
}


class Viewer:
    """Decodes images under one policy; no box is started before there is one."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._machine: Machine | None = None

    def __call__(self, image: Untrusted[bytes]) -> Image | str:
        """Return an image that can be shown, or in words why there is none."""
        try:
            asked = Decode(image.open_for_validation()).to_bytes()
            refuse_unapplied_profile(self._bundle, IMAGE_READER)
            self._machine = self._machine or find_machine()
            start = Start(IMAGE_READER, PAYLOAD, {})
            answer = run_gate(self._machine, start, asked)
        except ProtocolBroken as exc:
            return exc.message
        except (GateUnavailable, OSError) as exc:
            return _unavailable(exc)
        with answer.message as file:
            said = file.read()
        if answer.ended.why != "done":
            return _ENDED.get(answer.ended.why, f"its decoder ended ({answer.ended.why})")
        try:
            found = parse_pixels(Untrusted(said))
        except ProtocolBroken as exc:
            return f"its decoder broke the protocol: {exc.message}"
        return _WHY[found.reason] if isinstance(found, NotRead) else image_of(found)


def _unavailable(error: Exception) -> str:
    found = named_failure(error)
    assert isinstance(found, GateUnavailable)
    hint = f"; {found.hint}" if found.hint else ""
    return f"there is no box to decode it in: {found.message}{hint}"
