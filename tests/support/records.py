"""A retrieval record with everything in it: two answers, a redirect, a miss, a request."""

from tests.support.origins import answers_json, works
from threegate.artifacts.ids import sha256_hex
from threegate.gates.fetch.normalize.messages import KeptAnswer, Miss, RetrievalRecord

DOI = f"doi:{works.ARTICLE.doi}"
TIME = "2026-11-15T12:00:00Z"
RAWS = (answers_json.crossref(works.ARTICLE), answers_json.openalex(works.ARTICLE))


def answer(source: str, host: str, raw: bytes) -> KeptAnswer:
    return KeptAnswer(
        source=source,
        role="metadata",
        reference=DOI,
        url=f"https://{host}/works/1",
        hops=((f"https://{host}/works/0", 301),),
        status=200,
        media_type="application/json",
        read_as="application/json",
        retrieved=TIME,
        sha256=sha256_hex(raw),
        bytes=len(raw),
        trust_anchor="system",
    )


RECORD = RetrievalRecord(
    reference=DOI,
    scheme="doi",
    want="metadata",
    request="fr-" + "1" * 64,
    confidentiality="internal",
    answers=(
        answer("crossref", "api.crossref.org", RAWS[0]),
        answer("openalex", "api.openalex.org", RAWS[1]),
    ),
    misses=(Miss("europepmc", DOI, "timed-out", "no answer in time"),),
)
