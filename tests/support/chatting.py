"""A model server of a test: speaks the real protocol on a Unix socket, says what it is told to."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import (
    MAX_CHAT_BYTES,
    ChatRefused,
    ChatReply,
    ChatRequest,
    parse_request,
)
from threegate.sandbox.channel import MessageReader, frames

# What a script gives back: words of the model, a refusal, or bytes to send as they are.
Reply = str | ChatReply | ChatRefused | bytes
Script = Callable[[ChatRequest], Reply]


def reply(content: str, finish_reason: str = "stop") -> ChatReply:
    return ChatReply(Untrusted(content), finish_reason, 100, 10, "scripted")


def _some(client: socket.socket) -> bytes:
    piece = client.recv(65536)
    if not piece:
        raise ConnectionResetError
    return piece


class Scripted:
    """Serves one request after the other; keeps what was asked."""

    def __init__(self, directory: Path, script: Script) -> None:
        self.path = directory / "model.sock"
        self.asked: list[ChatRequest] = []
        self._script = script
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(self.path))
        self.path.chmod(0o666)  # a gate has a uid of its own
        self._listening.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._over = False

    def _serve(self) -> None:
        while True:
            client, _ = self._listening.accept()
            with client:
                if self._over:
                    return
                client.settimeout(30)
                self._one(client)

    def _one(self, client: socket.socket) -> None:
        try:
            messages = MessageReader(MAX_CHAT_BYTES)
            while not (found := messages.feed(_some(client))):
                pass
            request = parse_request(Untrusted(found[0]))
            self.asked.append(request)
            client.sendall(self._said(self._script(request)))
        except OSError:
            pass  # the client has gone

    def _said(self, said: Reply) -> bytes:
        if isinstance(said, bytes):
            return said
        return frames((reply(said) if isinstance(said, str) else said).to_bytes())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(str(self.path))
        self._thread.join(30)
        self._listening.close()
