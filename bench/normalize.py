"""Crossref answers into packets on one core, next to a plain script over the same JSON.

The answers are invented: as long as real ones (8 kB in the middle), with abstract, authors,
references, licences and links.  The plain script does what such scripts do: it loads the JSON,
picks the fields, strips tags with one expression and writes JSON again.  It checks nothing.
Nothing here waits, so the clock is that of the core.
"""

import gc
import hashlib
import json
import random
import re
import time
from pathlib import Path

from bench.data import sentences
from bench.figures import Plain, Sizes, compare, memory_rows
from bench.measure import Memory, Watch, noise, say
from tests.support.normalization import JSON, ask, got
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.gate import answer
from threegate.gates.fetch.normalize.messages import Normalize, PacketMade
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.gates.fetch.sources import crossref

CHUNK = 100
ANSWERS = 200
ONE_IN = 10  # of the packets that are validated elsewhere: a packet takes as much longer
TARGET_PER_SECOND = 2_000
_TAG = re.compile(r"<[^>]+>")


def run(sizes: Sizes, _directory: Path) -> Plain:
    """Measure and return rows."""
    ours, parsed, script = (Watch(clock=time.process_time) for _ in range(3))
    memory = Memory()
    asks = [_ask(number) for number in range(min(ANSWERS, sizes.packets_to_validate))]
    gc.freeze()  # as the gate does
    laps = max(4, sizes.packets_to_validate // ONE_IN // CHUNK)
    for lap in range(laps):
        chunk = [asks[(lap * CHUNK + number) % len(asks)] for number in range(CHUNK)]
        with ours.lap(CHUNK):
            made = [answer(message, PLAIN) for message in chunk]
        with parsed.lap(CHUNK):
            for message in chunk:
                crossref.READER.one(Untrusted(message.raws[0]), status=200, media_type=JSON)
        with script.lap(CHUNK):
            for message in chunk:
                _plain_script(message.raws[0])
        assert all(isinstance(found, PacketMade) for found in made)
        memory.look()
        if lap % 20 == 19:
            say(f"normalize: {ours.done} packets, {ours.rate():,.0f}/s")
    rows = [_row(ours, "a script: load, pick, strip tags, dump", script, judged=True)]
    rows.append(_row(ours, "reading the work alone, no record, no packet", parsed, judged=False))
    return {"rows": [*rows, *memory_rows("normalize", memory)], "curves": []}


def _row(ours: Watch, peer: str, theirs: Watch, *, judged: bool) -> Plain:
    return compare(
        "Crossref JSON to packet, per core",
        ours.rate(),
        peer=peer,
        theirs=theirs.rate(),
        unit="packets/s",
        target=f"{TARGET_PER_SECOND:,} packets/s" if judged else "",
        met=ours.rate() >= TARGET_PER_SECOND if judged else None,
        noise=(noise(ours.seconds), noise(theirs.seconds)),
    )


def _plain_script(raw: bytes) -> bytes:
    work = json.loads(raw)["message"]
    record = {
        "doi": work["DOI"],
        "title": _TAG.sub("", work["title"][0]),
        "authors": [f"{who['given']} {who['family']}" for who in work["author"]],
        "published": work["issued"]["date-parts"][0],
        "container": work["container-title"][0],
        "licence": work["license"][0]["URL"],
        "abstract": _TAG.sub("", work["abstract"]),
        "links": [link["URL"] for link in work["link"]],
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    return json.dumps(record, ensure_ascii=False).encode()


def _ask(number: int) -> Normalize:
    raw = json.dumps(work(number), ensure_ascii=False).encode()
    return ask([got("crossref", raw, JSON)], reference=f"doi:10.5555/bench.{number}")[1]


def work(number: int) -> Plain:
    chooser = random.Random(number)
    prose = chooser.sample(sentences(), k=50)
    names = [word.strip(".").title() for word in prose[0].split()]
    abstract, doi = " ".join(prose[2:22]), f"10.5555/bench.{number}"
    licence = {"URL": "https://creativecommons.org/licenses/by/4.0/", "content-version": "vor"}
    message = {
        "DOI": doi,
        "title": [f"On <i>gates</i>: {prose[1]}"],
        "author": [
            {"given": given, "family": family, "sequence": "additional", "affiliation": []}
            for given, family in zip(names[::2], names[1::2], strict=False)
        ],
        "abstract": f"<jats:title>Abstract</jats:title><jats:p>{abstract} Zürich</jats:p>",
        "issued": {"date-parts": [[2020, 1 + number % 12]]},
        "container-title": ["Journal of Gates"],
        "ISSN": ["1234-567X"],
        "license": [licence | {"delay-in-days": 0}],
        "link": [{"URL": f"https://www.example.org/{number}/{kind}"} for kind in ("pdf", "xml")],
        "URL": f"https://doi.org/{doi}",
        "reference": [
            {"key": f"ref{place}", "unstructured": text, "DOI": f"10.5555/{place}"}
            for place, text in enumerate(prose[22:])
        ],
        "relation": {},
    }
    return {"status": "ok", "message-type": "work", "message-version": "1.0.0", "message": message}
