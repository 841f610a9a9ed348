"""From policy files to a compiled policy.

`compile_policy` is pure; `load_policy` and `default_files` are the only functions of this
package that open anything.

SECURITY
    Reads the policy directory of a workspace.  A file that is missing, unreadable, a link
    or no plain file makes the whole policy invalid: nothing is enforced in part.
"""

import os
import stat
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from threegate.base.errors import PolicyInvalid
from threegate.base.text import quote
from threegate.policy.bundle import Compiled, Lines, signer_lines
from threegate.policy.limits import MAX_FILE_BYTES
from threegate.policy.nodes import PolicyReason, Value, frozen, invalid, place
from threegate.policy.ring.compiler import beyond_every_executor
from threegate.policy.sections import FILES, GATES, SECTIONS, SIGNERS, SIGNERS_FILE
from threegate.policy.sections.gates import check_gates
from threegate.policy.sections.signers import read_signers, signers_of
from threegate.policy.source import read_source

POLICY_SUFFIX: Final = ".policy.md"


def compile_policy(files: Mapping[str, bytes], *, gates: Mapping[str, Any]) -> Compiled:
    """Return the policy in `files`, by file name, or raise `PolicyInvalid`.

    `gates` are the profiles the program starts its gates with, as plain data.
    """
    for name in files:
        if name not in FILES.values():
            raise _unknown(name)
    sections: dict[str, Value] = {}
    refs: dict[str, Lines] = {}
    for section in SECTIONS:
        block = read_source(section.file, _file(files, section.file))
        rules, reader = section.read_block(block)
        sections[section.name] = rules
        refs[section.name] = MappingProxyType(
            {"/".join(path[1:]): line for path, line in reader.lines.items()}
        )
    sections[SIGNERS] = read_signers(_file(files, SIGNERS_FILE))
    refs[SIGNERS] = MappingProxyType(dict(signer_lines(signers_of(sections[SIGNERS]))))
    sections[GATES], refs[GATES] = frozen(gates), MappingProxyType({})
    check_gates(sections[GATES])
    compiled = Compiled(MappingProxyType(sections), MappingProxyType(refs))
    _check_profiles(compiled)
    return compiled


def _check_profiles(compiled: Compiled) -> None:
    """Refuse a profile that a lane offers and none of its executors could enforce.

    Not of a bundle that is in force: what was applied before stays readable, and is refused
    where it would be used.
    """
    for where, reason in beyond_every_executor(compiled):
        raise invalid(PolicyReason.CONFLICT, str(where), reason)


def load_policy(directory: Path, *, gates: Mapping[str, Any]) -> Compiled:
    """Return the policy in `directory`, or raise `PolicyInvalid`; see `compile_policy`."""
    try:
        names = os.listdir(directory)
    except OSError as exc:
        reason = exc.strerror or "unreadable"
        raise invalid(PolicyReason.FILE, "policy", reason.lower()) from exc
    # A file somebody thinks is in force and is not: a misspelt name, a section of tomorrow.
    for name in sorted(names):
        if name.endswith(POLICY_SUFFIX) and name not in FILES.values():
            raise _unknown(name)
    files = {name: _read(directory, name) for name in FILES.values()}
    return compile_policy(files, gates=gates)


def default_files() -> Mapping[str, bytes]:
    """Return the policy files this version ships, without `allowed_signers`."""
    shipped = resources.files("threegate.policy") / "defaults"
    return {section.file: (shipped / section.file).read_bytes() for section in SECTIONS}


def _file(files: Mapping[str, bytes], name: str) -> bytes:
    if name not in files:
        raise invalid(PolicyReason.FILE, place(name, 0), "missing")
    return files[name]


def _unknown(name: str) -> PolicyInvalid:
    return invalid(PolicyReason.FILE, "policy", f"{quote(name)} is not a file of this policy")


def _read(directory: Path, name: str) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(directory / name, flags)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise invalid(PolicyReason.FILE, place(name, 0), "not a plain file")
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        reason = exc.strerror or "unreadable"
        raise invalid(PolicyReason.FILE, place(name, 0), reason.lower()) from exc
