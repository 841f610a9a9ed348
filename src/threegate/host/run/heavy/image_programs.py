"""Whether the programs of a profile are in an image: said before anybody waits for a guest.

A path that leads through a link is none: the guest takes a program for what it is only by the
path it was built at.
"""

from typing import Final

from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import GateUnavailable
from threegate.host.images.choice import current
from threegate.host.images.contents import digests_in
from threegate.host.images.manifest import Manifest
from threegate.host.images.store import Image, Images
from threegate.host.settings import Settings
from threegate.policy.approvals import ring_for
from threegate.policy.bundle import Compiled
from threegate.policy.decision import RuleRef
from threegate.policy.ring.compiler import ProfileRejected
from threegate.policy.ring.executor_profile import ExecutorProfile
from threegate.policy.sections.tool_exec import RING

SCIENCE: Final = frozenset(("matplotlib", "numpy", "pandas", "scipy"))


def layers_for(manifest: Manifest, ring: ExecutorProfile) -> tuple[str, ...]:
    """Return the layers that a guest under this profile starts from."""
    science = bool({*ring.imports} & SCIENCE)
    return tuple(name for name in manifest.layers if name != "science" or science)


def programs_in(policy: Compiled, image: Image, ring: ExecutorProfile) -> dict[str, str]:
    """Return the digest of every program of a profile, or raise `ProfileRejected` for one."""
    found = digests_in(image, layers_for(image.manifest, ring), ring.binaries)
    for path in ring.binaries:
        if path not in found:
            raise _rejected(policy, ring, path)
    return found


def _rejected(policy: Compiled, ring: ExecutorProfile, path: str) -> ProfileRejected:
    reason = f"profile {ring.profile}: the image has no program {path}, or it is a link"
    return ProfileRejected(reason, rule_of(policy, ring, path))


def rule_of(policy: Compiled, ring: ExecutorProfile, path: str) -> RuleRef:
    """Return where a program of a profile is written."""
    return policy.ref("tool-exec", RING, ring.profile, "allowed_binaries", path)


def missing_here(policy: Compiled, request: ToolRequest, settings: Settings) -> tuple[str, ...]:
    """Return the programs of a request's profile that the image lacks, if there is one here."""
    ring = ring_for(policy, request)
    if request.backend != "era" or not ring.binaries:
        return ()
    try:
        image = current(Images(settings.cache_home / "images"), settings.config_home)
    except GateUnavailable:
        return ()
    found = digests_in(image, layers_for(image.manifest, ring), ring.binaries)
    return tuple(path for path in ring.binaries if path not in found)


def refuse_missing_here(policy: Compiled, request: ToolRequest, settings: Settings) -> None:
    """Raise `ProfileRejected` for a program of the profile that the image here lacks."""
    for path in missing_here(policy, request, settings):
        raise _rejected(policy, ring_for(policy, request), path)
