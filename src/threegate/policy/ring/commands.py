"""Commands: which rule of the ring refuses one, before anything is started.

The same function judges a command in the host, in the gate and inside the guest, which carries
a copy of this module.  A command is a list of words; no shell ever reads it.  In order:

 1. the program is one of the allowed, by its path or by the one name it has among them;
 2. the line as written contains no denied pattern;
 3. the words contain no denied pattern: quotes, escapes and assignments taken away, words
    that hold several taken apart, options in any order, clustered, abbreviated or spelled out;
 4. no argument rule of a program among the words denies one of the words behind it, and
    those that it requires stand first.

What is unclear is refused: a pattern also matches where its words mean something else.

SECURITY
    Reads the words of a command somebody wants to run.  Holds nothing that was started: what a
    program does with its words is its own affair, and the kernel's rules beneath decide what
    it can execute.  If this module is wrong, a denied command begins; it still cannot
    leave the guest or start a program that is not allowed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Programs whose first word may be a cluster of options without its dash.
OLD_STYLE = frozenset(("ar", "bsdtar", "ps", "star", "tar"))
MAX_SHOWN = 160

_BOUNDARY = "[A-Za-z0-9_.-]"
# What a shell or an interpreter would take out of a word before it is a name.
_HEX, _OCTAL = re.compile(r"\\x([0-9A-Fa-f]{1,2})"), re.compile(r"\\([0-7]{1,3})")
_SPACE_BY_NAME = re.compile(r"\$IFS|\$\{IFS\}")
_EMPTY_BY_NAME = re.compile(r"\$\{[^{}]*\}|\$[@*#?!0-9]|\$(?=['\"])")
_QUOTES = re.compile(r"['\"\\]")
_PARTS = re.compile(r"[^\s;|&()<>`{},=]+")
EVERYTHING = "*"  # denied: the program is not started at all, not even without words


@dataclass(frozen=True)
class ArgumentRule:
    """Arguments that would make a program start another program."""

    name: str
    programs: tuple[str, ...]  # the last parts of their paths
    denied: tuple[str, ...]
    required: tuple[str, ...]  # its first words, without which it is not started


@dataclass(frozen=True)
class CommandRefusal:
    """Which rule refuses a command, and for which of its words."""

    rule: str  # allowed_binaries, denied_patterns or argument_rules
    item: str  # of the rule: the pattern, or the name of an argument rule
    argument: str  # foreign


def base(word: str) -> str:
    """Return the last part of a path."""
    return word.rpartition("/")[2]


def names_of(program: str) -> set[str]:
    """Return the names of a program: `vim.tiny` is a vim, `perl5.36-x86_64-linux` a perl.

    Its own name, and that name cut at the first character that is not a letter.
    """
    name = base(program)
    return {name, *(name[:at] for at, char in enumerate(name) if at and not char.isalpha())}


def resolve(binaries: Sequence[str], word: str) -> str | None:
    """Return the allowed program a word names: its path, or a name that only one of them has."""
    if "/" in word:
        return word if word in binaries else None
    found = [path for path in binaries if base(path) == word]
    return found[0] if len(found) == 1 else None


def refusal(
    argv: Sequence[str],
    *,
    binaries: Sequence[str],
    patterns: Sequence[str],
    arguments: Sequence[ArgumentRule],
) -> CommandRefusal | None:
    """Return the first rule that refuses a command, if one does."""
    program = argv[0] if argv else ""
    if resolve(binaries, program) is None:
        return CommandRefusal("allowed_binaries", program, _shown(program))
    for pattern in patterns:
        found = denied_by(pattern, argv)
        if found is not None:
            return CommandRefusal("denied_patterns", pattern, found)
    for rule in arguments:
        found = denied_word(rule, argv)
        if found is not None:
            return CommandRefusal("argument_rules", rule.name, found)
    return None


def denied_by(pattern: str, argv: Sequence[str]) -> str | None:
    """Return the part of a command that a denied pattern matches."""
    line = " ".join(" ".join(argv).split())
    sought = re.escape(" ".join(pattern.split()))
    if re.search(f"(?<!{_BOUNDARY}){sought}(?!{_BOUNDARY})", line):
        return _shown(line)
    wanted = list(parts_of(pattern))
    words = [part for word in argv for part in parts_of(word)]
    for at, word in enumerate(words):
        if wanted and base(word) == base(wanted[0]):
            # A second one adds nothing that the first does not have.
            return _shown(" ".join(words[at:])) if _all_there(wanted[1:], words[at:]) else None
    return None


def parts_of(word: str) -> Iterator[str]:
    """Yield the words in a word, as a shell that unquotes and splits it would see them."""
    text = _SPACE_BY_NAME.sub(" ", word)
    text = _EMPTY_BY_NAME.sub("", text)
    text = _HEX.sub(lambda found: chr(int(found[1], 16)), text)
    text = _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
    yield from _PARTS.findall(_QUOTES.sub("", text))


def _all_there(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Tell whether the words contain every word of a pattern, in any order."""
    return all(_is_there(item, words) for item in wanted)


def _is_there(item: str, words: Sequence[str]) -> bool:
    if item.startswith("--"):
        return any(is_long(item, word) for word in words)
    if item.startswith("-") and len(item) > 1:
        return set(item[1:].lower()) <= set(_letters(words))
    return any(item in (word, base(word)) for word in words)


def _letters(words: Sequence[str]) -> Iterator[str]:
    """Yield the options of one letter in use; a long one counts as its first letter."""
    for word in words:
        if word.startswith("--"):
            yield from word[2:3].lower()
        elif word.startswith("-"):
            yield from word[1:].lower()


def is_long(option: str, word: str) -> bool:
    """Tell whether a word is this long option, or an abbreviation that programs accept."""
    given = word.partition("=")[0]
    return len(given) > 2 and given.startswith("--") and option.startswith(given)


def denied_word(rule: ArgumentRule, argv: Sequence[str]) -> str | None:
    """Return the word of a command that this rule denies, or the required one it lacks."""
    behind = False
    names: set[str] = set()  # of the word before
    for at, word in enumerate(argv):
        old_style = not names.isdisjoint(OLD_STYLE)
        if behind and any(_holds_option(item, word, old_style=old_style) for item in rule.denied):
            return _shown(word)
        # Behind the first word, what is called nearly so is a file: `cat /in/tar.txt`.
        names = {base(word)} if at else names_of(word)
        if names.isdisjoint(rule.programs):
            continue
        behind = True
        # Further back it could be the value of another option: `sed -l --sandbox '1e id'`.
        if tuple(argv[at + 1 : at + 1 + len(rule.required)]) != rule.required:
            return _shown(f"{base(word)} without {' '.join(rule.required)}")
        if EVERYTHING in rule.denied and at + 1 == len(argv):
            return _shown(word)  # `make` alone reads a file that lies where it is started
    return None


def _holds_option(item: str, word: str, *, old_style: bool) -> bool:
    if item.startswith("--"):
        return is_long(item, word)
    if item.startswith("-") and len(item) == 2:
        if old_style and not word.startswith("-"):
            return item[1] in word  # all of it is options, at any length
        cluster = word.startswith("-") and not word.startswith("--")
        return cluster and item[1] in word.partition("=")[0]
    if item.startswith("-"):
        return item == word.partition("=")[0]
    return matches(item, word) or matches(item, "".join(_QUOTES.split(word)))


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern with `*` for any characters covers a text; linear in both."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    last = rest.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in rest:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return text.endswith(last)


def _shown(text: str) -> str:
    """Return foreign words as printable ASCII, not too long."""
    spelled = text.encode("ascii", "backslashreplace").decode("ascii")
    plain = "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" for c in spelled)
    return plain if len(plain) <= MAX_SHOWN else plain[: MAX_SHOWN - 3] + "..."
