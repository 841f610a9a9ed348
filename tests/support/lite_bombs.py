"""Programs that try to take time, memory or the supervisor along: one table, by family.

Most are written down in tests/vectors/lite/bombs; sources and inputs too long to read are made
here.  A bomb says how it may end.  Where an exhausted interpreter may find either limit first,
or a faster machine may even finish, several ends are right; what is never right is no end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.support.lite import LIMITS, MIB, Lane, Program
from threegate.artifacts.tool_request import RunLimits

DIRECTORY: Final = Path(__file__).parents[1] / "vectors" / "lite" / "bombs"


@dataclass(frozen=True, slots=True)
class Bomb:
    """One program, what it is given, and how it may end."""

    family: str
    name: str
    code: str
    ends: tuple[str, ...]
    functions: tuple[str, ...] = ()
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    limits: RunLimits = LIMITS

    @property
    def id(self) -> str:
        return f"{self.family}: {self.name}"

    @property
    def program(self) -> Program:
        return Program(self.code, self.functions, self.inputs, self.limits)


def every() -> list[Bomb]:
    """Return all bombs, family by family."""
    files = sorted(DIRECTORY.glob("*.txt"))
    assert files, f"no bombs in {DIRECTORY}"
    bombs = [bomb for path in files for bomb in _written(path.read_text("utf-8"))]
    bombs += made()
    ids = [bomb.id for bomb in bombs]
    assert len(ids) == len(set(ids)), "two bombs of one name"
    return bombs


def _written(text: str) -> Iterator[Bomb]:
    head, *parts = text.split("\n== ")
    keys = dict(line.split(": ", 1) for line in head.split("\n") if line)
    assert parts, "a family without programs"
    for part in parts:
        name, _, code = part.partition("\n")
        ends = keys["ends"]
        if code.startswith("ends: "):
            ends, _, code = code.removeprefix("ends: ").partition("\n")
        functions = tuple(keys.get("functions", "").split())
        yield Bomb(
            keys["family"],
            name,
            code.rstrip("\n") + "\n",
            tuple(ends.split()),
            functions,
            limits=_limits(keys),
        )


def _limits(keys: Mapping[str, str]) -> RunLimits:
    wall_ms = int(keys.get("wall_ms", LIMITS.wall_ms))
    memory = int(keys["memory_mib"]) * MIB if "memory_mib" in keys else LIMITS.memory_bytes
    return replace(LIMITS, wall_ms=wall_ms, memory_bytes=memory)


# -- Bombs that nobody would read: long and deeply nested sources, large and deep inputs.
# A source stands twice: as large as the limit lets through, and far beyond it.

HELD: Final = ("error", "limit:time", "limit:memory", "limit:recursion")
# What cannot be written into a request at all is refused before any box sees it.
ARTIFACT: Final = "refused:artifact"
SIZE: Final = "refused:size"
SYNTAX: Final = "refused:not-python"
NESTING: Final = "refused:nesting"
NOT_EXPRESSIBLE: Final = "refused:not-expressible"
_ROOM: Final = 60_000  # bytes, below the limit of 64 KiB


def _blocks(head: str, depth: int, last: str = "pass") -> str:
    """Return `depth` blocks inside each other; `head` may be several lines."""
    lines = [" " * at + line for at in range(depth) for line in head.split("\n")]
    return "\n".join([*lines, " " * depth + last])


# name: (what comes before, the part, what stands in the middle, what closes it)
_REPEATED: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "brackets": ("", "[", "", "]"),
    "parentheses": ("", "(", "1", ")"),
    "braces": ("", "{", "1", "}"),
    "negations": ("", "not ", "1", ""),
    "minus": ("", "-", "1", ""),
    "inversions": ("", "~", "1", ""),
    "attributes": ("x = 1\nx", ".a", "", ""),
    "calls": ("x = 1\nx", "()", "", ""),
    "subscripts": ("x = 1\nx", "[0]", "", ""),
    "subscripts in subscripts": ("x = 1\n", "x[", "0", "]"),
    "additions": ("1", "+1", "", ""),
    "powers": ("1", "**1", "", ""),
    "conjunctions": ("1", " and 1", "", ""),
    "comparisons": ("1", "<1", "", ""),
    "conditions": ("", "1 if 1 else ", "1", ""),
    "lambdas": ("", "lambda:", "1", ""),
    "named expressions": ("", "(a:=", "1", ")"),
    "assignments": ("", "x=", "1", ""),
    "alternatives": ("if 0: pass\n", "elif 0: pass\n", "", ""),
    "statements": ("", "x=1\n", "", ""),
    "statements in a line": ("", "x=1;", "", ""),
    "literals in a list": ("x=[", "1,", "]", ""),
    "literals in a dictionary": ("x={", "1:1,", "}", ""),
    "arguments": ("print(", "1,", ")", ""),
    "texts side by side": ("x=", "'q' ", "", ""),
    "one text": ("x='", "q", "'", ""),
    "one number": ("x=", "9", "", ""),
    "one hexadecimal number": ("x=0x", "f", "", ""),
    "one exponent": ("x=1e", "9", "", ""),
    "braces in a text": ("x=1\nf'", "{x}", "'", ""),
    "decorators": ("", "@len\n", "def f(): pass", ""),
    "for clauses": ("[0 ", "for x in [1] ", "]", ""),
    "if clauses": ("[0 for x in [1] ", "if 1 ", "]", ""),
    "list in list comprehensions": ("", "[", "0", " for x in [1]]"),
    "awaits": ("async def f():\n  ", "await ", "1", ""),
    "stars": ("print(", "*", "x)", ""),
    "tabs": ("if 1:\n", "\t", "pass", ""),
    "blanks": ("x = ", " ", "1", ""),
    "line ends": ("", "\n", "1", ""),
    "comments": ("", "#\n", "1", ""),
    "continued lines": ("x = ", "\\\n", "1", ""),
    "dots": ("x = 1", ".__class__", "", ""),
    "patterns": ("match 5:\n case ", "[", "_", "]: pass"),
    "alternatives in a pattern": ("match 5:\n case 1", "|1", ": pass", ""),
    "global names": ("def f():\n global a", ",a", "", ""),
    "backslashes": ("x = '", "\\\\", "'", ""),
    "names of characters": ("x = '", "\\N{SNOWMAN}", "'", ""),
}


def _repeated(parts: tuple[str, str, str, str], room: int) -> str:
    before, part, middle, close = parts
    # The last part of a pattern closes the case; it is repeated without that.
    closing, tail = (close[:1], close[1:]) if close.endswith(": pass") else (close, "")
    count = room // len(part + closing)
    return before + part * count + middle + closing * count + tail


def _numbered(each: str, room: int, join: str = "\n") -> str:
    count = room // (len(each) + len(join) + 3)
    return join.join(each.replace("N", str(number)) for number in range(count))


_NUMBERED: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "names": ("", "vN=1", "\n", ""),
    "functions": ("", "def fN(a, b): return a", "\n", ""),
    "classes": ("", "class CN: pass", "\n", ""),
    "parameters": ("def f(", "aN", ",", "): pass"),
    "targets": ("", "aN", ",", "= range(9)"),
    "cases": ("match 5:\n", " case 1N: pass", "\n", "\n case _: pass"),
    "items of a with": ("with ", "x as aN", ",", ": pass"),
    "keywords": ("dict(", "kN=1", ",", ")"),
    "imports": ("", "from json import loads as aN", "\n", ""),
    "handlers": ("try:\n pass\n", "except KeyError as eN: pass", "\n", ""),
    "captures": ("def g():\n", " vN=1", "\n", "\n return lambda: v0"),
}
_NESTED: Final[Mapping[str, tuple[str, int]]] = {
    "ifs": ("if 1:", 95),
    "whiles": ("while 1:", 19),
    "fors": ("for n in [1]:", 19),
    "withs": ("with x:", 19),
    "tries": ("try:\n pass\nexcept KeyError:", 19),
    "finallies": ("try:\n pass\nfinally:", 19),
    "many finallies": ("try:\n pass\nfinally:", 60),
    "matches": ("match 1:\n case 1:", 40),
}
_FUNCTIONS: Final[Mapping[str, tuple[str, int]]] = {
    "eight": ("def f():", 8),
    "nine": ("def f():", 9),
    "fifteen": ("def f():", 15),
    "ninety": ("def f():", 90),
    "classes": ("class A:", 15),
    "coroutines": ("async def f():", 15),
    "mixed": ("def f():\n class A:", 9),
}


def _sources() -> dict[str, str]:
    return {name: _repeated(parts, _ROOM) for name, parts in _REPEATED.items()} | {
        name: head + _numbered(each, _ROOM, join) + tail
        for name, (head, each, join, tail) in _NUMBERED.items()
    }


def _blocks_in_blocks() -> dict[str, str]:
    tries = [
        line
        for at in range(1, 41)
        for line in ("  " * at + "try:", "  " * at + "  return", "  " * at + "finally:")
    ]
    return {name: _blocks(head, depth) for name, (head, depth) in _NESTED.items()} | {
        "returns from finallies": "\n".join(["def f():", *tries, "  " * 42 + "pass"]),
        "odd characters": "x = 1\x00\n",
        "lone surrogate": "x = '\\ud800'\nx",
        "form feed": "\x0cx = 1\n",
        "byte order mark": "\ufeffx = 1\n",
    }


def _functions_in_functions() -> dict[str, str]:
    return {name: _blocks(head, depth) for name, (head, depth) in _FUNCTIONS.items()} | {
        "lambdas": "lambda: " * 15 + "1",
        "default values": "f = " + "lambda a=(" * 15 + "1" + "): a" * 15,
        "lambdas of lambdas": "f = " + "(lambda f: " * 15 + "len" + ")" * 15,
    }


def _comprehensions() -> dict[str, str]:
    inner = "[" * 20 + "0" + " for x in '']" * 20
    eight = [_blocks("def f():", 8).replace("f()", f"f{n}()") for n in range(200)]
    return {
        "lists": "[" * 30 + "0" + " for x in [1]]" * 30,
        "generators": "(" * 30 + "0" + " for x in [1])" * 30,
        "in functions": _blocks("def f():", 8, inner),
        "captured names": "def a(x):\n" + _blocks(" def f():\n  x", 7, " return x"),
        "eight deep, often": "\n".join(eight),
    }


_INPUTS: Final[Mapping[str, tuple[str, bytes]]] = {
    "deep": ("1", b"[" * 150 + b"]" * 150),
    "deeper than the parser goes": ("1", b"[" * 5000 + b"]" * 5000),
    "far deeper": ("1", b"[" * 500_000 + b"]" * 500_000),
    "deep objects": ("1", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "wide": ("len(data)", b"[" + b"0," * 200_000 + b"0]"),
    "wider than memory": ("len(data)", b"[" + b"[]," * 1_500_000 + b"0]"),
    "many objects": ("len(data)", b"[" + b'{"a":1},' * 500_000 + b"0]"),
    "many keys": ("len(data)", b"{" + b",".join(b'"%d":1' % n for n in range(150_000)) + b"}"),
    "one text": ("len(data)", b'"' + b"q" * 9_000_000 + b'"'),
    "text as large as memory": ("len(data)", b'"' + b"q" * 31_000_000 + b'"'),
    "escapes": ("len(data)", b'"' + b"\\u0041" * 1_000_000 + b'"'),
    "long number": ("data", b"7" * 4000),
    "number of too many digits": ("data", b"7" * 100_000),
    "exponent": ("data", b"1e400"),
    "not JSON": ("1", b"[1,"),
    "not text": ("1", b"\xff\xfe"),
    "nothing": ("1", b""),
    "code": ("1", b"while 1: pass"),
    "used for ever": ("while 1:\n    data.count(0)\n", b"[" + b"0," * 100_000 + b"0]"),
    "given back": ("data", b"[" + b"0," * 199_000 + b"0]"),
    "multiplied": ("[data] * 9000", b"[" + b"0," * 10_000 + b"0]"),
    "sent to a pattern": ("import re\nre.match(data, 'q' * 50)", b'"(q+)+(q+)+(q+)+$"'),
}


def made() -> list[Bomb]:
    """Return the bombs that are made, not written."""
    any_end = (*HELD, "ok", SYNTAX, NESTING, NOT_EXPRESSIBLE)
    long = {name: _repeated(parts, 200_000) for name, parts in _REPEATED.items()}
    long |= {"twenty megabytes": "x='" + "q" * 20_000_000 + "'"}
    families: tuple[tuple[str, tuple[str, ...], dict[str, str]], ...] = (
        ("source within its limit", (*any_end, ARTIFACT), _sources()),
        ("source beyond its limit", (SIZE, ARTIFACT), long),
        ("blocks in blocks", (*any_end, ARTIFACT), _blocks_in_blocks()),
        ("functions in functions", (NESTING, SYNTAX), _functions_in_functions()),
        ("comprehensions in comprehensions", (*any_end, SIZE), _comprehensions()),
    )
    bombs = [
        Bomb(name, key, code, ends) for name, ends, all_ in families for key, code in all_.items()
    ]
    bombs = [replace(bomb, ends=("ok",)) if bomb.name == "eight" else bomb for bomb in bombs]
    ends = (*HELD, "ok", "limit:output", "refused:input")
    return bombs + [
        Bomb("inputs", name, code, ends, inputs={"data": data})
        for name, (code, data) in _INPUTS.items()
    ]


# -- What the bombs did to the lite lane: measured, judged, and told in one table by family.

# Generous: a machine may be slow and busy.  The table says what was measured.
MOST_MS: Final = 20_000
MOST_TIMES_MEMORY: Final = 4
MOST_GATE_BYTES: Final = 256 * MIB  # and as many times the memory


@dataclass(frozen=True, slots=True)
class Measured:
    """One bomb, how it ended, and what it took."""

    bomb: Bomb
    exit: str
    wall_ms: int
    worker_bytes: int
    gate_bytes: int

    @property
    def late_ms(self) -> int:
        """Return how long after its limit it ended; negative if before."""
        return self.wall_ms - self.bomb.limits.wall_ms

    @property
    def _ends(self) -> tuple[str, ...]:
        # On a busy machine the time may be up before anything else is; what is refused never runs.
        ran = any(not end.startswith("refused:") for end in self.bomb.ends)
        return (*self.bomb.ends, "limit:time") if ran else self.bomb.ends

    @property
    def wrong(self) -> str:
        """Return what is wrong with this end, or nothing."""
        found = []
        if self.exit not in self._ends:
            found.append(f"ended as {self.exit}, not {' or '.join(self.bomb.ends)}")
        if self.wall_ms > MOST_MS:
            found.append(f"took {self.wall_ms} ms")
        most = MOST_TIMES_MEMORY * self.bomb.limits.memory_bytes
        if self.worker_bytes > most:
            found.append(f"worker took {self.worker_bytes} bytes")
        if self.gate_bytes > most + MOST_GATE_BYTES:
            found.append(f"gate took {self.gate_bytes} bytes")
        return f"{self.bomb.id}: {', '.join(found)}" if found else ""


def measure(lane: Lane, bombs: Iterable[Bomb]) -> Iterator[Measured]:
    """Run every bomb and say what it did."""
    for bomb in bombs:
        ran = lane.run(bomb.program)
        yield Measured(bomb, ran.exit, ran.wall_ms, ran.worker_bytes, ran.gate_bytes)


def table(rows: list[Measured]) -> str:
    """Return one line for each family and one for all."""
    head = "| family | programs | how they ended | longest | beyond the limit | worker | gate |"
    families: dict[str, list[Measured]] = {}
    for row in rows:
        families.setdefault(row.bomb.family, []).append(row)
    lines = [_line(name, found) for name, found in families.items()]
    return "\n".join([head, "|---|---|---|---|---|---|---|", *lines, _line("**all**", rows)])


def _line(name: str, rows: list[Measured]) -> str:
    ends = Counter(row.exit for row in rows)
    told = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
    cells = (
        name,
        str(len(rows)),
        told,
        f"{max(row.wall_ms for row in rows) / 1000:.2f} s",
        f"{max(0, *(row.late_ms for row in rows)) / 1000:.2f} s",
        f"{max(row.worker_bytes for row in rows) / MIB:.0f} MiB",
        f"{max(row.gate_bytes for row in rows) / MIB:.0f} MiB",
    )
    return f"| {' | '.join(cells)} |"
