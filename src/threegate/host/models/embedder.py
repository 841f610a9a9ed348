"""Vectors of texts, computed in a sandbox by the embedding model that the policy names.

    with Embedder.start(bundle, machine, cache) as embedder:
        rows = embedder.vectors(texts)  # bytes, one for each text

A sandbox starts with the first text, and is replaced after a number of batches.

SECURITY
    Takes numbers from a process that reads texts of strangers.  A reply that is not a list of
    vectors is refused, and its sandbox is not asked again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from threegate.base.errors import GateUnavailable
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.gates.model.embedder.messages import (
    GREETING,
    MAX_TEXT_BYTES,
    MAX_TEXTS,
    Embed,
    EmbedderOpening,
    TextVectors,
    parse_vectors,
)
from threegate.host.models.catalogue import MINILM, MINILM_VOCABULARY
from threegate.host.models.choice import NO_FILE, Noted, no_op_of
from threegate.host.models.store import Cache
from threegate.host.open_box import ended, open_session
from threegate.policy.bundle import Bundle
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import EMBEDDER
from threegate.sandbox.session import Session

LOAD_SECONDS: Final = 120.0
BATCH_SECONDS: Final = 300.0
MAX_BATCHES: Final = 256
OTHER_KIND: Final = "TG-EMB-020"

Progress = Callable[[int], None]  # called with the texts done since the last call


class Embedder:
    """The embedding model of a policy; used by the thread that started it."""

    def __init__(
        self,
        bundle: Bundle,
        machine: Machine,
        given: dict[str, str],
        noted: Noted = lambda _: None,
    ) -> None:
        self.sha256 = MINILM.sha256  # identifies the model wherever its vectors are stored
        self._bundle, self._machine, self._given, self._noted = bundle, machine, given, noted
        self._session: Session | None = None
        self._batches = 0

    @classmethod
    @contextmanager
    def start(
        cls, bundle: Bundle, machine: Machine, cache: Path, *, noted: Noted = lambda _: None
    ) -> Iterator[Self]:
        """Yield the model the policy names, and no other; raise `GateUnavailable`.

        `noted` gets the proofs of each sandbox that it runs no code.
        """
        given = _files(bundle, Cache(cache))
        embedder = cls(bundle, machine, given, noted)
        try:
            yield embedder
        finally:
            embedder.close()

    @property
    def evidence(self) -> Evidence:
        """The evidence of its confinement."""
        return self._opened().evidence

    def vectors(
        self, texts: Sequence[Untrusted[str]], progress: Progress = lambda _: None
    ) -> list[bytes]:
        """Return one vector per text, in order: float32, little endian, of length 1.

        Raises `GateUnavailable` if the sandbox fails.
        """
        found: list[bytes] = []
        for at in range(0, len(texts), MAX_TEXTS):
            batch = tuple(map(_cut, texts[at : at + MAX_TEXTS]))
            found += self._ask(Embed(batch)).rows
            progress(len(batch))
        return found

    def close(self) -> None:
        """End the sandbox, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _ask(self, batch: Embed) -> TextVectors:
        session = self._opened()
        self._batches += 1
        try:
            reply = session.ask(batch.to_bytes(), deadline_seconds=BATCH_SECONDS)
            if reply.why != "done":
                raise ended(EMBEDDER, reply.why)
            return parse_vectors(Untrusted(reply.message), len(batch.texts))
        except BaseException:
            self.close()  # a sandbox that broke the protocol is not asked again
            raise

    def _opened(self) -> Session:
        if self._batches >= MAX_BATCHES:
            self.close()
        if self._session is None:
            opening = EmbedderOpening(MINILM.sha256, MINILM_VOCABULARY.sha256)
            self._session, _ = open_session(
                self._machine,
                self._bundle,
                EMBEDDER,
                self._given,
                opening=opening.to_bytes(),
                parse=GREETING.parse,
                seconds=LOAD_SECONDS,
                proved=lambda evidence: self._noted(no_op_of(evidence)),
            )
            self._batches = 0
        return self._session


def _files(bundle: Bundle, cache: Cache) -> dict[str, str]:
    """Return the model's files by their slots, if the policy names this model."""
    name, sha256 = (bundle.text("core", "embedder", key) for key in ("name", "sha256"))
    if sha256 != MINILM.sha256:
        detail = f"{bundle.ref('core', 'embedder', 'sha256')} names an embedding model"
        hint = f"this version computes vectors with {MINILM.name} ({MINILM.sha256})"
        raise GateUnavailable(f"{detail} that is not known", code=OTHER_KIND, hint=hint)
    if not cache.has(MINILM):
        detail = f"the model {visible(name)} is not on this machine"
        hint = f"`threegate model pull {visible(name)}` brings it"
        raise GateUnavailable(detail, code=NO_FILE, hint=hint)
    weights, vocabulary = (str(cache.path(file)) for file in MINILM.files)
    return {"model-file": weights, "vocabulary": vocabulary}


def _cut(text: Untrusted[str]) -> Untrusted[str]:
    """Return as much of a text as fits into a message, which is more than the model reads."""
    data = text.open_for_validation().encode("utf-8", "replace")
    return Untrusted(data[:MAX_TEXT_BYTES].decode("utf-8", "ignore"))
