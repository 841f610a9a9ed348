"""Why a request gets no reply: an HTTP status, a code, a sentence of our own."""

from enum import Enum

from threegate.gates.model.chat.messages import ChatRefused


class Why(Enum):
    """What can be wrong: HTTP status, code, sentence."""

    MALFORMED = 400, "TG-MDL-001", "not a request of this server"
    NO_SUCH_PLACE = 404, "TG-MDL-002", "no such place here"
    TOO_LARGE = 413, "TG-MDL-003", "the request is too large"
    TOO_SLOW = 408, "TG-MDL-004", "the request did not come in time"
    BUSY = 503, "TG-MDL-005", "too many requests at once"
    TOO_LONG = 400, "TG-MDL-006", "the prompt does not fit into the context"
    NO_GRAMMAR = 400, "TG-MDL-007", "the grammar cannot be read"
    DEADLINE = 504, "TG-MDL-008", "no reply within the time for one request"
    FAILED = 500, "TG-MDL-009", "the model failed"
    UNREACHABLE = 502, "TG-MDL-010", "the server behind the bridge does not answer"
    FOREIGN = 502, "TG-MDL-011", "the server behind the bridge said what is no completion"
    FOREIGN_TOO_LARGE = 502, "TG-MDL-012", "the server behind the bridge said too much"
    FOREIGN_STATUS = 502, "TG-MDL-013", "the server behind the bridge refused the request"
    OTHER_MODEL = 502, "TG-MDL-014", "another model than the policy names"
    OTHER_FILE = 500, "TG-MDL-015", "the model file is not the one the policy names"
    NOT_LOADED = 500, "TG-MDL-016", "the model file cannot be loaded"
    SPENT = 429, "TG-MDL-017", "the question may send no more to the remote machine"
    REPEATED = 502, "TG-MDL-018", "the remote machine repeats the key it was sent"


class Refused(Exception):
    """A request that gets no reply; `detail` are our own words."""

    def __init__(self, why: Why, detail: str = "") -> None:
        self.status, self.code, sentence = why.value
        self.sentence = f"{sentence}: {detail}" if detail else sentence
        super().__init__(self.sentence)

    def body(self) -> bytes:
        """Return what the client is told."""
        return ChatRefused(self.code, self.sentence).to_bytes()
