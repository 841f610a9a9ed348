"""What a server's status means for a question; only 200 has an answer in its body."""

from typing import Final

from threegate.gates.fetch.retrieve.waits import retry_after
from threegate.gates.https.heads import Head
from threegate.gates.https.refused import NotRetrieved, Why

OK: Final = 200
_WORDS: Final = {
    401: (Why.FORBIDDEN, "the server wants a credential"),
    403: (Why.FORBIDDEN, "the server refuses"),
    404: (Why.NOT_FOUND, "the server knows no such thing"),
    410: (Why.NOT_FOUND, "the server has it no longer"),
    429: (Why.BUSY, "the server was asked too often"),
    451: (Why.FORBIDDEN, "the server refuses for legal reasons"),
}


def refuse_status(head: Head, *, now: float) -> None:
    """Raise `NotRetrieved` unless the answer is in the body; other bodies are never read."""
    status = head.status
    if status == OK:
        return
    other = (Why.BROKEN, "the server failed") if status >= 500 else (Why.STATUS, "no answer")
    why, words = _WORDS.get(status, other)
    wait = retry_after(head.header("retry-after"), now=now)
    raise NotRetrieved(why, f"{words}: status {status}", status=status, retry_after=wait)
