"""The console as a process: its socket, its threads, its start and its end.

SECURITY
    Listens on loopback or on a file that only the operator can open, and on nothing else.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from threegate.base.errors import EX_INTERRUPTED, GateUnavailable, ThreeGateError, UsageError
from threegate.base.text import visible
from threegate.console.access import LOGIN, Sessions, names_of
from threegate.console.application import App
from threegate.console.ask_page import QuestionRunner
from threegate.console.events import Events, LogWatch, Sink
from threegate.console.fetch_pages import SearchRunner
from threegate.console.page import PageTemplates
from threegate.console.routes import PAGES
from threegate.console.server import MAX_CONNECTIONS, ConsoleServer
from threegate.console.service import giving_links, place_of
from threegate.console.workspace_threads import Dispatcher, WorkspaceThread, fetches, tools
from threegate.host.command_context import Context
from threegate.host.proxy.supervisor import PRIVATE, listening_at
from threegate.host.review.approval import Signing
from threegate.host.run.warm.keeper import WarmExecutors

ADDRESS: Final = "127.0.0.1"
LOOK_SECONDS: Final = 0.5
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ServePlan:
    """The options of `threegate serve`."""

    root: Path
    port: int
    socket: Path | None  # listens here instead of on the port, which is then the browser's
    runs: bool  # whether approved requests run
    warm: int  # executors that wait for them
    context: Context  # of the command
    signing: Signing
    now: Callable[[], str]
    sink: Sink
    link: Callable[[str], None] | None  # receives the first login link


def listening_on(port: int) -> socket.socket:
    """Return a socket that listens on loopback; raise `GateUnavailable`."""
    if not 0 <= port <= 65535:
        raise UsageError(f"{port} is not a port")
    # With the protocol number: only then does asyncio set TCP_NODELAY.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((ADDRESS, port))
        found.listen(MAX_CONNECTIONS)
    except OSError as exc:
        found.close()
        hint = "is a console running already? --port chooses another one"
        detail = f"cannot listen on {ADDRESS}:{port}: {os.strerror(exc.errno or 0)}"
        raise GateUnavailable(detail, hint=hint) from exc
    return found


@contextmanager
def _listening(plan: ServePlan) -> Iterator[socket.socket]:
    if plan.socket is None:
        with listening_on(plan.port) as found:
            yield found
        return
    if not 0 < plan.port <= 65535:
        hint = "--port is the port by which your browser comes to the socket"
        raise UsageError(f"{plan.port} is not a port of a browser's", hint=hint)
    with (
        listening_at(plan.socket, who="console", mode=PRIVATE) as place,
        socket.socket(fileno=os.dup(place.fd)) as found,
    ):
        yield found


def serve(plan: ServePlan) -> None:
    """Serve until a signal ends it."""
    with _listening(plan) as listening:
        asyncio.run(_serve(plan, listening))


async def _serve(plan: ServePlan, listening: socket.socket) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _interrupted, stop)
    events = Events(loop, plan.now, plan.sink)
    settings, port = plan.context.settings, plan.port
    if plan.socket is None:
        port = listening.getsockname()[1]
    warm = WarmExecutors(plan.root, settings, plan.warm if plan.runs else 0, events.tell)
    app = _app(plan, events, port, warm)
    server = ConsoleServer(app.answer, app.room, app.turned_away)
    background = [asyncio.create_task(_watch(app)), asyncio.create_task(_rate(app))]
    try:
        await app.reading.do(lambda _: None)  # so that a broken workspace fails at once
        warm.start()
        for dispatcher in app.dispatchers:
            dispatcher.start()
        async with giving_links(_links_of(plan, app), partial(_link, app)):
            if plan.link is not None:
                plan.link(_link(app))
            events.tell("serving", port=app.port)
            ending = asyncio.create_task(_end(stop, app))
            await server.serve(listening, stop)
            await ending
    finally:
        await _close(app, background)
        await loop.run_in_executor(None, warm.close)


def _link(app: App) -> str:
    return f"http://{ADDRESS}:{app.port}{LOGIN}{app.sessions.link()}"


def _links_of(plan: ServePlan, app: App) -> Path:
    return place_of(plan.context.settings.state_home, app.port, plan.socket)


def _app(plan: ServePlan, events: Events, port: int, warm: WarmExecutors) -> App:
    made: list[App] = []

    def tell(kind: str, /, **facts: object) -> None:
        events.tell(kind, **facts)
        if kind == "ran":
            made[0].metrics.ran(str(facts["code"] or facts["outcome"]))

    runs = {"tr": tools(warm), "fr": fetches(plan.context.settings)}
    seals = plan.context.settings.seals
    dispatchers = [
        Dispatcher(plan.root, kind, run, tell, seals=seals) for kind, run in runs.items()
    ]
    app = App(
        root=plan.root,
        context=plan.context,
        port=port,
        hosts=names_of(port),
        cookie=f"threegate-{port}",
        pages=PAGES,
        templates=PageTemplates(visible(plan.root.name), PAGES),
        events=events,
        sessions=Sessions(time.monotonic),
        reading=WorkspaceThread(plan.root, "read", seals=seals),
        deciding=WorkspaceThread(plan.root, "sign", seals=seals, signs=True),
        slow=WorkspaceThread(plan.root, "slow", seals=seals),
        asking=QuestionRunner(plan.context, WorkspaceThread(plan.root, "ask", seals=seals), tell),
        searching=SearchRunner(
            plan.context.settings,
            WorkspaceThread(plan.root, "search", seals=seals),
            tell,
            runs=plan.runs,
        ),
        signing=plan.signing,
        watch=LogWatch(plan.root, events),
        dispatchers=dispatchers if plan.runs else (),
    )
    made.append(app)
    return app


def _interrupted(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(EX_INTERRUPTED)  # sandboxes end with this process, and their claims with the lease
    stop.set()


async def _close(app: App, background: list["asyncio.Task[None]"]) -> None:
    """End every thread; claimed requests run to their end and are stored."""
    loop = asyncio.get_running_loop()
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    for dispatcher in app.dispatchers:
        dispatcher.stop()
    for dispatcher in app.dispatchers:
        await loop.run_in_executor(None, dispatcher.join)
    doing = (app.asking.thread, app.searching.thread)
    for thread in (app.reading, app.deciding, app.slow, *doing):
        await thread.close()


async def _end(stop: asyncio.Event, app: App) -> None:
    await stop.wait()
    app.events.close()
    app.searching.stop()
    for dispatcher in app.dispatchers:
        dispatcher.stop()


async def _watch(app: App) -> None:
    """Tell every page when the workspace changed."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        app.watch.look()


async def _rate(app: App) -> None:
    """Rate waiting requests in advance, a few at a time; errors do not end it."""
    told = ""
    while True:
        more = False
        try:
            more = await app.reading.do(app.inbox.rate_some)
            told = ""
        except ThreeGateError as exc:
            if exc.code != told:  # once, not every two seconds
                app.events.tell("not-rated", code=exc.code, reason=exc.message)
            told = exc.code
        except Exception as exc:  # noqa: BLE001 -- reported, and tried again
            if told != "bug":
                app.events.tell("bug", kind=type(exc).__name__, where="rating")
            told = "bug"
        await asyncio.sleep(0 if more else LOOK_SECONDS * 4)
