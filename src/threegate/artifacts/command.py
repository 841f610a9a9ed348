"""The command of a tool request: one program and its arguments, never a shell's sentence.

SECURITY
    Reads arguments that CORE may have drafted from hostile text.  No shell ever sees them,
    so an operator among them is harmless; it is refused because the human who approves
    would read it as one.  The lists of names are for clear refusals: the box the command
    runs in is the boundary, not this module.
"""

import re
from itertools import pairwise
from typing import Final

from threegate.artifacts.reasons import Reason, reject
from threegate.base.text import quote

_PROGRAM: Final = re.compile(r"\A[A-Za-z0-9_./+][A-Za-z0-9_./+-]*\Z")
_SHELL: Final = re.compile(
    r"\A(?:.*/)?(?:(?:a|ba|c|da|elvi|fi|hu|k|lk|mk|o|ok|pdk|po|pw|r|rba|rk|rz|sa|tc|xon|ya|z)?sh"
    r"|busybox|nu|toybox)(?:[0-9.-][0-9a-z.-]*)?\Z"
)
# These run the program named in their arguments: `env sh` is a shell as surely as `sh` is.
_RUNNER: Final = re.compile(
    r"\A(?:.*/)?(?:chroot|chrt|command|doas|env|exec|find|flock|ionice|ltrace|nice|nohup|nsenter"
    r"|parallel|prlimit|proot|runuser|script|setarch|setpriv|setsid|stdbuf|strace|su|sudo"
    r"|systemd-run|taskset|time|timeout|unshare|watch|xargs)\Z"
)
_RETRIEVER: Final = re.compile(
    r"\A(?:.*/)?(?:aria2c|axel|curl|ftp|httpie|https?|links|lynx|nc|ncat|netcat|rsync|scp|sftp"
    r"|socat|ssh|telnet|tftp|w3m|wget2?)\Z"
)
_OURSELVES: Final = re.compile(r"\A(?:.*/)?threegate(?:[0-9.-].*)?\Z")
_OPERATOR: Final = re.compile(
    r"""\A(?:
        [0-9]*[<>](?!=).*       # >file 2>&1 <<EOF <(list); >=1.0 is a version
        | &>.* | [|;&].*        # |cat &&
        | \S*[;&|]              # ls;
        | \$\(.* | `.*          # $(list)
    )\Z""",
    re.VERBOSE,
)
# Begins only where a word begins: from every letter on, 4,096 letters take 30 ms to look at.
_URL: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[0-9+.-]*[A-Za-z][A-Za-z0-9+.-]*://|\A[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:"
)
_REQUEST_ID: Final = re.compile(r"(?:tr|fr|ap)-[0-9a-f]{12}")


def check_command(argv: list[str]) -> None:
    """Raise `ArtifactRejected` unless `argv` is one program with its arguments."""
    if not argv:
        return
    _check_program(argv[0])
    _check_no_shell(argv)
    for argument in argv[1:]:
        if _OPERATOR.match(argument):
            raise reject(Reason.COMMAND, f"{quote(argument)} is a shell operator")
        if _URL.search(argument):
            raise reject(Reason.RETRIEVAL, f"argument {quote(argument)} names a remote place")
        if _REQUEST_ID.search(argument):
            raise reject(Reason.NAMES_REQUEST, f"argument {quote(argument)} names a request")


def _check_program(program: str) -> None:
    if _PROGRAM.match(program) is None:
        raise reject(Reason.COMMAND, f"{quote(program)} is a command line, not a program")
    if _RETRIEVER.match(program):
        raise reject(Reason.RETRIEVAL, f"{quote(program)} retrieves")
    if _OURSELVES.match(program):
        raise reject(Reason.NAMES_REQUEST, f"{quote(program)} would start a request")


def _check_no_shell(argv: list[str]) -> None:
    if _SHELL.match(argv[0]):
        raise reject(Reason.COMMAND, f"{quote(argv[0])} is a shell")
    runs_another = _RUNNER.match(argv[0]) is not None
    for argument, following in pairwise([*argv[1:], ""]):
        # A runner may take the whole line in one argument: `env -S "sh -c …"`.
        words = argument.replace("=", " ").split() if runs_another else [argument]
        named = any(map(_SHELL.match, words))
        if named and (runs_another or following.startswith("-")):
            raise reject(Reason.COMMAND, f"{quote(argument)} is a shell")
