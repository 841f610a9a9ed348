"""The gates' profiles as the policy keeps them, and the check before a gate is started.

The bundle in force holds the profiles its signer saw.  If a profile of this program allows more,
or something else, its gate does not start until `policy apply` has shown and signed the
difference.  A narrower profile is covered by the signature.
"""

import errno
import os
from collections.abc import Mapping
from typing import Any, Final

from threegate.base.errors import GateUnavailable
from threegate.policy.bundle import Compiled
from threegate.policy.nodes import Change, Value, frozen
from threegate.policy.sections.gates import NAME_OF_SECTION, compare_profiles
from threegate.sandbox import worker
from threegate.sandbox.engine_calls import signed_calls
from threegate.sandbox.filters import FORBIDDEN
from threegate.sandbox.profiles import ENGINE, PROFILES, RUNSC_FILES, RUNSC_KERNEL, Profile

EVERY_GATE: Final = "every-gate"  # the part that is common to all profiles
# Words for people: changing them changes nothing a gate may do.
_PROSE: Final = ("name", "purpose")


def program_gates() -> dict[str, Any]:
    """Return every profile of this program as the plain data of the policy's section."""
    return {
        EVERY_GATE: {"forbidden_calls": sorted(FORBIDDEN)},
        **{name: profile_rules(profile) for name, profile in PROFILES.items()},
        **{
            profile.name: {**profile_rules(profile), "calls": signed_calls(profile)}
            for profile in (ENGINE, RUNSC_KERNEL, RUNSC_FILES)
        },
        worker.NAME: _worker_rules(),
    }


def profile_rules(profile: Profile) -> dict[str, Any]:
    """Return one profile as plain data; a field added to profiles is included automatically."""
    rules = {key: _rule(value) for key, value in profile.plain().items() if key not in _PROSE}
    rules["binds"] = sorted(f"{bind.kind} {bind.slot} at {bind.inside}" for bind in profile.binds)
    return rules


def _rule(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return sorted(map(str, value)) if isinstance(value, list) else value


def _worker_rules() -> dict[str, Any]:
    return {
        "calls": sorted((*worker.ALLOWED, "clone")),  # clone makes threads, nothing else
        "refused_calls": sorted(f"{c} {errno.errorcode[n]}" for c, n in worker.REFUSED.items()),
        "memory_bytes": worker.MEMORY_BYTES,
        "cpu_seconds": worker.CPU_SECONDS,
        "open_files": worker.OPEN_FILES,
    }


def unapplied(policy: Compiled, profile: Profile) -> list[Change]:
    """Return where this program's sandbox for a gate exceeds the signed one."""
    names = [EVERY_GATE, profile.name]
    names += [worker.NAME] if "worker" in profile.executables else []
    now = program_gates()
    now[profile.name] |= profile_rules(profile)
    found: list[Change] = []
    for name in names:
        signed = policy.value(NAME_OF_SECTION)
        assert isinstance(signed, Mapping)
        old: Value = signed.get(name, frozen({}))
        found += compare_profiles(old, frozen(now[name]), (NAME_OF_SECTION, name))
    return [change for change in found if change.effect != "narrows"]


def refuse_unapplied_profile(policy: Compiled, profile: Profile) -> None:
    """Raise `GateUnavailable` unless the policy was signed with this profile or a wider one.

    Called wherever the host starts a gate, before it does.
    """
    found = unapplied(policy, profile)
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        detail = f"the sandbox of {profile.name} is not the signed one: {found[0].sentence}"
        hint = "`threegate policy diff` shows every difference, `threegate policy apply` signs it"
        raise GateUnavailable(f"{detail}{more}", code="TG-BOX-040", hint=hint)


def named_failure(error: Exception) -> Exception:
    """Return why a sandbox did not start; exhausted resources are not a bug."""
    if not isinstance(error, OSError):
        return error
    why = os.strerror(error.errno or 0).lower()
    hint = "`ulimit -a` shows what this account may have; ask for less at a time"
    return GateUnavailable(f"a sandbox cannot be started: {why}", code="TG-BOX-041", hint=hint)
