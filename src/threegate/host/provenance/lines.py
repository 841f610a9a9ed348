"""The file and line of a quote, where a packet was made from a text file.

SECURITY
    A path is foreign text, and the caller shows it as such.  The line is computed from a label that
    a sandbox wrote: if that is wrong, a quote names another line, and its words are still checked.
"""

import re
from typing import Final
from urllib.parse import unquote

from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.text import visible
from threegate.host.provenance.headlines import Read

_LABEL: Final = re.compile(r"lines? ([1-9][0-9]{0,8})(?:-[0-9]{1,9})?\Z")
_GIT: Final = re.compile(r"git:[0-9a-f]+/")


def line_of(artifact_id: str, number: int, offset: int, read: Read) -> str | None:
    """Return `path:line` of a place in a text of a packet, or None if it has no lines."""
    packet = read(artifact_id)
    if not isinstance(packet, ResearchPacket) or not 0 < number <= len(packet.excerpts):
        return None
    label = _LABEL.match(packet.excerpts[number - 1].label.open_for_display())
    if label is None or packet.source not in ("file", "git"):
        return None
    before = packet.texts[number - 1].open_for_display()[:offset].count("\n")
    return f"{path_of(packet)}:{int(label.group(1)) + before}"


def path_of(packet: ResearchPacket) -> str:
    """Return the path of an imported file for people."""
    return visible(unquote(_GIT.sub("", packet.url, count=1).removeprefix("file:")))
