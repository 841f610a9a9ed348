"""The code of a request: a file, standard input, a draft, or a request that is here.

SECURITY
    Reads programs that somebody else may have written.  Nothing here parses or runs them:
    that is for the box.  Code that holds what a reader would not see is refused with the
    line it stands in.
"""

from dataclasses import dataclass
from typing import BinaryIO, Final

from threegate.artifacts import registry
from threegate.artifacts.codec import decode
from threegate.artifacts.draft import is_draft
from threegate.artifacts.ids import is_short_id
from threegate.artifacts.limits import MAX_CODE_CHARS
from threegate.artifacts.registry import Artifact
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import UsageError
from threegate.base.limits import MAX_REQUEST_BYTES
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.host.request.documents import looks_like_artifact
from threegate.host.request.expressible import Use, widest
from threegate.host.workspace.drafts import completer
from threegate.host.workspace.offered_files import STDIN, named, read_regular, read_standard_input
from threegate.host.workspace.places import refuse_absent, resolve
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

MAX_CODE_BYTES: Final = 4 * MAX_CODE_CHARS  # four bytes to a character at most


@dataclass(frozen=True, slots=True)
class Program:
    """Code to be checked, and the request it stands in, if it does; a command has no code."""

    code: str
    request: ToolRequest | None = None

    def use(self, bundle: Bundle) -> Use:
        """Return what a request's code may rely on in the lite lane."""
        assert self.request is not None
        inputs = [one.name for one in self.request.inputs]
        if self.request.backend != "monty":
            return widest(bundle, inputs)
        return Use(self.request.functions, inputs, self.request.profile)


def read_code(name: str, stdin: BinaryIO) -> str:
    """Return the text of a program, character for character."""
    if is_short_id(name):
        hint = "code comes from a file; a result may be data: `--input NAME=ID`"
        raise UsageError(f"{quote(name)} is an artifact, and no artifact is code", hint=hint)
    with named(_about(name)):
        return code_of(_read(name, stdin, MAX_CODE_BYTES))


def code_of(data: Untrusted[bytes]) -> str:
    """Return the text of a program that was handed over, character for character."""
    if looks_like_artifact(data):
        hint = "code is a program alone; `threegate admit` takes drafts"
        raise UsageError("it is an artifact, and no artifact is code", hint=hint)
    return _code(data)


def read_program(ws: Workspace, name: str, stdin: BinaryIO) -> Program:
    """Return the code in a file or draft, or of a stored request."""
    if is_short_id(name):
        request_id = resolve(ws.store, name)
        refuse_absent(ws.store, request_id)
        return _program(ws.store.read(request_id), quote(name))
    with named(_about(name)):
        data = _read(name, stdin, MAX_REQUEST_BYTES)
        if not looks_like_artifact(data) and not is_draft(data):
            return Program(_code(data))
        return _program(registry.parse(completer(ws)(data)), "it")


def _code(data: Untrusted[bytes]) -> str:
    code = decode(data, MAX_CODE_BYTES)
    if not code:
        raise UsageError("it is empty", hint="a program has at least one line")
    return code


def _read(name: str, stdin: BinaryIO, most: int) -> Untrusted[bytes]:
    if name == STDIN:
        return Untrusted(read_standard_input(stdin, most_bytes=most))
    return Untrusted(read_regular(name, most_bytes=most))


def _program(artifact: Artifact, what: str) -> Program:
    if not isinstance(artifact, ToolRequest):
        hint = "`threegate request list` shows those that are here"
        raise UsageError(f"{what} is no tool request", hint=hint)
    return Program(artifact.code.open_for_validation(), artifact)


def _about(name: str) -> str:
    return "standard input" if name == STDIN else quote(name)
