"""From policy files to a compiled policy.

A policy file is prose for people around exactly one fenced rule block.  `compile_policy` is pure;
`load_policy` and `default_files` are the only functions of this package that open anything.

SECURITY
    Reads files that anybody who can write to the policy directory may have edited, or that
    somebody sent as a proposal.  What a person reads must be what is enforced: nothing
    invisible, no second block, no block inside a comment, and in the block no YAML feature by
    which a value differs from its characters.  A file that is missing, unreadable, a link or
    not a plain file makes the whole policy invalid: nothing is enforced in part.
    If this module is wrong, a reviewed policy and an enforced policy differ.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from threegate.base.errors import PolicyInvalid
from threegate.base.text import FORBIDDEN, kind_of_forbidden, quote
from threegate.policy import limits
from threegate.policy.bundle import Compiled, Lines, signer_lines
from threegate.policy.nodes import (
    BlockNode,
    ListNode,
    Node,
    PolicyReason,
    ScalarNode,
    Value,
    frozen,
    invalid,
    place,
)
from threegate.policy.ring.compiler import beyond_every_executor
from threegate.policy.sections import FILES, GATES, SECTIONS, SIGNERS, SIGNERS_FILE
from threegate.policy.sections.gates import check_gates
from threegate.policy.sections.signers import read_signers, signers_of

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
    # O_NONBLOCK: a FIFO in place of a file must not hang the command.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(directory / name, flags)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise invalid(PolicyReason.FILE, place(name, 0), "not a plain file")
            # One byte more than allowed, so that `decode` refuses a longer file.
            return file.read(limits.MAX_FILE_BYTES + 1)
    except OSError as exc:
        reason = exc.strerror or "unreadable"
        raise invalid(PolicyReason.FILE, place(name, 0), reason.lower()) from exc


OPENING: Final = "```yaml threegate-policy"
CLOSING: Final = "```"

# Anywhere in the line: a fence may follow a list mark, a quote mark or spaces.
_OTHER_FENCE: Final = re.compile(r"```|~~~|threegate-policy")
_MARKUP: Final = re.compile(r"<[A-Za-z/!?]")


@dataclass(frozen=True, slots=True)
class RuleBlock:
    """The text between the fences and the number of its first line."""

    text: str
    first_line: int


def read_source(file: str, data: bytes) -> BlockNode:
    """Return the rules in a policy file, untyped, or raise `PolicyInvalid`."""
    return read_block(file, find_block(file, decode(file, data)))


def decode(file: str, data: bytes) -> str:
    """Return the text of a policy file that holds nothing a reader would not see."""
    if len(data) > limits.MAX_FILE_BYTES:
        message = f"{len(data)} bytes, limit {limits.MAX_FILE_BYTES}"
        raise invalid(PolicyReason.TOO_LARGE, place(file, 0), message)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise invalid(PolicyReason.CHARACTERS, place(file, line), "not UTF-8") from exc
    found = FORBIDDEN.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        message = f"{kind_of_forbidden(found.group())} character {quote(found.group())}"
        raise invalid(PolicyReason.CHARACTERS, place(file, line), message)
    return text


def find_block(file: str, text: str) -> RuleBlock:
    """Return the one rule block of a policy file."""
    lines = text.split("\n")
    openings = [number for number, line in enumerate(lines) if line == OPENING]
    if len(openings) != 1:
        where = place(file, openings[1] + 1 if openings else 0)
        raise invalid(PolicyReason.FENCE, where, f"{len(openings)} rule blocks, expected one")
    start = openings[0] + 1
    try:
        end = lines.index(CLOSING, start)
    except ValueError as exc:
        raise invalid(
            PolicyReason.FENCE, place(file, start), "the rule block is not closed"
        ) from exc
    prose = [*enumerate(lines[: start - 1], 1), *enumerate(lines[end + 1 :], end + 2)]
    for number, line in prose:
        _check_prose(file, number, line)
    return RuleBlock("\n".join(lines[start:end]) + "\n", start + 1)


def _check_prose(file: str, number: int, line: str) -> None:
    # A comment or an element can hide the enforced block from the reader of the page; a
    # second fence can swallow it, or show one that looks like it and is not enforced.
    if _MARKUP.search(line):
        raise invalid(PolicyReason.FENCE, place(file, number), "HTML in the prose of a policy")
    if _OTHER_FENCE.search(line):
        raise invalid(
            PolicyReason.FENCE, place(file, number), "a second fence beside the rule block"
        )


def read_block(file: str, block: RuleBlock) -> BlockNode:
    """Return the node graph of a rule block."""
    tab = block.text.find("\t")
    if tab >= 0:
        line = block.text.count("\n", 0, tab) + block.first_line
        raise invalid(PolicyReason.SYNTAX, place(file, line), "a tab in the rule block")
    try:
        return _Graph(file, block).read()
    except yaml.MarkedYAMLError as exc:
        line = block.first_line + (exc.problem_mark.line if exc.problem_mark else 0)
        problem = str(exc.problem or "not YAML").partition("\n")[0]
        raise invalid(
            PolicyReason.SYNTAX, place(file, line), f"not YAML, {quote(problem)}"
        ) from exc
    # PyYAML lets ValueError through for "\UFFFFFFFF" and for huge directive numbers.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as exc:
        raise invalid(PolicyReason.SYNTAX, place(file, block.first_line), "not YAML") from exc


class _Graph:
    """Nodes from PyYAML's events, which come one at a time and keep no stack of ours.

    `yaml.compose` recurses without a limit and resolves aliases before anybody can look;
    the events let depth, size and every unwanted feature be refused as they appear.
    """

    def __init__(self, file: str, block: RuleBlock) -> None:
        self._file = file
        self._block = block
        self._events: Iterator[yaml.Event] = yaml.parse(block.text, Loader=yaml.SafeLoader)
        self._nodes = 0

    def read(self) -> BlockNode:
        self._next()  # the start of the stream
        start = self._next()
        if isinstance(start, yaml.StreamEndEvent):
            where = place(self._file, self._block.first_line)
            raise invalid(PolicyReason.SYNTAX, where, "the rule block is empty")
        self._refuse_marker(start)
        root = self._node(self._next(), 1)
        self._refuse_marker(self._next())
        end = self._next()
        if not isinstance(end, yaml.StreamEndEvent):
            raise self._refuse(PolicyReason.SUBSET, end, "a second document")
        if not isinstance(root, BlockNode):
            raise self._refuse(PolicyReason.SYNTAX, start, "the rule block is not keys and values")
        return root

    def _next(self) -> yaml.Event:
        return next(self._events)

    def _line(self, event: yaml.Event) -> int:
        assert event.start_mark is not None, "events of a text carry marks"
        return event.start_mark.line + self._block.first_line

    def _refuse(self, reason: PolicyReason, event: yaml.Event, message: str) -> PolicyInvalid:
        return invalid(reason, place(self._file, self._line(event)), message)

    def _refuse_marker(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent | yaml.DocumentEndEvent) and event.explicit:
            raise self._refuse(PolicyReason.SUBSET, event, "a document marker or directive")

    def _node(self, event: yaml.Event, depth: int) -> Node:
        self._nodes += 1
        if self._nodes > limits.MAX_NODES:
            raise self._refuse(
                PolicyReason.TOO_LARGE, event, f"more than {limits.MAX_NODES} values"
            )
        if depth > limits.MAX_DEPTH:
            message = f"nested deeper than {limits.MAX_DEPTH}"
            raise self._refuse(PolicyReason.TOO_LARGE, event, message)
        if isinstance(event, yaml.AliasEvent):
            raise self._refuse(PolicyReason.SUBSET, event, "an alias")
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.anchor is not None:
            raise self._refuse(PolicyReason.SUBSET, event, "an anchor")
        if event.tag is not None:
            raise self._refuse(PolicyReason.SUBSET, event, "a tag")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._listing(event, depth)
        return self._block_of(event, depth)

    def _scalar(self, event: yaml.ScalarEvent) -> ScalarNode:
        start, end = event.start_mark, event.end_mark
        assert start is not None
        assert end is not None
        if event.style in {"|", ">"} or start.line != end.line:
            raise self._refuse(PolicyReason.SUBSET, event, "a value over more than one line")
        written = self._block.text[start.index : end.index]
        if event.style == '"' and "\\" in written:
            raise self._refuse(
                PolicyReason.SUBSET, event, "an escape; single quotes keep backslashes"
            )
        if len(written) > limits.MAX_SCALAR_CHARS:
            message = f"a value of {len(written)} characters, limit {limits.MAX_SCALAR_CHARS}"
            raise self._refuse(PolicyReason.TOO_LARGE, event, message)
        if not event.value:
            raise self._refuse(PolicyReason.VALUE, event, "an empty value")
        return ScalarNode(event.value, self._line(event))

    def _listing(self, start: yaml.Event, depth: int) -> ListNode:
        items: list[Node] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return ListNode(tuple(items), self._line(start))

    def _block_of(self, start: yaml.Event, depth: int) -> BlockNode:
        entries: dict[str, tuple[ScalarNode, Node]] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, ScalarNode):
                raise self._refuse(PolicyReason.SUBSET, event, "a key that is not a word")
            if key.text == "<<":
                raise self._refuse(PolicyReason.SUBSET, event, "a merge key")
            if key.text in entries:
                raise self._refuse(
                    PolicyReason.DUPLICATE, event, f"key {quote(key.text)} is written twice"
                )
            entries[key.text] = (key, self._node(self._next(), depth + 1))
        return BlockNode(tuple(entries.values()), self._line(start))
