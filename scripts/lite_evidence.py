"""Measure the lite lane against the programs that attack it, and keep the figures.

Usage: lite_evidence.py [--write] bombs [WORD...]     a WORD chooses families; takes minutes
       lite_evidence.py [--write] conformance         fetches Monty's own cases
`--write` puts the table into docs/evidence.
"""

import os
import platform
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import lite_cases  # noqa: E402  # a script finds its tree first
from tests.support.lite import LIMITS, Lane  # noqa: E402
from tests.support.lite_bombs import (  # noqa: E402
    Measured,
    every,
    measure,
    table,
)
from threegate.gates.tool_exec.monty.lane import STILL  # noqa: E402

EVIDENCE = ROOT / "docs" / "evidence"
GRACE_MS = 500

BOMBS = """# Programs that try to take the lite lane along

Measured on 2026-11-16 by `scripts/lite_evidence.py --write bombs`; `make slow` runs the same
programs and fails if one of them ends in another way than it may. Each stands in
[tests/vectors/lite/bombs](../../tests/vectors/lite/bombs) or is made by
`tests/support/lite_bombs.py`, and runs as an approved request in the real box, in a worker of
its own, with {wall} s, {memory} MiB, {output} KiB of output and calls {recursion} deep; those *at
the highest limits of policy* with 10 s and 512 MiB.

*Longest* is the time from the question to the answer, measured by the host, with everything the
gate does: the approval, the program, the limit, the answer. *Worker* and *gate* are the largest
resident sizes the kernel recorded, looked at every 4 ms; a gate serves several jobs, so its figure
is the largest since its start. `refused:artifact` means that the program cannot be written into a
request at all.

{count} programs on {machine}: {late} took longer than the limit and half a second,
{wrong} ended in a way they should not, and after every one of them the lane went on.
"""

CASES = """# Monty's own test cases in the lite lane

Counted on 2026-11-16 by `scripts/lite_evidence.py --write conformance`; `make slow` counts again
and fails if a case ends in another way. The cases are the {count} files `crates/monty/test_cases`
of the source distribution of pydantic-monty-runtime {version} (SHA-256 `{sha256}`),
the version that is pinned here. They are fetched by digest and never part of this tree.

Each runs twice: as an approved request in the real box, and in a worker of stock Monty without
box, screen or converter. Compared are how it ended, its value, its error and what it printed.
A case without an explanation would be a bug; there is none.

| outcome in our lane | cases |
|---|---|
{rows}
| **all** | {count} |

The words of a refusal are ours. A case that is refused *as the interpreter does* is one that stock
Monty refuses to compile, too.
"""


def bombs(words: list[str], *, write: bool) -> int:
    chosen = [b for b in every() if not words or any(word in b.family for word in words)]
    rows: list[Measured] = []
    with Lane() as lane:
        for row in measure(lane, chosen):
            rows.append(row)
            if row.wrong:
                print(f"WRONG: {row.wrong}", flush=True)
            if row.late_ms > GRACE_MS:
                print(f"LATE: {row.bomb.id}: {row.exit} after {row.wall_ms} ms", flush=True)
    text = _bombs_text(rows)
    print(text)
    if write:
        EVIDENCE.joinpath("lite-bombs.md").write_text(text, encoding="utf-8")
    return 1 if any(row.wrong for row in rows) else 0


def _bombs_text(rows: list[Measured]) -> str:
    late = [row for row in rows if row.late_ms > GRACE_MS]
    head = BOMBS.format(
        wall=LIMITS.wall_ms // 1000,
        memory=LIMITS.memory_bytes >> 20,
        output=LIMITS.output_bytes >> 10,
        recursion=LIMITS.recursion,
        count=len(rows),
        machine=machine(),
        late=len(late) or "none",
        wrong=sum(bool(row.wrong) for row in rows) or "none",
    )
    return f"{head}\n{table(rows)}\n"


def conformance(*, write: bool) -> int:
    with Lane() as lane:
        found = lite_cases.compare_all(lane, STILL)
    for item in found:
        if not item.why:
            print(f"WRONG: {item.name}: {item.detail}")
    counts = Counter(item.why or "**no explanation**" for item in found)
    text = CASES.format(
        count=len(found),
        version=lite_cases.VERSION,
        sha256=lite_cases.SHA256,
        rows="\n".join(f"| {why} | {count} |" for why, count in counts.most_common()),
    )
    print(text)
    if write:
        EVIDENCE.joinpath("lite-conformance.md").write_text(text, encoding="utf-8")
    return 1 if any(not item.why for item in found) else 0


def machine() -> str:
    """Return what the figures were taken on, without naming it."""
    kernel = ".".join(platform.release().split(".")[:2])
    return f"Linux {kernel}, {platform.machine()}, {os.cpu_count()} processors"


def main() -> int:
    write = "--write" in sys.argv[1:]
    words = [word for word in sys.argv[1:] if word != "--write"]
    if words[:1] == ["bombs"]:
        return bombs(words[1:], write=write)
    if words == ["conformance"]:
        return conformance(write=write)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
