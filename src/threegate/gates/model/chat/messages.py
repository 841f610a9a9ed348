"""The one thing CORE says to a model server, and what it hears: a chat completion.

| message | sent by | answered by |
|---|---|---|
| `ChatRequest`, POST /v1/chat/completions | CORE | `ChatReply`, or `ChatRefused` |
| GET /v1/models | whoever looks | `Served` |

The bodies are the OpenAI shape in canonical JSON, and a subset of it: no tools, no streaming,
no sampling (temperature is 0).  `grammar` is GBNF and holds in the embedded server; `schema`
is a JSON schema for servers of somebody else, who may or may not keep to it.

SECURITY
    Either side may be owned: CORE reads what strangers wrote, a model server reads it too.
    Every field is bounded and checked when a message is built, by whoever builds it.  The
    content of a reply is text of nobody: it stays `Untrusted`.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.limits import KIB, MAX_LINE_CHARS, MIB
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need, need_number, need_sentence, need_word

COMPLETIONS: Final = "/v1/chat/completions"
MODELS: Final = "/v1/models"

ROLES: Final = ("system", "user", "assistant")
FINISHED: Final = ("stop", "length")  # `length`: cut off, whatever it looks like

MAX_MESSAGES: Final = 64
MAX_CHAT_BYTES: Final = 8 * MIB  # a request: about what a million tokens need
MAX_REPLY_BYTES: Final = 2 * MIB
MAX_CONTENT_CHARS: Final = 1 * MIB  # of a reply
MAX_FORM_BYTES: Final = 64 * KIB  # a grammar, or a schema
MAX_TOKENS: Final = 65_536  # that a reply may have, as in the policy
MAX_CONTEXT_TOKENS: Final = 2**24
MAX_SEED: Final = 2**31 - 1

MODEL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_CODE: Final = re.compile(r"TG-MDL-[0-9]{3}")
_SCHEMA_NAME: Final = "answer"

Message = tuple[str, str]  # role, content


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a model, and the form its answer must have."""

    messages: tuple[Message, ...]
    max_tokens: int
    seed: int = 0
    grammar: str | None = None  # GBNF
    schema: str | None = None  # canonical JSON

    def __post_init__(self) -> None:
        need(1 <= len(self.messages) <= MAX_MESSAGES, "no messages, or too many")
        for role, content in self.messages:
            need(role in ROLES, "a message of nobody")
            _need_text(content, MAX_CHAT_BYTES, "a message")
        need_number(self.max_tokens, MAX_TOKENS, "max_tokens", least=1)
        need_number(self.seed, MAX_SEED, "seed")
        if self.grammar is not None:
            _need_text(self.grammar, MAX_FORM_BYTES, "grammar")
            need(self.grammar != "", "an empty grammar")
        if self.schema is not None:
            _need_text(self.schema, MAX_FORM_BYTES, "schema")
            need(type(_decoded(self.schema.encode("utf-8"))) is dict, "schema is not an object")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this request."""
        body: dict[str, Any] = {
            "max_tokens": self.max_tokens,
            "messages": [{"content": text, "role": role} for role, text in self.messages],
            "seed": self.seed,
            "temperature": 0,
        }
        if self.grammar is not None:
            body["grammar"] = self.grammar
        if self.schema is not None:
            body["response_format"] = response_format(canonical.decode(self.schema.encode("utf-8")))
        data = canonical.encode(body)
        need(len(data) <= MAX_CHAT_BYTES, "the request is too long")
        return data


def response_format(schema: Any) -> dict[str, Any]:
    """Return how an OpenAI-compatible server is told the schema of its answer."""
    named = {"name": _SCHEMA_NAME, "schema": schema, "strict": True}
    return {"json_schema": named, "type": "json_schema"}


def parse_request(data: Untrusted[bytes]) -> ChatRequest:
    """Return the request in `data`, or raise `ProtocolBroken`."""
    untrusted = data.open_for_validation()
    need(len(untrusted) <= MAX_CHAT_BYTES, "the request is too long")
    body = _object(untrusted)
    grammar, form = body.pop("grammar", None), body.pop("response_format", None)
    need(tuple(body) == ("max_tokens", "messages", "seed", "temperature"), "unexpected keys")
    need(type(body["temperature"]) is int and body["temperature"] == 0, "only temperature 0")
    need(type(body["messages"]) is list, "no messages")
    messages = tuple(_message(message) for message in body["messages"])
    request = ChatRequest(messages, body["max_tokens"], body["seed"], grammar, _schema(form))
    # A null where a key may be left out would be a second spelling.
    need(request.to_bytes() == untrusted, "not the spelling of a request")
    return request


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the model wrote, whether it came to an end, and what it cost."""

    content: Untrusted[str]
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    model: str

    def __post_init__(self) -> None:
        _need_text(self.content.open_for_validation(), MAX_REPLY_BYTES, "content")
        need(len(self.content.open_for_validation()) <= MAX_CONTENT_CHARS, "content is too long")
        need(self.finish_reason in FINISHED, "finish_reason is not one of ours")
        need_number(self.prompt_tokens, MAX_CONTEXT_TOKENS, "prompt_tokens")
        need_number(self.completion_tokens, MAX_CONTEXT_TOKENS, "completion_tokens")
        need_word(self.model, MODEL_NAME, "model")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this reply."""
        message = {"content": self.content.open_for_validation(), "role": "assistant"}
        usage = {
            "completion_tokens": self.completion_tokens,
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.completion_tokens + self.prompt_tokens,
        }
        choice = {"finish_reason": self.finish_reason, "index": 0, "message": message}
        data = canonical.encode({"choices": [choice], "model": self.model, "usage": usage})
        need(len(data) <= MAX_REPLY_BYTES, "the reply is too long")
        return data


def parse_reply(data: Untrusted[bytes]) -> ChatReply:
    """Return the reply in `data`, or raise `ProtocolBroken`."""
    untrusted = data.open_for_validation()
    need(len(untrusted) <= MAX_REPLY_BYTES, "the reply is too long")
    body = _object(untrusted)
    try:
        choice, usage = body["choices"][0], body["usage"]
        reply = ChatReply(
            Untrusted(choice["message"]["content"]),
            choice["finish_reason"],
            usage["prompt_tokens"],
            usage["completion_tokens"],
            body["model"],
        )
    except (LookupError, TypeError) as exc:
        raise ProtocolBroken("not a reply") from exc
    need(reply.to_bytes() == untrusted, "not the spelling of a reply")
    return reply


@dataclass(frozen=True, slots=True)
class ChatRefused:
    """Why there is no reply; the words are the server's own, never a model's."""

    code: str
    message: str

    def __post_init__(self) -> None:
        need_word(self.code, _CODE, "code")
        need_sentence(self.message, MAX_LINE_CHARS, "message")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this refusal."""
        return canonical.encode({"error": {"code": self.code, "message": self.message}})


def parse_refused(data: Untrusted[bytes]) -> ChatRefused:
    """Return the refusal in `data`, or raise `ProtocolBroken`."""
    untrusted = data.open_for_validation()
    need(len(untrusted) <= 64 * KIB, "the refusal is too long")
    error = _only(_object(untrusted), "error")
    need(type(error) is dict and tuple(error) == ("code", "message"), "not a refusal")
    return ChatRefused(error["code"], error["message"])


@dataclass(frozen=True, slots=True)
class Served:
    """Which model answers here.  Without a digest it is what its server calls it."""

    name: str
    sha256: str | None
    context_tokens: int

    def __post_init__(self) -> None:
        need_word(self.name, MODEL_NAME, "name")
        if self.sha256 is not None:
            need_word(self.sha256, DIGEST, "sha256")
        need_number(self.context_tokens, MAX_CONTEXT_TOKENS, "context_tokens", least=1)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this list of one."""
        model = {"context_tokens": self.context_tokens, "id": self.name, "sha256": self.sha256}
        return canonical.encode({"data": [model], "object": "list"})


def _message(untrusted: Any) -> Message:
    need(type(untrusted) is dict and tuple(untrusted) == ("content", "role"), "not a message")
    return untrusted["role"], untrusted["content"]


def _schema(untrusted: Any) -> str | None:
    if untrusted is None:
        return None
    need(type(untrusted) is dict, "not a response_format")
    named = untrusted.get("json_schema")
    schema = named.get("schema") if type(named) is dict else None
    need(untrusted == response_format(schema), "not a response_format of ours")
    return canonical.encode(schema).decode("utf-8")


def _only(body: dict[str, Any], key: str) -> Any:
    need(tuple(body) == (key,), "unexpected keys")
    return body[key]


def _object(untrusted: bytes) -> dict[str, Any]:
    value = _decoded(untrusted)
    if type(value) is not dict:
        raise ProtocolBroken("not an object")
    return value


def _decoded(untrusted: bytes) -> Any:
    try:
        return canonical.decode(untrusted)
    except ValueError as exc:
        raise ProtocolBroken("not canonical JSON") from exc


def _need_text(value: object, most: int, what: str) -> None:
    need(type(value) is str, f"{what} is not text")
    assert isinstance(value, str)
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as exc:  # half a surrogate pair
        raise ProtocolBroken(f"{what} is not text") from exc
    need(size <= most, f"{what} is too long")
