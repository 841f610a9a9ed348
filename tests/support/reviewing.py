"""Requests to review: in a workspace with a clock the test moves, and on a screen it reads."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.support import samples
from tests.support.samples import box, digest
from tests.support.workspaces import SoftSigner, public_of, soft_signer, take_in
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.tool_request import ToolRequest
from threegate.host.output import Output
from threegate.host.review.approval import GivenApproval, Terms, approve
from threegate.host.review.render import lines
from threegate.host.review.sheet import Sheet, read_sheet
from threegate.host.review.terminal.cells import print_lines
from threegate.host.workspace.workspace import Workspace


def program(code: str = samples.CODE, **changes: Any) -> ToolRequest:
    """Return a request that the shipped policy lets a human approve."""
    texts = {"code": box(code), "code_sha256": digest(code)}
    return samples.tool_request(**{"inputs": (), "profile": "pure", **texts, **changes})


def drafted(request: ToolRequest | FetchRequest, **changes: Any) -> Any:
    """Return the request as CORE would have drafted it."""
    return replace(request, origin="core", integrity="external", **changes)


def held(ws: Workspace, request: ToolRequest | FetchRequest | None = None) -> Sheet:
    """Take a request in and return its sheet."""
    (request_id,) = take_in(ws, program() if request is None else request)
    return read_sheet(ws, request_id)


def approved(ws: Workspace, sheet: Sheet, terms: Terms | None = None) -> GivenApproval:
    """Approve as the operator."""
    return approve(ws, sheet, soft_signer(), public_of(), terms)


@dataclass(frozen=True)
class Meddler:
    """Signs as the operator does, but something happens while it does."""

    meanwhile: Callable[[], object]
    signer: SoftSigner

    def sign(self, message: bytes, namespace: str) -> bytes:
        self.meanwhile()
        return self.signer.sign(message, namespace)


def meddler(meanwhile: Callable[[], object]) -> Meddler:
    return Meddler(meanwhile, soft_signer())


class Screen(io.StringIO):
    """A terminal of some width that keeps what it was sent."""

    def __init__(self, *, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


def printed(sheet: Sheet, *, colour: bool = False) -> list[str]:
    """Return the rows that are printed of a sheet, as to a pipe."""
    screen = Screen(tty=False)
    print_lines(Output(screen, io.StringIO(), io.StringIO()), lines(sheet), colour=colour)
    return screen.getvalue().split("\n")


def code_read_back(rows: list[str]) -> str:
    """Return the code that the rows of a sheet show, every character as it was."""
    start = next(number for number, row in enumerate(rows) if row.startswith("code, "))
    found: list[str] = []
    for row in rows[start + 2 :]:
        if not row or row == "  (no line break at the end)":  # neither has a gutter
            break
        gutter, text = row[:8], row[8:]
        if gutter == "      : ":
            found[-1] += text
        else:
            assert gutter.endswith(("| ", "! ")), row
            found.append(text)
    return "\n".join(map(unspelled, found))


def unspelled(text: str) -> str:
    """Return what a text was before characters of it were spelled out."""
    first, *rest = text.split("\\u{")
    pairs = (part.partition("}") for part in rest)
    return first + "".join(chr(int(point, 16)) + after for point, _, after in pairs)
