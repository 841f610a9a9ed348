"""From an image file of a run to one that can be shown: a fresh box each, then our own writer.

SECURITY
    Hands a stranger's bytes to a process without network and takes points from it, within
    bounds.  No byte of the file itself is ever shown.  A box that dies, takes too long or breaks
    the protocol is a refusal in words; so is a machine on which no box can be had.
"""

from functools import partial
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
from threegate.host.open_box import ended, open_box
from threegate.host.report.facts import Image
from threegate.host.report.png import image_of
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import IMAGE_READER
from threegate.sandbox.session import run_gate

_WHY: Final = {
    OTHER_KIND: "it is neither a PNG nor a JPEG file",
    DAMAGED: "it is damaged, or not a picture that can be decoded",
    TOO_LARGE: f"it has more than {MAX_PIXELS} points, or a side of more than {MAX_SIDE}",
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
            self._machine = self._machine or find_machine()
            kind = partial(run_gate, request=asked)
            answer = open_box(kind, self._machine, self._bundle, IMAGE_READER)
        except ProtocolBroken as exc:
            return exc.message
        except GateUnavailable as exc:
            hint = f"; {exc.hint}" if exc.hint else ""
            return f"there is no sandbox to decode it in: {exc.message}{hint}"
        with answer.message as file:
            said = file.read()
        if answer.ended.why != "done":
            return ended(IMAGE_READER, answer.ended.why).message
        try:
            found = parse_pixels(Untrusted(said))
        except ProtocolBroken as exc:
            return f"the image decoder broke the protocol: {exc.message}"
        return _WHY[found.reason] if isinstance(found, NotRead) else image_of(found)
