"""The one thing CORE says to a model server, and what it hears: a chat completion.

The bodies are the OpenAI shape in canonical JSON, and a subset of it: no tools, no streaming,
no sampling (temperature is 0).  `grammar` is GBNF and holds in the embedded server; `schema`
is a JSON schema for servers of somebody else, which may or may not keep to it.

SECURITY
    Either side may be compromised: CORE reads what strangers wrote, a model server reads it too.
    The content of a reply is text of nobody: it stays `Untrusted`.  A body is taken apart and
    spelled again; any other spelling of it is refused.
"""

from typing import Any, Final, TypeVar

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.forms import DIGEST
from threegate.base.limits import KIB, MIB
from threegate.base.message_shapes import RowShape, TextLine, Utf8Text
from threegate.base.messages import CheckedRecord, FlatMessage, flat_message, head, record
from threegate.base.schema import Choice, Integer, ListOf, Nullable, Pattern, Text
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need

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

MODEL_NAME: Final = Pattern(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}", "the name of a model")
_CODE: Final = Pattern(r"TG-MDL-[0-9]{3}", "a code of a model server")
_SCHEMA_NAME: Final = "answer"

S = TypeVar("S", bound=FlatMessage)
ChatTurn = tuple[str, str]  # role, content


@flat_message(
    "chat",
    "request",
    sender="CORE",
    answer="`ChatReply` or `ChatRefused`",
    most_bytes=MAX_CHAT_BYTES,
)
class ChatRequest(FlatMessage):
    """One question to a model, and the form its answer must have."""

    messages: tuple[ChatTurn, ...] = head(
        ListOf(RowShape(Choice(*ROLES), Utf8Text(MAX_CHAT_BYTES)), MAX_MESSAGES, least=1),
        "objects of `content` and `role`",
    )
    max_tokens: int = head(Integer(1, MAX_TOKENS), "that the reply may have")
    seed: int = head(Integer(0, MAX_SEED), "of the sampler", default=0)
    grammar: str | None = head(
        Nullable(Utf8Text(MAX_FORM_BYTES, least=1)), "GBNF; the key is left out", default=None
    )
    schema: str | None = head(
        Nullable(Utf8Text(MAX_FORM_BYTES)), "canonical JSON; in `response_format`", default=None
    )

    def check(self) -> None:
        if self.schema is not None:
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
    body = _object(data, MAX_CHAT_BYTES)
    try:
        turns = tuple((turn["role"], turn["content"]) for turn in body["messages"])
        form = body.get("response_format")
        schema = None if form is None else form["json_schema"]["schema"]
        request = ChatRequest(
            turns,
            body["max_tokens"],
            body["seed"],
            body.get("grammar"),
            None if schema is None else canonical.encode(schema).decode("utf-8"),
        )
    except (LookupError, TypeError) as exc:
        raise ProtocolBroken("not a request") from exc
    # A null where a key may be left out would be a second spelling.
    return _spelled_so(request, data)


@flat_message("chat", "reply", sender="model server", most_bytes=MAX_REPLY_BYTES)
class ChatReply(FlatMessage):
    """What the model wrote, whether it came to an end, and what it cost."""

    content: Untrusted[str] = head(Text(MAX_CONTENT_CHARS, least=0), "what the model wrote")
    finish_reason: str = head(Choice(*FINISHED), "why it ended; `length`: cut off")
    prompt_tokens: int = head(Integer(0, MAX_CONTEXT_TOKENS), "tokens of the question")
    completion_tokens: int = head(Integer(0, MAX_CONTEXT_TOKENS), "tokens of the reply")
    model: str = head(MODEL_NAME, "the model that wrote it")

    def check(self) -> None:
        try:
            self.content.open_for_validation().encode("utf-8")
        except UnicodeEncodeError as exc:  # half a surrogate pair
            raise ProtocolBroken("content is not text") from exc

    def to_bytes(self) -> bytes:
        """Return the one spelling of this reply."""
        turn = {"content": self.content.open_for_validation(), "role": "assistant"}
        usage = {
            "completion_tokens": self.completion_tokens,
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.completion_tokens + self.prompt_tokens,
        }
        choice = {"finish_reason": self.finish_reason, "index": 0, "message": turn}
        data = canonical.encode({"choices": [choice], "model": self.model, "usage": usage})
        need(len(data) <= MAX_REPLY_BYTES, "the reply is too long")
        return data


def parse_reply(data: Untrusted[bytes]) -> ChatReply:
    """Return the reply in `data`, or raise `ProtocolBroken`."""
    body = _object(data, MAX_REPLY_BYTES)
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
    return _spelled_so(reply, data)


@flat_message("chat", "refused", sender="model server")
class ChatRefused(FlatMessage):
    """Why there is no reply; the words are the server's own, never a model's."""

    code: str = head(_CODE, "which rule refuses")
    message: str = head(TextLine(), "why, in our own words")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this refusal."""
        return canonical.encode({"error": {"code": self.code, "message": self.message}})


def parse_refused(data: Untrusted[bytes]) -> ChatRefused:
    """Return the refusal in `data`, or raise `ProtocolBroken`."""
    try:
        error = _object(data, ChatRefused.form.most_bytes)["error"]
        refused = ChatRefused(error["code"], error["message"])
    except (LookupError, TypeError) as exc:
        raise ProtocolBroken("not a refusal") from exc
    return _spelled_so(refused, data)


@record
class Served(CheckedRecord):
    """Which model answers here.  Without a digest it is what its server calls it."""

    name: str = head(MODEL_NAME, "its name")
    sha256: str | None = head(Nullable(DIGEST), "digest of its file")
    context_tokens: int = head(Integer(1, MAX_CONTEXT_TOKENS), "size of the context window")


def _spelled_so(found: S, data: Untrusted[bytes]) -> S:
    need(found.to_bytes() == data.open_for_validation(), "not the spelling of this message")
    return found


def _object(data: Untrusted[bytes], most_bytes: int) -> dict[str, Any]:
    untrusted = data.open_for_validation()
    need(len(untrusted) <= most_bytes, "the body is too long")
    value = _decoded(untrusted)
    need(type(value) is dict, "not an object")
    return value  # type: ignore[no-any-return]


def _decoded(untrusted: bytes) -> Any:
    try:
        return canonical.decode(untrusted)
    except ValueError as exc:
        raise ProtocolBroken("not canonical JSON") from exc
