"""llama.cpp in this process: loads one file, writes one reply at a time.

The library is imported before the lock, because no native code can be loaded afterwards; the
model file is loaded after it.  The library does not work without a listening socket: it gets
one with an abstract name, in a network namespace that contains nothing else.

SECURITY
    A large native library that reads a model file, a grammar and the text of strangers.
    Assume that it can be owned: the sandbox is the boundary, not this module.
"""

import os
from pathlib import Path
from threading import Event
from typing import Any, Final

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import ChatReply, ChatRequest, Served
from threegate.gates.model.front.controls import broken_up, pattern_of
from threegate.gates.model.front.server import NoCompletion, Tell, Unanswered
from threegate.gates.model.messages import ModelProgress
from threegate.gates.model.server.vocabulary import control_tokens

# Threads that spin while they wait make generation twenty times slower as soon as anything
# else runs on the machine.  The OpenMP library reads this when it is loaded.
os.environ["OMP_WAIT_POLICY"] = "passive"

import xllamacpp

del os.environ["OMP_WAIT_POLICY"]  # nothing else reads it

PLACE: Final = "\0model.sock"  # abstract: no file, and no other process in this namespace
BATCH_TOKENS: Final = 256  # of a prompt that are read before the work can be stopped
TOLD_EVERY: Final = 16  # tokens of a reply per note
VERSION: Final = str(xllamacpp.__version__)


class Llama:
    """A loaded model."""

    def __init__(self, path: Path, served: Served, *, threads: int) -> None:
        self.served = served
        self._controls = pattern_of(control_tokens(path))
        try:
            self._server = xllamacpp.Server(_parameters(path, served, threads))
        except RuntimeError as exc:
            raise NoCompletion(Unanswered.NOT_LOADED) from exc

    def complete(self, request: ChatRequest, stop: Event, tell: Tell) -> ChatReply:
        """Return the reply to `request`; raise `NoCompletion`."""
        writing = _Writing(request, stop, tell)
        messages = broken_up(request, self._controls)
        self._server.handle_chat_completions(_body(request, messages), writing.take)
        return writing.reply(self.served)


def _parameters(path: Path, served: Served, threads: int) -> Any:
    found = xllamacpp.CommonParams()
    found.model.path = str(path)
    found.model_alias = {served.name}
    found.n_ctx = served.context_tokens
    found.n_batch = found.n_ubatch = BATCH_TOKENS
    found.n_parallel = 1
    found.n_gpu_layers = 0
    found.cpuparams.n_threads = found.cpuparams_batch.n_threads = threads
    found.hostnames = [PLACE]
    found.n_threads_http = 1
    found.offline = True
    found.ui = False
    found.fit_params = False  # the context is the policy's, or loading fails
    found.warmup = False
    found.cache_ram_mib = 0  # the prefix of the last request is kept, others are not
    found.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    found.force_pure_content_parser = True  # a reply is text, whatever it looks like
    found.endpoint_slots = False
    found.verbosity = -1
    return found


def _body(request: ChatRequest, messages: list[dict[str, str]]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "cache_prompt": True,
        "max_tokens": request.max_tokens,
        "messages": messages,
        "return_progress": True,
        "seed": request.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }
    if request.grammar is not None:
        body["grammar"] = request.grammar
    elif request.schema is not None:
        body["grammar"] = _grammar(request.schema)
    return body


def _grammar(schema: str) -> str:
    try:
        return str(xllamacpp.json_schema_to_grammar(schema))
    except (RuntimeError, TypeError, ValueError) as exc:
        raise NoCompletion(Unanswered.NO_GRAMMAR, "no grammar can be made of the schema") from exc


class _Writing:
    """A reply that is being written, piece by piece."""

    def __init__(self, request: ChatRequest, stop: Event, tell: Tell) -> None:
        self._request, self._stop, self._tell = request, stop, tell
        self._pieces: list[str] = []
        self._finished: str | None = None
        self._usage: dict[str, Any] = {}
        self._error: dict[str, Any] | None = None

    def take(self, piece: dict[str, Any]) -> bool:
        """Keep a piece; return True to stop.  The library calls it for each piece."""
        if "error" in piece:
            self._error = piece["error"]
            return True
        self._usage = piece.get("usage") or self._usage
        progress = piece.get("prompt_progress")
        if progress is not None:
            self._tell(ModelProgress("prompt", progress["processed"], progress["total"]))
        for choice in piece.get("choices", ()):
            self._finished = choice.get("finish_reason") or self._finished
            text = choice.get("delta", {}).get("content")
            if text:
                self._take_text(text)
        return self._stop.is_set()

    def _take_text(self, text: str) -> None:
        self._pieces.append(text)
        if len(self._pieces) % TOLD_EVERY == 0:
            self._tell(ModelProgress("reply", len(self._pieces), self._request.max_tokens))

    def reply(self, served: Served) -> ChatReply:
        """Return the reply; raise `NoCompletion`."""
        if self._error is not None:
            raise _refused(self._error)
        try:
            return ChatReply(
                Untrusted("".join(self._pieces)),
                str(self._finished),
                self._usage["prompt_tokens"],
                self._usage["completion_tokens"],
                served.name,
            )
        except (KeyError, ProtocolBroken) as exc:
            raise NoCompletion(Unanswered.FAILED, "its reply is malformed") from exc


def _refused(error: dict[str, Any]) -> NoCompletion:
    """Return our own text for an error of the library, whose text may contain foreign text."""
    tokens, most = error.get("n_prompt_tokens"), error.get("n_ctx")
    if type(tokens) is int and type(most) is int:
        return NoCompletion(Unanswered.TOO_LONG, f"{tokens} tokens, limit {most}")
    if error.get("type") == "invalid_request_error":
        return NoCompletion(Unanswered.NO_GRAMMAR)
    return NoCompletion(Unanswered.FAILED)
