"""What a run hears has no way to become a Research Packet."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.policies import policy
from threegate.policy.decide import may_draft
from threegate.policy.decision import Allow, Deny
from threegate.sandbox.profiles import (
    ENGINE,
    FETCH_NORMALIZE,
    GATEWAY,
    RUNSC_FILES,
    RUNSC_KERNEL,
    TOOL_HEAVY,
)

ROOT = Path(__file__).parents[2] / "src" / "threegate"
# What makes packets: the format, and the gate that writes it.
MAKERS = ("threegate.artifacts.research_packet", "threegate.gates.fetch.normalize")


def imported(place: Path) -> Iterator[str]:
    """Yield every module that files below a directory import."""
    for path in sorted(place.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from (f"{node.module}.{name.name}" for name in node.names)


def makes(place: str) -> bool:
    names = list(imported(ROOT / place))
    assert names, f"{place} holds nothing, so nothing was looked at"
    return any(name.startswith(MAKERS) for name in names)


# claim TG-C-303
def test_nothing_on_the_way_of_a_run_can_make_a_packet() -> None:
    assert makes("gates/fetch/normalize"), "control: whoever makes packets is found"
    for place in ("gates/run_gateway", "gates/http_library", "gates/tool_exec", "host/run"):
        assert not makes(place), place
    assert {"artifacts", "gates.fetch"} <= {*FETCH_NORMALIZE.packages}, "control"
    assert not {"artifacts", "gates.fetch"} & {*GATEWAY.packages}, (
        "its box has no such format in view"
    )
    for profile in (ENGINE, RUNSC_FILES, RUNSC_KERNEL, TOOL_HEAVY):
        assert "gates.fetch" not in profile.packages
    found = policy()
    assert isinstance(may_draft(found, "fetch", "rp"), Allow), "control"
    assert isinstance(may_draft(found, "tool-exec", "rp"), Deny)
