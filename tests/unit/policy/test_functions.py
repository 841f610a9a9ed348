"""The set of external functions as policy pins it."""

import re

from tests.support.policies import policy
from threegate.policy.bundle import function_digests, functions_sha256

POLICY = policy()


def test_digest_moves_with_every_name_bound_and_source() -> None:
    pinned = function_digests(POLICY)["sha256_hex"]
    others = [
        policy(tool_exec=(pinned, "0" * 64)),
        policy(tool_exec=("calls: 10000", "calls: 9999")),
        policy(tool_exec=("output_bytes: 64\n", "output_bytes: 65\n")),
        policy(tool_exec=("depth: 32", "depth: 31")),
    ]
    found = {functions_sha256(other) for other in (POLICY, *others)}
    assert len(found) == 5
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in found)


def test_digest_is_of_the_functions_alone() -> None:
    other = policy(tool_exec=("wall_ms: 30s", "wall_ms: 31s"))
    assert functions_sha256(other) == functions_sha256(POLICY)
    assert other.section_digest("tool-exec") != POLICY.section_digest("tool-exec"), "control"
