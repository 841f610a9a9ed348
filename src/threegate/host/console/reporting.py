"""An answer as a report: opened in the browser, or kept as a file.

SECURITY
    A report is a document of its own that loads and runs nothing; it comes with its own
    policy, which allows its one style sheet and no script at all.
"""

from functools import partial
from typing import Final

from threegate.artifacts.ids import short
from threegate.host.console.application import Call
from threegate.host.console.messages import HTML, Response
from threegate.host.console.offices import Desk
from threegate.host.places import refuse_absent
from threegate.host.reporting.blocks import Block
from threegate.host.reporting.gathering import gather
from threegate.host.reporting.laying import lay_out
from threegate.host.reporting.markdown import as_markdown
from threegate.host.reporting.page import as_page, policy_of
from threegate.host.reporting.pdf import as_pdf

_FILES: Final = {
    "md": (as_markdown, "text/markdown; charset=utf-8"),
    "pdf": (as_pdf, "application/pdf"),
}


async def report(call: Call) -> Response:
    """Show the report on an answer."""
    body, policy = await call.app.slow.do(partial(_page, call.subject))
    return Response(body=body, kind=HTML, policy=f"{policy}; frame-ancestors 'none'")


async def report_file(call: Call) -> Response:
    """Send the report as a file to keep."""
    form = call.request.path.rpartition("/")[2]
    body = await call.app.slow.do(partial(_file, call.subject, form))
    name = f'attachment; filename="report-{short(call.subject)}.{form}"'
    return Response(body=body, kind=_FILES[form][1], headers=(("Content-Disposition", name),))


def _page(analysis_id: str, desk: Desk) -> tuple[bytes, str]:
    blocks = _blocks(analysis_id, desk)
    return as_page(blocks), policy_of(blocks)


def _file(analysis_id: str, form: str, desk: Desk) -> bytes:
    return _FILES[form][0](_blocks(analysis_id, desk))


def _blocks(analysis_id: str, desk: Desk) -> list[Block]:
    refuse_absent(desk.ws.store, analysis_id)
    return lay_out(gather(desk.ws, desk.index, analysis_id))
