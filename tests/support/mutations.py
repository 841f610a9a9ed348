"""Bytes that are nearly an artifact: a valid one with a few changes an attacker would try."""

import json
from typing import Any

from hypothesis import strategies as st

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
