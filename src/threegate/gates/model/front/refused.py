"""Why a request gets no reply: a code and a sentence of our own."""

from enum import Enum

from threegate.gates.model.chat.messages import ChatRefused


class Unanswered(Enum):
    """What can be wrong: code, sentence."""

    MALFORMED = "TG-MDL-001", "not a request of this server"
    TOO_LARGE = "TG-MDL-003", "the request is too large"
    TOO_SLOW = "TG-MDL-004", "the request did not come in time"
    BUSY = "TG-MDL-005", "too many requests at once"
    TOO_LONG = "TG-MDL-006", "the prompt does not fit into the context"
    NO_GRAMMAR = "TG-MDL-007", "the grammar cannot be read"
    DEADLINE = "TG-MDL-008", "no reply within the time for one request"
    FAILED = "TG-MDL-009", "the model failed"
    UNREACHABLE = "TG-MDL-010", "the server behind the bridge does not answer"
    FOREIGN = "TG-MDL-011", "the server behind the bridge said what is no completion"
    FOREIGN_TOO_LARGE = "TG-MDL-012", "the server behind the bridge said too much"
    FOREIGN_STATUS = "TG-MDL-013", "the server behind the bridge refused the request"
    OTHER_MODEL = "TG-MDL-014", "another model than the policy names"
    OTHER_FILE = "TG-MDL-015", "the model file is not the one the policy names"
    NOT_LOADED = "TG-MDL-016", "the model file cannot be loaded"
    SPENT = "TG-MDL-017", "the question may send no more to the remote machine"
    REPEATED = "TG-MDL-018", "the remote machine repeats the key it was sent"


class NoCompletion(Exception):
    """A request that gets no reply; `detail` are our own words."""

    def __init__(self, why: Unanswered, detail: str = "") -> None:
        self.code, sentence = why.value
        self.sentence = f"{sentence}: {detail}" if detail else sentence
        super().__init__(self.sentence)

    def body(self) -> bytes:
        """Return what the client is told."""
        return ChatRefused(self.code, self.sentence).to_bytes()
