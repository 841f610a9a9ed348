"""Evaluate `threegate ask` with a real model: against the model alone, and against no model.

Every answer is kept as soon as it is there (build/evaluation), and a run that was ended goes on
where it was; what an older version of a system said is not mixed with it.  Scores are made from
the kept answers each time.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started as a file, Python looks beside the file only

from bench.evaluation.answers import Answer, Kept, Key  # noqa: E402
from bench.evaluation.material import KINDS, Material, Question, material  # noqa: E402
from bench.evaluation.systems import SYSTEMS, Place, answered, furnish  # noqa: E402
from bench.evaluation.table import OURS, OWN, tables  # noqa: E402
from bench.facts import facts  # noqa: E402
from bench.lite_requests import workspace  # noqa: E402
from bench.measure import say  # noqa: E402
from threegate.artifacts.ids import sha256_hex  # noqa: E402
from threegate.base.errors import ThreeGateError  # noqa: E402
from threegate.gates.core.client import NoModel  # noqa: E402
from threegate.host.models.catalogue import MODELS, Model  # noqa: E402
from threegate.host.settings import Settings  # noqa: E402

DEFAULT_MODEL: Final = "qwen2.5-coder-1.5b-instruct-q4_k_m"
DEFAULT_CONTEXT: Final = 8192
KEPT: Final = ROOT / "build" / "evaluation"
DOCUMENT: Final = ROOT / "docs" / "evidence" / "evaluation.md"
CHAT: Final = {model.name: model for model in MODELS if model.kind == "chat"}
HEAD: Final = """\
# Answers of the embedded model

Made by `make evaluate` and written by `bench/evaluate.py --write`. The works and the questions
are in `bench/evaluation`; they were written for it, and none of the works exists. Compared are
`threegate ask` in its boxes, the same model in the same server with the same packets pasted into
one prompt (told to cite, to quote, and, where a result is to be computed, to write a program),
and the extractive answer, which has no model. The column "its model's claims" is ThreeGate's
answer without the up to three nearest sentences that stand beside them. Scores are counted by a
program: a quote is looked for in the work itself, whatever its label, and a program counts by
what it comes to in Monty. A direct answer is read leniently. So few questions show an order of
magnitude, not a percentage.
"""


@cache
def made_by(system: str) -> str:
    """Return a digest of what shapes the answers of a system: older ones are not its own."""
    source = ROOT / "src" / "threegate"
    parts = {
        "threegate": (*source.glob("gates/core/*.py"), *source.glob("host/ask/*.py")),
        "extractive": tuple(source.glob("host/ask/*.py")),
        "direct": (ROOT / "bench" / "evaluation" / "direct.py",),
    }
    return sha256_hex(b"\0".join(path.read_bytes() for path in sorted(parts[system])))


def key_of(system: str, model: str, question: Question, found: Material) -> Key:
    """Return under which name an answer is kept; what needs no model is kept without one."""
    named = "none" if system == "extractive" else model
    asked = f"{made_by(system)} {found.digest_of(question)}"
    return Key(system, named, question.key, sha256_hex(asked.encode("ascii")))


def chosen(found: Material, only: Sequence[str]) -> list[Question]:
    """Return the questions that are named, or whose kind is."""
    return [q for q in found.questions if not only or q.key in only or q.kind in only]


def ask_all(place: Place, args: argparse.Namespace, kept: Kept, model: str) -> None:
    """Ask every system every question that has no answer yet; keep each answer at once."""
    for name in args.systems:
        keys = {
            key_of(name, model, question, place.material): question
            for question in chosen(place.material, args.only)
        }
        left = {k: q for k, q in keys.items() if args.again or k not in kept.answers}
        say(f"{name}: {len(left)} questions to ask, {len(keys) - len(left)} answered already")
        if not left:
            continue
        with SYSTEMS[name](place) as system:
            for number, (key, question) in enumerate(left.items(), 1):
                answer = answered(system, question)
                kept.add(key, answer)
                took = f"{answer.cost.whole:.1f} s"
                say(f"{name}: {number} of {len(left)}, {question.key}: {answer.error or took}")


def collected(
    found: Material, args: argparse.Namespace, kept: Kept, model: str
) -> dict[str, dict[str, Answer]]:
    """Return the answers there are, by system and question."""
    answers: dict[str, dict[str, Answer]] = {}
    for name in args.systems:
        keys = {q.key: key_of(name, model, q, found) for q in chosen(found, args.only)}
        answers[name] = {q: kept.answers[key] for q, key in keys.items() if key in kept.answers}
        if name == OURS:  # the same answers without the sentences that no model chose
            answers[OWN] = {q: one.own or one for q, one in answers[name].items()}
    return answers


def ask_in_workspace(args: argparse.Namespace, kept: Kept, model: Model) -> None:
    """Ask in a throw-away workspace."""
    models = Settings.from_environment(os.environ).cache_home / "models"
    with tempfile.TemporaryDirectory(prefix="tg-evaluate-") as directory:
        base = Path(directory)
        runtime = base / "run"
        runtime.mkdir(mode=0o700)
        ws = workspace(base / "home")
        where = {"models": models, "runtime": runtime}
        place = furnish(ws, material(), model, **where, context=args.context)
        try:
            ask_all(place, args, kept, f"{model.name}/{args.context}")
        finally:
            place.index.close()
            ws.close()


def document(lines: Sequence[str], model: Model, context: int) -> str:
    """Return the entry for docs/evidence."""
    where = facts(ROOT)
    machine = f"{where['cores']} cores, {where['processor']}, {where['memory_gib']} GiB"
    told = f"Model {model.name}, context of {context} tokens. {where['date']}, "
    told += f"revision {where['revision']}, {machine}, load {where['load']} at the end."
    return "\n".join([HEAD, told, "", *lines, ""])


def parse_arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description="evaluate the answers of `threegate ask`")
    parser.add_argument("--model", choices=CHAT, default=DEFAULT_MODEL, metavar="NAME")
    parser.add_argument("--context", type=int, default=DEFAULT_CONTEXT, metavar="TOKENS")
    words = f"questions by name, or a kind: {', '.join(KINDS)}"
    parser.add_argument("--only", nargs="+", default=[], metavar="QUESTION", help=words)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--answers", type=Path, default=KEPT / "answers.jsonl", metavar="FILE")
    parser.add_argument("--show", action="store_true", help="ask nothing, show what is kept")
    parser.add_argument("--again", action="store_true", help="ask also what was answered before")
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    found, model, kept = material(), CHAT[args.model], Kept(args.answers)
    unknown = set(args.only) - {q.key for q in found.questions} - set(KINDS)
    if unknown:
        print(f"no such question: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if not args.show:
        try:
            ask_in_workspace(args, kept, model)
        except (ThreeGateError, NoModel) as exc:
            print(f"stopped: {exc}; what was answered is kept", file=sys.stderr)
            return 69
    answers = collected(found, args, kept, f"{model.name}/{args.context}")
    lines = list(tables(found, answers))
    print("\n".join(lines))
    if args.write:
        there = [answers.get(system, {}) for system in SYSTEMS]
        missing = sum(len(found.questions) - len(one) for one in there)
        if missing:
            print(f"not written: {missing} answers are missing", file=sys.stderr)
            return 1
        DOCUMENT.write_text(document(lines, model, args.context), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
