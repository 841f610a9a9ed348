"""The payload of a CORE box: one task in, what is said about it out, then the end.

SECURITY
    Reads what the host sends, text of strangers in it, and what a model server says.
    Nothing but our own messages leaves: an error nobody thought of ends the box, and its
    text stays inside.
"""

import time
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.core.client import MODEL_SOCKET, Client, NoModel
from threegate.gates.core.fences import MarkerSpoken
from threegate.gates.core.messages import MAX_TASK_BYTES, NotSaid, Said, Task, parse_task
from threegate.gates.core.questions import Conversation, NoAnswer
from threegate.gates.core.steps import answer
from threegate.sandbox.channel import write_note
from threegate.sandbox.payload import ANSWERS_FD, answer_once

NO_MODEL: Final = "TG-COR-001"
NO_ANSWER: Final = "TG-COR-002"
MARKER_SPOKEN: Final = "TG-COR-003"


def serve() -> None:
    """Answer one task; the payload of a CORE sandbox."""
    answer_once(
        lambda task: say(parse_task(Untrusted(task)), MODEL_SOCKET).to_bytes(), MAX_TASK_BYTES
    )


def say(task: Task, path: str) -> Said | NotSaid:
    """Return what there is to say, or why there is nothing."""
    client = Client(path, time.monotonic() + task.budget.deadline_ms / 1000)
    try:
        return answer(task, Conversation(client, task.budget.retries), _tell)
    except NoModel as exc:
        return NotSaid(NO_MODEL, exc.message)
    except NoAnswer as exc:
        return NotSaid(NO_ANSWER, str(exc))
    except MarkerSpoken:
        return NotSaid(MARKER_SPOKEN, "a source holds the marker of this run")


def _tell(words: str) -> None:
    write_note(ANSWERS_FD, words.encode("ascii"))
