"""The last similar request: its outcome, and the differences.

An identical request is found by its digest, any other by shared words.  The index proposes
candidates; each is read again from its file and compared here.

SECURITY
    Compares foreign texts in bounded time: a difference between two hostile programs must
    not keep the operator waiting.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Final

from threegate.artifacts import registry
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Request
from threegate.artifacts.tool_request import RunLimits, ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.base.schema import plain_record, shapes_of
from threegate.base.text import quote
from threegate.handoff.approvals import denial_of
from threegate.handoff.states import state_of
from threegate.handoff.store import Aside, Store, set_aside
from threegate.host.review.origins import reader
from threegate.host.review.parts import Earlier

if TYPE_CHECKING:
    from threegate.host.workspace.index import Index

CANDIDATES: Final = 12
QUERY_WORDS: Final = 24
LEAST_LIKENESS: Final = 30  # per cent
MAX_COMPARED_LINES: Final = 400  # of each side, after what both begin and end with
MAX_DIFF_LINES: Final = 200
CONTEXT_LINES: Final = 2

_WORD: Final = re.compile(r"\w+")
_LIMIT_SHAPES: Final = shapes_of(RunLimits)


def find_earlier(
    store: Store, index: "Index", request_id: str, request: Request, aside: Aside = None
) -> Earlier | None:
    """Return the last identical request, or the most similar one; None if there is none.

    A request whose files differ from the log is put `aside`, and the next one is taken.
    """
    digest = registry.content_digest(request)
    same = index.same_content(digest)
    found = [
        (100, old.created, old_id, old)
        for old_id, old in _read_all(same, store, request_id, request, aside)
        if registry.content_digest(old) == digest
    ]
    if not found:
        ids = index.alike(_query(request), prefix_of(request_id), limit=CANDIDATES)
        rated = (
            (likeness(old, request), old.created, old_id, old)
            for old_id, old in _read_all(ids, store, request_id, request, aside)
        )
        found = [one for one in rated if one[0] >= LEAST_LIKENESS]
    for rate, _, old_id, old in sorted(found, key=lambda item: item[:3], reverse=True):
        with set_aside(aside, old_id):
            return _earlier(store, index, old_id, old, request, likeness=rate)
    return None


def _read_all(
    ids: Sequence[str], store: Store, request_id: str, request: Request, aside: Aside
) -> Iterator[tuple[str, Request]]:
    read = reader(store)
    for old_id in ids:
        old = None
        if old_id != request_id:
            with set_aside(aside, old_id):
                old = read(old_id)
        if isinstance(old, type(request)) and old.created <= request.created:
            yield old_id, old


def _query(request: Request) -> list[str]:
    """Return the words to look for: the longest are the rarest."""
    words = {word for word in _WORD.findall(_text(request)) if 4 <= len(word) <= 64}
    return sorted(words, key=lambda word: (-len(word), word))[:QUERY_WORDS]


def _text(request: Request) -> str:
    purpose = request.purpose.open_for_display()
    if isinstance(request, FetchRequest):
        return "\n".join([purpose, *(item.open_for_display() for item in request.references)])
    argv = " ".join(argument.open_for_display() for argument in request.argv)
    return f"{purpose}\n{request.code.open_for_display()}\n{argv}"


def likeness(old: Request, new: Request) -> int:
    """Return how much of their words two requests share, in per cent."""
    first, second = (Counter(_WORD.findall(_text(item))) for item in (old, new))
    total = first.total() + second.total()
    return 200 * (first & second).total() // total if total else 0


def _earlier(
    store: Store, index: "Index", old_id: str, old: Request, new: Request, *, likeness: int
) -> Earlier:
    same = registry.content_digest(old) == registry.content_digest(new)
    state = state_of(store.locate(old_id) or "gone")
    denial = denial_of(store, old_id) if state == "denied" else None
    diff, longer = ((), 0) if same else difference(old, new)
    return Earlier(
        id=old_id,
        state=state,
        created=old.created,
        same=same,
        likeness=likeness,
        outcome=_outcome(store, index, old_id),
        reason="" if denial is None else denial.reason,
        changes=() if same else tuple(changes(old, new)),
        diff=diff,
        longer=longer,
    )


def _outcome(store: Store, index: "Index", old_id: str) -> str:
    made = index.made_from(old_id)
    results = [name for name in made if name.startswith("res-")]
    packets = [name for name in made if name.startswith("rp-")]
    read = reader(store)
    ended = [(read(name), name) for name in results]
    told = [f"{item.exit} ({short(name)})" for item, name in ended if isinstance(item, ToolResult)]
    if packets:
        told.append(f"{len(packets)} packets")
    return ", ".join(told)


def changes(old: Request, new: Request) -> Iterator[str]:
    """Yield what is different apart from code, one sentence each."""
    if old.purpose != new.purpose:
        yield "the purpose has other words"
    for name in ("origin", "integrity", "confidentiality"):
        yield from _changed(name, str(getattr(old, name)), str(getattr(new, name)))
    if isinstance(old, FetchRequest) and isinstance(new, FetchRequest):
        yield from _changed("want", old.want, new.want)
        before, after = ([r.open_for_display() for r in item.references] for item in (old, new))
        yield from _listed("reference", before, after)
    if isinstance(old, ToolRequest) and isinstance(new, ToolRequest):
        yield from _tool_changes(old, new)


def _tool_changes(old: ToolRequest, new: ToolRequest) -> Iterator[str]:
    for name in ("backend", "profile", "network"):
        yield from _changed(name, str(getattr(old, name)), str(getattr(new, name)))
    before, after = (plain_record(_LIMIT_SHAPES, item.limits) for item in (old, new))
    for name, value in after.items():
        yield from _changed(name, str(before[name]), str(value))
    yield from _listed("function", old.functions, new.functions)
    first, second = ({i.name: i.artifact for i in item.inputs} for item in (old, new))
    yield from _listed("input", list(first), list(second))
    for name in sorted(first.keys() & second.keys()):
        if first[name] != second[name]:
            yield f"input {name} is other data"
    files = [[output.name for output in item.outputs] for item in (old, new)]
    yield from _listed("output", files[0], files[1])


def _changed(name: str, before: str, after: str) -> Iterator[str]:
    if before != after:
        yield f"{name} is {after}, was {before}"


def _listed(noun: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for item in after:
        if item not in before:
            yield f"{noun} {quote(item, 200)} is new"
    for item in before:
        if item not in after:
            yield f"{noun} {quote(item, 200)} is gone"


def difference(old: Request, new: Request) -> tuple[tuple[str, ...], int]:
    """Return the lines of a unified difference of the code, and how many were left out."""
    if not (isinstance(old, ToolRequest) and isinstance(new, ToolRequest)):
        return (), 0
    before, after = (_lines(item) for item in (old, new))
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    # Comparing takes time by the product of both lengths: common lines are removed first.
    middle = max(len(before), len(after)) - start - end
    if middle > MAX_COMPARED_LINES:
        return (), middle
    low = max(0, start - CONTEXT_LINES)
    high = max(0, end - CONTEXT_LINES)
    lines = list(
        unified_diff(
            before[low : len(before) - high],
            after[low : len(after) - high],
            lineterm="",
            n=CONTEXT_LINES,
        )
    )[2:]
    shown = [_renumbered(line, low) for line in lines]
    return tuple(shown[:MAX_DIFF_LINES]), max(0, len(shown) - MAX_DIFF_LINES)


_HUNK: Final = re.compile(r"@@ -([0-9]+)(,[0-9]+)? \+([0-9]+)(,[0-9]+)? @@\Z")


def _renumbered(line: str, by: int) -> str:
    found = _HUNK.match(line)
    if found is None:
        return line
    first, second = int(found[1]) + by, int(found[3]) + by
    return f"@@ -{first}{found[2] or ''} +{second}{found[4] or ''} @@"


def _lines(request: ToolRequest) -> list[str]:
    if request.argv:
        return [argument.open_for_display() for argument in request.argv]
    return request.code.open_for_display().split("\n")


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        count += 1
    return count
