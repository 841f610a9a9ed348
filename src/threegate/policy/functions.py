"""The external functions as policy pins them: one digest over names, bounds and sources.

An approval binds this digest, so another bound or another implementation voids it.
"""

from threegate.policy.bundle import Compiled


def functions_sha256(policy: Compiled) -> str:
    """Return what `functions_sha256` of an approval must be under this policy."""
    return policy.functions_sha256


def function_digests(policy: Compiled) -> dict[str, str]:
    """Return the digest policy names for each function it offers."""
    path = ("tool-exec", "functions")
    return {name: policy.text(*path, name, "sha256") for name in policy.words(*path)}
