"""What is at which path."""

from typing import Final

from threegate.host.console import (
    files,
    finding,
    looking,
    reading,
    reporting,
    reviewing,
    wanting,
    wanting_run,
)
from threegate.host.console.application import Call, route
from threegate.host.console.messages import Response, redirect


async def _home(_: Call) -> Response:
    return redirect("/inbox")


ROUTES: Final = (
    route("GET", "/", _home),
    route("GET", "/inbox", reviewing.inbox),
    route("GET", "/request/ID", reviewing.request),
    route("GET", "/request/ID/bytes", reviewing.raw),
    route("GET", "/request/ID/verdict", reviewing.verdict),
    route("POST", "/request/ID/approve", reviewing.approve),
    route("POST", "/request/ID/deny", reviewing.deny),
    *(route("GET", f"/{name}", reading.listing) for name in reading.LISTS),
    route("GET", "/artifact/ID", reading.artifact),
    route("GET", "/file/(res-[0-9a-f]{64})/[0-9]{1,3}", files.download),
    route("GET", "/picture/(res-[0-9a-f]{64})/[0-9]{1,3}", files.picture),
    route("GET", "/provenance/ID", reading.provenance_page),
    route("GET", "/provenance/ID/picture", reading.provenance_picture),
    route("GET", "/ask", reading.ask),
    route("GET", "/ask/state", reading.state),
    route("POST", "/ask", reading.start),
    route("GET", "/fetch", wanting.fetch),
    route("POST", "/fetch", wanting.fetch_wanted),
    route("GET", "/search", finding.search),
    route("POST", "/search", finding.start),
    route("GET", "/search/state", finding.state),
    route("GET", "/candidates/(rp-[0-9a-f]{64})", finding.found),
    route("POST", "/candidates/(rp-[0-9a-f]{64})", finding.picked),
    route("GET", "/run", wanting_run.run),
    route("POST", "/run", wanting_run.run_wanted),
    route("GET", "/report/(an-[0-9a-f]{64})", reporting.report),
    route("GET", "/report/(an-[0-9a-f]{64})/(?:md|pdf)", reporting.report_file),
    route("GET", "/policy", looking.policy),
    route("GET", "/audit", looking.audit),
    route("POST", "/audit", looking.verify),
    route("GET", "/doctor", looking.doctor),
    route("POST", "/doctor", looking.examined),
    route("GET", "/events", reviewing.events),
    route("POST", "/logout", reviewing.leave),
)
