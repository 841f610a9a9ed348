r"""LaTeX source: one part per section, formulas as they are written, commands left out.

Nothing is expanded and no other file is read: `\input{x}` becomes `[not included: x]`.  Comments,
text after the end of the document, `\iffalse`, `\phantom` and white text are left out and counted
as `hidden-text`.

SECURITY
    Works on foreign text in one pass.  A search for an end either moves on to it or is never
    repeated for the same word, so time grows with the length of the text.
"""

import re
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.composition import composed
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers import latex_words as words
from threegate.gates.fetch.normalize.readers.plain import decode
from threegate.gates.fetch.normalize.readers.sections import Sections
from threegate.gates.fetch.normalize.text import Document
from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.fields import Record

MAX_ARGUMENT_CHARS: Final = 1_000  # of one argument that is looked at as a whole
MAX_CLAIM_CHARS: Final = 20_000  # of a preamble's title or authors
MAX_DEPTH: Final = 16  # of braces in one argument
MAX_OPTIONS: Final = 3  # of one command
_BEGIN, _END = "\\begin{document}", "\\end{document}"
_TOKEN: Final = re.compile(
    r"\\([A-Za-z@]+)\*?|\\(.)|([{}&~$])|%([^\n]*)\n?[ \t]*|[^\\{}&~$%]+|\\", re.DOTALL
)
_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)%([^\n]*)\n?[ \t]*")
_CONDITION: Final = re.compile(r"\\(if[A-Za-z@]*|else|fi)(?![A-Za-z@])")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_PLAIN: Final = re.compile(r"\\[A-Za-z@]+\*?[ \t]*|[{}$]|~|\\(.)", re.DOTALL)
_AND: Final = re.compile(r"\\and(?![A-Za-z@])")
_ADDRESS: Final = re.compile(r"\\\\|\\(?:thanks|inst|footnote)")  # what follows a name
_LINES: Final = re.compile(r"[ \t]*\n\s*")
_WHITE: Final = ("white", "White")


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the text in parts by section, or raise `Unread`."""
    source = decode(raw).replace("\r\n", "\n").replace("\r", "\n")
    preamble, begun, body = source.partition(_BEGIN)
    if not begun:
        preamble, body = "", source
    body, _, after = body.partition(_END)
    record = Record(answer.source)
    _read_claims(preamble + body[:MAX_CLAIM_CHARS], record)
    walk = _Walk(body)
    walk.run()
    hidden = walk.hidden + len(after.strip())
    found = {"hidden-text": hidden} if hidden else {}
    return Document(walk.sections.parts(), record.finished(), found=found)


def _read_claims(text: str, record: Record) -> None:
    title = _plain(_claim(text, "\\title"))
    if title:
        record.set_title(title)
    for author in _AND.split(_claim(text, "\\author")):
        name = _plain(_ADDRESS.split(author, maxsplit=1)[0])
        if name:
            record.add_author(name)
    date = _plain(_claim(text, "\\date"))
    if date:
        record.set_published(dates.from_text(date))


def _claim(text: str, command: str) -> str:
    at = text.find(command)
    return _group(text, at + len(command), MAX_CLAIM_CHARS)[0] if at >= 0 else ""


def _plain(text: str) -> str:
    """Return a short text without its commands and comments."""
    text = _COMMENT.sub(r"\1", text)
    return " ".join(_PLAIN.sub(lambda found: found[1] or " ", text).split())


def _group(text: str, at: int, limit: int = MAX_ARGUMENT_CHARS) -> tuple[str, int]:
    """Return the argument in braces at `at`, options before it left out, and where it ends."""
    at = _past_options(text, at)
    if not text.startswith("{", at):
        return "", at
    depth = 0
    for match in _BRACE.finditer(text, at, min(len(text), at + limit)):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth > MAX_DEPTH:  # else 18 MB of `\phantom{` take three minutes
            break
        if depth == 0:
            return text[at + 1 : match.start()], match.end()
    return "", at  # too long to be an argument: its text stays


def _past_options(text: str, at: int) -> int:
    for _ in range(MAX_OPTIONS):
        if not text.startswith("[", at):
            break
        end = text.find("]", at, at + MAX_ARGUMENT_CHARS)
        if end < 0:
            break
        at = end + 1
    return at


class _Walk:
    """One walk over the body of a document."""

    def __init__(self, text: str) -> None:
        self.sections = Sections()
        self.hidden = 0
        self._text, self._at = text, 0
        self._line: list[str] = []
        self._ends: list[str] = []  # what each open brace writes when it is closed
        self._unseen = 0  # how many braces are open around white text
        self._endless: set[str] = set()
        self._accent = ""

    def run(self) -> None:
        """Read to the end."""
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            assert match is not None, "every character is part of a token"
            self._at = match.end()
            if match[1]:
                self._command(match[1])
            elif match[2]:
                self._escape(match[2])
            elif match[3]:
                self._mark(match[3])
            elif match[4] is not None:
                self._hide(match[4])
            else:
                self._write(match.group())
        self._flush()

    def _write(self, text: str) -> None:
        if self._unseen:
            self._hide(text)
            return
        if self._accent and text.strip():
            text = text.lstrip()
            letter = "i" if text[0] == "ı" else text[0]
            text, self._accent = composed(letter + self._accent) + text[1:], ""
        self._line.append(text)

    def _hide(self, text: str) -> None:
        self.hidden += len(text.strip())

    def _flush(self) -> None:
        text = _LINES.sub(
            lambda found: "\n\n" if found.group().count("\n") > 1 else "\n", "".join(self._line)
        )
        self._line = []
        if text.strip():
            self.sections.add(text.strip().replace("``", "“").replace("''", "”"))

    def _begin(self, heading: str) -> None:
        self._flush()
        self.sections.begin(heading)

    def _mark(self, mark: str) -> None:
        if mark == "{":
            self._open("")
        elif mark == "}":
            if self._ends:
                self._write(self._ends.pop())
            self._unseen = max(0, self._unseen - 1)
        elif mark == "$":
            self._at -= 1
            self._formula("$$" if self._text.startswith("$$", self._at) else "$")
        else:
            self._write(" | " if mark == "&" else " ")

    def _open(self, end: str, *, unseen: bool = False) -> None:
        self._ends.append(end)
        self._unseen += bool(self._unseen) or unseen

    def _formula(self, mark: str, end_mark: str = "") -> None:
        """Write what is between two marks as it is, without comments."""
        start = self._at
        self._at += len(mark)
        end = self._find(end_mark or mark)
        self._write(self._uncommented(self._text[start:end]) if end >= 0 else mark)
        self._at = max(self._at, end)

    def _uncommented(self, text: str) -> str:
        def left_out(match: re.Match[str]) -> str:
            self._hide(match[2])
            return match[1]

        return _COMMENT.sub(left_out, text)

    def _find(self, word: str) -> int:
        """Return where `word` ends from here on, or -1; a search without an end is made once."""
        if word in self._endless:
            return -1
        end = self._text.find(word, self._at)
        if end < 0:
            self._endless.add(word)
            return -1
        return end + len(word)

    def _escape(self, character: str) -> None:
        if character in words.ACCENTS:
            self._accent = words.ACCENTS[character]
        elif character in "([":
            self._at -= 2
            self._formula(f"\\{character}", "\\)" if character == "(" else "\\]")
        else:
            self._write(words.ESCAPES.get(character, ""))

    def _command(self, name: str) -> None:
        if name in ("begin", "end"):
            environment, self._at = _group(self._text, self._at)
            if name == "begin":
                self._environment(environment)
            else:
                self._unseen -= self._unseen == 1  # a colour ends with its environment
                self._write("\n")
        elif name in words.SECTIONS:
            heading, self._at = _group(self._text, self._at)
            self._begin(_plain(heading))
        elif name in words.ACCENTS:
            self._accent = words.ACCENTS[name]
        elif name in words.SYMBOLS:
            self._write(words.SYMBOLS[name])
            self._at += self._text.startswith(" ", self._at)
        elif name in words.NOTED:
            argument, self._at = _group(self._text, self._at)
            argument = argument if name in ("url", "href") else _plain(argument)  # `%` in a URL
            self._write(f"[{words.NOTED[name]}{argument}]" if argument else "")
        elif name in words.DROPPED:
            self._drop(name)
        else:
            self._other(name)

    def _other(self, name: str) -> None:
        if name == "textcolor":
            colour, self._at = _group(self._text, self._at)
            if self._text.startswith("{", self._at):
                self._at += 1
                self._open("", unseen=colour.strip() in _WHITE)
        elif name == "footnote" and self._text.startswith("{", self._at):
            self._at += 1
            self._write(" [footnote: ")
            self._open("]")
        elif name == "verb":
            mark = self._text[self._at : self._at + 1]
            end = self._text.find(mark, self._at + 1, self._at + MAX_ARGUMENT_CHARS) if mark else -1
            if end >= 0:
                self._write(self._text[self._at + 1 : end])
                self._at = end + 1
        elif name == "iffalse":
            self._skip_condition()
        else:
            self._at = _past_options(self._text, self._at)

    def _skip_condition(self) -> None:
        r"""Leave out what is between `\iffalse` and its `\fi` or `\else`."""
        start, depth = self._at, 1
        self._at = len(self._text)
        for match in _CONDITION.finditer(self._text, start):
            if match[1] == "else":
                depth -= depth == 1
            else:
                depth += -1 if match[1] == "fi" else 1
            if depth == 0:
                self._at = match.end()
                break
        self._hide(self._text[start : self._at])

    def _drop(self, name: str) -> None:
        """Leave out the arguments of a command."""
        if name == "def":  # its name and parameters come before the brace
            brace = self._text.find("{", self._at, self._at + 100)
            self._at = max(self._at, brace)
        for _ in range(words.DROPPED[name]):
            argument, self._at = _group(self._text, self._at)
            if name in words.HIDDEN:
                self._hide(argument)
            elif name == "color" and self._unseen < 2:  # until the brace around it is closed
                self._unseen = int(argument.strip() in _WHITE)

    def _environment(self, name: str) -> None:
        raw = name in words.VERBATIM or name in words.MATH or name == "comment"
        start, end = self._at, self._find(f"\\end{{{name}}}") if raw else -1
        if end >= 0:
            inner, self._at = self._text[start : end - len(name) - len("\\end{}")], end
            if name == "comment":
                self._hide(inner)
            else:
                inner = self._uncommented(inner) if name in words.MATH else inner
                self._write("\n" + inner.strip("\n") + "\n")
            return
        if name in words.HEADED:
            self._begin(words.HEADED[name])
        self._at = _past_options(self._text, self._at)
        if name in words.LAYOUT:
            _, self._at = _group(self._text, self._at)
        self._write("\n")
