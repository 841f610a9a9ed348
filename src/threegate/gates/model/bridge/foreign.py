"""What a foreign server is asked, and what of its answer is read.

SECURITY
    Reads JSON of a server that nobody here wrote, and passes on text, an end and three
    numbers.  It is asked with keys of our own choosing only: no tools, no streams, no paths.
"""

from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import ChatReply, ChatRequest, Served, response_format
from threegate.gates.model.front.controls import broken_up, pattern_of
from threegate.gates.model.front.refused import NoCompletion, Unanswered

MAX_OFFERED: Final = 10_000
_CONTROLS: Final = pattern_of(())  # its vocabulary is not at hand


def question(request: ChatRequest, served: Served) -> bytes:
    """Return the body of a request to a foreign server."""
    body: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "messages": broken_up(request, _CONTROLS),
        "model": served.name,
        "seed": request.seed,
        "stream": False,
        "temperature": 0,
    }
    if request.schema is not None:
        body["response_format"] = response_format(canonical.decode(request.schema.encode("utf-8")))
    return canonical.encode(body)


def reply(untrusted: Any, served: Served) -> ChatReply:
    """Return the reply in a foreign answer; raise `Refused`."""
    try:
        choice = untrusted["choices"][0]
        content, finished = choice["message"]["content"], choice["finish_reason"]
        name = untrusted["model"]
    except (LookupError, TypeError) as exc:
        raise NoCompletion(Unanswered.FOREIGN) from exc
    if name != served.name:
        raise NoCompletion(Unanswered.OTHER_MODEL)
    usage = untrusted.get("usage")
    counted = usage if type(usage) is dict else {}
    try:
        return ChatReply(
            Untrusted(content),
            finished,
            counted.get("prompt_tokens", 0),
            counted.get("completion_tokens", 0),
            served.name,
        )
    except ProtocolBroken as exc:
        raise NoCompletion(Unanswered.FOREIGN, exc.message) from exc


def refuse_missing(untrusted: Any, served: Served) -> None:
    """Raise `Refused` unless the model is among those a foreign server offers."""
    try:
        offered = untrusted["data"][:MAX_OFFERED]
        names = {item["id"] for item in offered}
    except (LookupError, TypeError) as exc:
        raise NoCompletion(Unanswered.FOREIGN, "its list of models") from exc
    if served.name not in names:
        raise NoCompletion(Unanswered.OTHER_MODEL, "the server does not offer it")
