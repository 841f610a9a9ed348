"""The operator guide names every event of the console with its fields, every count and limit."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from threegate.console import access, application, events, messages, server
from threegate.console.events import Metrics

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "src" / "threegate"
GUIDE = (ROOT / "docs" / "operator-guide.md").read_text("utf-8")
TELLS = ("tell", "_tell", "log", "_event")
ELSEWHERE = {"executor": {"executor", "kind", "state", "generation", "policy", "reason", "code"}}
ROW = re.compile(r"^\| (`[^|]+`) \| ([^|]*) \|", re.MULTILINE)
LIMITS = {
    "once, for ten minutes": access.LINK_SECONDS == 600,
    "after four hours without a request": access.IDLE_SECONDS == 4 * 3600,
    "and after a day": access.LONGEST_SECONDS == 24 * 3600,
    "eight browsers": access.MAX_SESSIONS == 8,
    "A form holds 64 KiB": messages.MAX_BODY_BYTES == 64 * 1024,
    "240 requests at once and then 60 a second": (
        (application._BURST, application._PER_SECOND) == (240, 60)
    ),
    "logins 8 and then one in ten seconds": (
        (application._LOGINS, application._LOGINS_PER_SECOND) == (8, 0.1)
    ),
    "64 connections and 16 streams": ((server.MAX_CONNECTIONS, events.MAX_LISTENERS) == (64, 16)),
    "printed 32 times and then once in two seconds": (
        (application._TOLD, application._TOLD_PER_SECOND) == (32, 0.5)
    ),
}


def told() -> Iterator[tuple[str, set[str]]]:
    """Yield kind and fields of every event that is told anywhere."""
    yield "link", {"link"}
    for path in (*(OURS / "console").glob("*.py"), OURS / "host/run/warm/keeper.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                kind = node.args[0] if node.func.attr in TELLS and node.args else None
                if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
                    fields = {one.arg for one in node.keywords if one.arg is not None}
                    yield kind.value, fields | ELSEWHERE.get(kind.value, set())


def test_the_guide_names_every_event_and_its_fields() -> None:
    start = GUIDE.index("| event | fields | when |")
    rows = ROW.findall(GUIDE[start : GUIDE.index("\n\n", start)])
    named = {kind: fields for kinds, fields in rows for kind in re.findall(r"`([^`]+)`", kinds)}
    found = list(told())
    assert len(found) > 15, "control: they are found"
    assert {kind for kind, _ in found} == set(named)
    for kind, fields in found:
        assert fields <= set(re.findall(r"`([^`]+)`", named[kind])), kind


def test_the_guide_names_every_count_and_limit() -> None:
    families = {line.split()[2] for line in Metrics()._lines({}) if line.startswith("# TYPE ")}
    assert {one for one in families if f"`{one}`" not in GUIDE} == set()
    prose = " ".join(GUIDE.split())  # lines may break anywhere
    for words, right in LIMITS.items():
        assert words in prose, words
        assert right, words
