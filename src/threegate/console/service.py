"""The console as a service: a unit for systemd, and new login links without a restart.

A link is requested on a socket that only the operator can open.

SECURITY
    A link logs one browser in.  The socket is in a directory of the operator's, or beside the
    console's own, with mode 0600; both ends ask the kernel who owns the other one.  Nothing is
    read from the client.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, UsageError
from threegate.base.text import visible
from threegate.console.server import is_ours
from threegate.handoff.disk import storage_errors
from threegate.host.proxy.supervisor import PRIVATE, listening_at

SECONDS: Final = 10.0
MAX_BYTES: Final = 512
NOT_SERVING: Final = "TG-CON-013"


def place_of(state_home: Path, port: int, served: Path | None) -> Path:
    """Return where the console of a port, or of a socket, gives links."""
    if served is not None:
        return served.with_name(f"{served.name}.link")
    return state_home / "console" / f"{port}.sock"


@asynccontextmanager
async def giving_links(path: Path, make: Callable[[], str]) -> AsyncIterator[None]:
    """Give a new link to every process of the operator that connects."""

    async def give(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, TimeoutError):
            if is_ours(writer.get_extra_info("socket")):
                writer.write(make().encode("ascii"))
                async with asyncio.timeout(SECONDS):
                    await writer.drain()
        writer.close()

    with storage_errors("make a directory for a socket"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with listening_at(path, who="console", mode=PRIVATE) as found:
        server = await asyncio.start_unix_server(give, sock=socket.socket(fileno=os.dup(found.fd)))
        async with server:
            yield


def new_link(path: Path) -> str:
    """Return a link of the console that runs; raise `GateUnavailable` if none does."""
    try:
        place = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _asked(f"/proc/self/fd/{place}/{path.name}")
        finally:
            os.close(place)
    except OSError as exc:
        hint = "`threegate serve` starts one; --port or --socket as it was given then"
        raise GateUnavailable(
            "no console of yours serves there", code=NOT_SERVING, hint=hint
        ) from exc


def _asked(name: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS)
        connection.connect(name)
        if not is_ours(connection):  # in a place that others can write to
            raise ConnectionRefusedError("somebody else's")
        data = b""
        while len(data) < MAX_BYTES and (piece := connection.recv(MAX_BYTES)):
            data += piece
    if not data.startswith(b"http://127.0.0.1:") or not data.isascii():
        raise ConnectionRefusedError("no link")
    return data.decode("ascii")


# -- systemd -----------------------------------------------------------------------------


_UNIT = """\
# Made by `threegate serve --print-unit`. To use it:
#   threegate serve --print-unit > ~/.config/systemd/user/threegate-console.service
#   systemctl --user enable --now threegate-console
#   threegate serve --link
# A service has no terminal: a key with a passphrase needs your agent (`--key agent`).
[Unit]
Description=ThreeGate: the console

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=5
# What is claimed comes to its end; what is killed then is found by the next start.
KillMode=mixed
TimeoutStopSec=15min
UMask=0077

[Install]
WantedBy=default.target
"""


def unit(command: Sequence[str]) -> str:
    """Return the unit that runs a command; raise `UsageError` for words no unit can hold."""
    return _UNIT.format(command=" ".join(map(_word, command)))


def _word(text: str) -> str:
    if visible(text) != text:
        raise UsageError(
            "a unit cannot name that place", hint=f"{visible(text)} has odd characters"
        )
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(old, new)
    return f'"{text}"'
