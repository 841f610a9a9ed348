"""Selection of the texts that a model sees or that are searched for sentences; made by the host.

It has two steps, so that it works for ten thousand packets: the index names packets with words of
the question (and, with vectors, packets that are near it), then every text of those is ranked.  The
same question over the same workspace selects the same texts.  The index only proposes: selected
texts are read again from their files.

SECURITY
    Ranks text of strangers, who may write anything to be found.  Nothing is left out without a
    count, and texts that policy does not let CORE read are never selected.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Protocol, TypeVar

from threegate.artifacts.ids import prefix_of
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import PolicyDenied, UsageError
from threegate.host.provenance.texts import Key, Material, Passage, read_material
from threegate.host.words.query import Term, question_terms, question_words
from threegate.host.words.tokens import words_of_each
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import is_search
from threegate.host.workspace.places import refuse_absent, resolve
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

# BM25: how well texts match the words of a question. Pure and deterministic.

K1: Final = 1.2
B: Final = 0.75
FUSION: Final = 60  # of reciprocal ranks: the usual constant, nothing depends on it much

RankKey = TypeVar("RankKey", bound=Hashable)


def bm25(query: Sequence[Term], texts: Sequence[Sequence[str]]) -> list[float]:
    """Return the score of each text, given as tokens; 0 for one that has no word of the query."""
    counts = _counts(query, texts)
    average = sum(map(len, texts)) / max(1, len(texts)) or 1.0
    scores = [0.0] * len(texts)
    for term in range(len(query)):
        holding = sum(term in count for count in counts)
        weight = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
        for number, count in enumerate(counts):
            often = count[term]
            if often:
                length = 1 - B + B * len(texts[number]) / average
                scores[number] += weight * often * (K1 + 1) / (often + K1 * length)
    return scores


def _counts(query: Sequence[Term], texts: Sequence[Sequence[str]]) -> list[Counter[int]]:
    """Return for each text how often it holds each term, by the term's place in the query."""
    held: dict[str, list[int]] = {}
    for token in set().union(*texts):
        places = [place for place, term in enumerate(query) if term.holds(token)]
        if places:
            held[token] = places
    return [
        Counter(place for token in text if token in held for place in held[token]) for text in texts
    ]


def by_score(scores: Mapping[RankKey, float]) -> list[RankKey]:
    """Return the keys with a score above 0, best first; equal ones in the order of keys."""
    found = [key for key, score in scores.items() if score > 0]
    return sorted(found, key=lambda key: (-round(scores[key], 9), key))


def fused(*rankings: Sequence[RankKey]) -> list[RankKey]:
    """Return one ranking from several, by the sum of reciprocal ranks."""
    scores: dict[RankKey, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (FUSION + place)
    return by_score(scores)


MAX_CANDIDATES: Final = 512  # packets that are read for one question
MAX_READ_CHARS: Final = 8 * 2**20  # of them together: what is ranked in a second or two
BY_WORDS: Final = "words"
BY_BOTH: Final = "words and vectors"


class Nearness(Protocol):
    """How near texts are in meaning, if an embedder is available."""

    def packets(self, question: str, limit: int) -> list[str]:
        """Return packets with a text near the question, nearest first."""
        ...

    def order(self, question: str, passages: Sequence[Passage]) -> list[Key]:
        """Return the passages it knows, nearest first."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What the policy lets one question see."""

    packets: int
    passages: int
    bytes: int

    @classmethod
    def of(cls, bundle: Bundle) -> "Limits":
        """Return the limits of the policy in force."""
        path = ("core", "selection")
        keys = ("packets", "excerpts", "bytes")
        return cls(*(bundle.integer(*path, key) for key in keys))


@dataclass(frozen=True, slots=True)
class Selection:
    """What was chosen for a question, best first."""

    question: str
    materials: Mapping[str, Material]
    passages: tuple[Passage, ...]
    left_out: int  # passages that were read and not selected
    ranked_by: str
    unread: int = 0  # packets that were found and not read
    first: tuple[str, ...] = ()  # artifacts that come before any ranking

    def note(self) -> str:
        """Return the selection in words, for the analysis; ids and numbers only."""
        places: dict[str, list[Passage]] = {}
        for passage in self.passages:
            places.setdefault(passage.artifact, []).append(passage)
        lines = [
            f"{one}: {', '.join(p.where() for p in sorted(found, key=lambda p: p.key))}"
            for one, found in places.items()
        ]
        head = f"Selected by {self.ranked_by}, best first; texts by number (and characters)."
        tail = f"Looked at and left out: {self.left_out} passages."
        more = [f"Found and not looked at: {self.unread} packets."] if self.unread else []
        return "\n".join([head, *lines, tail, *more])

    def within(self, chars: int, *, each: int) -> "Selection":
        """Return the best of it that fits into so many characters, `each` for a new source."""
        kept: list[Passage] = []
        seen: set[str] = set()
        for passage in self.passages:
            size = len(passage.text.open_for_validation())
            size += 0 if passage.artifact in seen else each
            if kept and size > chars:
                continue
            chars -= size
            seen.add(passage.artifact)
            kept.append(passage)
        materials = {one: self.materials[one] for one in self.materials if one in seen}
        left_out = self.left_out + len(self.passages) - len(kept)
        return replace(self, materials=materials, passages=tuple(kept), left_out=left_out)


def select(
    ws: Workspace,
    index: Index,
    question: str,
    *,
    query: str | None = None,
    near: Nearness | None = None,
) -> Selection:
    """Return the best texts of all packets for a question, or of those that match `query`."""
    limits = Limits.of(ws.bundle)
    if query is not None:
        rows = index.search(query, ("rp",), limit=MAX_CANDIDATES, skip=0)
        found = [row.id for row in rows]
    else:
        found = index.alike(question_words(question), "rp", limit=MAX_CANDIDATES)
        near_by = near.packets(question, limits.packets) if near is not None else []
        found = list(dict.fromkeys([*near_by, *found]))[:MAX_CANDIDATES]
    if not found and next(ws.store.ids("rp"), None) is None:
        hint = "`threegate fetch doi:10.5555/12345678` brings one in, from the source you name"
        raise UsageError("there are no sources here yet", hint=hint)
    materials, unread = _read(ws, found)
    chosen = _ranked(question, materials, limits, near, all_of_them=query is not None)
    return replace(chosen, unread=unread)


def _read(ws: Workspace, found: Sequence[str]) -> tuple[list[Material], int]:
    """Return the packets in order as long as they can be ranked, and how many others.

    A list of search results is not a statement of a source; it is used only if named.
    """
    materials: list[Material] = []
    size = looked_at = 0
    for artifact_id in found:
        if size > MAX_READ_CHARS:
            break
        looked_at += 1
        material = read_material(ws.store, ws.bundle, artifact_id)
        if isinstance(material.artifact, ResearchPacket) and is_search(material.artifact):
            continue
        materials.append(material)
        size += sum(len(text.open_for_validation()) for text in material.texts)
    return materials, len(found) - looked_at


def select_named(
    ws: Workspace,
    question: str,
    named: Iterable[str],
    *,
    first: Sequence[str] = (),
    near: Nearness | None = None,
) -> Selection:
    """Return the best texts of these artifacts; those of `first` before all others."""
    limits = Limits.of(ws.bundle)
    ids = list(dict.fromkeys([*first, *(_here(ws, text) for text in named)]))
    if len(ids) > limits.packets:
        where = ws.bundle.ref("core", "selection", "packets")
        detail = f"{len(ids)} artifacts are named, {where} allows {limits.packets}"
        raise PolicyDenied(
            detail, hint="name fewer, or raise it there and `threegate policy apply`"
        )
    materials = [read_material(ws.store, ws.bundle, one) for one in ids]
    return _ranked(question, materials, limits, near, all_of_them=True, first=first)


def _here(ws: Workspace, text: str) -> str:
    artifact_id = resolve(ws.store, text)
    if prefix_of(artifact_id) in ("rp", "res", "an"):  # otherwise the reader reports the error
        refuse_absent(ws.store, artifact_id)
    return artifact_id


def _ranked(
    question: str,
    materials: Sequence[Material],
    limits: Limits,
    near: Nearness | None,
    *,
    all_of_them: bool,
    first: Sequence[str] = (),
) -> Selection:
    passages = [passage for material in materials for passage in material.passages()]
    if not passages:
        hint = "--packets names the sources to read, --query finds them by other words"
        raise UsageError("no source here matches that question", hint=hint)
    known = {passage.key: passage for passage in passages}
    order = _order(question, materials, passages)
    how = BY_WORDS
    if near is not None:
        # The best by words first: only so many can be ordered by meaning.
        worth = [known[key] for key in dict.fromkeys([*order, *known])]
        meant = near.order(question, worth)
        order, how = fused(order, meant), BY_BOTH if meant else BY_WORDS
    before = [key for key in known if key[0] in first]
    rest = [key for key in known if all_of_them]  # named by the operator: ranked last, not lost
    ordered = dict.fromkeys([*before, *order, *rest])
    taken = _taken([known[key] for key in ordered], limits)
    shown = {passage.artifact for passage in taken}
    kept = {material.id: material for material in materials if material.id in shown}
    left_out = len(passages) - len(taken)
    return Selection(question, kept, taken, left_out, how, first=tuple(first))


def _order(question: str, materials: Sequence[Material], passages: Sequence[Passage]) -> list[Key]:
    """Return the passages that hold words of the question, or whose title does, best first."""
    titles = {one.id: one.title.open_for_validation() for one in materials}
    texts: list[list[str]] = []
    languages: set[str] = set()
    for artifact, own in groupby(passages, key=lambda passage: passage.artifact):
        parts = (passage.text.open_for_validation() for passage in own)
        (_, title), *found = words_of_each([titles[artifact], *parts])
        texts += ([*title, *tokens] for _, tokens in found)
        languages.update(language for language, _ in found)
    scores = bm25(question_terms(question, languages), texts)
    return by_score({p.key: score for p, score in zip(passages, scores, strict=True)})


def _taken(ordered: Sequence[Passage], limits: Limits) -> tuple[Passage, ...]:
    taken: list[Passage] = []
    artifacts: set[str] = set()
    size = 0
    for passage in ordered:
        grown = size + len(passage.text.open_for_validation().encode("utf-8"))
        if len(taken) >= limits.passages or grown > limits.bytes:
            break
        if passage.artifact not in artifacts and len(artifacts) >= limits.packets:
            continue
        artifacts.add(passage.artifact)
        taken.append(passage)
        size = grown
    return tuple(taken)
