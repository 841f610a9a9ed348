"""Vectors for a command: those of new packets are computed when they come in, or before a question.

They help to find; nothing depends on them.  Without the embedder there are none, and a box that
fails is told and costs nothing but them.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from threegate.base.errors import GateUnavailable
from threegate.host.ask.nearness import Meaning
from threegate.host.command_context import Context
from threegate.host.models.catalogue import MINILM
from threegate.host.models.codeless import noted_by
from threegate.host.models.embedder import Embedder
from threegate.host.models.store import Cache
from threegate.host.proxy.log_entries import Noter
from threegate.host.workspace.index import Index
from threegate.host.workspace.vectors import VectorStore
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.machine import find_machine


@contextmanager
def meaning(
    context: Context, ws: Workspace, index: Index, noter: Noter
) -> Iterator[Meaning | None]:
    """Yield how near texts are in meaning, None where that cannot be told here."""
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
            _filled(stack, context, ws, index, Noter(ws.store))
        except GateUnavailable as exc:
            context.out.note(f"no vectors of the new packets: {exc.message}")


def _filled(
    stack: ExitStack, context: Context, ws: Workspace, index: Index, noter: Noter
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
