"""What is at which path."""

from typing import Final

from threegate.host.console import reviewing
from threegate.host.console.application import Call, route
from threegate.host.console.messages import Response, redirect


async def _home(_: Call) -> Response:
    return redirect("/inbox")


ROUTES: Final = (
    route("GET", "/", _home),
    route("GET", "/inbox", reviewing.inbox),
    route("GET", "/request/ID", reviewing.request),
    route("GET", "/request/ID/bytes", reviewing.raw),
    route("POST", "/request/ID/approve", reviewing.approve),
    route("POST", "/request/ID/deny", reviewing.deny),
    route("GET", "/events", reviewing.events),
    route("POST", "/logout", reviewing.leave),
)
