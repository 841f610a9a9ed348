"""The same model asked directly: the packets pasted into one prompt, free text back.

No CORE, no grammar, no numbered sentences, no marker.  It is told plainly what is wanted and how
a program would find the packets, so that it can do everything that ThreeGate is scored for.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bench.evaluation.answers import Answer
from bench.evaluation.material import COMPUTED, Question, Work
from bench.evaluation.reading import program_in, quotes_of, without_programs, works_named
from threegate.gates.model.chat.messages import ChatTurn

SYSTEM: Final = """\
You are a research assistant. You answer questions from the sources you are given and from nothing
else. If they do not answer a question, you say so. If a source was retracted, you say so, too."""

FORM: Final = """\
Answer in a few short sentences that say the values or works asked for, each with its source in
brackets, such as [S2]. Then quote the sentences of the sources that your answer rests on, word for
word and in double quotes."""

PROGRAM: Final = """
Then write a short Python program that computes the answer, in a block that starts with ```python.
No imports, no functions, no print, no files. Each source is a variable s1, s2 and so on: a dict
with the keys 'id', 'fields' and 'sections'. 'fields' is a dict with 'title', 'authors',
'published' and more. 'sections' is a dict: sections['Excerpts'] is the list of its texts. Store
the answer in a variable named `result`, and write `result` as the last line."""


def messages(question: Question, shown: Sequence[str], works: Mapping[str, Work]) -> list[ChatTurn]:
    """Return the prompt for a question about these works, in this order."""
    sources = "\n\n".join(pasted(number, works[key]) for number, key in enumerate(shown, 1))
    form = FORM + (PROGRAM if question.kind in COMPUTED else "")
    asked = f"{sources}\n\nQuestion: {question.ask}\n\n{form}"
    return [("system", SYSTEM), ("user", asked)]


def pasted(number: int, work: Work) -> str:
    """Return a work as it is pasted."""
    standing = "" if work.retraction == "none" else f" ({work.retraction})"
    head = f"[S{number}] {work.title}{standing}. {', '.join(work.authors)}. {work.published}."
    return "\n".join([head, *work.texts])


def read(text: str, shown: Sequence[str], works: Mapping[str, Work]) -> tuple[Answer, str | None]:
    """Return the answer in a reply, and the program in it."""
    words = without_programs(text)
    cited, quotes = works_named(words, shown, works), quotes_of(words)
    answer = Answer(text=words, cited=tuple(cited), quotes=tuple(quotes), shown=tuple(shown))
    return answer, program_in(text)
