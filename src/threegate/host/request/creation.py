"""Creation of an operator's tool request: everything is checked first, then stored in one step.

The order: the options of the command agree with each other; options and inputs comply with the
policy; the request is completed and parsed like any other; policy decides whether it could be
approved; the lite lane says whether Monty can express the code.  Only then is anything stored.  The
operator chooses the lane; nothing here does.

SECURITY
    Reads files that the operator names.  A request made here is held: it runs nothing, and a human
    later approves its bytes, not these options.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts.codec import decode
from threegate.artifacts.labels import Labels, join_all
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.base.forms import CONFIDENTIALITY
from threegate.base.limits import MAX_REQUEST_BYTES
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import RefusalFound
from threegate.handoff.admission import admit_request
from threegate.host.request.code import (
    Ask,
    ExpressAnswer,
    ExpressRefused,
    LaneUse,
    NotExpressible,
    answer_of,
    judge,
    offered_functions,
    widest,
)
from threegate.host.request.inputs import Brought, InputFiles, read_inputs, split_pair
from threegate.host.run.verdicts import decisions
from threegate.host.workspace.drafts import complete_request
from threegate.host.workspace.offered_files import named
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.decide import GATEWAY_RULES
from threegate.policy.decision import Deny
from threegate.policy.leaves import BYTES, Number
from threegate.policy.sections.tool_exec import ERA_RANGES, FUNCTIONS, MONTY_RANGES, REQUEST_LIMITS

DEFAULT_BACKEND: Final = "monty"
DEFAULT_CONFIDENTIALITY: Final = "internal"
NO_RISKS: Final = "None stated."
REASONS: Final = ("not-expressible", "files", "binary")
NOT_EXPRESSIBLE: Final = REASONS[0]
ALL: Final = "all"
_SECTION: Final = "tool-exec"
_RANGES: Final[Mapping[str, Mapping[str, Number]]] = {"monty": MONTY_RANGES, "era": ERA_RANGES}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the operator asked for, as typed; the code has been read."""

    purpose: str
    code: str = ""
    risks: str = NO_RISKS
    backend: str = DEFAULT_BACKEND
    why: str | None = None
    profile: str | None = None
    confidentiality: str | None = None
    inputs: Sequence[str] = ()
    handed: Sequence[InputFiles] = ()
    functions: Sequence[str] = ()
    limits: Sequence[str] = ()
    outputs: Sequence[str] = ()
    argv: Sequence[str] = ()
    hosts: Sequence[str] = ()
    up_bytes: str | None = None
    down_bytes: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A request that is held now."""

    id: str
    request: ToolRequest
    refused: ExpressRefused | None
    warnings: tuple[RefusalFound, ...]


def make_request(ws: Workspace, wanted: Wanted, ask: Ask) -> Made:
    """Make and store a request, or raise and store nothing but a refusal by Monty."""
    _refuse_contradictions(wanted)
    _refuse_disabled(ws.bundle, wanted.backend)
    _refuse_large_code(ws.bundle, wanted)
    inputs = read_inputs(ws, wanted.backend, wanted.inputs, wanted.handed)
    given = _given(ws, wanted, inputs)
    refused = _escalation(ws, wanted, ask, [one.name for one in inputs])
    if wanted.why is not None:
        attached = None if refused is None else refused.attached()
        given["why_not_monty"] = {"reason": wanted.why, "refusal": attached}
    texts = {"purpose": wanted.purpose, "code": wanted.code, "risks": wanted.risks}
    packets = sorted({one.packet for one in inputs if one.packet is not None})
    request = complete_request(ws, given, texts, derived_from=packets)
    _refuse_denied(ws.bundle, request)
    answer = _expressible(ws, request, ask)
    if refused is not None:
        refused.keep(ws)
    blobs = [one.blob for one in inputs if one.blob is not None]
    request_id = admit_request(ws.store, request, blobs=blobs)
    return Made(request_id, request, refused, answer.warnings)


def _refuse_contradictions(wanted: Wanted) -> None:
    """Raise `UsageError` for options that do not go together, before any file is read."""
    if bool(wanted.code) == bool(wanted.argv):
        hint = "give a program that is not empty with --code, or a command with --arg for each word"
        raise UsageError("a request has either code or a command", hint=hint)
    if wanted.backend == DEFAULT_BACKEND:
        for option, value in (("--why", wanted.why), ("--arg", wanted.argv)):
            if value:
                raise UsageError(f"{option} goes with --backend era alone")
        if wanted.outputs:
            raise UsageError("--output goes with --backend era alone: Monty leaves a value")
    elif wanted.why is None:
        hint = f"--why {'|'.join(REASONS)}"
        raise UsageError("the heavy lane needs the reason why Monty will not do", hint=hint)
    for name, text in (("--purpose", wanted.purpose), ("--risks", wanted.risks)):
        with named(name):
            # What the shell passes on need not be text at all.
            decode(Untrusted(text.encode("utf-8", "surrogateescape")), MAX_REQUEST_BYTES)
            if not text.strip():
                raise UsageError("it is empty")


def _refuse_disabled(bundle: Bundle, backend: str) -> None:
    path = ("tool-exec", "lanes", backend, "enabled")
    if bundle.text(*path) != "yes":
        hint = f"say `enabled: yes` there and `threegate policy apply`, if {backend} is to be used"
        raise PolicyDenied(f"lane {backend} is not enabled in {bundle.ref(*path)}", hint=hint)


def _refuse_large_code(bundle: Bundle, wanted: Wanted) -> None:
    path = ("tool-exec", "lanes", wanted.backend, "max", "source_bytes")
    size, most = len(wanted.code.encode("utf-8")), bundle.integer(*path)
    if size > most:
        detail = f"the code has {size} bytes, above the {BYTES.show(most)} of {bundle.ref(*path)}"
        hint = "move data out of the code into an --input"
        raise PolicyDenied(detail, hint=hint)


def _given(ws: Workspace, wanted: Wanted, inputs: Sequence[Brought]) -> dict[str, Any]:
    """Return the keys of the draft for this command line."""
    functions = read_functions(ws.bundle, wanted.backend, wanted.functions)
    for one in inputs:
        if one.name in functions:
            raise UsageError(f"an input and a function are both called {one.name}")
    given: dict[str, Any] = {
        "format": "tr/1",
        "backend": wanted.backend,
        "argv": list(wanted.argv),
        "inputs": [one.plain() for one in inputs],
        "functions": functions,
        "limits": read_limits(ws.bundle, wanted.backend, wanted.limits),
        "outputs": read_outputs(wanted.outputs),
        "network": read_network(
            ws.bundle, wanted.backend, wanted.hosts, wanted.up_bytes, wanted.down_bytes
        ),
        "confidentiality": _confidentiality(wanted, inputs),
    }
    return given if wanted.profile is None else {**given, "profile": wanted.profile}


def read_limits(bundle: Bundle, backend: str, stated: Sequence[str]) -> dict[str, int]:
    """Return the limits asked for, in the unit of their key; none is above the lane's."""
    found: dict[str, int] = {}
    for text in stated:
        key, value = split_pair("--limit", text)
        if key not in REQUEST_LIMITS:
            hint = f"one of {', '.join(REQUEST_LIMITS)}"
            raise UsageError(f"no limit is called {quote(key)}", hint=hint)
        if key in found:
            raise UsageError(f"--limit {key} is given twice")
        found[key] = _limit(bundle, backend, key, value)
    return found


def _limit(bundle: Bundle, backend: str, key: str, value: str) -> int:
    leaf = _RANGES[backend][key]
    try:
        number = leaf.unit.parse(value)
    except ValueError as exc:
        raise UsageError(f"--limit {key}={quote(value)}: {exc}") from exc
    path = (_SECTION, "lanes", backend, "max", key)
    most = bundle.integer(*path)
    if number > most:
        allowed = leaf.unit.show(most)
        detail = f"{key} of {leaf.unit.show(number)} is above the {allowed} of {bundle.ref(*path)}"
        hint = f"ask for at most {allowed}, or raise it there and `threegate policy apply`"
        raise PolicyDenied(detail, hint=hint)
    if number < leaf.low:
        raise UsageError(f"--limit {key}={quote(value)}: the least is {leaf.unit.show(leaf.low)}")
    return number


def read_functions(bundle: Bundle, backend: str, stated: Sequence[str]) -> list[str]:
    """Return the external functions asked for; `all` is every one that policy offers."""
    if stated and backend != "monty":
        raise UsageError("external functions belong to the monty lane")
    offered = offered_functions(bundle)
    found: set[str] = set()
    for name in stated:
        if name == ALL:
            found |= set(offered)
        elif name in offered:
            found.add(name)
        else:
            raise _not_offered(bundle, name, offered)
    return sorted(found)


def _not_offered(bundle: Bundle, name: str, offered: Sequence[str]) -> ThreeGateError:
    hint = f"policy offers {', '.join(offered) or 'none'}"
    if name not in FUNCTIONS:
        return UsageError(f"no external function is called {quote(name)}", hint=hint)
    where = bundle.ref(_SECTION, "functions")
    return PolicyDenied(f"function {name} is not offered by {where}", hint=hint)


def read_network(
    bundle: Bundle, backend: str, hosts: Sequence[str], up: str | None, down: str | None
) -> str | dict[str, Any]:
    """Return the network asked for: none, or the gateway to these hosts."""
    if not hosts:
        if up is not None or down is not None:
            raise UsageError("--up-bytes and --down-bytes go with --allow-host")
        return "none"
    if backend != "era":
        raise UsageError("--allow-host goes with --backend era alone: Monty has no network")
    sizes = {"up_bytes": up, "down_bytes": down}
    found = {key: _size(bundle, key, text) for key, text in sizes.items()}
    return {"hosts": sorted(set(hosts)), **found}


def _size(bundle: Bundle, key: str, text: str | None) -> int:
    """Return the bytes asked for, or all that policy grants a run."""
    most = bundle.integer(*GATEWAY_RULES, key)
    if text is None:
        return most
    option = f"--{key.replace('_', '-')}"
    try:
        number = BYTES.parse(text)
    except ValueError as exc:
        raise UsageError(f"{option} {quote(text)}: {exc}") from exc
    if number > most:
        where = bundle.ref(*GATEWAY_RULES, key)
        hint = f"ask for at most {BYTES.show(most)}"
        raise PolicyDenied(f"{option} is above the {BYTES.show(most)} of {where}", hint=hint)
    return number


def read_outputs(stated: Sequence[str]) -> list[dict[str, Any]]:
    """Return the files a run will leave, each with the most it may hold."""
    found: dict[str, int] = {}
    for text in stated:
        name, value = split_pair("--output", text)
        if name in found:
            raise UsageError(f"--output {quote(name)} is given twice")
        try:
            found[name] = BYTES.parse(value)
        except ValueError as exc:
            raise UsageError(f"--output {quote(text)}: {exc}") from exc
    return [{"name": name, "max_bytes": most} for name, most in sorted(found.items())]


def _confidentiality(wanted: Wanted, inputs: Sequence[Brought]) -> str:
    """Return the level asked for, or that of the strictest input where that is stricter."""
    level = wanted.confidentiality or DEFAULT_CONFIDENTIALITY
    joined = join_all([one.labels for one in inputs] + [Labels("operator", level)]).confidentiality
    if wanted.confidentiality not in (None, joined):
        rank = CONFIDENTIALITY.index(joined)
        found = next(
            one for one in inputs if CONFIDENTIALITY.index(one.labels.confidentiality) == rank
        )
        detail = f"input {found.name} is {joined}, so the request is not {level}"
        raise reject(ArtifactReason.LABELS, detail)
    return joined


def _escalation(
    ws: Workspace, wanted: Wanted, ask: Ask, inputs: Sequence[str]
) -> ExpressRefused | None:
    """Return the refusal an escalation must attach; raise if there is none to attach."""
    if wanted.why != NOT_EXPRESSIBLE or not wanted.code:
        return None
    refused = answer_of(ask, wanted.code, widest(ws.bundle, inputs)).refused
    if refused is None:
        hint = "leave out `--backend era --why not-expressible`"
        error = reject(ArtifactReason.REFUSAL, "Monty can express this code, so era is not for it")
        raise type(error)(error.message, code=error.code, hint=hint)
    return refused


def _refuse_denied(bundle: Bundle, request: ToolRequest) -> None:
    for answer in decisions(bundle, request):
        decision = answer.decision
        if isinstance(decision, Deny):
            hint = "`threegate policy show tool-exec` lists the rules in force"
            where = "" if decision.rule is None else f" by {decision.rule}"
            raise PolicyDenied(
                f"nobody could approve this: denied{where}, {decision.reason}", hint=hint
            )


def _expressible(ws: Workspace, request: ToolRequest, ask: Ask) -> ExpressAnswer:
    """Raise `NotExpressible` for what the lite lane could not run; other lanes are not asked."""
    if request.backend != DEFAULT_BACKEND:
        return ExpressAnswer(None)
    names = [one.name for one in request.inputs]
    use = LaneUse(request.functions, names, request.profile)
    answer = judge(ws, ask, request.code.open_for_validation(), use)
    if answer.refused is not None:
        raise NotExpressible(answer.refused)
    return answer
