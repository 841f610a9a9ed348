"""Payloads of a test's own in a real box: a module bound beside the gate's packages."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.boxes import said
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import FETCH_NORMALIZE, TOOL_LITE, Bind, Profile
from threegate.sandbox.session import run_gate
from threegate.sandbox.worker import find_worker

MODULE = "payload_under_test"
_HEAD = "from threegate.sandbox.channel import read_message, write_message\n"


def start_with(
    directory: Path, code: str, profile: Profile = FETCH_NORMALIZE, **changes: Any
) -> Start:
    """Return a start whose payload is `main` in `code`; `changes` are fields of the profile."""
    path = directory / f"{MODULE}.py"
    path.write_text(_HEAD + code, encoding="utf-8")
    bind = Bind("payload", f"/gate/{MODULE}.py", "file")
    changed = replace(profile, binds=(*profile.binds, bind), **changes)
    given = {"payload": str(path)}
    if profile is TOOL_LITE:
        given |= find_worker().given()
    return Start(changed, f"{MODULE}:main", given)


def importable(directory: Path, profile: Profile, names: Sequence[str]) -> list[str]:
    """Return which of these modules can be imported in a box of the profile."""
    code = f"""
import json
def main():
    read_message(0, 1)
    there = []
    for name in {tuple(names)!r}:
        try:
            __import__(name)
        except ImportError:
            continue
        there.append(name)
    write_message(3, json.dumps(there).encode())
"""
    found = said(run_gate(find_machine(), start_with(directory, code, profile), b""))
    return [str(name) for name in json.loads(found)]
