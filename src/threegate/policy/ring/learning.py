"""The narrowest profile under which a denied run would not have been denied, as a draft.

    allowed_imports    what the code imports and its profile allows, and what was refused only
                       because no rule allows it
    the other four     as in the profile it ran under

What a rule denies by name is never learned: somebody wrote that name down.  Nothing is written
or applied here; the result is text that a human reviews, edits and signs.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from threegate.policy.bundle import Compiled
from threegate.policy.ring.writing import profile_text
from threegate.policy.sections.tool_exec import RING
from threegate.protocol.ring import ExecutorProfile

_SECTION = "tool-exec"


@dataclass(frozen=True, slots=True)
class Learned:
    """A profile that is proposed."""

    name: str
    lane: str
    imports: tuple[str, ...]
    still_denied: tuple[str, ...]  # refused by name, and so it stays
    text: str  # of the profile, as lines of a policy


def learn(
    ring: ExecutorProfile,
    *,
    lane: str,
    name: str,
    used: Collection[str],
    refused: Collection[str],
) -> Learned:
    """Return the narrowest profile for code that uses and was refused these top-level modules."""
    wanted = {*used, *refused}
    denied = tuple(sorted(wanted & {*ring.denied_imports}))
    imports = tuple(sorted((wanted & {*ring.imports}) | ({*refused} - {*denied})))
    rules: dict[str, str | tuple[str, ...]] = {
        "allowed_imports": imports,
        "denied_imports": ring.denied_imports,
        "executor_network": ring.network,
        "allowed_binaries": ring.binaries,
        "denied_patterns": ring.patterns,
    }
    return Learned(name, lane, imports, denied, profile_text(name, rules))


def drafted(text: str, policy: Compiled, learned: Learned) -> str:
    """Return the policy file `text`, which `policy` was compiled from, with the profile in it."""
    lines = text.split("\n")
    lane = policy.ref(_SECTION, "lanes", learned.lane, "profiles").line - 1
    lines[lane] = re.sub(r"\[", f"[{learned.name}, ", lines[lane], count=1)
    ring = policy.ref(_SECTION, RING).line
    lines[ring:ring] = [*learned.text.removesuffix("\n").split("\n"), ""]
    return "\n".join(lines)
