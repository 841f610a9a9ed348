"""Code taken apart into words, for colour and for risk flags; nothing is compiled or run.

The tokenizer of the standard library reads it.  What that refuses, or what has lines beyond
any reader, is read by a simpler one, line by line, which knows no text over several lines
and no comments: it must not make code look like either.

SECURITY
    Reads hostile code with `tokenize`, which builds no tree and executes nothing.  Colour is
    an aid: what is shown and counted never depends on it.
"""

import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.host.review.parts import Token

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

    tokens: tuple[Token, ...]
    whole: bool


def lex(code: str) -> Lexed:
    """Return the words of `code`, for any text whatever."""
    lines = code.split("\n")
    if max(map(len, lines)) > MAX_LINE_CHARS:
        return Lexed(tuple(_simple(lines)), whole=False)
    try:
        return Lexed(tuple(_tokens(code, lines)), whole=True)
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return Lexed(tuple(_simple(lines)), whole=False)


def _tokens(code: str, lines: list[str]) -> Iterator[Token]:
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


def _per_line(kind: str, item: tokenize.TokenInfo, lines: list[str]) -> Iterator[Token]:
    """Yield a token once for each line it stands in."""
    (first, start), (last, end) = item.start, item.end
    for line in range(first, min(last, len(lines)) + 1):
        text = lines[line - 1]
        left = start if line == first else 0
        right = end if line == last else len(text)
        if left < right <= len(text):
            yield Token(kind, text[left:right], line, left, right)


def _simple(lines: list[str]) -> Iterator[Token]:
    for number, line in enumerate(lines, 1):
        for found in _SIMPLE.finditer(line):
            kind = found.lastgroup or OTHER
            if kind == NAME and found[0] in _WORDS:
                kind = KEYWORD
            yield Token(kind, found[0], number, found.start(), found.end())
