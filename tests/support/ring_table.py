"""The table of bypasses and layers, as both documents in docs/evidence have it."""

from collections.abc import Callable, Sequence

Found = dict[str, tuple[str, str]]  # name of a bypass -> done, or what stopped it; and why
# The layer that stopped a way, by state and reason with all of them, and which hold alone.
Stopped = Callable[[str, str, Sequence[bool]], str]


def table(head: str, layers: Sequence[str], found: dict[str, Found], stopped: Stopped) -> str:
    """Return the document."""
    held = {name: _held(ways) for name, ways in found.items()}
    count = len(found["none"])
    bare, ringed = (count - len(held[name]) for name in ("none", "all"))
    alone = ", ".join(f"{layer} {len(held[layer])}" for layer in layers)
    lines = [
        f"{head}{count} ways; without the ring {bare} work, with it {ringed}. ",
        f"Held by one layer alone: {alone}.\n\n",
        f"| way | {' | '.join(layers)} | stopped by |\n|---|{'---|' * len(layers)}---|\n",
    ]
    for name, (state, why) in found["all"].items():
        marks = [name in held[layer] for layer in layers]
        said = " | ".join("yes" if mark else "no" for mark in marks)
        lines.append(f"| {name} | {said} | {stopped(state, why, marks)} |\n")
    return "".join(lines)


def _held(found: Found) -> set[str]:
    return {name for name, (state, _) in found.items() if state != "done"}
