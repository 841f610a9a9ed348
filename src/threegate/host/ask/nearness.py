"""Nearness of passages to a question in meaning, by vectors that a sandboxed embedder computes.

Packets are compared by meaning only once every packet has its vectors: before that, the result
would depend on which vectors happen to exist.  A number of missing ones is computed before each
question, so that a large workspace is completed in steps.

SECURITY
    Opens passages to compute their digests and hands them to the embedder's sandbox.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import GateUnavailable, UsageError
from threegate.base.untrusted import Untrusted
from threegate.gates.model.embedder.messages import nearness, numbers_of
from threegate.host.command_context import Context
from threegate.host.models.catalogue import MINILM
from threegate.host.models.choice import noted_by
from threegate.host.models.embedder import Embedder
from threegate.host.models.store import Cache
from threegate.host.provenance.texts import Key, Passage, read_material
from threegate.host.proxy.supervisor import LogWriter
from threegate.host.workspace.index import Index
from threegate.host.workspace.vectors import Vector, VectorStore
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.machine import find_machine

FILL_PASSAGES: Final = 1000  # new vectors before one question: ten seconds or so
ORDER_PASSAGES: Final = 256  # passages that are ordered by meaning
LEAST: Final = 0.2  # below, two texts have nothing to do with each other
MAX_PACKETS: Final = 1_000_000
BATCH: Final = 32

Show = Callable[[int], None]
Embed = Callable[[Sequence[Untrusted[str]]], list[Vector]]


class Meaning:
    """Implements `Nearness` with the vectors of a workspace."""

    def __init__(self, vectors: VectorStore, embed: Embed) -> None:
        self._vectors, self._embed = vectors, embed
        self._all_known = False
        self._question: tuple[str, Vector] | None = None

    def fill(self, ws: Workspace, index: Index, show: Show = lambda _: None) -> int:
        """Compute vectors of packets that lack them, a bounded number; return how many lack."""
        rows = index.page(("rp",), state=None, limit=MAX_PACKETS, skip=0)
        complete = self._vectors.complete()
        missing = [row.id for row in reversed(rows) if row.id not in complete]
        left, done = FILL_PASSAGES, 0
        for artifact in missing:
            try:
                passages = list(read_material(ws.store, ws.bundle, artifact).passages())
            except UsageError:  # withdrawn meanwhile
                continue
            if done and len(passages) > left:
                break
            self._known(passages)
            self._vectors.mark_complete(artifact)
            left, done = left - len(passages), done + 1
            show(FILL_PASSAGES - left)
        self._all_known = done == len(missing)
        return len(missing) - done

    def packets(self, question: str, limit: int) -> list[str]:
        """Return packets with a passage near the question, nearest first."""
        if not self._all_known:
            return []
        asked = numbers_of(self._vector(question))
        best: dict[str, float] = {}
        for artifact, row in self._vectors.all():
            near = nearness(asked, numbers_of(row))
            if near > best.get(artifact, LEAST):
                best[artifact] = near
        return sorted(best, key=lambda one: (-round(best[one], 6), one))[:limit]

    def order(self, question: str, passages: Sequence[Passage]) -> list[Key]:
        """Return the first passages given, nearest first; far ones are left out."""
        some = passages[:ORDER_PASSAGES]
        rows = self._known(some)
        asked = numbers_of(self._vector(question))
        near = {one.key: nearness(asked, numbers_of(rows[digest_of(one)])) for one in some}
        kept = [key for key in near if near[key] > LEAST]
        return sorted(kept, key=lambda key: (-round(near[key], 6), key))

    def _vector(self, question: str) -> Vector:
        if self._question is None or self._question[0] != question:
            (row,) = self._embed([Untrusted(question)])
            self._question = (question, row)
        return self._question[1]

    def _known(self, passages: Sequence[Passage]) -> dict[str, Vector]:
        """Return the vectors of passages by digest, computed where they are missing."""
        texts = {digest_of(passage): passage.text for passage in passages}
        found = self._vectors.known(texts)
        missing = [text for text in texts if text not in found]
        new: dict[str, Vector] = {}
        for at in range(0, len(missing), BATCH):
            part = missing[at : at + BATCH]
            rows = self._embed([texts[text] for text in part])
            new.update(zip(part, rows, strict=True))
        held: dict[str, set[str]] = {}
        for passage in passages:
            held.setdefault(passage.artifact, set()).add(digest_of(passage))
        self._vectors.keep(new, held)
        return {**found, **new}


def digest_of(passage: Passage) -> str:
    """Return what a vector is kept by."""
    return sha256_hex(passage.text.open_for_validation().encode("utf-8"))


# Vectors for a command: computed when packets arrive, or before a question.
#
# They only help to find passages. Without the embedder there are none; a sandbox that fails is
# reported and costs only the vectors.


@contextmanager
def meaning(
    context: Context, ws: Workspace, index: Index, noter: LogWriter
) -> Iterator[Meaning | None]:
    """Yield how near texts are in meaning, None without an embedder."""
    with ExitStack() as stack:
        try:
            found = _filled(stack, context, ws, index, noter)
        except GateUnavailable as exc:
            context.out.note(f"sources are ranked by words alone: {exc.message}")
            found = None
        yield found


def prepare_new(context: Context, ws: Workspace) -> None:
    """Compute vectors of packets that just came in, where the embedder is on this machine."""
    if not Cache(context.settings.cache_home / "models").has(MINILM):
        return
    with context.index(ws) as index, ExitStack() as stack:
        try:
            _filled(stack, context, ws, index, LogWriter(ws.store))
        except GateUnavailable as exc:
            context.out.note(f"no vectors of the new packets: {exc.message}")


def _filled(
    stack: ExitStack, context: Context, ws: Workspace, index: Index, noter: LogWriter
) -> Meaning:
    models = context.settings.cache_home / "models"
    starting = Embedder.start(ws.bundle, find_machine(), models, noted=noted_by(noter))
    embedder = stack.enter_context(starting)
    vectors = stack.enter_context(closing(VectorStore(ws.root, embedder.sha256, ws.seals)))
    found = Meaning(vectors, embedder.vectors)
    with context.out.progress("computing vectors of new passages") as show:
        left = found.fill(ws, index, show)
    if left:
        context.out.note(f"{left} packets have no vectors yet; some get theirs each time")
    return found
