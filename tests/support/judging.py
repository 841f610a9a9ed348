"""Judge a typed artifact by reading its spelling, as every receiver does."""

from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import Artifact, emit, parse
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted

_BY_CODE = {reason.code: reason for reason in ArtifactReason}


def judge(artifact: Artifact | bytes) -> ArtifactReason | None:
    """Return the rule that `artifact` breaks, or None if it is accepted."""
    data = artifact if isinstance(artifact, bytes) else emit(artifact)
    try:
        parse(Untrusted(data))
    except ArtifactRejected as exc:
        return _BY_CODE[exc.code]
    return None
