"""The console as a service of the user's own systemd."""

from collections.abc import Sequence

from threegate.base.errors import UsageError
from threegate.base.text import visible

_UNIT = """\
# Made by `threegate serve --print-unit`. To use it:
#   threegate serve --print-unit > ~/.config/systemd/user/threegate-console.service
#   systemctl --user enable --now threegate-console
#   threegate serve --link
# A service has no terminal: a key with a passphrase needs your agent (`--key agent`).
[Unit]
Description=ThreeGate: the console

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=5
# What is claimed comes to its end; what is killed then is found by the next start.
KillMode=mixed
TimeoutStopSec=15min
UMask=0077

[Install]
WantedBy=default.target
"""


def unit(command: Sequence[str]) -> str:
    """Return the unit that runs a command; raise `UsageError` for words no unit can hold."""
    return _UNIT.format(command=" ".join(map(_word, command)))


def _word(text: str) -> str:
    if visible(text) != text:
        raise UsageError(
            "a unit cannot name that place", hint=f"{visible(text)} has odd characters"
        )
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(old, new)
    return f'"{text}"'
