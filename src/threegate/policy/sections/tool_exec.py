"""`tool-exec.policy.md`: the lanes, their limits, the external functions, the ring profiles."""

import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from threegate.base.text import quote
from threegate.policy.leaves import (
    BYTES,
    DIGEST,
    MILLISECONDS,
    NAME,
    SECONDS,
    SWITCH,
    Choice,
    Leaf,
    LeafValue,
    Number,
    Word,
)
from threegate.policy.nodes import Effect, Path, Reader, Reason, Scalar
from threegate.policy.ring.commands import ArgumentRule, told
from threegate.policy.schema import Examples, Field, Group, Record, Table
from threegate.policy.sections.fetch import PATTERN
from threegate.policy.sections.section import Rules, Section, block_of, words_of

# `argument_rules`: arguments that a program must not be given.
#
# Some programs start others when an argument says so: `find -exec`, `tar --to-command`. A rule
# names the programs and the words. It carries commands that it must refuse and commands that it
# must not; a policy whose rule contradicts its own examples is rejected.
#
# | a denied word | refuses |
# |---|---|
# | `--name` | this option, `--name=value`, and every abbreviation of it |
# | `-x` | this letter in any cluster of options, also without its dash where `tar` takes one |
# | `-name` | exactly this word, and `-name=value` |
# | `*` | the program with any arguments or none |
# | anything else | a word that it covers, with `*` for any characters |
#
# A rule covers every version and variant of its programs: `vim` also covers `vim.tiny`.

ARGUMENT_RULES: Final = "argument_rules"
MOST_RULES: Final = 1024

PROGRAM: Final = Word(r"[A-Za-z0-9_][A-Za-z0-9._+-]*", "the last part of a path", most=64)
ARGUMENT: Final = Word(r"[!-~]+", "a word, or a part of one with `*`", most=128)

RULE: Final = Record(
    (
        Field("programs", Group(PROGRAM, "removed"), "programs an argument rule is for"),
        Field("denied", Group(ARGUMENT, "removed"), "arguments they may not be given"),
        Field("required", Group(ARGUMENT, "removed", most=1), "their first argument"),
        Field("match", Examples("commands it refuses", needed=True), "examples"),
        Field(
            "not_match", Examples("commands it does not refuse", needed=True), "counter-examples"
        ),
    )
)
TABLE: Final = Table(NAME, RULE, most=MOST_RULES, widens="removed")


def rule_of(name: str, rules: Rules) -> ArgumentRule:
    """Return one rule as commands are judged by it."""
    lists = (tuple(sorted(words_of(rules, key))) for key in ("programs", "denied", "required"))
    return ArgumentRule(name, *lists)


def check_rules(rules: Rules, section: str, reader: Reader) -> None:
    """Hold every rule against its own examples, or raise `PolicyInvalid` with the line."""
    for name in block_of(rules, ARGUMENT_RULES):
        rule = rule_of(name, block_of(rules, ARGUMENT_RULES, name))
        path = (section, ARGUMENT_RULES, name)
        for key, expected in (("match", True), ("not_match", False)):
            examples = reader.examples[(*path, key)]
            if not examples and not reader.stored:
                message = f"rule {name} has no {key} example"
                raise reader.fail_at(Reason.EXAMPLE, path, message)
            for example in examples:
                _hold(rule, example, key, expected, reader)


def _hold(rule: ArgumentRule, example: Scalar, key: str, expected: bool, reader: Reader) -> None:  # noqa: FBT001
    try:
        argv = shlex.split(example.text)
    except ValueError as exc:
        message = f"{key} example {quote(example.text)}: {exc}"
        raise reader.fail(Reason.EXAMPLE, example.line, message) from exc
    if (told(rule, argv) is not None) != expected:
        verb = "does not refuse" if expected else "refuses"
        message = f"rule {rule.name} {verb} its {key} example {quote(example.text)}"
        raise reader.fail(Reason.EXAMPLE, example.line, message)


NAME_OF_SECTION: Final = "tool-exec"
RING: Final = "interpreter_ring"
# From the narrowest on: with `kernel-allowlist` the kernel holds a gateway's proxy besides.
OFF, KERNEL, GATED = "off", "kernel-allowlist", "gateway"
NETWORKS: Final = (OFF, KERNEL, GATED)
METHODS: Final = ("GET", "HEAD", "POST")
FUNCTIONS: Final = ("json_dumps", "json_loads", "regex_findall", "sha256_hex")
ENGINES: Final = ("qemu-kvm", "qemu-emulation", "runsc")

# Modules of Monty that reach nothing outside: no files, clock, randomness or event loop.
MONTY_MODULES: Final = (
    *("base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses", "datetime"),
    *("decimal", "functools", "hashlib", "itertools", "json", "math", "re", "tomllib", "typing"),
    "unicodedata",
)


def _check_path(path: str) -> None:
    if posixpath.normpath(path) != path:
        raise ValueError("expected a path without . or .. and single slashes")


IMPORT: Final = Word(r"[A-Za-z_][A-Za-z0-9_]*", "a top-level module name", most=64)
BINARY: Final = Word(r"/[A-Za-z0-9._+/-]+", "an absolute path", most=255, check=_check_path)
DENIED: Final = Word(r"[ -~]+", "a command or a part of one", most=200)

PROFILE: Final = Record(
    (
        Field("allowed_imports", Group(IMPORT, most=512), "imports"),
        Field("denied_imports", Group(IMPORT, "removed", most=512), "denied imports"),
        Field("executor_network", Choice(NETWORKS), "network of the executor"),
        Field("allowed_binaries", Group(BINARY), "programs that may be started"),
        Field("denied_patterns", Group(DENIED, "removed"), "denied commands"),
        Field("match", Examples("modules user code may import"), "examples"),
        Field("not_match", Examples("modules user code may not import"), "counter-examples"),
    )
)


@dataclass(frozen=True, slots=True)
class Bound(Number):
    """A bound of an external function; a lower one makes another function, not a narrower one."""

    def effect(self, old: LeafValue, new: LeafValue) -> Effect:
        return "widens" if Number.effect(self, old, new) == "widens" else "changes"

    def wider(self) -> str:
        return "more; less is a change"


@dataclass(frozen=True, slots=True)
class Pin(Word):
    """The digest of code that runs outside the interpreter: other code may do anything."""

    def effect(self, old: LeafValue, new: LeafValue) -> Effect:  # noqa: ARG002
        return "widens"

    def wider(self) -> str:
        return "any other value"


FUNCTION: Final = Record(
    (
        Field("sha256", Pin(DIGEST.pattern, DIGEST.words), "digest of name, signature and source"),
        Field("input_bytes", Bound(1, 2**26, BYTES), "bytes of its arguments"),
        Field("output_bytes", Bound(1, 2**26, BYTES), "bytes of what it returns"),
        Field("depth", Bound(1, 64), "nesting of its arguments and of what it returns"),
        Field("calls", Bound(1, 100_000), "calls in one run"),
    )
)


def _limits(ranges: Mapping[str, Leaf], names: tuple[str, ...]) -> Record:
    return Record(tuple(Field(name, ranges[name], LIMIT_WORDS[name]) for name in names))


LIMIT_WORDS: Final = {
    "wall_ms": "wall time",
    "memory_bytes": "memory",
    "output_bytes": "bytes of stdout, stderr and value",
    "recursion": "depth of calls",
    "cpus": "processors",
    "processes": "processes at a time",
    "disk_bytes": "bytes in output files",
    "source_bytes": "bytes of code",
    "input_bytes": "bytes of input",
    "nesting": "nesting of functions in the code",
}
REQUEST_LIMITS: Final = (
    *("wall_ms", "memory_bytes", "output_bytes", "recursion", "cpus", "processes", "disk_bytes"),
)
ALL_LIMITS: Final = (*REQUEST_LIMITS, "source_bytes", "input_bytes", "nesting")

MONTY_RANGES: Final = {
    "wall_ms": Number(1, 300_000, MILLISECONDS),
    "memory_bytes": Number(2**20, 2**32, BYTES),
    "output_bytes": Number(0, 2**22, BYTES),
    "recursion": Number(1, 1_000),  # above, a native stack overflow kills the worker
    "cpus": Number(1, 1),
    "processes": Number(1, 1),
    "disk_bytes": Number(0, 0),
    "source_bytes": Number(1, 2**18, BYTES),
    "input_bytes": Number(0, 2**28, BYTES),
    "nesting": Number(1, 12),  # compiling is exponential in it: 34 ms at 12, 6.4 s at 18
}
ERA_RANGES: Final = {
    "wall_ms": Number(1, 86_400_000, MILLISECONDS),
    "memory_bytes": Number(2**27, 2**40, BYTES),  # no guest starts with less
    "output_bytes": Number(0, 2**22, BYTES),
    "recursion": Number(1, 100_000),
    "cpus": Number(1, 256),
    "processes": Number(1, 100_000),
    "disk_bytes": Number(0, 2**40, BYTES),
    "source_bytes": Number(1, 2**18, BYTES),
    "input_bytes": Number(0, 2**40, BYTES),
    "nesting": Number(1, 1_000),
}

_LANE: Final = (
    Field("enabled", SWITCH, "lane in use"),
    Field("default_profile", NAME, "profile of a request that names none"),
    Field("profiles", Group(NAME, least=1), "profiles"),
)

MONTY: Final = Record(
    (
        *_LANE,
        Field("imports", Group(Choice(MONTY_MODULES)), "modules of the interpreter"),
        Field("default", _limits(MONTY_RANGES, REQUEST_LIMITS), "limits of an unspecific request"),
        Field("max", _limits(MONTY_RANGES, ALL_LIMITS), "highest limits"),
    )
)
# What a run may ask through the gateway at most; a request lists its own hosts and bytes.
GATEWAY: Final = Record(
    (
        Field("hosts", Group(PATTERN, most=64), "hosts a request may list"),
        Field("methods", Group(Choice(METHODS)), "methods"),
        Field("up_bytes", Number(0, 2**24, BYTES), "bytes that may leave in one run"),
        Field("down_bytes", Number(0, 2**28, BYTES), "bytes that may come in one run"),
        Field("requests", Number(0, 10_000), "requests in one run"),
        Field("deadline_seconds", Number(1, 3_600, SECONDS), "time for one request"),
    )
)
ERA: Final = Record(
    (
        *_LANE,
        Field("engines", Group(Choice(ENGINES)), "engines"),
        Field("network", Choice(NETWORKS), "widest network of any profile"),
        Field("gateway", GATEWAY, "what a run may ask through the gateway"),
        Field("default", _limits(ERA_RANGES, REQUEST_LIMITS), "limits of an unspecific request"),
        Field("max", _limits(ERA_RANGES, ALL_LIMITS), "highest limits"),
    )
)

RECORD: Final = Record(
    (
        Field(
            "may_read",
            Group(
                Choice(("analysis", "approval", "research-packet", "tool-request", "tool-result"))
            ),
            "artifacts TOOL-EXEC may read",
        ),
        Field("may_draft", Group(Choice(("tool-result",))), "artifacts TOOL-EXEC may make"),
        Field(
            "rule_of_two",
            Choice(("refuse", "allow-if-approved")),
            "external input, confidential data and network together",
        ),
        Field("lanes", Record((Field("monty", MONTY, "lane"), Field("era", ERA, "lane"))), "lanes"),
        Field(
            "functions", Table(Choice(FUNCTIONS), FUNCTION), "external functions of the monty lane"
        ),
        Field(RING, Table(NAME, PROFILE, most=64, least=1), "profiles"),
        Field(ARGUMENT_RULES, TABLE, "argument rules"),
        Field(
            "push",
            Record(
                (
                    Field(
                        "on_bad_bundle",
                        Choice(("quarantine", "keep-last")),
                        "executor that was sent a bad bundle",
                    ),
                    Field("running", Choice(("stop", "finish")), "runs under replaced rules"),
                )
            ),
            "policy push",
        ),
    )
)


def _check(rules: Rules, reader: Reader) -> None:
    for lane in block_of(rules, "lanes"):
        _check_lane(rules, lane, reader)
    for name in block_of(rules, RING):
        _check_examples(rules, name, reader)
    check_rules(rules, NAME_OF_SECTION, reader)


def _check_lane(rules: Rules, lane: str, reader: Reader) -> None:
    settings = block_of(rules, "lanes", lane)
    path = (NAME_OF_SECTION, "lanes", lane)
    offered = words_of(settings, "profiles")
    for name in sorted(offered):
        if name not in block_of(rules, RING):
            where = (*path, "profiles", name)
            raise reader.fail_at(Reason.CONFLICT, where, f"no profile {name} exists")
        if lane == "monty":
            _check_monty_profile(rules, name, reader)
    if settings["default_profile"] not in offered:
        message = f"default_profile is not one of the profiles of {lane}"
        raise reader.fail_at(Reason.CONFLICT, (*path, "default_profile"), message)
    _check_defaults(settings, path, reader)


def _check_defaults(settings: Rules, path: Path, reader: Reader) -> None:
    highest = block_of(settings, "max")
    for key, usual in block_of(settings, "default").items():
        most = highest[key]
        assert isinstance(usual, int)
        assert isinstance(most, int)
        if usual > most:
            raise reader.fail_at(Reason.CONFLICT, (*path, "default", key), f"{key} above its max")


def _check_monty_profile(rules: Rules, name: str, reader: Reader) -> None:
    """Refuse what the interpreter could not enforce: it has no network and starts nothing."""
    profile = block_of(rules, RING, name)
    path = (NAME_OF_SECTION, RING, name)
    if profile["executor_network"] != "off":
        message = f"profile {name} is offered to monty, which has no network"
        raise reader.fail_at(Reason.CONFLICT, (*path, "executor_network"), message)
    if profile["allowed_binaries"]:
        message = f"profile {name} is offered to monty, which starts no programs"
        raise reader.fail_at(Reason.CONFLICT, (*path, "allowed_binaries"), message)
    known = words_of(block_of(rules, "lanes", "monty"), "imports")
    for module in sorted(words_of(profile, "allowed_imports") - known):
        where = (*path, "allowed_imports", module)
        raise reader.fail_at(Reason.CONFLICT, where, f"monty may not import {module}")


def importable(profile: Rules) -> frozenset[str]:
    """Return the top-level modules user code may import; denied wins over allowed."""
    return words_of(profile, "allowed_imports") - words_of(profile, "denied_imports")


def _check_examples(rules: Rules, name: str, reader: Reader) -> None:
    path = (NAME_OF_SECTION, RING, name)
    allowed = importable(block_of(rules, RING, name))
    for key, expected in (("match", True), ("not_match", False)):
        for example in reader.examples[(*path, key)]:
            if (example.text.partition(".")[0] in allowed) != expected:
                verb = "does not allow" if expected else "allows"
                message = f"profile {name} {verb} its {key} example {quote(example.text)}"
                raise reader.fail(Reason.EXAMPLE, example.line, message)


SECTION: Final = Section(NAME_OF_SECTION, "tool-exec.policy.md", RECORD, _check)
