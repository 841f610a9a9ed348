"""The forms a reply may have: a grammar for the embedded server, a schema for others.

Every string and list is bounded, blanks are fixed, and numbers are those that were shown: a
reply cannot cite what was not there.  A form makes structure certain, never content.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_CLAIM_CHARS: Final = 400
MAX_CITES: Final = 4
MAX_GOAL_CHARS: Final = 300
MAX_REFERENCES: Final = 3
MAX_CODE_CHARS: Final = 1500

# A character of a JSON string: no controls, no quote; escapes for both and for a line break.
_CHAR: Final = r'[^"\\\x00-\x1f\x7f] | "\\" ["\\n]'


@dataclass(frozen=True, slots=True)
class Form:
    """One form, said twice."""

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
    """Return the form of what is needed next, which may look up these references alone."""
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
