"""A remote machine with a chat API: each model it offers behaves in its own way.

Which one a test meets is decided by the name its policy has for the model.
"""

import base64
import json
import ssl
import time
from collections.abc import Callable
from typing import Any

from tests.support.origin import OTHER, Request, Response, Site, Sites

WORLD = "tests.support.origins.remote:world"
HOST = "llm.remote-models.org"
PACKETS = "api.crossref.org"
PUBLISHER = "huggingface.co"
ELSEWHERE = "elsewhere.org"
GOOD = "good-model"
CLAIM = {"claims": [{"text": "Sea ice broke at 1.2 MPa.", "from": [1]}]}
NOTHING = {"compute": "", "fetch": []}
SECONDS = 60.0


def wanted(body: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of the form that is asked for."""
    form = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return CLAIM if "claims" in form.get("properties", {}) else NOTHING


def completion(content: str, model: str) -> bytes:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    value = {"id": "chatcmpl-1", "model": model, "choices": [choice], "usage": usage}
    return json.dumps(value).encode()


def key_of(request: Request) -> str:
    return (request.header("authorization") or "").removeprefix("Bearer ")


def good(request: Request, _: ssl.SSLSocket) -> Response:
    body = json.loads(request.body)
    return Response(completion(json.dumps(wanted(body)), body["model"]))


def says_key(request: Request, _: ssl.SSLSocket) -> Response:
    return Response(completion(f"Your key is {key_of(request)}.", "says-key"))


def spells_key(request: Request, _: ssl.SSLSocket) -> Response:
    """Repeat the key with every character written as an escape."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in key_of(request))
    return Response(completion("KEY", "spells-key").replace(b"KEY", escaped.encode()))


def refuses(request: Request, _: ssl.SSLSocket) -> Response:
    said = f'{{"error":"no such key: {key_of(request)}"}}'
    return Response(said.encode(), status=401)


def renames(request: Request, _: ssl.SSLSocket) -> Response:
    return Response(completion(json.dumps(wanted(json.loads(request.body))), "another-model"))


def redirects(request: Request, _: ssl.SSLSocket) -> Response:
    where = f"https://{ELSEWHERE}{request.target}"
    return Response(b"", status=307, headers=(("Location", where),))


def endless(_: Request, tls: ssl.SSLSocket) -> None:
    tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        tls.sendall(b" " * 65536)


def lies(_: Request, tls: ssl.SSLSocket) -> None:
    tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{}")


def compressed(_: Request, __: ssl.SSLSocket) -> Response:
    packed = base64.b64decode("H4sIAAAAAAAAA6uuBQBDv6ajAgAAAA==")
    return Response(packed, headers=(("Content-Encoding", "gzip"),))


def silent(_: Request, tls: ssl.SSLSocket) -> None:
    tls.settimeout(SECONDS)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and tls.recv(1):
        pass


MODELS: dict[str, Callable[[Request, ssl.SSLSocket], Response | None]] = {
    GOOD: good,
    "says-key": says_key,
    "spells-key": spells_key,
    "refuses": refuses,
    "renames": renames,
    "redirects": redirects,
    "endless": endless,
    "lies": lies,
    "compressed": compressed,
    "silent": silent,
}


def api(request: Request, tls: ssl.SSLSocket) -> Response | None:
    if request.target == "/v1/models":
        offered = [{"id": name, "object": "model"} for name in MODELS]
        return Response(json.dumps({"object": "list", "data": offered}).encode())
    if request.target != "/v1/chat/completions" or request.method != "POST":
        return Response(b"not here", "text/plain", 404)
    return MODELS[json.loads(request.body)["model"]](request, tls)


def record(_: Request, __: ssl.SSLSocket) -> Response:
    return Response(b"{}")


def world() -> Sites:
    elsewhere = ((OTHER,),)
    return {
        HOST: Site(api),
        "bad." + HOST: Site(api, certificate="other-ca"),
        PACKETS: Site(record, turns=elsewhere),
        PUBLISHER: Site(record, turns=elsewhere),
        ELSEWHERE: Site(record, turns=elsewhere),
    }
