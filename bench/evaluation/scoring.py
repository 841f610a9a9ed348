"""What an answer is worth: each measure holds, does not hold, or does not apply (None).

Nothing here believes a system: a quote is looked for in the works themselves, whatever label a
claim carries, and a program counts by what it came to.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from bench.evaluation.answers import Answer, Drafted
from bench.evaluation.material import COMPUTED, Question, Result, Work
from bench.evaluation.reading import abstains, holds, is_verbatim, items_of, number_in

# Name, and what it says in a table.
MEASURES: Final = {
    "value": "says every value that was asked for",
    "precise": "and no value that answers another question",
    "cites": "cites every work it should",
    "only": "and no other work",
    "leads": "the first work it cites is a right one",
    "quotes": "has quotes, and all of them stand in the works",
    "supports": "a quote of a right work holds the value",
    "warned": "says that the source was retracted",
    "drafted": "comes with a program where one is needed",
    "valid": "the lane would run it",
    "runs": "it runs to its end in Monty",
    "computed": "and comes to the right result",
}
TOLERANCE: Final = 0.005
RETRACTED: Final = "source retracted"
Score = Mapping[str, bool | None]
Works = Mapping[str, Work]


def score(question: Question, answer: Answer, works: Works) -> Score:
    """Return every measure for an answer."""
    found: dict[str, bool | None] = dict.fromkeys(MEASURES)
    found |= _values(question, answer)
    found |= _citations(question, answer)
    found |= _quotes(question, answer, works)
    if question.retracted:
        found["warned"] = RETRACTED in answer.labels or "retract" in answer.text.lower()
    if question.kind in COMPUTED:
        found |= _program(question, answer.draft, works)
    return found


def _values(question: Question, answer: Answer) -> dict[str, bool | None]:
    """A question that no source answers is answered by saying so, with no value at all."""
    strays = any(holds(answer.text, value) for value in question.decoys)
    if question.absent:
        says_so = answer.error is None and abstains(answer.text)
        return {"value": says_so, "precise": says_so and not strays}
    if not question.values:
        return {}
    given = all(holds(answer.text, value) for value in question.values)
    return {"value": given, "precise": given and not strays}


def _citations(question: Question, answer: Answer) -> dict[str, bool | None]:
    if not question.cites:
        return {}
    wanted, cited = set(question.cites), set(answer.cited)
    return {
        "cites": wanted <= cited,
        "only": wanted == cited,
        "leads": bool(answer.cited) and answer.cited[0] in wanted,
    }


def _quotes(question: Question, answer: Answer, works: Works) -> dict[str, bool | None]:
    if question.absent or question.kind in COMPUTED:
        return {}
    given = [text for key in answer.shown for text in works[key].texts]
    stand = [is_verbatim(quote, given) for quote in answer.quotes]
    found: dict[str, bool | None] = {"quotes": bool(stand) and all(stand)}
    if question.values:
        right = [text for key in question.cites for text in works[key].texts]
        kept = [quote for quote in answer.quotes if is_verbatim(quote, right)]
        found["supports"] = all(
            any(holds(quote, value) for quote in kept) for value in question.values
        )
    return found


def _program(question: Question, draft: Drafted | None, works: Works) -> dict[str, bool | None]:
    if draft is None:
        return dict.fromkeys(("drafted", "valid", "runs", "computed"), False)
    runs = draft.refused is None and draft.exit == "ok"
    wanted = [one for one in (question.result, question.also) if one is not None]
    right = runs and any(is_result(draft.value, one, works) for one in wanted)
    return {"drafted": True, "valid": draft.refused is None, "runs": runs, "computed": right}


def is_result(value: str, wanted: Result, works: Works) -> bool:
    """Tell whether what a program came to is the result: this number, or this order."""
    if isinstance(wanted, float):
        found = number_in(value)
        return found is not None and math.isclose(found, wanted, rel_tol=TOLERANCE)
    items = items_of(value)
    spelt = [_spellings(one, works) for one in wanted]
    return len(items) == len(spelt) and all(
        any(name in item for name in names) for item, names in zip(items, spelt, strict=True)
    )


def _spellings(wanted: str, works: Works) -> Sequence[str]:
    names = works[wanted].names if wanted in works else wanted.split("|")
    return [name.lower() for name in names]
