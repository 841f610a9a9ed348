"""Passages that read like orders to a language model: found, counted, never acted upon.

Measured on public collections of attacks, lists such as this one find between none and four
fifths of them: most attacks are ordinary requests in ordinary words.  So a count is a hint
for a reader, and no count is no statement at all.

SECURITY
    Reads foreign text.  Time is linear: words are looked for first, and no repetition in an
    expression is without a bound.  If this module is wrong, a hint is missing or one too many.
"""

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from threegate.gates.fetch.normalize.composition import composed


@dataclass(frozen=True, slots=True)
class _Kind:
    """Passages of one kind; without one of `words` in the text there is none."""

    words: tuple[str, ...]
    passage: re.Pattern[str]


def _kind(words: str, *passages: str) -> _Kind:
    return _Kind(tuple(words.split(",")), re.compile("|".join(passages)))


_NEAR: Final = ".{0,40}?"
_ORDERS: Final = r"\b(?:instructions?|prompts?|rules?|directions?|guidelines?|context|commands?)\b"
_BEFORE: Final = r"\b(?:previous|prior|above|preceding|earlier|existing|original|system|all|any)\b"
_DROP: Final = r"\b(?:ignore|disregard|forget|override|bypass)\b"
_TELL: Final = r"\b(?:reveal|print|repeat|show|output|leak|display)\b"
_WHO: Final = "(?:ai|llms?|language models?|assistants?|chatbots?|gpt|chatgpt|claude|gemini)"
_CALL: Final = r"\b(?:as|if you are|you are|to|dear|attention|hey) (?:an? |the |any |all )?"
_ORDER: Final = r"\b(?:must|should|shall|please|only|ignore|do not|give|reading|reviewers?)\b"
_PRAISE: Final = r"\bgive (?:an? |only )?(?:positive|favou?rable|highest)\b"
_FROM: Final = r"\b(?:user|human|prompt|instruction|negatives?|anyone)"

_KINDS: Final = (
    _kind(
        "ignor,disregard,forget,override,bypass",
        f"{_DROP}{_NEAR}{_BEFORE}{_NEAR}{_ORDERS}",
        rf"{_DROP} (?:everything|anything|what)\b{_NEAR}\b(?:above|before|said|told|previous)",
        rf"{_DROP} (?:the|any) (?:user|human|reader)s?\b",
        r"\bignor(?:a|e|en|ad) (?:todas )?las instrucciones\b",
        r"\bignorez (?:toutes )?les instructions\b",
        r"\bignorier(?:e|en sie|t) .{0,20}?anweisungen\b",
    ),
    _kind(
        "instruction,prompt",
        r"\b(?:new|updated|real|actual|hidden|secret|following) instructions?\b ?:",
        rf"{_TELL}{_NEAR}\b(?:system|initial|hidden|original) (?:prompt|instructions?)\b",
        r"\bsystem prompt\b",
        r"\byour (?:initial|original|starting|hidden|system) (?:instructions?|prompts?)\b",
        r"### ?instruction",
    ),
    _kind(
        " ai ,llm,language model,assistant,chatbot,gpt,claude,gemini",
        rf"\b(?:pretend|act|behave|respond|answer) (?:to be|as|like) {_NEAR}\b{_WHO}\b",
        rf"{_CALL}{_WHO}\b{_NEAR}{_ORDER}",
        rf"\b{_WHO}[ -](?:reviewers?|agents?|readers?)\b{_NEAR}{_ORDER}",
    ),
    _kind(
        "give ",
        rf"{_PRAISE}{_NEAR}\b(?:review|score|rating)",
    ),
    _kind(
        "do not ",
        rf"\bdo not (?:mention|tell|reveal|disclose|inform|highlight)\b{_NEAR}{_FROM}",
    ),
    _kind("you are now", r"\byou are now\b"),
    _kind("inst],|>", r"\[/?inst\]|(?:<|&lt;)\|[a-z_]{1,20}\|>"),
    _kind("developer mode,do anything now", r"\b(?:developer mode|do anything now)\b"),
)
_KINDS_BEYOND_ASCII: Final = (
    _kind("指", "(?:忽略|无视|忽視).{0,12}?(?:指令|指示)|以前の指示"),
    _kind("инструкци", r"игнорируй.{0,20}?инструкци"),
)
_ONE_LINE_LOWER: Final = bytes.maketrans(
    b"\n\t" + string.ascii_uppercase.encode(), b"  " + string.ascii_lowercase.encode()
)
_UNSEEN: Final = re.compile(r"\\u\{[0-9a-f]{1,6}\}")


def count_passages(texts: Iterable[str]) -> int:
    """Return how many passages of `texts`, as a packet shows them, address a model."""
    text = " ".join(texts)
    kinds: tuple[_Kind, ...] = _KINDS
    if not text.isascii():
        kinds += _KINDS_BEYOND_ASCII
        text = composed(text, "NFKC").lower()
    if "\\u{" in text:
        text = _UNSEEN.sub("", text)  # a word with a zero-width space in it is a word
    # One step instead of three: lower case, no tabs, no line feeds.
    text = text.encode("utf-8").translate(_ONE_LINE_LOWER).decode("utf-8")
    if "  " in text:
        text = " ".join(text.split())
    count = 0
    for kind in kinds:
        for word in kind.words:
            if word in text:
                count += sum(1 for _ in kind.passage.finditer(text))
                break
    return count
