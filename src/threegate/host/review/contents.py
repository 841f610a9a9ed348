"""The contents of a request: code, inputs, limits, functions, references, and what the ring allows.

The forecast says which imports, programs and networks the ring would allow.  Imports that are not
statements do not show in it; the run itself checks them like any other.

SECURITY
    Opens the foreign text of a request for display and reads hostile code as tokens.  Compiles,
    runs and resolves nothing.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.registry import Request
from threegate.artifacts.tool_request import (
    NO_NETWORK,
    GatewayTerms,
    RunLimits,
    ToolRequest,
    network_word,
)
from threegate.base.schema import plain_record, shapes_of
from threegate.handoff.store import Store
from threegate.host.review import parts
from threegate.host.review.code_flags import code_flags, imports_of, lex
from threegate.host.review.origins import SheetLookup, host_of, inputs_of, read_reference
from threegate.host.run.verdicts import Plan, decisions, plans, rule_of, says_kernel
from threegate.policy.approvals import command_of, ring_for
from threegate.policy.bundle import Bundle, Compiled
from threegate.policy.decide import GATEWAY_RULES
from threegate.policy.decision import verdict
from threegate.policy.leaves import BYTES, unit_of
from threegate.policy.ring.compiler import ProfileRejected
from threegate.policy.ring.executor_profile import ExecutorProfile
from threegate.policy.sections.tool_exec import LIMIT_WORDS, RING

MEANINGS: Final = {
    "json_dumps": "a value as JSON text, keys sorted",
    "json_loads": "the value of a JSON text",
    "regex_findall": "all matches of a pattern in a text, in linear time",
    "sha256_hex": "the SHA-256 of a text, as 64 hex digits",
}
_LIMIT_SHAPES: Final = shapes_of(RunLimits)


def tool_of(request: ToolRequest, bundle: Bundle, store: Store, look: SheetLookup) -> parts.Tool:
    """Return the contents of a tool request."""
    return parts.Tool(
        profile=request.profile,
        ring=tuple(_ring(request, bundle)),
        network=network_word(request.network),
        gateway=_gateway(request, bundle),
        risks=request.risks.open_for_display(),
        escalation=_escalation(request),
        code=_code(request) if not request.argv else None,
        argv=tuple(argument.open_for_display() for argument in request.argv),
        inputs=tuple(inputs_of(request, store, look)),
        limits=tuple(_limits(request, bundle)),
        functions=tuple(_function(name, bundle) for name in request.functions),
        outputs=tuple((output.name, output.max_bytes) for output in request.outputs),
    )


def fetch_of(request: FetchRequest, bundle: Bundle) -> parts.Fetch:
    """Return what a fetch request asks for, and every URL that is asked for it."""
    return parts.Fetch(request.want, tuple(map(_reference, plans(bundle, request))))


def _reference(plan: Plan) -> parts.SheetReference:
    asks = (
        parts.AskedUrl(
            source=question.source,
            host=host_of(question.url),
            url=question.url,
            after=question.after,
            verdict=verdict(decision),
            reason=decision.reason,
        )
        for question, decision in plan.asks
    )
    return replace(read_reference(plan.text), asks=tuple(asks))


def foreign_texts(request: Request) -> Iterator[tuple[str, str, bool]]:
    """Yield each foreign text of a request: its name, its content, and whether it is code."""
    yield "purpose", request.purpose.open_for_display(), False
    if isinstance(request, FetchRequest):
        for number, reference in enumerate(request.references, 1):
            yield f"reference {number}", reference.open_for_display(), True
        return
    yield "code", request.code.open_for_display(), True
    yield "risks", request.risks.open_for_display(), False
    for number, argument in enumerate(request.argv, 1):
        yield f"argument {number}", argument.open_for_display(), True


def flags_of_code(request: ToolRequest, bundle: Bundle) -> Iterator[parts.Flag]:
    """Yield the flags of a request's program."""
    if request.argv:
        return
    code = request.code.open_for_display()
    path = ("tool-exec", RING, request.profile)
    known = bundle.has(*path)
    allowed = set(bundle.words(*path, "allowed_imports")) if known else set()
    denied = set(bundle.words(*path, "denied_imports")) if known else set()
    yield from code_flags(
        code.split("\n"),
        lex(code),
        functions=request.functions,
        inputs=[item.name for item in request.inputs],
        importable=frozenset(allowed - denied),
        lite=request.backend == "monty",
        network=network_word(request.network) != NO_NETWORK,
    )


def rule_of_two(request: Request, bundle: Bundle) -> parts.RuleOfTwo:
    """Return which of the three a request joins; asking for a URL is network."""
    tool = isinstance(request, ToolRequest)
    network = not isinstance(request, ToolRequest) or request.network != "none"
    return parts.RuleOfTwo(
        # Data that a run gets from a network is external, also in a request of the operator.
        external=request.integrity == "external" or (network and tool),
        confidential=request.confidentiality == "confidential",
        network=network,
        allowed=bundle.text("tool-exec", "rule_of_two") == "allow-if-approved",
    )


def verdicts_on(request: Request, bundle: Bundle) -> Iterator[parts.SheetVerdict]:
    """Yield what policy says to each question a request raises."""
    for answer in decisions(bundle, request):
        decision = answer.decision
        said, reason = verdict(decision), decision.reason
        rule = "" if decision.rule is None else str(decision.rule)
        if answer.needed:
            yield parts.SheetVerdict(answer.question, said, rule, reason)
        elif said == "deny":
            words = f"{reason}: not asked, and the packet says so"
            yield parts.SheetVerdict(answer.question, "skip", rule, words)


def _ring(request: ToolRequest, bundle: Bundle) -> Iterator[parts.RingRule]:
    try:
        ring = ring_for(bundle, request)
    except ProfileRejected:
        return  # the verdicts say so, with the rule
    for field, items in (
        ("allowed_imports", ring.imports),
        ("denied_imports", ring.denied_imports),
        ("executor_network", (ring.network,)),
        ("allowed_binaries", ring.binaries),
        ("denied_patterns", ring.patterns),
    ):
        yield parts.RingRule(field, items, ring.rules[field])


def _gateway(request: ToolRequest, bundle: Bundle) -> parts.SheetGateway | None:
    network = request.network
    if not isinstance(network, GatewayTerms):
        return None
    methods = tuple(bundle.words(*GATEWAY_RULES, "methods"))
    sizes = (BYTES.show(network.up_bytes), BYTES.show(network.down_bytes))
    held = says_kernel(bundle, request.profile)
    return parts.SheetGateway(network.hosts, methods, *sizes, str(bundle.ref(*GATEWAY_RULES)), held)


def _code(request: ToolRequest) -> parts.Code:
    text = request.code.open_for_display()
    size = len(text.encode("utf-8"))
    lines = tuple(text.removesuffix("\n").split("\n"))
    return parts.Code(text, request.code_sha256, size, lines, lex(text).tokens)


def _escalation(request: ToolRequest) -> parts.SheetEscalation | None:
    why = request.why_not_monty
    if why is None:
        return None
    if why.refusal is None:
        return parts.SheetEscalation(why.reason, "", None, "")
    construct = why.refusal.construct.open_for_display()
    words = why.refusal.reason.open_for_display()
    return parts.SheetEscalation(why.reason, construct, why.refusal.line, words)


def _limits(request: ToolRequest, bundle: Bundle) -> Iterator[parts.Limit]:
    path = ("tool-exec", "lanes", request.backend)
    for name, asked in plain_record(_LIMIT_SHAPES, request.limits).items():
        usual = bundle.integer(*path, "default", name)
        most = bundle.integer(*path, "max", name)
        unit = unit_of(name)
        shown = (unit.show(asked), unit.show(usual), unit.show(most))
        yield parts.Limit(name, LIMIT_WORDS[name], asked, usual, most, shown)


def _function(name: str, bundle: Bundle) -> parts.SheetFunction:
    path = ("tool-exec", "functions", name)
    if not bundle.has(*path):
        return parts.SheetFunction(name, MEANINGS[name], ())
    keys = [key for key in bundle.words(*path) if key != "sha256"]
    bounds = ((key, unit_of(key).show(bundle.integer(*path, key))) for key in keys)
    return parts.SheetFunction(name, MEANINGS[name], tuple(bounds))


# -- the forecast of the ring ----------------------------------------------------------------


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
