"""The scores as tables: how many of how many, ratios, and what answering cost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.evaluation.answers import Answer
from bench.evaluation.material import KINDS, Material, Question
from bench.evaluation.scoring import MEASURES, Score, score

OURS, OWN, PEER = "threegate", "own", "direct"  # all of an answer, and what its model wrote
MOST_OVERHEAD: Final = 0.10
NAMES: Final = {
    OURS: "ThreeGate",
    OWN: "its model's claims",
    PEER: "the model directly",
    "extractive": "extractive",
}
# Better than the direct call on these, no worse on those.
BETTER: Final = ("cites", "quotes")
NO_WORSE: Final = ("value",)

Answers = Mapping[str, Mapping[str, Answer]]  # system, question
Count = tuple[int, int]  # held, of so many


def scored(material: Material, answers: Answers) -> dict[str, dict[str, Score]]:
    """Return the score of every answer there is."""
    known = {question.key: question for question in material.questions}
    return {
        system: {key: score(known[key], one, material.works) for key, one in found.items()}
        for system, found in answers.items()
    }


def count(scores: Mapping[str, Score], measure: str, keys: Sequence[str]) -> Count:
    """Return how often a measure held among these questions, and how often it applied."""
    found = [scores[key][measure] for key in keys if key in scores]
    applied = [one for one in found if one is not None]
    return sum(applied), len(applied)


def asked_of_all(questions: Sequence[Question], answers: Answers) -> list[str]:
    """Return the questions that every system has answered: only those can be compared."""
    return [q.key for q in questions if all(q.key in found for found in answers.values())]


def overhead(answers: Sequence[Answer]) -> float | None:
    """Return what answering took beside tokens and loading, as a share of the tokens' time."""
    costs = [one.cost for one in answers if one.cost.model]
    tokens = sum(cost.model for cost in costs)
    own = sum(cost.whole - cost.loading - cost.model for cost in costs)
    return own / tokens if tokens else None


def tables(material: Material, answers: Answers) -> Iterator[str]:
    """Yield the lines of the report, in Markdown."""
    keys = asked_of_all(material.questions, answers)
    scores = scored(material, answers)
    systems = list(answers)
    yield f"{len(keys)} questions that every system answered, over {len(material.works)} works."
    yield ""
    yield from _measures(scores, systems, keys)
    for kind in KINDS:
        chosen = [q.key for q in material.questions if q.kind == kind and q.key in keys]
        if chosen:
            yield from ("", f"### {kind}: {len(chosen)} questions", "")
            yield from _measures(scores, systems, chosen)
    yield from ("", "### Cost", "")
    yield from _costs(answers, keys)
    yield from ("", "### Targets", "")
    yield from _targets(scores, answers, keys)
    yield from ("", "### Each question", "")
    yield from _each(material, scores, answers, keys)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _head(*cells: str) -> Iterator[str]:
    yield _row(*cells)
    yield _row(*("---" for _ in cells))


def _measures(
    scores: Mapping[str, Mapping[str, Score]], systems: Sequence[str], keys: Sequence[str]
) -> Iterator[str]:
    compared = OURS in systems and PEER in systems
    times = ["ThreeGate to direct"] if compared else []
    yield from _head("an answer", *(NAMES[one] for one in systems), *times)
    for measure, words in MEASURES.items():
        counts = {one: count(scores[one], measure, keys) for one in systems}
        if any(of for _, of in counts.values()):
            ratio = [_ratio(counts[OURS], counts[PEER])] if compared else []
            yield _row(words, *(_share(counts[one]) for one in systems), *ratio)


def _share(found: Count) -> str:
    held, of = found
    return f"{held} of {of} ({held / of:.0%})" if of else "-"


def _ratio(ours: Count, theirs: Count) -> str:
    if not (ours[1] and theirs[1]):
        return "-"
    return f"{(ours[0] / ours[1]) / (theirs[0] / theirs[1]):.2f}" if theirs[0] else "none to"


def _costs(answers: Answers, keys: Sequence[str]) -> Iterator[str]:
    yield from _head(
        *("system", "seconds an answer", "loading", "tokens", "overhead"),
        *("tokens read", "written", "calls", "no answer"),
    )
    for system, found in _costly(answers):
        ours = [found[key] for key in keys]
        if not ours:
            continue
        costs = [one.cost for one in ours]
        share = overhead(ours)
        yield _row(
            NAMES[system],
            *(_mean([getattr(cost, name) for cost in costs]) for name in _SECONDS),
            "-" if share is None else f"{share:.1%} of the tokens' time",
            *(str(sum(getattr(cost, name) for cost in costs)) for name in _TOKENS),
            str(sum(one.error is not None for one in ours)),
        )
    labels = Counter(label for key in keys for label in _labels(answers, key))
    yield ""
    told = ", ".join(f"{number} {label}" for label, number in sorted(labels.items()))
    yield f"Labels of ThreeGate's claims: {told or 'none'}."
    for system, found in _costly(answers):
        ours = [found[key] for key in keys if found[key].draft or found[key].fetches]
        programs, fetches = sum(bool(one.draft) for one in ours), sum(one.fetches for one in ours)
        yield f"Drafts of {NAMES[system]}: {programs} programs, {fetches} fetches."


def _costly(answers: Answers) -> Iterator[tuple[str, Mapping[str, Answer]]]:
    """Yield every system but the part of ours, which took what ours took."""
    yield from ((system, found) for system, found in answers.items() if system != OWN)


_SECONDS: Final = ("whole", "loading", "model")
_TOKENS: Final = ("prompt_tokens", "completion_tokens", "calls")


def _mean(numbers: Sequence[float]) -> str:
    return f"{sum(numbers) / len(numbers):.2f}"


def _labels(answers: Answers, key: str) -> tuple[str, ...]:
    return answers[OURS][key].labels if OURS in answers else ()


def _targets(
    scores: Mapping[str, Mapping[str, Score]], answers: Answers, keys: Sequence[str]
) -> Iterator[str]:
    if OURS not in answers or PEER not in answers:
        yield "- nothing to compare: both ThreeGate and the direct call must have answered"
        return
    for measure in (*BETTER, *NO_WORSE):
        wish = "better than" if measure in BETTER else "no worse than"
        found = [_against(scores, measure, keys, one) for one in (OURS, OWN) if one in answers]
        yield f"- {wish} the direct call, an answer {MEASURES[measure]}: {'; '.join(found)}"
    share = overhead([answers[OURS][key] for key in keys])
    if share is not None:
        met = share < MOST_OVERHEAD
        told = f"{share:.1%}: {'met' if met else 'missed'}"
        yield f"- overhead under {MOST_OVERHEAD:.0%} of the tokens' time: {told}"


def _against(
    scores: Mapping[str, Mapping[str, Score]], measure: str, keys: Sequence[str], system: str
) -> str:
    ours, theirs = (count(scores[one], measure, keys)[0] for one in (system, PEER))
    met = ours > theirs if measure in BETTER else ours >= theirs
    return f"{NAMES[system]} {ours} against {theirs}: {'met' if met else 'missed'}"


def _each(
    material: Material,
    scores: Mapping[str, Mapping[str, Score]],
    answers: Answers,
    keys: Sequence[str],
) -> Iterator[str]:
    yield from _head("question", *(f"{NAMES[one]}: what does not hold" for one in answers))
    for question in material.questions:
        if question.key in keys:
            lacks = [
                _lacks(scores[one][question.key], answers[one][question.key]) for one in answers
            ]
            yield _row(f"{question.key} {question.ask}", *lacks)


def _lacks(found: Score, answer: Answer) -> str:
    if answer.error is not None:
        return "no answer"
    return ", ".join(name for name, held in found.items() if held is False) or "all right"
