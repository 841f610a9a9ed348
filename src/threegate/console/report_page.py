"""An answer as a report: opened in the browser, or kept as a file.

SECURITY
    A report is a document of its own that loads and runs nothing; it comes with its own
    policy, which allows its one style sheet and no script at all.
"""

from functools import partial
from typing import Final

from threegate.artifacts.ids import short
from threegate.console.application import Call
from threegate.console.messages import HTML, Response
from threegate.console.workspace_threads import Desk
from threegate.host.report.blocks import Block
from threegate.host.report.collection import gather
from threegate.host.report.layout import lay_out
from threegate.host.report.markdown import as_markdown
from threegate.host.report.page import as_page, policy_of
from threegate.host.report.pdf import as_pdf
from threegate.host.workspace.places import refuse_absent

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
