"""Figures for people: tables for the terminal and the document, pictures."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.figures import Plain
from bench.svg import plot

Figures = Mapping[str, Plain]
HEAD = ("what", "ThreeGate", "peer", "the peer", "times as fast", "target")
TITLES = {"events": "Audit log: cost against size", "packets": "Workspace: cost against size"}


def number(value: float) -> str:
    """Return three significant digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def seconds(value: float) -> str:
    """Return a duration in the unit people would say it in."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{number(value * factor)} {unit}"
    return f"{number(value * 1e9)} ns"


def comparison_rows(figures: Figures) -> list[tuple[str, ...]]:
    """Return the table of all rows, its head first."""
    return [HEAD, *(_row(row) for topic in figures.values() for row in topic["rows"])]


def _row(row: Plain) -> tuple[str, ...]:
    alone = row["times"] is None
    return (
        row["what"],
        f"{number(row['ours'])} {row['unit']}{_noise(row, 0)}",
        "–" if alone else f"{number(row['theirs'])} {row['unit']}{_noise(row, 1)}",
        row["peer"] or "–",
        "–" if alone else number(row["times"]),
        _verdict(row["target"], row["met"]),
    )


def _noise(row: Plain, side: int) -> str:
    found = row.get("noise", (None, None))[side]
    return "" if found is None else f" ± {found:.0f} %"


def _verdict(target: str, met: bool | None) -> str:
    if met is None:
        return target or "–"
    return f"{target}: {'met' if met else 'missed'}"


def size_rows(figures: Figures, of: str) -> list[tuple[str, ...]]:
    """Return the table of cost against the number `of` things, its head first."""
    curves = _curves(figures, of)
    if not curves:
        return []
    head = ("cost of", *(f"{size:,} {of}" for size, _ in curves[0]["points"]), "slope", "expected")
    rows = [
        (
            curve["name"],
            *(seconds(cost) for _, cost in curve["points"]),
            f"{curve['slope']:.2f}",
            _verdict(curve["expect"], curve["met"]),
        )
        for curve in curves
    ]
    return [head, *rows]


def _curves(figures: Figures, of: str) -> list[Plain]:
    return [curve for topic in figures.values() for curve in topic["curves"] if curve["of"] == of]


def markdown(rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    if len(rows) < 2:
        return "Not measured yet.\n"
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table for the terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def machine(figures: Figures) -> str:
    """Return when and where each topic was measured, in Markdown."""
    rows = [("topic", "sizes", "date", "revision", "load before", "seconds")]
    places: dict[str, list[str]] = {}
    for name, topic in figures.items():
        facts = topic["facts"]
        when = (topic["sizes"], facts["date"], facts["revision"], str(facts["load"]))
        rows.append((name, *when, f"{topic['seconds']:.0f}"))
        places.setdefault(_place(facts), []).append(name)
    lines = [f"- {', '.join(names)}: {place}\n" for place, names in places.items()]
    return markdown(rows) + "\n" + "".join(lines)


def _place(facts: Plain) -> str:
    built = f"{facts['cores']} cores of {facts['processor']}, {facts['memory_gib']} GiB"
    runs = f"{facts['kernel']}, {facts['filesystem']}, {facts['python']} {facts['build']}"
    return f"{built}; {runs}, SQLite {facts['sqlite']}"


def pictures(figures: Figures) -> dict[str, str]:
    """Return the name and content of every picture."""
    return {
        f"{of}.svg": plot(
            title,
            x_label=f"number of {of} in it",
            curves=[
                (f"{curve['name']} ({curve['slope']:.2f})", curve["points"])
                for curve in _curves(figures, of)
            ],
        )
        for of, title in TITLES.items()
        if _curves(figures, of)
    }


BLOCKS: Mapping[str, Callable[[Figures], str]] = {
    "machine": machine,
    "figures": lambda figures: markdown(comparison_rows(figures)),
    "events": lambda figures: markdown(size_rows(figures, "events")),
    "packets": lambda figures: markdown(size_rows(figures, "packets")),
}


def terminal(figures: Figures) -> str:
    """Return all tables for the terminal."""
    tables = [comparison_rows(figures), size_rows(figures, "events"), size_rows(figures, "packets")]
    return "\n".join(columns(table) for table in tables if len(table) > 1)


def load(path: Path) -> dict[str, Plain]:
    """Return stored figures, or none."""
    if not path.exists():
        return {}
    stored: dict[str, Plain] = json.loads(path.read_text("utf-8"))
    return stored


def store(path: Path, figures: Figures) -> None:
    """Keep figures for the documents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
