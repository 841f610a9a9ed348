"""Small transforms that run unchanged in Monty, CPython, Pyodide and RestrictedPython.

Each reads its inputs by name, leaves `result`, and ends with it: what an interpreter that
returns the last expression gives back, and one that executes a text finds by name.
"""

import csv
import io
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

RECORDS: Final = 100
FIELDS: Final = ("station", "day", "thickness", "salinity", "note")
STATIONS: Final = 40

RANKING: Final = """
def score(paper):
    words = [word.strip(".,").lower() for word in paper["abstract"].split()]
    hits = sum([1 for word in words if word in wanted])
    return hits * 10 + paper["year"] - 2000

ranked = sorted(papers, key=lambda paper: (-score(paper), paper["title"]))
result = [{"title": paper["title"], "score": score(paper)} for paper in ranked[:10]]
result
"""

NORMALISE: Final = """
import csv

rows = list(csv.reader(table.splitlines()))
head = [name.strip().lower().replace(" ", "_") for name in rows[0]]
result = []
for cells in rows[1:]:
    row = dict(zip(head, [cell.strip() for cell in cells]))
    row["thickness"] = float(row["thickness"]) if row["thickness"] else None
    row["salinity"] = float(row["salinity"]) if row["salinity"] else None
    result.append(row)
result
"""

TRANSFORM: Final = """
totals = {}
for row in rows:
    count, total = totals.get(row["station"], (0, 0))
    totals[row["station"]] = (count + 1, total + row["thickness"])
result = []
for station in sorted(totals):
    count, total = totals[station]
    result.append({"station": station, "count": count, "mean": total / count})
result
"""

VALIDATE: Final = """
import re

shape = re.compile(r"[A-Z]{2}-[0-9]{2}")
problems = []
for number, row in enumerate(rows):
    if shape.fullmatch(row["station"]) is None:
        problems.append({"row": number, "field": "station", "why": "not a station"})
    if not 0 <= row["thickness"] <= 10:
        problems.append({"row": number, "field": "thickness", "why": "out of range"})
    if not 0 <= row["salinity"] <= 40:
        problems.append({"row": number, "field": "salinity", "why": "out of range"})
result = {"rows": len(rows), "problems": problems}
result
"""

# Every row is looked at, changed and either kept or counted.
MANY_ROWS: Final = """
totals = {}
kept = []
for row in rows:
    depth = row["thickness"] * 0.9
    station = row["station"]
    count, total = totals.get(station, (0, 0))
    totals[station] = (count + 1, total + depth)
    if depth > 8.991:
        kept.append({"station": station, "day": row["day"], "depth": depth})
means = [{"station": name, "mean": totals[name][1] / totals[name][0]} for name in sorted(totals)]
result = {"means": means, "kept": kept}
result
"""


@dataclass(frozen=True, eq=False)  # one is itself alone: what is derived from it is kept
class Program:
    """A program with the inputs it is given."""

    name: str
    code: str
    inputs: Mapping[str, Any]

    @cached_property
    def documents(self) -> dict[str, bytes]:
        """Return every input as the JSON document that a run is given."""
        return {name: json.dumps(value).encode() for name, value in self.inputs.items()}

    @cached_property
    def line(self) -> bytes:
        """Return program and inputs as one line of JSON."""
        return json.dumps({"code": self.code, "inputs": self.inputs}).encode() + b"\n"

    @cached_property
    def expected(self) -> Any:
        """Return what this interpreter makes of it; every peer must say the same."""
        names = dict(self.inputs)
        exec(self.code, names)  # noqa: S102  # our own text
        return json.loads(json.dumps(names["result"]))


@cache
def small_transforms() -> tuple[Program, ...]:
    """Return the worked examples: ranking, CSV normalisation, JSON transform, validation."""
    rows = measurements(RECORDS)
    return (
        Program("ranking", RANKING, {"papers": _papers(), "wanted": ["ice", "salt", "drift"]}),
        Program("csv", NORMALISE, {"table": _table(rows)}),
        Program("transform", TRANSFORM, {"rows": rows}),
        Program("validate", VALIDATE, {"rows": rows}),
    )


def large_transform(rows: int) -> Program:
    """Return a transform of so many rows, about 90 bytes of JSON each."""
    return Program("rows", MANY_ROWS, {"rows": measurements(rows)})


@cache
def measurements(count: int) -> list[dict[str, Any]]:
    """Return rows of five fields, the same ones every time."""
    chooser = random.Random(count)
    return [
        {
            "station": f"{chooser.choice(('AR', 'BE', 'FR'))}-{chooser.randrange(STATIONS):02}",
            "day": f"2026-{chooser.randrange(12) + 1:02}-{chooser.randrange(28) + 1:02}",
            "thickness": round(chooser.uniform(0, 10), 3),
            "salinity": round(chooser.uniform(0, 42), 2),
            "note": f"n{number}",
        }
        for number in range(count)
    ]


def _table(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["Station ", " Day", "Thickness", "Salinity", "Note"])
    for number, row in enumerate(rows):
        cells = [str(row[name]) for name in FIELDS]
        cells[3] = "" if number % 9 == 0 else f" {cells[3]} "
        cells[4] = f'{cells[4]}, "checked"'
        writer.writerow(cells)
    return text.getvalue()


def _papers() -> list[dict[str, Any]]:
    chooser = random.Random(7)
    words = ("ice", "salt", "drift", "sea", "wind", "core", "melt", "the", "of", "and")
    return [
        {
            "title": f"On paper {number}",
            "year": chooser.randint(2000, 2026),
            "abstract": " ".join(chooser.choices(words, k=40)) + ".",
        }
        for number in range(RECORDS)
    ]
