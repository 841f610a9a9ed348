"""What a server's status means for a question; only 200 has an answer in its body."""

from typing import Final

from threegate.gates.fetch.retrieve.waits import retry_after
from threegate.gates.http_library.client import Failure, NotRetrieved, ResponseHead

OK: Final = 200
_WORDS: Final = {
    401: (Failure.FORBIDDEN, "the server wants a credential"),
    403: (Failure.FORBIDDEN, "the server refuses"),
    404: (Failure.NOT_FOUND, "the server knows no such thing"),
    410: (Failure.NOT_FOUND, "the server has it no longer"),
    429: (Failure.BUSY, "the server was asked too often"),
    451: (Failure.FORBIDDEN, "the server refuses for legal reasons"),
}


def refuse_status(head: ResponseHead, *, now: float) -> None:
    """Raise `NotRetrieved` unless the answer is in the body; other bodies are never read."""
    status = head.status
    if status == OK:
        return
    other = (
        (Failure.BROKEN, "the server failed") if status >= 500 else (Failure.STATUS, "no answer")
    )
    why, words = _WORDS.get(status, other)
    wait = retry_after(head.header("retry-after"), now=now)
    raise NotRetrieved(why, f"{words}: status {status}", status=status, retry_after=wait)
