"""The program of a model-server sandbox: check the model file, load it, serve it.

The digest is taken inside the sandbox, of the bytes that are loaded, before anything parses
them: nobody can change the file between check and use.

SECURITY
    Until the digest is right this process has read only the host's opening, so its verdict on
    the digest can be trusted.  Afterwards the process may be owned.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

import threegate
from threegate.gates.model.chat.messages import Served
from threegate.gates.model.front.server import NoCompletion, Opened, Unanswered, run
from threegate.gates.model.messages import Embedded, parse_embedded
from threegate.gates.model.server import llama

MODEL_FILE: Final = Path("/in/model.gguf")
_PIECE: Final = 1024 * 1024


def serve() -> None:
    """Serve the bound model until the host hangs up; the payload of a model-server sandbox."""
    run(parse_embedded, _opened)


def _opened(opening: Embedded) -> Opened:
    if _digest() != opening.sha256:
        raise NoCompletion(Unanswered.OTHER_FILE)
    served = Served(opening.name, opening.sha256, opening.context_tokens)
    model = llama.Llama(MODEL_FILE, served, threads=opening.threads)
    _stop_talking()
    return model, {"threegate": threegate.__version__, "xllamacpp": llama.VERSION}


def _digest() -> str:
    found = sha256()
    with MODEL_FILE.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def _stop_talking() -> None:
    """Give the library a full pipe for its output: CORE can make it write a lot."""
    _, end = os.pipe()
    os.set_blocking(end, False)
    os.dup2(end, 1)
    os.dup2(end, 2)
