"""What the policy in force says about a stored request, as far as it can be said before a run."""

from collections.abc import Iterator

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.registry import Artifact
from threegate.artifacts.tool_request import ToolRequest
from threegate.errors import UsageError
from threegate.policy.bundle import Bundle
from threegate.policy.decide import Execution, may_execute, may_fetch
from threegate.policy.decision import Decision
from threegate.text import quote


def decisions(bundle: Bundle, artifact: Artifact) -> Iterator[tuple[str, Decision | None]]:
    """Yield each question a request raises and the answer; None where FETCH chooses the URL."""
    if isinstance(artifact, ToolRequest):
        yield "execute", may_execute(bundle, execution_of(artifact))
    elif isinstance(artifact, FetchRequest):
        for reference in artifact.references:
            text = reference.open_for_display()
            is_url = text.startswith("https://") or "://" in text
            decision = may_fetch(bundle, text, integrity=artifact.integrity) if is_url else None
            yield f"fetch {quote(text)}", decision
    else:
        raise UsageError("only requests ask for something", hint="give the id of a fr- or tr-")


def execution_of(request: ToolRequest) -> Execution:
    """Return what a Tool Request asks for; what its code imports shows only when it is read."""
    limits = request.limits
    return Execution(
        backend=request.backend,
        limits={
            "wall_ms": limits.wall_ms,
            "memory_bytes": limits.memory_bytes,
            "output_bytes": limits.output_bytes,
            "recursion": limits.recursion,
            "cpus": limits.cpus,
            "processes": limits.processes,
            "disk_bytes": limits.disk_bytes,
        },
        profile=request.profile,
        integrity=request.integrity,
        confidentiality=request.confidentiality,
        functions=frozenset(request.functions),
        binaries=frozenset(argument.open_for_display() for argument in request.argv[:1]),
        network=request.network,
    )
