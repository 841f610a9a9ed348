"""The forms of a model's replies, and their strict reading.

A form is a grammar for the embedded server and a schema for other servers.  Every string and
list is bounded, whitespace is fixed, and numbers are those that were shown: a reply cannot cite
a sentence that was not there.  A form guarantees structure, never content.

A model may ask only for references that the quoted sentences name: one that may write any
reference invents some, and one that obeys a source could put what it read into an address.

SECURITY
    Reads text of a model that read text of strangers, or of a server that this project did
    not write.  The reading does not rely on the grammar.  References are spelled in characters
    that end no string of the form.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.base.identifiers import PREFIXED, parse_reference
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import Cited, ModelClaim
from threegate.gates.core.prompts import QuotedData, QuotedSentence

MAX_CLAIM_CHARS: Final = 400
MAX_CITES: Final = 4
MAX_GOAL_CHARS: Final = 300
MAX_REFERENCES: Final = 3
MAX_CODE_CHARS: Final = 1500

# A character of a JSON string: no controls, no quote; escapes for both and for a line break.
_CHAR: Final = r'[^"\\\x00-\x1f\x7f] | "\\" ["\\n]'


@dataclass(frozen=True, slots=True)
class Form:
    """One form, as a grammar and as a schema."""

    grammar: str
    schema: str


def _rules(**rules: str) -> str:
    return "\n".join(f"{name} ::= {rule}" for name, rule in rules.items())


def _schema(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def claims_form(numbers: Iterable[int], *, most: int) -> Form:
    """Return the form of at most `most` claims citing these sentence numbers."""
    known = sorted(numbers)
    more_claims, more_cites = max(0, most - 1), MAX_CITES - 1
    cited = f'(number ("," number){{0,{more_cites}}})?' if known else '""'
    text = f'"{{\\"text\\":\\"" char{{1,{MAX_CLAIM_CHARS}}} "\\","'
    grammar = _rules(
        root=f'"{{\\"claims\\":[" (claim ("," claim){{0,{more_claims}}})? "]}}"',
        claim=f'{text} "\\"from\\":[" cited "]}}"',
        cited=cited,
        number=" | ".join(f'"{number}"' for number in known) or '"0"',
        char=_CHAR,
    )
    sentences = {
        "type": "array",
        "maxItems": MAX_CITES,
        "items": {"enum": known, "type": "integer"},
    }
    if not known:
        sentences = {"type": "array", "maxItems": 0}
    said = {"type": "string", "minLength": 1, "maxLength": MAX_CLAIM_CHARS}
    claim = _object({"from": sentences, "text": said})
    claims = {"type": "array", "maxItems": most, "items": claim}
    return Form(grammar, _schema(_object({"claims": claims})))


def next_form(references: Sequence[str]) -> Form:
    """Return the form of the next step, which may look up only these references."""
    sources = f'(source ("," source){{0,{MAX_REFERENCES - 1}}})?' if references else '""'
    compute = f'"{{\\"compute\\":\\"" char{{0,{MAX_GOAL_CHARS}}} "\\","'
    grammar = _rules(
        root=f'{compute} "\\"fetch\\":[" {sources} "]}}"',
        source=(
            '"{\\"reference\\":\\"" reference "\\"," '
            f'"\\"why\\":\\"" char{{1,{MAX_GOAL_CHARS}}} "\\"}}"'
        ),
        reference=" | ".join(f'"{reference}"' for reference in references) or '"-"',
        char=_CHAR,
    )
    source = _object(
        {
            "reference": {"enum": list(references), "type": "string"},
            "why": {"type": "string", "minLength": 1, "maxLength": MAX_GOAL_CHARS},
        }
    )
    fetch = {"type": "array", "maxItems": MAX_REFERENCES, "items": source}
    if not references:
        fetch = {"type": "array", "maxItems": 0}
    goal = {"type": "string", "maxLength": MAX_GOAL_CHARS}
    return Form(grammar, _schema(_object({"compute": goal, "fetch": fetch})))


def code_form() -> Form:
    """Return the form of a program: a JSON object with its text."""
    grammar = _rules(root=f'"{{\\"code\\":\\"" char{{1,{MAX_CODE_CHARS}}} "\\"}}"', char=_CHAR)
    code = {"type": "string", "minLength": 1, "maxLength": MAX_CODE_CHARS}
    return Form(grammar, _schema(_object({"code": code})))


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": sorted(properties),
        "properties": properties,
    }


# References in the quoted sentences.

MAX_NAMED: Final = 24
MAX_REFERENCE_CHARS: Final = 200
_CANDIDATE: Final = re.compile(
    rf"(?:\b(?:{'|'.join(PREFIXED)}): ?|https?://|\b10\.[0-9]{{4,9}}/)[!#-;=?-\[\]-~]+",
    re.IGNORECASE,
)
_AFTER: Final = ".,;:!?'*_)]}>"  # ends a sentence, or a bracket around the reference


def named(lines: Sequence[QuotedSentence]) -> tuple[str, ...]:
    """Return the references in these sentences, each once, in order."""
    found: dict[str, None] = {}
    for line in lines:
        for candidate in _CANDIDATE.findall(line.text):
            try:
                reference = parse_reference(candidate.replace(": ", ":", 1).rstrip(_AFTER)).text
            except ValueError:
                continue
            if reference.isascii() and len(reference) <= MAX_REFERENCE_CHARS:
                found[reference] = None
            if len(found) == MAX_NAMED:
                return tuple(found)
    return tuple(found)


# Replies.

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"  # for characters that artifacts may not contain


class NoReply(Exception):
    """The reply does not have its form; the text is our own."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the model proposes to do next."""

    compute: str
    fetch: tuple[tuple[str, str], ...]  # reference, why


def read_claims(text: str, shown: QuotedData, *, most: int) -> tuple[ModelClaim, ...]:
    """Return the claims in a reply; raise `NoReply`, also for a number that was not shown."""
    claims = _list(_parsed(text, ("claims",))["claims"], most)
    return _once_each([_claim(item, shown) for item in claims])


def _once_each(claims: Sequence[ModelClaim]) -> tuple[ModelClaim, ...]:
    """Merge claims with the same text: a repetition may cite more sentences."""
    found: dict[str, ModelClaim] = {}
    for claim in claims:
        text = claim.text.open_for_validation()
        known = found.get(text, claim)
        cites = tuple(dict.fromkeys([*known.cites, *claim.cites]))[:MAX_CITES]
        found[text] = ModelClaim(claim.text, cites)
    return tuple(found.values())


def _claim(item: Any, shown: QuotedData) -> ModelClaim:
    if type(item) is not dict or set(item) != {"text", "from"}:
        raise NoReply("a claim of another form")
    numbers = _list(item["from"], MAX_CITES)
    cites: dict[Cited, None] = {}
    for number in numbers:
        if type(number) is not int or number not in shown.cites:
            raise NoReply("a claim cites what was not shown")
        cites[shown.cites[number]] = None
    return ModelClaim(Untrusted(_line(item["text"], MAX_CLAIM_CHARS)), tuple(cites))


def read_wanted(text: str, references: Sequence[str]) -> NextStep:
    """Return the next step; raise `NoReply`, also for a reference that was not shown."""
    value = _parsed(text, ("compute", "fetch"))
    compute = _line(value["compute"], MAX_GOAL_CHARS, least=0)
    sources = _list(value["fetch"], MAX_REFERENCES)
    return NextStep(compute, tuple(_reference(item, references) for item in sources))


def _reference(item: Any, references: Sequence[str]) -> tuple[str, str]:
    if type(item) is not dict or set(item) != {"reference", "why"}:
        raise NoReply("a source of another form")
    reference = item["reference"]
    if reference not in references:
        raise NoReply("a reference that no sentence names")
    return reference, _line(item["why"], MAX_GOAL_CHARS)


def read_code(text: str) -> str:
    """Return the program in a reply, its line breaks kept."""
    code = _parsed(text, ("code",))["code"]
    if type(code) is not str or not 1 <= len(code) <= MAX_CODE_CHARS:
        raise NoReply("a program of another form")
    found = FORBIDDEN.sub(_REPLACEMENT, code).strip("\n")
    if not found.strip():
        raise NoReply("an empty program")
    return found + "\n"


def _parsed(text: str, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        raise NoReply("not JSON") from exc
    if type(value) is not dict or tuple(sorted(value)) != tuple(sorted(keys)):
        raise NoReply("another form than was asked for")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _list(value: Any, most: int) -> list[Any]:
    if type(value) is not list or len(value) > most:
        raise NoReply("not a list, or too long")
    found: list[Any] = value
    return found


def _line(value: Any, most: int, *, least: int = 1) -> str:
    """Return one line of text that an artifact may contain."""
    if type(value) is not str or not least <= len(value) <= most:
        raise NoReply("not a text, or too long")
    found = " ".join(FORBIDDEN.sub(_REPLACEMENT, value).split())
    if len(found) < least:
        raise NoReply("an empty text")
    return found
