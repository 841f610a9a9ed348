"""What is at which path."""

from typing import Final

from threegate.console import (
    artifact_pages,
    fetch_page,
    files,
    report_page,
    review_pages,
    run_page,
    search_results,
    status_pages,
)
from threegate.console.application import Call, route
from threegate.console.messages import Response, redirect


async def _home(_: Call) -> Response:
    return redirect("/inbox")


ROUTES: Final = (
    route("GET", "/", _home),
    route("GET", "/inbox", review_pages.inbox),
    route("GET", "/request/ID", review_pages.request),
    route("GET", "/request/ID/bytes", review_pages.raw),
    route("GET", "/request/ID/verdict", review_pages.verdict),
    route("POST", "/request/ID/approve", review_pages.approve),
    route("POST", "/request/ID/deny", review_pages.deny),
    *(route("GET", f"/{name}", artifact_pages.listing) for name in artifact_pages.LISTS),
    route("GET", "/artifact/ID", artifact_pages.artifact),
    route("GET", "/file/(res-[0-9a-f]{64})/[0-9]{1,3}", files.download),
    route("GET", "/picture/(res-[0-9a-f]{64})/[0-9]{1,3}", files.picture),
    route("GET", "/provenance/ID", artifact_pages.provenance_page),
    route("GET", "/provenance/ID/picture", artifact_pages.provenance_picture),
    route("GET", "/ask", artifact_pages.ask),
    route("GET", "/ask/state", artifact_pages.state),
    route("POST", "/ask", artifact_pages.start),
    route("GET", "/fetch", fetch_page.fetch),
    route("POST", "/fetch", fetch_page.fetch_wanted),
    route("GET", "/search", search_results.search),
    route("POST", "/search", search_results.start),
    route("GET", "/search/state", search_results.state),
    route("GET", "/candidates/(rp-[0-9a-f]{64})", search_results.found),
    route("POST", "/candidates/(rp-[0-9a-f]{64})", search_results.picked),
    route("GET", "/run", run_page.run),
    route("POST", "/run", run_page.run_wanted),
    route("GET", "/report/(an-[0-9a-f]{64})", report_page.report),
    route("GET", "/report/(an-[0-9a-f]{64})/(?:md|pdf)", report_page.report_file),
    route("GET", "/policy", status_pages.policy),
    route("GET", "/audit", status_pages.audit),
    route("POST", "/audit", status_pages.verify),
    route("GET", "/doctor", status_pages.doctor),
    route("POST", "/doctor", status_pages.examined),
    route("GET", "/events", review_pages.events),
    route("POST", "/logout", review_pages.leave),
)
