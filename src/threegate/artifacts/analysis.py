"""Analysis: CORE's answer, claim by claim, with the quotes it rests on.

The model picks excerpts; the host inserts the quotes and checks numbers.  A label never
says more than was checked.

SECURITY
    Reads bytes the host assembled from CORE's output, which hostile text may have
    shaped.  Read back by CORE it counts as external.  If this module is wrong, a claim
    shows a quote or a label that does not belong to it.
"""

from dataclasses import dataclass
from typing import Final

from threegate.artifacts import limits as bounds
from threegate.artifacts.codec import BodySection, Format, section
from threegate.artifacts.ids import id_of, sha256_hex
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.base.forms import CONFIDENTIALITY, DIGEST, NONCE, TIME
from threegate.base.schema import Choice, Integer, ListOf, Nullable, Pattern, Record, Sorted, spec
from threegate.base.untrusted import Untrusted

CLAIM_LABELS: Final = ("quote found", "number differs", "unchecked", "source retracted")


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """The model that wrote the claims."""

    name: str = spec(Pattern(r"[!-\[\]-~]{1,200}", "a model name"), "as policy names it")
    sha256: str | None = spec(Nullable(DIGEST), "digest of the model file, where there is one")
    server: str = spec(
        Pattern(
            r"embedded|bridge|remote:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?",
            "`embedded`, `bridge` or `remote:HOST`",
        ),
        "where it ran; a remote machine by its name",
    )

    @property
    def host(self) -> str | None:
        """The machine that questions and sources were sent to; None for this one."""
        kind, _, host = self.server.partition(":")
        return host if kind == "remote" else None


@dataclass(frozen=True, slots=True)
class Cite:
    """The place of a quote: artifact, text and offset."""

    artifact: str = spec(id_of("rp", "res", "an"), "the artifact")
    excerpt: int = spec(Integer(0, bounds.MAX_EXCERPTS), "its text, counted from 1")
    offset: int = spec(Integer(), "first character of the quote within that text")
    length: int = spec(Integer(1, bounds.MAX_QUOTE_CHARS), "number of characters")
    sha256: str = spec(DIGEST, "digest of the quote's UTF-8 bytes")


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: its label, its author and its quotes."""

    label: str = spec(Choice(*CLAIM_LABELS), "the most that was checked")
    cites: tuple[Cite, ...] = spec(
        ListOf(Record(Cite), bounds.MAX_CITES_PER_CLAIM), "the quotes it rests on"
    )


@dataclass(frozen=True, slots=True)
class Analysis:
    """An answer with its evidence."""

    created: str = spec(TIME, "when the host stored it")
    nonce: str = spec(NONCE, "stamped by the host")
    method: str = spec(
        Choice("extractive", "model", "map-reduce"), "`extractive`: no words were generated"
    )
    model: ModelUsed | None = spec(Nullable(Record(ModelUsed)), "null for `extractive`")
    role: str = spec(Pattern(r"[a-z][a-z0-9-]{0,63}", "a role profile"), "the role CORE was given")
    policy_sha256: str = spec(DIGEST, "the policy bundle in force")
    continues: str | None = spec(Nullable(id_of("an")), "the analysis it goes on from")
    selection: tuple[str, ...] = spec(
        Sorted(id_of("rp", "res", "an"), bounds.MAX_DERIVED_FROM),
        "what was put before the model",
    )
    claims: tuple[Claim, ...] = spec(
        ListOf(Record(Claim), bounds.MAX_CLAIMS), "one entry per text under Claims"
    )
    integrity: str = spec(Choice("external"), "an analysis read back is external")
    confidentiality: str = spec(Choice(*CONFIDENTIALITY), "joined over `derived_from`")
    derived_from: tuple[str, ...] = spec(
        Sorted(id_of("rp", "res", "an"), bounds.MAX_DERIVED_FROM),
        "every artifact readable in the run; set by the host",
    )
    question: Untrusted[str] = section(
        BodySection("Question", bounds.MAX_PURPOSE_CHARS, 1), "what the operator asked"
    )
    answer: Untrusted[str] = section(
        BodySection("Answer", bounds.MAX_ANSWER_CHARS, 1), "the answer in one piece"
    )
    claim_texts: tuple[Untrusted[str], ...] = section(
        BodySection("Claims", bounds.MAX_CLAIM_CHARS, 1, bounds.MAX_CLAIMS),
        "the answer claim by claim",
    )
    quotes: tuple[Untrusted[str], ...] = section(
        BodySection(
            "Quotes", bounds.MAX_QUOTE_CHARS, 1, bounds.MAX_CLAIMS * bounds.MAX_CITES_PER_CLAIM
        ),
        "the quotes, in the order the claims cite them",
    )
    notes: tuple[Untrusted[str], ...] = section(
        BodySection("Notes", bounds.MAX_ANSWER_CHARS, 1, bounds.MAX_CLAIMS),
        "intermediate notes, if any",
    )

    def parents(self) -> tuple[str, ...]:
        """Return the ids this analysis was made from."""
        return self.derived_from


def _check(analysis: Analysis) -> None:
    if (analysis.model is None) != (analysis.method == "extractive"):
        raise reject(ArtifactReason.INCONSISTENT, "model is null for extractive, and only for it")
    if len(analysis.claims) != len(analysis.claim_texts):
        raise reject(ArtifactReason.INCONSISTENT, "claims and texts differ in number")
    # A source that was read and not listed would lose its labels and its retraction.
    readable = set(analysis.derived_from)
    named = {*analysis.selection, *([analysis.continues] if analysis.continues else [])}
    if not named <= readable:
        raise reject(ArtifactReason.INCONSISTENT, "derived_from lacks something that was read")
    cites = [cite for claim in analysis.claims for cite in claim.cites]
    if len(cites) != len(analysis.quotes):
        raise reject(ArtifactReason.INCONSISTENT, "cites and quotes differ in number")
    for number, (cite, quote) in enumerate(zip(cites, analysis.quotes, strict=True), 1):
        _check_cite(number, cite, quote.open_for_validation(), readable)
    for number, claim in enumerate(analysis.claims, 1):
        # A label without a quote would vouch for words that nobody compared.
        if not claim.cites and claim.label != "unchecked":
            raise reject(ArtifactReason.INCONSISTENT, f"claim {number} has a label but no quote")


def _check_cite(number: int, cite: Cite, quote: str, readable: set[str]) -> None:
    if cite.artifact not in readable:
        raise reject(ArtifactReason.INCONSISTENT, f"quote {number} cites what was not readable")
    # The digest ties the quote to its place; reports look it up again in the source.
    if (cite.length, cite.sha256) != (len(quote), sha256_hex(quote.encode("utf-8"))):
        raise reject(ArtifactReason.DIGEST_MISMATCH, f"quote {number} is not the text it names")


FORMAT: Final = Format(
    Analysis,
    prefix="an",
    version=1,
    title="Analysis",
    max_bytes=bounds.MAX_ANALYSIS_BYTES,
    check=_check,
)
