"""The program of an embedder sandbox: check two files, load them, answer texts with vectors.

SECURITY
    Until both digests are right this process has read only the host's opening.  Its answers are
    numbers; an unexpected error ends it without a message.
"""

from hashlib import sha256
from pathlib import Path
from typing import Final

import threegate
from threegate.base.greeting import GateReady
from threegate.base.untrusted import Untrusted
from threegate.gates.model.embedder import minilm
from threegate.gates.model.embedder.messages import (
    GREETING,
    PROTOCOL,
    EmbedderOpening,
    TextVectors,
    parse_embed,
    parse_opening,
)
from threegate.gates.model.embedder.minilm import MiniLm, read_tensors
from threegate.gates.model.embedder.pieces import (
    EmbedderRefusal,
    EmbedderRefused,
    Pieces,
    read_vocabulary,
)
from threegate.sandbox import payload
from threegate.sandbox.channel import read_message, write_message
from threegate.sandbox.payload import ANSWERS_FD, EX_UNAVAILABLE, REQUESTS_FD

WEIGHTS_FILE: Final = Path("/in/embedder.model")
VOCABULARY_FILE: Final = Path("/in/embedder.vocabulary")
MAX_WEIGHTS_BYTES: Final = 256 * 1024 * 1024
MAX_VOCABULARY_BYTES: Final = 1024 * 1024


def serve() -> None:
    """Answer until the host hangs up; the payload of an embedder sandbox; never returns."""
    payload.serve_abruptly(_serve)


def _serve() -> int:
    first = read_message(REQUESTS_FD, parse_opening.most_bytes)
    if first is None:
        return 0  # the host changed its mind
    try:
        model = opened(parse_opening(Untrusted(first)))
    except EmbedderRefused as refused:
        answer = GREETING.refused(refused.code, refused.sentence)
        write_message(ANSWERS_FD, answer.to_bytes())
        return EX_UNAVAILABLE
    versions = {"numpy": minilm.VERSION, "threegate": threegate.__version__}
    write_message(ANSWERS_FD, GateReady(PROTOCOL, versions).to_bytes())
    while (message := read_message(REQUESTS_FD, parse_embed.most_bytes)) is not None:
        texts = parse_embed(Untrusted(message)).texts
        rows = tuple(model.vector(text.open_for_validation()) for text in texts)
        write_message(ANSWERS_FD, TextVectors(rows).to_bytes())
    return 0


def opened(
    opening: EmbedderOpening, weights: Path = WEIGHTS_FILE, vocabulary: Path = VOCABULARY_FILE
) -> MiniLm:
    """Return the model in two files if they have the named digests; raise `EmbedderRefused`."""
    words = _checked(
        vocabulary, MAX_VOCABULARY_BYTES, opening.vocabulary, EmbedderRefusal.OTHER_VOCABULARY
    )
    numbers = _checked(weights, MAX_WEIGHTS_BYTES, opening.weights, EmbedderRefusal.OTHER_WEIGHTS)
    return MiniLm(read_tensors(numbers), Pieces(read_vocabulary(words)))


def _checked(path: Path, most: int, digest: str, why: EmbedderRefusal) -> bytes:
    """Return the bytes of which the digest was taken: nobody can change them afterwards."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most or sha256(data).hexdigest() != digest:
        raise EmbedderRefused(why)
    return data
