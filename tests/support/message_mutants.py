"""Messages that differ from a right one in one place: every type, bound and key, systematically.

A mutant is made from the bytes alone, so it is the same whatever code spells messages.
"""

import json
import string
from collections.abc import Iterator
from typing import Any

Mutant = tuple[str, bytes]  # what was done, and the bytes

_POWERS = sorted({2**n + step for n in range(65) for step in (-1, 0, 1)})
NUMBERS = sorted(
    {-(2**63), -65, -64, -1, 99, 200, 206, 300, 301, 302, 304, 308, 309, 399, 400, 404, 599}
    | {500, 600, 601, 900, 999, 1_000, 1_001, 1_600, 1_601, 2_000, 2_001, 3_600, 3_601}
    | {10_000, 10_001, 30_000, 30_001, 86_400, 86_401, 90_000, 90_001, 1_000_000, 1_000_001}
    | {192 * 2**20, 192 * 2**20 + 1, 2**25, 2**25 + 1, 2**29, 2**29 + 1}
    | set(_POWERS)
)
LENGTHS = (
    *(1, 2, 8, 32, 63, 64, 65, 100, 101, 120, 128, 129, 200, 201, 250, 253, 254, 255, 256, 257),
    *(300, 301, 500, 501, 1024, 1025, 2048, 2049, 4000, 4001, 16_384, 16_385),
)
OTHERS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, "", "x", " ", "\n", "\ud800", "\u202e", "\xe9", [], ["x"], [1]),
    *([[]], {}, {"x": 1}, {"x": "x"}, [None], [["x", 1]], [["x", "x", "x"]], [{}], "0" * 64),
    *(
        "a" * 32,
        "system",
        "GET",
        "https://a.example/",
        "TG-XXX-001",
        "a.b",
        "a-b",
        "A",
        "_",
        "../x",
    ),
)
CHARACTERS = [chr(code) for code in range(128)] + list(
    "\x80\x85\xa0\xad\u2028\u202e\ufeff\ud800é中😀"
)
COUNTS = (16, 17, 18, 32, 33, 34, 64, 65, 66, 256, 257, 512, 513, 1024, 1025)
WORDS = (
    *("ok", "error", "crashed", "limit:time", "refused:approval", "refused:guest", "run", "replay"),
    *("packets", "model", "runs", "downloads:x", "machine", "process", "prompt", "reply", "search"),
    *("doi", "url", "document", "metadata", "full-text", "public", "confidential", "fetch-request"),
    *("tool-request", "denied", "failed", "damaged", "too-large", "map-reduce", "HEAD", "DELETE"),
    *(
        "task",
        "said",
        "not-said",
        "opening",
        "opened",
        "ready",
        "refused",
        "embed",
        "vectors",
        "job",
    ),
    *(
        "embedded",
        "bridged",
        "remote",
        "normalize",
        "made",
        "not-made",
        "decode",
        "pixels",
        "probe",
    ),
    *("not-read", "ask", "got", "not-got", "prepare", "prepared", "probed", "outcome", "check"),
    *("checked", "adopt", "prove", "enforced", "core/1", "proxy/1", "model/1", "tool-lite/1"),
)


def mutants(data: bytes) -> Iterator[Mutant]:
    """Yield mutants of the message in `data`: JSON, alone or with raw parts behind a newline."""
    line, newline, rest = data.partition(b"\n")
    head = json.loads(line)
    yield "cut", data[:-1]
    yield "longer", data + b"x"
    yield "newline", data + b"\n"
    for path in _paths(head):
        for what, changed in _changed(head, path):
            yield f"{'/'.join(map(str, path))}: {what}", spell(changed) + newline + rest
    if newline and "parts" in head:
        parts = _cut(rest, head["parts"])
        for what, others in _other_parts(parts):
            yield (
                what,
                spell({**head, "parts": [len(part) for part in others]}) + b"\n" + b"".join(others),
            )
        if head["protocol"] == "core/1":
            yield from _other_texts(head, parts)


def spell(value: Any) -> bytes:
    """Return JSON with keys in the order they have; half a surrogate pair is spelled as it is."""
    spelled = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return spelled.encode("utf-8", errors="surrogatepass")


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*at, index))


def _changed(head: Any, path: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    old = head
    for key in path:
        old = old[key]
    for what, new in _replacements(old):
        yield what, _with(head, path, new)


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    key, *rest = path
    if isinstance(value, dict):
        return {
            name: _with(value[name], tuple(rest), new) if name == key else value[name]
            for name in value
        }
    return [_with(item, tuple(rest), new) if n == key else item for n, item in enumerate(value)]


def _replacements(old: Any) -> Iterator[tuple[str, Any]]:
    for n, other in enumerate(OTHERS):
        yield f"other {n}", other
    if type(old) is int:
        for number in (*NUMBERS, old - 1, old + 1):
            yield f"number {number}", number
    elif isinstance(old, str):
        yield from _other_strings(old)
    elif isinstance(old, list):
        yield from _other_lists(old)
    elif isinstance(old, dict):
        yield from _other_tables(old)


def _other_strings(old: str) -> Iterator[tuple[str, str]]:
    for n, character in enumerate(CHARACTERS):
        yield f"ends with {n}", old + character
        yield f"begins with {n}", character + old
        yield f"holds {n}", old[: len(old) // 2] + character + old[len(old) // 2 + 1 :]
    for length in LENGTHS:
        yield f"{length} letters", "a" * length
        yield f"{length} digits", "0" * length
        yield f"filled to {length}", (old + "a" * length)[:length]
    for word in WORDS:
        yield word, word
    yield "upper case", old.upper()
    yield "shorter", old[:-1]


def _other_lists(old: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    yield "empty", []
    yield "reversed", old[::-1]
    yield "twice", old + old
    yield "shorter", old[:-1]
    if old:
        for count in COUNTS:
            yield f"{count} times the first", old[:1] * count
        if isinstance(old[0], str):
            names = sorted(a + b for a in string.ascii_lowercase for b in string.ascii_lowercase)
            for count in COUNTS:
                yield f"{count} names", names[:count]


def _other_tables(old: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "reordered", dict(reversed(old.items()))
    yield "more", dict(sorted({**old, "zzz": 1}.items()))
    for key, item in old.items():
        left = {name: value for name, value in old.items() if name != key}
        yield f"without {key}", left
        yield f"{key} is empty", dict(sorted({**left, "": item}.items()))
    if old:
        value = next(iter(old.values()))
        for key in (*OTHERS, *CHARACTERS):
            if type(key) is str:
                yield f"key {key!r}", dict(sorted({**old, key: value}.items()))
        for count in COUNTS:
            more = {f"rate-limit-{n}": value for n in range(count)}
            yield f"{count} keys", dict(sorted(more.items()))
            letters = {f"rate-limit-{_letters(n)}": value for n in range(count)}
            yield f"{count} keys of letters", dict(sorted(letters.items()))


def _letters(number: int) -> str:
    return (
        string.ascii_lowercase[number // 26 % 26]
        + string.ascii_lowercase[number % 26]
        + "x" * (number // 676)
    )


def _cut(rest: bytes, lengths: list[int]) -> list[bytes]:
    parts = []
    for length in lengths:
        parts.append(rest[:length])
        rest = rest[length:]
    return parts


def _other_parts(parts: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    yield "one part more", [*parts, b"x"]
    yield "an empty part more", [*parts, b""]
    yield "no parts", []
    yield "reversed parts", parts[::-1]
    yield "68 parts", [b""] * 68
    for index, part in enumerate(parts):
        others = [b"", part + b"x", part[:-1], part + b"\xff", b"\xed\xa0\x80", part + bytes(4)]
        others += [b"x" * size for size in (4096, 4097, 65_536, 65_537, 131_072, 131_073, 262_145)]
        yield f"without part {index}", parts[:index] + parts[index + 1 :]
        for n, other in enumerate(others):
            yield f"part {index} is {n}", [*parts[:index], other, *parts[index + 1 :]]


def _other_texts(head: Any, parts: list[bytes]) -> Iterator[Mutant]:
    lengths, joined = parts
    sizes = [int.from_bytes(lengths[at : at + 4], "big") for at in range(0, len(lengths), 4)]
    texts = [raw.decode() for raw in _cut(joined, sizes)]
    for index, text in enumerate(texts):
        for what, other in _other_strings(text):
            yield f"text {index}: {what}", _core(head, [*texts[:index], other, *texts[index + 1 :]])
        for size in (2**20, 2**20 + 1):
            yield (
                f"text {index}: {size}",
                _core(head, [*texts[:index], "a" * size, *texts[index + 1 :]]),
            )
        yield f"without text {index}", _core(head, texts[:index] + texts[index + 1 :])
    yield "one text more", _core(head, [*texts, "x"])


def _core(head: Any, texts: list[str]) -> bytes:
    datas = [text.encode("utf-8", errors="surrogatepass") for text in texts]
    lengths = b"".join(len(data).to_bytes(4, "big") for data in datas)
    parts = [lengths, b"".join(datas)]
    return spell({**head, "parts": [len(part) for part in parts]}) + b"\n" + b"".join(parts)
