"""An operator's own model server on loopback, which does whatever a test wants it to."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

NAME = "own-model"
Act = Callable[[socket.socket, "OwnServer"], None]


def http(status: str, body: bytes, *headers: str) -> bytes:
    """Return a whole response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("ascii") + body


def models(*names: str) -> bytes:
    offered = [{"id": name, "object": "model", "owned_by": "me"} for name in names]
    return http("200 OK", json.dumps({"object": "list", "data": offered}).encode())


def completion(content: Any = "Paris", finished: Any = "stop", model: Any = NAME) -> bytes:
    """Return a reply as other servers make it: with more in it than anybody asked for."""
    message = {"role": "assistant", "content": content, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": finished, "logprobs": None}
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    body = {"id": "chatcmpl-1", "created": 1.5, "model": model, "choices": [choice]}
    return http("200 OK", json.dumps({**body, "usage": usage}).encode())


def says(answer: bytes) -> Act:
    """Return a server that says this and hangs up."""
    return lambda sock, _: sock.sendall(answer)


def endless(piece: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Act:
    """Return a server that never stops."""

    def act(sock: socket.socket, server: "OwnServer") -> None:
        sock.sendall(head)
        while not server.over.is_set():
            sock.sendall(piece)

    return act


def drips(piece: bytes, seconds: float) -> Act:
    """Return a server that says little, again and again."""

    def act(sock: socket.socket, server: "OwnServer") -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not server.over.wait(seconds):
            sock.sendall(piece)

    return act


def silent(_sock: socket.socket, server: "OwnServer") -> None:
    """Take the request and say nothing."""
    server.over.wait()


@dataclass
class OwnServer:
    """A server that is running: where, what it was asked, what it does about it."""

    port: int
    complete: Act = field(default_factory=lambda: says(completion()))
    offer: Act = field(default_factory=lambda: says(models("other", NAME)))
    asked: list[bytes] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    def serve(self, sock: socket.socket) -> None:
        """See one client to its end."""
        with sock:
            try:
                sock.settimeout(30)
                request = _request(sock)
                self.asked.append(request)
                (self.offer if request.startswith(b"GET ") else self.complete)(sock, self)
            except OSError:  # the client has had enough
                return

    def bodies(self) -> list[dict[str, Any]]:
        """Return what it was asked to complete."""
        posts = [request for request in self.asked if request.startswith(b"POST ")]
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in posts]


def _request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    wanted = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < wanted:
        body += _some(sock)
    return head + b"\r\n\r\n" + body


def _some(sock: socket.socket) -> bytes:
    piece = sock.recv(65536)
    if not piece:
        raise ConnectionResetError
    return piece


@contextmanager
def own_server(path: Path | None = None) -> Iterator[OwnServer]:
    """Serve on a port of loopback, or on a Unix socket, until the test is over."""
    family = socket.AF_INET if path is None else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0) if path is None else str(path))
        if path is not None:
            path.chmod(0o666)  # boxes may have uids of their own
        listening.listen()
        server = OwnServer(listening.getsockname()[1] if path is None else 0)

        def accept() -> None:
            while not server.over.is_set():
                try:
                    sock, _ = listening.accept()
                except OSError:
                    return
                Thread(target=server.serve, args=(sock,), daemon=True).start()

        thread = Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
