"""The whole command line, put together from one small module per group of commands."""

from typing import Final

from threegate import __version__
from threegate.cli import (
    admit,
    artifacts,
    ask,
    audit,
    backup,
    completion,
    credential,
    doctor,
    fetch,
    image,
    import_files,
    infra,
    init,
    key,
    model,
    policy,
    proxy,
    quarantine,
    removal,
    replay,
    report,
    review,
    ring,
    run,
    schema,
    serve,
    status,
    validate,
)
from threegate.cli.grammar import PROGRAM, CommandGroup, Parser, add_workspace

_ABOUT: Final = """\
A research assistant in which no component both decides and acts.

What crosses a gate is an artifact: text in a strict format, named by its digest. A
workspace holds artifacts, the policy that was signed for them, and the audit log of
everything that happened to them."""

_EXITS: Final = """\
exit codes:
  0  done                            74  disk or audit log cannot be written
  2  usage                           75  waiting for a human
  65 artifact rejected               76  tampered
  69 something is missing here       77  denied
  70 bug                             78  no valid policy
"""

_GROUPS: Final = (
    init,
    import_files,
    validate,
    admit,
    status,
    fetch,
    ask,
    report,
    model,
    image,
    artifacts,
    review,
    ring,
    serve,
    run,
    replay,
    quarantine,
    schema,
    policy,
    audit,
    key,
    credential,
    removal,
    backup,
    doctor,
    infra,
    proxy,
    completion,
)


def build() -> Parser:
    """Return the parser of every command."""
    parser = Parser(PROGRAM, _ABOUT, _EXITS)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    add_workspace(parser, below=False)
    commands = CommandGroup(parser)
    for module in _GROUPS:
        module.add(commands)
    return parser
