"""What the ring would allow and refuse of a request, as far as it shows before a run.

SECURITY
    Reads hostile code as words; compiles and runs nothing.  Imports by other means than a
    statement do not show here: in the run they are judged like any other.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from threegate.artifacts.tool_request import ToolRequest, network_word
from threegate.host.review.code_flags import imports_of
from threegate.host.review.colour import lex
from threegate.host.run.heavy.image_programs import rule_of
from threegate.policy.approvals import command_of, ring_for
from threegate.policy.bundle import Compiled
from threegate.protocol.ring import ExecutorProfile


@dataclass(frozen=True, slots=True)
class ForeseenAct:
    """One thing a request would do, and the rule that decides."""

    what: str  # import | program | command | missing (no such program in the image) | network
    argument: str  # foreign
    line: int  # of the code; 0 for none
    allowed: bool
    rule: str  # which of the five, or argument_rules
    place: str


def foresee(
    policy: Compiled, request: ToolRequest, missing: Collection[str] = ()
) -> tuple[ExecutorProfile, list[ForeseenAct]]:
    """Return the profile a request would run under, and everything it shows that it would do.

    `missing` are programs of the profile that the image lacks.  Raises `ProfileRejected` if its
    executor could not enforce the profile.
    """
    ring = ring_for(policy, request)
    found = [*_imports(ring, request), *_programs(ring, request), *_missing(policy, ring, missing)]
    return ring, [*found, _network(ring, request)]


def imports_in(request: ToolRequest) -> dict[str, int]:
    """Return the top-level modules that statements of the code import, with their lines."""
    return imports_of(lex(request.code.open_for_display()).tokens)


def _imports(ring: ExecutorProfile, request: ToolRequest) -> Iterator[ForeseenAct]:
    for name, line in imports_in(request).items():
        if name == "__future__":
            continue
        rule = ring.refusal(name)
        place = ring.place(rule or "allowed_imports", name)
        yield ForeseenAct("import", name, line, rule is None, rule or "allowed_imports", place)


def _programs(ring: ExecutorProfile, request: ToolRequest) -> Iterator[ForeseenAct]:
    words = command_of(request)
    if not words:
        return
    found = ring.command(words)
    known = found is None or found.rule != "allowed_binaries"
    place = ring.rules["allowed_binaries"]
    yield ForeseenAct("program", words[0], 0, known, "allowed_binaries", place)
    if known:
        rule, item, shown = ("denied_patterns", "", " ".join(words))
        if found is not None:
            rule, item, shown = (found.rule, found.item, found.argument)
        yield ForeseenAct("command", shown, 0, found is None, rule, ring.place(rule, item))


def _missing(
    policy: Compiled, ring: ExecutorProfile, paths: Collection[str]
) -> Iterator[ForeseenAct]:
    for path in paths:
        place = str(rule_of(policy, ring, path))
        yield ForeseenAct("missing", path, 0, allowed=False, rule="allowed_binaries", place=place)


def _network(ring: ExecutorProfile, request: ToolRequest) -> ForeseenAct:
    allowed = network_word(request.network) in ("none", ring.network)
    place = ring.rules["executor_network"]
    return ForeseenAct("network", str(request.network), 0, allowed, "executor_network", place)
