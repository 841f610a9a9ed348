"""Remove each line of the sandbox's protection in turn and see who notices.

Usage: mutate_sandbox.py [--write] [WORD...]; a WORD chooses mutants by name or layer, and
`--write` puts the table into docs/evidence/sandbox-mutations.md.  Takes minutes.
"""

import platform
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.mutants import Mutant  # noqa: E402  # a script finds its tree first
from tests.support.mutation import (  # noqa: E402
    Copy,
    Verdict,
    every,
    judge,
    runnable,
)

TARGET = ROOT / "docs" / "evidence" / "sandbox-mutations.md"
SHOWN = 3

HEAD = """# Each line of the sandbox's protection, removed in turn

Made by `scripts/mutate_sandbox.py --write`; `make slow` checks it. For every row the line is
removed from a copy of the package, the self-test is switched off, and the escape attempts of
`src/threegate/sandbox/attacks` run. *Noticed by*: attempts that then worked, or failed for
another reason than the one that must stop them. *Self-test*: what the second stage says when
it is left on; then nothing starts. An empty cell there means that the attempts are the only
ones to notice: some acts cannot be tried before every start, and the rules on calls that are
forbidden to all are proved from the list itself, which golden files pin.

A row that nobody notices is kept on purpose, as a second layer; the note says which other
layer stands in front of it, and where that is possible the next row removes both.
"""


def chosen(words: Iterable[str]) -> list[Mutant]:
    wanted = list(words)
    found = [
        item
        for item in every()
        if not wanted or any(word == item.layer or word in item.name for word in wanted)
    ]
    return [item for item in found if runnable(item)]


def told(verdict: Verdict) -> tuple[str, str, str]:
    """Return the cells: noticed by, self-test, note."""
    names = list(dict.fromkeys(verdict.noticed_by))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    noticed = ", ".join(name.replace("\t", " ").strip() for name in names[:SHOWN]) + more
    note = "" if names else (verdict.mutant.masked or verdict.mutant.perhaps)
    return noticed or "nobody", _self_test(verdict), note


def _self_test(verdict: Verdict) -> str:
    if not verdict.proof:
        return ""
    last = verdict.proof.strip().strip('"').rpartition("LockBroken: ")[2]
    return last if last != verdict.proof.strip().strip('"') else "does not start"


def table(verdicts: Iterable[Verdict]) -> str:
    rows = ["| layer | removed | noticed by | self-test | note |", "|---|---|---|---|---|"]
    for item in verdicts:
        cells = (item.mutant.layer, item.mutant.name, *told(item))
        rows.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(rows)


def summary(verdicts: list[Verdict]) -> str:
    noticed = sum(bool(item.noticed_by) for item in verdicts)
    proved = sum(bool(item.proof) for item in verdicts)
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"{len(verdicts)} mutants on Linux {kernel}, {platform.machine()}: {noticed} noticed by "
        f"attempts, {proved} by the self-test, {len(verdicts) - noticed} by no attempt.\n"
    )


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--write"]
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="threegate-mutants-") as name:
        copy = Copy(Path(name))
        for mutant in chosen(words):
            verdict = judge(copy, mutant)
            verdicts.append(verdict)
            state = "as told" if verdict.as_told else "NOT AS TOLD"
            print(f"{state}: {mutant.layer}: {mutant.name}: {told(verdict)[0]}", flush=True)
    print(summary(verdicts))
    if "--write" in sys.argv[1:]:
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        TARGET.write_text(f"{HEAD}\n{summary(verdicts)}\n{table(verdicts)}\n", encoding="utf-8")
    return 0 if all(item.as_told for item in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
