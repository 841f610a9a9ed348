"""Control tokens in text: broken up before the model can read them as structure.

A chat template joins messages with tokens such as `<|im_start|>`.  The tokenizer cannot tell the
tokens of the template from those in a message, so a source that contains one would begin a
message with a role of its choice.

SECURITY
    Reads text of CORE, which contains text of strangers.  If this module is wrong, a source
    speaks to the model as the operator; what the model can do stays the same.
"""

import re
from collections.abc import Iterable
from typing import Final

from threegate.gates.model.chat.messages import ChatRequest
from threegate.gates.model.front.server import NoCompletion, Unanswered

MAX_ROUNDS: Final = 8
# Spellings in use, for servers whose vocabulary is not known here and for files that do not mark
# their control tokens.
COMMON: Final = re.compile(
    r"<[|｜][^<>|｜\n]{1,64}[|｜]>|</?s>|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>|<[be]os>|<unk>|<pad>"
)


def pattern_of(tokens: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for these tokens and the common ones; longer ones first."""
    own = sorted({token for token in tokens if len(token) > 1}, key=lambda t: (-len(t), t))
    return re.compile("|".join([*map(re.escape, own), COMMON.pattern]))


def broken_up(request: ChatRequest, tokens: re.Pattern[str]) -> list[dict[str, str]]:
    """Return the messages with a space inside every control token."""
    return [
        {"content": _broken(content, tokens), "role": role} for role, content in request.messages
    ]


def _broken(text: str, tokens: re.Pattern[str]) -> str:
    for _ in range(MAX_ROUNDS):
        text, found = tokens.subn(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        if not found:
            return text
    raise NoCompletion(Unanswered.MALFORMED, "control tokens inside control tokens")
