"""Creation of an operator's tool request: everything is checked first, then stored in one step.

The order: the options of the command agree with each other; options and inputs comply with the
policy; the request is completed and parsed like any other; policy decides whether it could be
approved; the lite lane says whether Monty can express the code.  Only then is anything stored.  The
operator chooses the lane; nothing here does.

SECURITY
    Reads files that the operator names.  A request made here is held: it runs nothing, and a human
    later approves its bytes, not these options.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts.codec import decode
from threegate.artifacts.labels import Labels, join_all
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import PolicyDenied, UsageError
from threegate.base.forms import CONFIDENTIALITY
from threegate.base.limits import MAX_REQUEST_BYTES
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
    widest,
)
from threegate.host.request.inputs import Brought, InputFiles, read_inputs
from threegate.host.request.options import (
    read_functions,
    read_limits,
    read_network,
    read_outputs,
)
from threegate.host.run.verdicts import decisions
from threegate.host.workspace.drafts import complete_request
from threegate.host.workspace.offered_files import named
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.decision import Deny
from threegate.policy.leaves import BYTES

DEFAULT_BACKEND: Final = "monty"
DEFAULT_CONFIDENTIALITY: Final = "internal"
NO_RISKS: Final = "None stated."
REASONS: Final = ("not-expressible", "files", "binary")
NOT_EXPRESSIBLE: Final = REASONS[0]


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
    request = complete_request(ws, given, texts)
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
