"""A packet says of its retrieval what the host wrote into the record, or it is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.normalization import DOI, RAWS, RECORD
from threegate.artifacts import registry
from threegate.artifacts.research_packet import Also, Gap, Hop, Notice, ResearchPacket
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize import gate
from threegate.gates.fetch.normalize.messages import Normalize, PacketMade
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.host.fetch.storage import parse_packet

OTHER = "0" * 64
LATER = "2026-11-15T12:00:01Z"


@pytest.fixture(scope="module")
def honest() -> ResearchPacket:
    made = gate.answer(Normalize(RECORD.to_bytes(), RAWS), PLAIN)
    assert isinstance(made, PacketMade)
    return parse_packet(Untrusted(made.packet), RECORD)


def test_what_the_real_box_makes_is_accepted(honest: ResearchPacket) -> None:
    assert (honest.source, len(honest.also), len(honest.gaps)) == ("crossref", 1, 1)


def _also(packet: ResearchPacket, **changes: Any) -> tuple[Also, ...]:
    return (replace(packet.also[0], **changes),)


LIES: dict[str, Callable[[ResearchPacket], dict[str, Any]]] = {
    "another reference": lambda _: {"reference": Untrusted("doi:10.5555/other")},
    "no request": lambda _: {"request": None},
    "another request": lambda _: {"request": "fr-" + OTHER},
    "a weaker label": lambda _: {"confidentiality": "public"},
    "another record": lambda _: {"record_sha256": OTHER},
    "no record": lambda _: {"record_sha256": None},
    "another source": lambda _: {"source": "datacite"},
    "another url": lambda _: {"url": "https://api.crossref.org/works/2"},
    "a hop less": lambda _: {"hops": ()},
    "another hop": lambda p: {"hops": (Hop(p.hops[0].url, 302),)},
    "another time": lambda _: {"retrieved": LATER},
    "another type": lambda _: {"media_type": "text/plain"},
    "other bytes": lambda _: {"raw_sha256": OTHER},
    "another size": lambda p: {"raw_bytes": p.raw_bytes + 1},
    "another anchor": lambda _: {"trust_anchor": OTHER},
    "a further answer less": lambda _: {"also": ()},
    "a further answer twice": lambda p: {"also": (*p.also, *p.also)},
    "a further answer from elsewhere": lambda p: {"also": _also(p, source="unpaywall")},
    "a further answer of other bytes": lambda p: {"also": _also(p, sha256=OTHER)},
    "a gap less": lambda _: {"gaps": ()},
    "a gap for another reason": lambda p: {"gaps": (replace(p.gaps[0], reason="denied"),)},
    "a gap nobody asked about": lambda p: {
        "gaps": (*p.gaps, Gap("pubmed", Untrusted(DOI), "denied"))
    },
    "a field from nobody": lambda p: {
        "metadata_from": (replace(p.metadata_from[0], source="arxiv"),)
    },
    "a notice from nobody": lambda _: {
        "notices": (Notice("retracted", "pubmed", None, None, None),)
    },
}


@pytest.mark.parametrize("lie", LIES)
# claim TG-C-125
def test_a_packet_that_says_otherwise_is_refused(honest: ResearchPacket, lie: str) -> None:
    changed = replace(honest, **LIES[lie](honest))
    assert changed != honest, "control: it says something else"
    data = registry.emit(changed)
    registry.parse(Untrusted(data))  # control: a packet like any other
    with pytest.raises(ArtifactRejected) as refused:
        parse_packet(Untrusted(data), RECORD)
    assert refused.value.code == "TG-FET-071"


def test_what_a_source_says_is_not_the_hosts_business(honest: ResearchPacket) -> None:
    changed = replace(honest, title=Untrusted("Another title"), retraction="retracted")
    assert parse_packet(Untrusted(registry.emit(changed)), RECORD) == changed
