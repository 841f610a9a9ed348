"""Packets about one field, written for these tests: each says something of its own."""

from typing import Any

from tests.support.samples import box, packet
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import Excerpt, Identifier, ResearchPacket

ICE = (
    "Sea ice at -5 \u00b0C broke at 1.2 MPa. Fresh ice of the same age broke at 2.4 MPa.",
    "We cut 14 beams from the level ice of the bay. Salt makes ice weaker.",
)
SNOW = ("Snow of the first winter month had a density of 310 kg/m3. Wind packs it.",)
BIRDS = ("The arctic tern flies 70,900 km a year. Nobody knows how it sleeps.",)


def paper(number: int, *texts: str, title: str = "", **changes: Any) -> ResearchPacket:
    """Return a packet with its own DOI."""
    doi = f"10.5555/tg.{number}"
    named = {
        "reference": box(f"doi:{doi}"),
        "title": box(title or f"Work {number}"),
        "identifiers": (Identifier("doi", box(doi)),),
        "hazards": (),
        "gaps": (),
    }
    return packet(*texts, **{**named, **changes})


def found_by_search(*texts: str, label: str = "candidate {}", **changes: Any) -> ResearchPacket:
    """Return the packet of a search that found these."""
    places = tuple(
        Excerpt(box(label.format(n)), None, 0, len(text), sha256_hex(text.encode()))
        for n, text in enumerate(texts, 1)
    )
    named = {"reference": box("search:crossref:sea ice"), "title": box("Works about sea ice")}
    listed = {"texts": tuple(map(box, texts)), "excerpts": places, "hazards": (), "gaps": ()}
    return packet(**{**named, **listed, **changes})


def shelf() -> list[ResearchPacket]:
    """Return three papers; the first is about sea ice."""
    return [
        paper(1, *ICE, title="On the strength of sea ice"),
        paper(2, *SNOW, title="Density of snow"),
        paper(3, *BIRDS, title="Long ways of small birds"),
    ]
