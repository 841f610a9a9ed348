"""The page for runs: the operator requests a program, in either lane.

SECURITY
    Nothing runs here.  The form has the fields of `threegate request new`, and the same function
    judges them; the request waits for a signature.  Inputs are artifacts by their ids, or files
    that came with the form.  A file name from a browser is never opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from threegate.artifacts.ids import is_id
from threegate.artifacts.tool_request import BACKENDS
from threegate.base.errors import ThreeGateError, UsageError
from threegate.base.forms import CONFIDENTIALITY
from threegate.base.untrusted import Untrusted
from threegate.console.messages import MAX_UPLOAD_BYTES, Response, UploadedFile, redirect
from threegate.console.page import Call, ConsolePage, lines_of, one_of, status_of, text_of
from threegate.host.output import counted
from threegate.host.request.code import NotExpressible, asking, code_of, offered_functions
from threegate.host.request.creation import (
    DEFAULT_BACKEND,
    NO_RISKS,
    REASONS,
    Made,
    Wanted,
    make_request,
)
from threegate.host.request.inputs import InputFiles, largest_input
from threegate.host.review.characters import on_one_line
from threegate.host.workspace.live import LiveWorkspace
from threegate.policy.bundle import Bundle
from threegate.policy.sections.tool_exec import REQUEST_LIMITS

FILES: Final = tuple(str(number) for number in range(1, 7))  # rows for files in the form
_FUNCTION, _NAME, _FILE = "function-", "name-", "file-"
_LINES: Final = ("inputs", "limits", "outputs", "argv", "hosts")  # one to a line
_FIELDS: Final = (
    *("purpose", "code", "confidentiality", "backend", "why", "profile", "risks"),
    *("up_bytes", "down_bytes", *_LINES),
)


@dataclass(frozen=True, slots=True)
class RunOffer:
    """The choices in the form, by the policy in force."""

    functions: list[str]
    profiles: list[str]
    lanes: list[tuple[str, str]]  # each with the rule that disables it, if any
    most_bytes: int


async def run(call: Call) -> Response:
    """Show the form for a program."""
    return await _run_form(call, call.request.query, [])


async def _run_form(call: Call, typed: Mapping[str, str], problems: Sequence[str]) -> Response:
    offered = await call.app.reading.do(lambda live: _offered(live.ws.bundle))
    fields = {name: typed.get(name, "") for name in _FIELDS}
    names = {number: typed.get(_NAME + number, "") for number in FILES}
    return call.show(
        "run",
        status_of(problems),
        typed=fields,
        names=names,
        problems=problems,
        levels=CONFIDENTIALITY,
        offered=offered,
        reasons=REASONS,
        limits=REQUEST_LIMITS,
        chosen=_chosen(typed),
    )


def _offered(bundle: Bundle) -> RunOffer:
    path = ("tool-exec", "lanes")
    profiles = [bundle.words(*path, lane, "profiles") for lane in BACKENDS]
    lanes = []
    for lane in BACKENDS:
        place = (*path, lane, "enabled")
        lanes.append((lane, "" if bundle.text(*place) == "yes" else str(bundle.ref(*place))))
    return RunOffer(
        functions=offered_functions(bundle),
        profiles=list(dict.fromkeys(name for found in profiles for name in found)),
        lanes=lanes,
        most_bytes=min(largest_input(bundle), MAX_UPLOAD_BYTES),
    )


def _chosen(typed: Mapping[str, str]) -> list[str]:
    return [name.removeprefix(_FUNCTION) for name in typed if name.startswith(_FUNCTION)]


async def run_wanted(call: Call) -> Response:
    """Hold a request for a program; nothing runs."""
    typed, files = call.request.form(), call.request.files()
    try:
        wanted = _wanted(typed, files)
        made = await call.app.slow.do(partial(_made, wanted))
    except ThreeGateError as exc:
        message, *hints = lines_of(exc)
        refused = [_refusal(exc)] if isinstance(exc, NotExpressible) else []
        again = ["choose the files again: a browser does not keep them"] if files else []
        return await _run_form(call, typed, [message, *refused, *hints, *again])
    call.app.events.tell("held", requests=1)
    if made.warnings:
        lines = (f"line {one.line}: {one.construct}: {one.reason}" for one in made.warnings)
        words = counted(len(made.warnings), "warning")
        call.session.said = on_one_line(f"{words} of the type checker: {'; '.join(lines)}")
    return redirect(f"/request/{made.id}")


def _made(wanted: Wanted, live: LiveWorkspace) -> Made:
    with asking(live.ws) as ask:
        return make_request(live.ws, wanted, ask)


def _wanted(typed: Mapping[str, str], files: Mapping[str, UploadedFile]) -> Wanted:
    lines = {name: _lines(typed, name) for name in _LINES}
    for one in lines["inputs"]:
        # Anything else would be a file name, and a form opens no file.
        if not is_id(one.partition("=")[2]):
            raise UsageError("an input is a name, = and the id of a packet, result or answer")
    code, level = typed.get("code", "").replace("\r\n", "\n"), typed.get("confidentiality", "")
    return Wanted(
        purpose=text_of(typed, "purpose"),
        code=code_of(Untrusted(code.encode("utf-8"))) if code else "",
        risks=text_of(typed, "risks") or NO_RISKS,
        backend=one_of(BACKENDS, typed.get("backend") or DEFAULT_BACKEND),
        why=one_of(REASONS, typed["why"]) if typed.get("why") else None,
        profile=typed.get("profile") or None,
        confidentiality=one_of(CONFIDENTIALITY, level) if level else None,
        inputs=lines["inputs"],
        handed=_handed(typed, files),
        functions=_chosen(typed),
        limits=lines["limits"],
        outputs=lines["outputs"],
        argv=lines["argv"],
        hosts=lines["hosts"],
        up_bytes=text_of(typed, "up_bytes") or None,
        down_bytes=text_of(typed, "down_bytes") or None,
    )


def _lines(typed: Mapping[str, str], name: str) -> list[str]:
    return [line.strip() for line in typed.get(name, "").splitlines() if line.strip()]


def _handed(typed: Mapping[str, str], files: Mapping[str, UploadedFile]) -> list[InputFiles]:
    """Return each file with the name that was typed beside it."""
    if set(files) - {_FILE + number for number in FILES}:
        raise UsageError("the form does not ask for one of these files")
    found = []
    for number in FILES:
        name, sent = text_of(typed, _NAME + number), files.get(_FILE + number)
        if sent is not None:
            found.append(InputFiles(name, sent.filename, Untrusted(sent.data)))
        elif name:
            raise UsageError("the name of an input has no file beside it")
    return found


def _refusal(error: NotExpressible) -> str:
    return f"{error.refused.construct}: {error.refused.reason}"


PAGES: Final = (ConsolePage("/run", run, run_wanted, title="Run", listed=True),)
