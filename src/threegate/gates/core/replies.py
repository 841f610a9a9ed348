"""What a model wrote, read strictly: one form each, everything else is no reply.

SECURITY
    Reads text of a model that read text of strangers, or of a server that is somebody
    else's.  A grammar may have held or not: nothing here relies on it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.core import grammars
from threegate.gates.core.fences import QuotedData
from threegate.gates.core.messages import Cited, Claimed

_STAND_IN: Final = "\N{REPLACEMENT CHARACTER}"  # for what may not stand in an artifact


class NoReply(Exception):
    """The reply is not of its form; the words are our own."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the model would do next."""

    compute: str
    fetch: tuple[tuple[str, str], ...]  # reference, why


def read_claims(text: str, shown: QuotedData, *, most: int) -> tuple[Claimed, ...]:
    """Return the claims in a reply; a number that was not shown makes it none."""
    claims = _list(_object(text, ("claims",))["claims"], most)
    return _once_each([_claim(item, shown) for item in claims])


def _once_each(claims: Sequence[Claimed]) -> tuple[Claimed, ...]:
    """Return every claim once: said again it is no second one, but may name more sentences."""
    found: dict[str, Claimed] = {}
    for claim in claims:
        text = claim.text.open_for_validation()
        known = found.get(text, claim)
        cites = tuple(dict.fromkeys([*known.cites, *claim.cites]))[: grammars.MAX_CITES]
        found[text] = Claimed(claim.text, cites)
    return tuple(found.values())


def _claim(item: Any, shown: QuotedData) -> Claimed:
    if type(item) is not dict or set(item) != {"text", "from"}:
        raise NoReply("a claim of another form")
    numbers = _list(item["from"], grammars.MAX_CITES)
    cites: dict[Cited, None] = {}
    for number in numbers:
        if type(number) is not int or number not in shown.cites:
            raise NoReply("a claim cites what was not shown")
        cites[shown.cites[number]] = None
    return Claimed(Untrusted(_line(item["text"], grammars.MAX_CLAIM_CHARS)), tuple(cites))


def read_wanted(text: str, references: Sequence[str]) -> NextStep:
    """Return what a reply asks for next; a reference that was not shown makes it none."""
    value = _object(text, ("compute", "fetch"))
    compute = _line(value["compute"], grammars.MAX_GOAL_CHARS, least=0)
    sources = _list(value["fetch"], grammars.MAX_REFERENCES)
    return NextStep(compute, tuple(_reference(item, references) for item in sources))


def _reference(item: Any, references: Sequence[str]) -> tuple[str, str]:
    if type(item) is not dict or set(item) != {"reference", "why"}:
        raise NoReply("a source of another form")
    reference = item["reference"]
    if reference not in references:
        raise NoReply("a reference that no sentence names")
    return reference, _line(item["why"], grammars.MAX_GOAL_CHARS)


def read_code(text: str) -> str:
    """Return the program in a reply, its line breaks kept."""
    code = _object(text, ("code",))["code"]
    if type(code) is not str or not 1 <= len(code) <= grammars.MAX_CODE_CHARS:
        raise NoReply("a program of another form")
    found = FORBIDDEN.sub(_STAND_IN, code).strip("\n")
    if not found.strip():
        raise NoReply("an empty program")
    return found + "\n"


def _object(text: str, keys: tuple[str, ...]) -> dict[str, Any]:
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
        raise NoReply("a list that is none, or too long")
    found: list[Any] = value
    return found


def _line(value: Any, most: int, *, least: int = 1) -> str:
    """Return one line of text that may stand in an artifact."""
    if type(value) is not str or not least <= len(value) <= most:
        raise NoReply("a text that is none, or too long")
    found = " ".join(FORBIDDEN.sub(_STAND_IN, value).split())
    if len(found) < least:
        raise NoReply("an empty text")
    return found
