"""Registry and default policy agree on the external functions, and so do their descriptions."""

import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.support.policies import policy
from threegate.artifacts.tool_request import FUNCTIONS
from threegate.gates.tool_exec.monty import external
from threegate.gates.tool_exec.monty.functions import REGISTRY, digest_of, digests
from threegate.policy.bundle import function_digests
from threegate.policy.compiler import default_files
from threegate.policy.sections.tool_exec import FUNCTIONS as OFFERED

ROOT = Path(__file__).resolve().parents[2]


# claim TG-C-90
def test_default_policy_pins_the_functions_as_they_are() -> None:
    hint = "read them again, then `python scripts/function_digests.py --write` names the new ones"
    assert function_digests(policy()) == digests(), hint
    changed = replace(REGISTRY["sha256_hex"], modules=(external,))
    assert digest_of("sha256_hex", changed) != digests()["sha256_hex"], "control: source counts"
    renamed = replace(REGISTRY["sha256_hex"], signature="sha256_hex(t: str) -> str")
    assert digest_of("sha256_hex", renamed) != digests()["sha256_hex"], "control: form counts"


def test_the_four_have_one_list() -> None:
    assert set(REGISTRY) == set(FUNCTIONS) == set(OFFERED)


def test_signatures_are_those_of_the_code_and_of_the_page() -> None:
    page = default_files()["tool-exec.policy.md"].decode()
    for name, function in REGISTRY.items():
        shown = f"{name}{inspect.signature(function.run)}".replace("Any", "object")
        assert function.signature == shown.replace("typing.", "")
        assert f"| `{function.signature}` |" in page
        assert len(inspect.signature(function.run).parameters) == function.arguments


def test_script_agrees_and_says_so() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "function_digests.py")]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (shown.returncode, len(shown.stdout.splitlines())) == (0, len(REGISTRY))
