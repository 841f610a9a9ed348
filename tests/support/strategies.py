"""Hypothesis strategies: typed artifacts from the declared shapes, and bytes that nearly are."""

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.support import samples
from tests.support.samples import box, digest
from threegate.artifacts.analysis import Analysis, Cite, Claim
from threegate.artifacts.approval import BOUND_SECTIONS, Approval, PolicySection
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import Also, Excerpt, ResearchPacket
from threegate.artifacts.sources import LOCAL_SOURCES
from threegate.artifacts.tool_request import Escalation, MontyRefusal, ToolRequest, refusal_record
from threegate.artifacts.tool_result import Capture, ToolResult, outcome_sha256
from threegate.base.schema import (
    Boolean,
    Choice,
    Either,
    Integer,
    ListOf,
    Named,
    Nullable,
    Pattern,
    Record,
    Shape,
    Sorted,
    Text,
    Time,
    shapes_of,
)
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted

MOST_ITEMS = 4
_LOOKS_LIKE_GRAMMAR = "\"\\,:[]{}#-' \u00e9\u201c\U0001f600\u200d/&>=|"
# No `<`: a packet refuses markup, and that rule has tests of its own.
CHARACTERS = st.one_of(
    st.sampled_from(_LOOKS_LIKE_GRAMMAR),
    st.characters(codec="utf-8", exclude_characters="<").filter(lambda c: not FORBIDDEN.match(c)),
)
LINES = st.text(CHARACTERS.filter(lambda c: c not in "\n\t"), max_size=20)
BODIES = st.text(st.one_of(st.sampled_from("\n\t #-"), CHARACTERS), min_size=1, max_size=60)


def of_shape(shape: Shape) -> st.SearchStrategy[Any]:
    """Return typed values of a shape."""
    match shape:
        case Integer():
            return st.integers(shape.low, shape.high)
        case Boolean():
            return st.booleans()
        case Choice():
            return st.sampled_from(shape.words)
        case Time():
            return st.datetimes(*_DAYS).map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"))
        case Pattern():
            return _of_pattern(shape)
        case Text():
            return LINES.filter(lambda text: len(text) >= shape.least).map(box)
        case Either():
            return of_shape(shape.words) | of_shape(shape.record)
        case Nullable():
            return st.none() | of_shape(shape.shape)
        case Record():
            return of_kind(shape.kind)
    assert isinstance(shape, ListOf)
    return _of_list(shape)


def _of_pattern(shape: Pattern) -> st.SearchStrategy[str]:
    digits = _DIGITS.fullmatch(shape.pattern)
    if digits is None:
        made = st.from_regex(rf"(?:{shape.pattern})", fullmatch=True, alphabet=_ASCII)
        return made.filter(lambda text: len(text) <= shape.most)
    # Drawing 64 digits one by one is most of the time of a test.
    prefixes = [f"{name}-" if name else "" for name in (digits["kinds"] or "").split("|")]
    size = int(digits["count"]) // 2
    return st.builds(
        lambda prefix, data: prefix + data.hex(),
        st.sampled_from(prefixes),
        st.binary(min_size=size, max_size=size),
    )


def _of_list(shape: ListOf) -> st.SearchStrategy[tuple[Any, ...]]:
    most, least = min(shape.most, shape.least + MOST_ITEMS), shape.least

    def key(item: Any) -> Any:
        plain = shape.shape.plain(item)
        parts = list(plain.values()) if isinstance(plain, dict) else [plain]
        return parts[0] if isinstance(shape, Named) else json.dumps(parts)

    def order(item: Any) -> Any:
        plain = shape.shape.plain(item)
        return list(plain.values()) if isinstance(plain, dict) else plain

    unordered = not isinstance(shape, Sorted)
    unique_by = None if unordered else key
    made = st.lists(of_shape(shape.shape), min_size=least, max_size=most, unique_by=unique_by)
    return made.map(lambda items: tuple(items if unordered else sorted(items, key=order)))


_DIGITS = re.compile(r"(?:\(\?:(?P<kinds>[a-z|]+)\)-)?\[0-9a-f\]\{(?P<count>\d+)\}")
_ASCII = st.characters(min_codepoint=32, max_codepoint=126)
_DAYS = datetime(2000, 1, 1), datetime(2099, 12, 31)  # noqa: DTZ001  hypothesis wants them bare


def of_kind(kind: type) -> st.SearchStrategy[Any]:
    """Return records of a dataclass whose fields are all declared shapes."""
    made = st.tuples(*(of_shape(shape) for shape in shapes_of(kind).values()))
    return made.map(lambda values: kind(*values))


def drawn(draw: st.DrawFn, kind: type, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """Draw every front-matter field of an artifact except those the test derives."""
    return {k: draw(of_shape(shape)) for k, shape in shapes_of(kind).items() if k not in but}


Placed = TypeVar("Placed", ResearchPacket, Also)


@st.composite
def packets(draw: st.DrawFn) -> ResearchPacket:
    texts = draw(st.lists(BODIES, max_size=MOST_ITEMS))
    made = [
        Excerpt(box("part"), draw(st.none() | st.integers(1, 9)), 0, len(t), digest(t))
        for t in texts
    ]
    values = drawn(draw, ResearchPacket, but=("excerpts",))
    values["also"] = tuple(map(_with_place, values["also"]))
    packet = ResearchPacket(**values, excerpts=tuple(made), texts=tuple(map(box, texts)))
    return _with_place(packet)


def _with_place(one: Placed) -> Placed:
    """Return a packet or a further answer whose url and anchor are those of its source."""
    local = one.source in LOCAL_SOURCES
    if local is one.url.startswith("https:"):
        one = replace(one, url="file:a/b%20c.pdf" if local else "https://api.example.org/a")
    if local is not (one.trust_anchor == "none"):
        one = replace(one, trust_anchor="none" if local else "system")
    return one


@st.composite
def fetch_requests(draw: st.DrawFn) -> FetchRequest:
    values = drawn(draw, FetchRequest)
    values["references"] = tuple(dict.fromkeys(values["references"]))
    if values["origin"] == "core":
        kept = [one for one in values["derived_from"] if not one.startswith("res-")]
        values["derived_from"] = tuple(kept)
    if values["origin"] == "core" or values["derived_from"]:
        values["integrity"] = "external"
    return FetchRequest(**values, purpose=box(draw(BODIES)))


@st.composite
def tool_requests(draw: st.DrawFn) -> ToolRequest:
    values = drawn(draw, ToolRequest, but=("argv", "why_not_monty", "code_sha256"))
    reason = draw(st.sampled_from(("not-expressible", "files", "binary")))
    code, why = draw(BODIES), None
    argv: tuple[Untrusted[str], ...] = ()
    if values["backend"] == "monty":
        values |= {"network": "none", "outputs": (), "limits": samples.LIMITS}
    else:
        values["functions"] = ()
        outputs = samples.escalated("files").outputs
        values["outputs"] = values["outputs"] or (outputs if reason == "files" else ())
        if reason == "binary":
            code, argv = "", draw(st.sampled_from(ARGVS))
        why = Escalation(reason, draw(refusals(code)) if reason == "not-expressible" else None)
    # Only bytes of a file have the file's name.
    values["inputs"] = tuple(
        one if one.artifact.startswith("blob-") else replace(one, file=None)
        for one in values["inputs"]
    )
    inputs_external = any(not i.artifact.startswith("blob-") for i in values["inputs"])
    if values["origin"] == "core" or values["derived_from"] or inputs_external:
        values["integrity"] = "external"
    values |= {"why_not_monty": why, "argv": argv, "code_sha256": digest(code)}
    texts: dict[str, Any] = {
        "purpose": box(draw(BODIES)),
        "code": box(code),
        "risks": box(draw(BODIES)),
    }
    return ToolRequest(**values, **texts)


ARGVS = [
    tuple(map(box, argv))
    for argv in (["true"], ["/usr/bin/git", "log", "--format=%H | %s"], ["jq", ".a | .b"])
]


@st.composite
def refusals(draw: st.DrawFn, code: str) -> MontyRefusal:
    words, reason = draw(LINES.filter(bool)), draw(LINES.filter(bool))
    number = draw(st.integers(1, 100))
    record = refusal_record(code_sha256=digest(code), construct=words, line=number, reason=reason)
    return MontyRefusal(sha256_hex(record), box(words), number, box(reason))


@st.composite
def approvals(draw: st.DrawFn) -> Approval:
    values = drawn(draw, Approval, but=("policy",))
    backend = values["backend"]
    prefix = "fr-" if backend == "fetch" else "tr-"
    values["request"] = prefix + values["request"].partition("-")[2]
    values["limits"] = None if backend == "fetch" else values["limits"] or samples.LIMITS
    values["functions_sha256"] = digest("f") if backend == "monty" else None
    if backend != "era":
        values["network"] = "none"
    values["not_before"], values["not_after"] = samples.NOW, samples.LATER
    policy = tuple(PolicySection(name, digest(name)) for name in BOUND_SECTIONS[backend])
    return Approval(**values, policy=policy, statement=box(draw(BODIES)))


@st.composite
def tool_results(draw: st.DrawFn) -> ToolResult:
    values = drawn(draw, ToolResult, but=("outcome_sha256", "value", "stdout", "stderr"))
    if values["backend"] == "monty":
        values["files"] = ()
    if values["exit"] == "ok":
        values["exit_code"] = draw(st.sampled_from((None, 0)))
    texts = [draw(st.just("") | BODIES) for _ in range(3)]
    streams = tuple(
        Capture(len(t.encode("utf-8")), digest(t), truncated=draw(st.booleans()), escaped=False)
        for t in texts
    )
    outcome = outcome_sha256(
        exit_state=values["exit"],
        exit_code=values["exit_code"],
        captures=(streams[0], streams[1], streams[2]),
        files=values["files"],
    )
    names = ("value", "stdout", "stderr")
    values |= dict(zip(names, streams, strict=True)) | {"outcome_sha256": outcome}
    bodies: dict[str, Any] = {
        f"{name}_text": box(text) for name, text in zip(names, texts, strict=True)
    }
    return ToolResult(**values, **bodies)


@st.composite
def analyses(draw: st.DrawFn) -> Analysis:
    values = drawn(draw, Analysis, but=("model", "claims", "derived_from"))
    model_shape = shapes_of(Analysis)["model"]
    assert isinstance(model_shape, Nullable)
    extractive = values["method"] == "extractive"
    values["model"] = None if extractive else draw(of_shape(model_shape.shape))
    source = "rp-" + digest("source")
    named = {source, *values["selection"], *filter(None, [values["continues"]])}
    quotes = draw(st.lists(BODIES, max_size=MOST_ITEMS))
    claims = [Claim("quote found", (Cite(source, 1, 0, len(q), digest(q)),)) for q in quotes]
    claims += [Claim("unchecked", ())] * draw(st.integers(0, 2))
    values |= {"claims": tuple(claims), "derived_from": tuple(sorted(named))}
    boxed: dict[str, Any] = {
        "question": box(draw(BODIES)),
        "answer": box(draw(BODIES)),
        "claim_texts": tuple(box(draw(BODIES)) for _ in claims),
        "quotes": tuple(map(box, quotes)),
        "notes": tuple(map(box, draw(st.lists(BODIES, max_size=2)))),
    }
    return Analysis(**values, **boxed)


BY_PREFIX: dict[str, st.SearchStrategy[Artifact]] = {
    "rp": packets(),
    "fr": fetch_requests(),
    "tr": tool_requests(),
    "ap": approvals(),
    "res": tool_results(),
    "an": analyses(),
}


# -- Bytes that are nearly an artifact: a valid one with a few changes an attacker would try.

TOKENS = (
    b"---\n", b"\n---\n\n", b"\n## ", b"\n### 1\n", b"    ", b"\n", b"\r", b"\0", b"\t", b'"',
    b"\\", b"\\u0041", b"\\ud800",
    b", ", b": ", b"[", b"]", b"{", b"}", b"null", b"true", b"-0", b"1e999",
    b"NaN", b"9" * 5000, b"[" * 2000, b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xff",
    b"<script>", b"&a ", b"*a", b"!!int ", b'"x", "y"', b"format: ",
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Return one of `seeds` after one to four changes."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        data = draw(st.sampled_from(_CHANGES))(draw, data)
    return data


def _splice(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    cut = draw(st.integers(0, 8))
    put = draw(st.sampled_from(TOKENS) | st.binary(max_size=4))
    return data[:at] + put + data[at + cut :]


def _line(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = draw(st.integers(0, len(lines) - 1))
    moved = lines.pop(at)
    act = draw(st.sampled_from(("drop", "copy", "move", "join")))
    if act == "copy":
        lines.insert(at, moved)
    to = draw(st.integers(0, len(lines)))
    if act in ("copy", "move"):
        lines.insert(to, moved)
    elif act == "join":
        lines[to : to + 1] = [b"".join([*lines[to : to + 1], moved])]
    return b"\n".join(lines)


def _value(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.split(b"\n")
    keyed = [number for number, line in enumerate(lines) if b": " in line]
    if not keyed:
        return data
    at = draw(st.sampled_from(keyed))
    ascii_only = draw(st.booleans())
    spelled = json.dumps(draw(JSON), ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    lines[at] = lines[at].partition(b": ")[0] + b": " + spelled
    return b"\n".join(lines)


def _swap_parts(draw: st.DrawFn, data: bytes) -> bytes:
    """Move a value's tail to the next line: the shape of a smuggled list."""
    lines = data.split(b"\n")
    at = draw(st.integers(0, max(0, len(lines) - 2)))
    cut = draw(st.integers(0, len(lines[at])))
    lines[at : at + 1] = [lines[at][:cut], lines[at][cut:]]
    return b"\n".join(lines)


_CHANGES = (_splice, _line, _value, _swap_parts)
