"""Risk flags of a program, from its tokens alone.

A flag is a hint with a reason and a line.  It refuses nothing, and its absence proves nothing:
well-hidden code has none.

The standard library's tokenizer reads the code.  Code that it rejects, and code with very long
lines, is read line by line by a simpler lexer.  That one knows no multi-line strings and no
comments, so that it cannot make code look like either.

SECURITY
    Reads hostile code with `tokenize`, which builds no tree and executes nothing.  Colour is
    an aid: what is shown and counted never depends on it.
"""

import io
import keyword
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.tool_request import FUNCTIONS
from threegate.base.text import quote
from threegate.host.review.origins import looks_random
from threegate.host.review.parts import CodeToken, Flag

# -- tokens ----------------------------------------------------------------------------------

KEYWORD: Final = "keyword"
STRING: Final = "string"
NUMBER: Final = "number"
COMMENT: Final = "comment"
NAME: Final = "name"
OTHER: Final = "other"

MAX_LINE_CHARS: Final = 2000  # from here on `tokenize` may take time by the square of the length

_WORDS: Final = frozenset({*keyword.kwlist, "match", "case"})
_KINDS: Final = {
    tokenize.STRING: STRING,
    tokenize.NUMBER: NUMBER,
    tokenize.COMMENT: COMMENT,
    tokenize.OP: OTHER,
    # From Python 3.12 on an f-string is several tokens.
    **{
        getattr(tokenize, name): STRING
        for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
        if hasattr(tokenize, name)
    },
}
_SIMPLE: Final = re.compile(
    # A quote that is never closed goes to the end of its line: looking for the end from each
    # such quote again would take time by the square of their number.
    r"(?P<string>\"(?:\\.|[^\"\\])*\\?\"?|'(?:\\.|[^'\\])*\\?'?)"
    r"|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<other>[^\w\s])"
)


@dataclass(frozen=True, slots=True)
class Lexed:
    """The words of a program, in order, and whether the tokenizer could read it as a whole."""

    tokens: tuple[CodeToken, ...]
    whole: bool


def lex(code: str) -> Lexed:
    """Return the words of `code`, for any text."""
    lines = code.split("\n")
    if max(map(len, lines)) > MAX_LINE_CHARS:
        return Lexed(tuple(_simple(lines)), whole=False)
    try:
        return Lexed(tuple(_tokens(code, lines)), whole=True)
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return Lexed(tuple(_simple(lines)), whole=False)


def _tokens(code: str, lines: list[str]) -> Iterator[CodeToken]:
    # newline="\n": else a carriage return would count as a line that is not shown as one.
    for item in tokenize.generate_tokens(io.StringIO(code, newline="\n").readline):
        if item.type == tokenize.ERRORTOKEN:
            raise ValueError("a character that starts no word")
        if item.type == tokenize.NAME:
            kind = KEYWORD if item.string in _WORDS else NAME
        elif item.type in _KINDS:
            kind = _KINDS[item.type]
        else:
            continue
        yield from _per_line(kind, item, lines)


def _per_line(kind: str, item: tokenize.TokenInfo, lines: list[str]) -> Iterator[CodeToken]:
    """Yield a token once for each line it covers."""
    (first, start), (last, end) = item.start, item.end
    for line in range(first, min(last, len(lines)) + 1):
        text = lines[line - 1]
        left = start if line == first else 0
        right = end if line == last else len(text)
        if left < right <= len(text):
            yield CodeToken(kind, text[left:right], line, left, right)


def _simple(lines: list[str]) -> Iterator[CodeToken]:
    for number, line in enumerate(lines, 1):
        for found in _SIMPLE.finditer(line):
            kind = found.lastgroup or OTHER
            if kind == NAME and found[0] in _WORDS:
                kind = KEYWORD
            yield CodeToken(kind, found[0], number, found.start(), found.end())


LONG_LINE_CHARS: Final = 200
MANY_LINES: Final = 300  # more than anybody reads with care in one go
BLANK_LINES: Final = 15
LONG_NUMBER_CHARS: Final = 40
ENCODED_CHARS: Final = 40
NUMERIC_ESCAPES: Final = 8

_REFLECTION: Final = frozenset(
    (
        *("eval", "exec", "compile", "__import__", "getattr", "setattr", "delattr", "globals"),
        *("locals", "vars", "dir", "open", "input", "breakpoint", "memoryview"),
    )
)
_LOOKUPS: Final = frozenset(("eval", "exec", "globals", "locals", "vars"))
_NAMES: Final = re.compile(r"[^\W\d]\w*")
_DUNDER: Final = re.compile(r"__\w+__\Z")
_FAR_RIGHT: Final = re.compile(r"\S {24}")
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|N\{)")
_ALPHABET: Final = re.compile(rf"[A-Za-z0-9+/=_-]{{{ENCODED_CHARS},}}")
_CREDENTIAL: Final = re.compile(
    r"pass(?:word|wd|phrase)|secret|credential|bearer|(?:api|access|private|signing)_?key"
    r"|(?:auth|access|api|refresh|session)_?token|AKIA[0-9A-Z]{16}|gh[ps]_"
    r"|BEGIN [A-Z ]{0,40}PRIVATE",  # bounded: `BEGIN BEGIN BEGIN ...` is looked at once
    re.IGNORECASE,
)
_URL: Final = re.compile(r"(?:https?|ftp|wss?|file|data|ssh):/?/?[^\s'\"]|www\.", re.IGNORECASE)
# Foreign lines that imitate ours, in case a reviewer overlooks the gutter.
_IMITATION: Final = re.compile(r"\s*(?:#\s*)?(?:threegate:|[0-9]* [|!:] )", re.IGNORECASE)


def code_flags(
    lines: Sequence[str],
    lexed: Lexed,
    *,
    functions: Sequence[str],
    inputs: Sequence[str],
    importable: frozenset[str],
    lite: bool = True,
    network: bool = False,
) -> Iterator[Flag]:
    """Yield the flags of a program; one flag for each kind, at its first line.

    `lite`: its inputs are names of the program.  Elsewhere they are files, and no words of the
    program tell which files it reads.
    """
    if not lexed.whole:
        reason = "the tokenizer does not read it as a whole: colours and flags may miss something"
        yield Flag("unreadable", reason)
    yield from _lines(lines, network=network)
    yield from _names(lexed.tokens)
    yield from _literals(lexed.tokens)
    yield from _imports(lexed.tokens, importable)
    if lite and lexed.whole:
        yield from _declared(lexed.tokens, functions, inputs)


def imitates(text: str) -> bool:
    """Tell whether foreign text has a line that looks like one of ours."""
    return any(_IMITATION.match(line) for line in text.split("\n"))


def _gathered(
    name: str, places: Sequence[int], words: Callable[[int], str], *, noun: str = "line"
) -> Iterator[Flag]:
    if places:
        also = f"; {len(places)} such {noun}s" if len(places) > 1 else ""
        yield Flag(name, words(len(places)) + also, places[0])


def _lines(lines: Sequence[str], *, network: bool) -> Iterator[Flag]:
    numbered = list(enumerate(lines, 1))
    if len(lines) > MANY_LINES:
        yield Flag("long", f"{len(lines)} lines: more than anybody reads with care in one go")
    long = [number for number, line in numbered if len(line) > LONG_LINE_CHARS]
    yield from _gathered("long-line", long, lambda _: f"more than {LONG_LINE_CHARS} characters")
    far = [number for number, line in numbered if _FAR_RIGHT.search(line)]
    reason = "a wide gap inside the line: what follows it is easily overlooked"
    yield from _gathered("far-right", far, lambda _: reason)
    yield from _gathered("below", list(_after_gap(lines)), lambda _: "code far below the rest")
    urls = [number for number, line in numbered if _URL.search(line)]
    reason = "a URL" if network else "a URL, though the code has no network"
    yield from _gathered("url", urls, lambda _: reason)
    played = [number for number, line in numbered if _IMITATION.match(line)]
    yield from _gathered("imitation", played, lambda _: "looks like a line of this program")


def _after_gap(lines: Sequence[str]) -> Iterator[int]:
    blank, begun = 0, False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            blank += 1
            continue
        if begun and blank >= BLANK_LINES:
            yield number
        blank, begun = 0, True


def _names(tokens: Sequence[CodeToken]) -> Iterator[Flag]:
    loops = [token.line for token in tokens if (token.kind, token.text) == (KEYWORD, "while")]
    reason = "a `while` loop, which may go on until the limit on wall time ends it"
    yield from _gathered("loop", loops, lambda _: reason, noun="loop")
    names = [token for token in tokens if token.kind == NAME]
    inner = [t for t in names if t.text in _REFLECTION or _DUNDER.match(t.text)]
    if inner:
        named = ", ".join(dict.fromkeys(quote(token.text, 32) for token in inner[:8]))
        yield Flag("reflection", f"names that lead out of plain code: {named}", inner[0].line)


def _literals(tokens: Sequence[CodeToken]) -> Iterator[Flag]:
    encoded, credentials = [], []
    for token in tokens:
        if token.kind in (STRING, NAME) and _CREDENTIAL.search(token.text):
            credentials.append(token.line)
        if token.kind == STRING and _is_encoded(token.text):
            encoded.append(token.line)
        if token.kind == NUMBER and len(token.text) > LONG_NUMBER_CHARS:
            encoded.append(token.line)
    reason = "text or a number that looks like encoded data: a reviewer cannot read it"
    yield from _gathered("encoded", encoded, lambda _: reason, noun="place")
    reason = "a name or text that looks like a credential"
    yield from _gathered("credential", credentials, lambda _: reason, noun="place")


def _is_encoded(literal: str) -> bool:
    if len(_ESCAPE.findall(literal)) >= NUMERIC_ESCAPES:
        return True
    return any(looks_random(found) for found in _ALPHABET.findall(literal))


def imports_of(tokens: Sequence[CodeToken]) -> dict[str, int]:
    """Return the top-level modules that statements import, with the first line of each."""
    found: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.kind != KEYWORD or token.text not in ("import", "from"):
            continue
        before = tokens[place - 1] if place else None
        if before is not None and before.line == token.line and before.text not in (";", ":"):
            continue  # `from x import y`, `raise x from y`
        wanted = True
        # One look at each word: no statement goes on behind the word that may begin the next.
        for at in range(place + 1, len(tokens)):
            word = tokens[at]
            if word.line != token.line or word.text in (";", ":", "import"):
                break
            if wanted and word.kind == NAME:
                found.setdefault(word.text, word.line)
            wanted = word.text == ","
    return found


def _imports(tokens: Sequence[CodeToken], importable: frozenset[str]) -> Iterator[Flag]:
    found = imports_of(tokens)
    if found:
        named = ", ".join(quote(name, 32) for name in list(found)[:16])
        yield Flag("import", f"imports {named}", min(found.values()))
    for name, line in list(found.items())[:16]:
        if name not in importable:
            reason = f"imports {quote(name, 32)}, which its profile does not allow: it will fail"
            yield Flag("import-denied", reason, line)


def _declared(
    tokens: Sequence[CodeToken], functions: Sequence[str], inputs: Sequence[str]
) -> Iterator[Flag]:
    # A name inside a string may be used: an f-string evaluates it.
    mentioned: set[str] = set()
    for token in tokens:
        if token.kind in (NAME, STRING):
            mentioned.update(_NAMES.findall(token.text))
    if mentioned & _LOOKUPS:  # then a name need not be written to be used
        return
    for name in functions:
        if name not in mentioned:
            yield Flag("unused-function", f"asks for {name} and does not call it")
    for name in FUNCTIONS:
        line = _called(tokens, name)
        if line is not None and name not in functions:
            reason = f"uses {name}, which the request does not ask for: the call fails"
            yield Flag("undeclared-function", reason, line)
    for name in inputs:
        if name not in mentioned:
            yield Flag("unused-input", f"is given {name} and does not read it")


def _called(tokens: Sequence[CodeToken], name: str) -> int | None:
    """Return the first line that calls `name`; None if it is something of the program's own."""
    found = None
    for place, token in enumerate(tokens):
        if token.kind != NAME or token.text != name:
            continue
        before = tokens[place - 1].text if place else ""
        after = tokens[place + 1].text if place + 1 < len(tokens) else ""
        if before == ".":  # an attribute
            continue
        if after != "(" or before in ("def", "class"):  # it may be bound here
            return None
        found = found or token.line
    return found
