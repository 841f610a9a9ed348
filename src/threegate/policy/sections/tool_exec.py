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
    Leaf,
    LeafValue,
    Number,
    Word,
    WordChoice,
)
from threegate.policy.nodes import Effect, Path, PolicyReason, RuleReader, ScalarNode
from threegate.policy.ring.commands import ArgumentRule, denied_word
from threegate.policy.schema import Examples, RuleField, RuleGroup, RuleRecord, RuleTable
from threegate.policy.sections.fetch import PATTERN
from threegate.policy.sections.section import Rules, RuleSection, block_of, words_of

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

RULE: Final = RuleRecord(
    (
        RuleField("programs", RuleGroup(PROGRAM, "removed"), "programs an argument rule is for"),
        RuleField("denied", RuleGroup(ARGUMENT, "removed"), "arguments they may not be given"),
        RuleField("required", RuleGroup(ARGUMENT, "removed", most=1), "their first argument"),
        RuleField("match", Examples("commands it refuses", needed=True), "examples"),
        RuleField(
            "not_match", Examples("commands it does not refuse", needed=True), "counter-examples"
        ),
    )
)
TABLE: Final = RuleTable(NAME, RULE, most=MOST_RULES, widens="removed")


def rule_of(name: str, rules: Rules) -> ArgumentRule:
    """Return one rule as commands are judged by it."""
    lists = (tuple(sorted(words_of(rules, key))) for key in ("programs", "denied", "required"))
    return ArgumentRule(name, *lists)


def check_rules(rules: Rules, section: str, reader: RuleReader) -> None:
    """Check every rule against its own examples, or raise `PolicyInvalid` with the line."""
    for name in block_of(rules, ARGUMENT_RULES):
        rule = rule_of(name, block_of(rules, ARGUMENT_RULES, name))
        path = (section, ARGUMENT_RULES, name)
        for key, expected in (("match", True), ("not_match", False)):
            examples = reader.examples[(*path, key)]
            if not examples and not reader.stored:
                message = f"rule {name} has no {key} example"
                raise reader.fail_at(PolicyReason.EXAMPLE, path, message)
            for example in examples:
                _hold(rule, example, key, expected=expected, reader=reader)


def _hold(
    rule: ArgumentRule, example: ScalarNode, key: str, *, expected: bool, reader: RuleReader
) -> None:
    try:
        argv = shlex.split(example.text)
    except ValueError as exc:
        message = f"{key} example {quote(example.text)}: {exc}"
        raise reader.fail(PolicyReason.EXAMPLE, example.line, message) from exc
    if (denied_word(rule, argv) is not None) != expected:
        verb = "does not refuse" if expected else "refuses"
        message = f"rule {rule.name} {verb} its {key} example {quote(example.text)}"
        raise reader.fail(PolicyReason.EXAMPLE, example.line, message)


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

PROFILE: Final = RuleRecord(
    (
        RuleField("allowed_imports", RuleGroup(IMPORT, most=512), "imports"),
        RuleField("denied_imports", RuleGroup(IMPORT, "removed", most=512), "denied imports"),
        RuleField("executor_network", WordChoice(NETWORKS), "network of the executor"),
        RuleField("allowed_binaries", RuleGroup(BINARY), "programs that may be started"),
        RuleField("denied_patterns", RuleGroup(DENIED, "removed"), "denied commands"),
        RuleField("match", Examples("modules user code may import"), "examples"),
        RuleField("not_match", Examples("modules user code may not import"), "counter-examples"),
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


FUNCTION: Final = RuleRecord(
    (
        RuleField(
            "sha256", Pin(DIGEST.pattern, DIGEST.words), "digest of name, signature and source"
        ),
        RuleField("input_bytes", Bound(1, 2**26, BYTES), "bytes of its arguments"),
        RuleField("output_bytes", Bound(1, 2**26, BYTES), "bytes of what it returns"),
        RuleField("depth", Bound(1, 64), "nesting of its arguments and of what it returns"),
        RuleField("calls", Bound(1, 100_000), "calls in one run"),
    )
)


def _limits(ranges: Mapping[str, Leaf], names: tuple[str, ...]) -> RuleRecord:
    return RuleRecord(tuple(RuleField(name, ranges[name], LIMIT_WORDS[name]) for name in names))


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
    RuleField("enabled", SWITCH, "lane in use"),
    RuleField("default_profile", NAME, "profile of a request that names none"),
    RuleField("profiles", RuleGroup(NAME, least=1), "profiles"),
)

MONTY: Final = RuleRecord(
    (
        *_LANE,
        RuleField("imports", RuleGroup(WordChoice(MONTY_MODULES)), "modules of the interpreter"),
        RuleField(
            "default", _limits(MONTY_RANGES, REQUEST_LIMITS), "limits of an unspecific request"
        ),
        RuleField("max", _limits(MONTY_RANGES, ALL_LIMITS), "highest limits"),
    )
)
# What a run may ask through the gateway at most; a request lists its own hosts and bytes.
GATEWAY: Final = RuleRecord(
    (
        RuleField("hosts", RuleGroup(PATTERN, most=64), "hosts a request may list"),
        RuleField("methods", RuleGroup(WordChoice(METHODS)), "methods"),
        RuleField("up_bytes", Number(0, 2**24, BYTES), "bytes that may leave in one run"),
        RuleField("down_bytes", Number(0, 2**28, BYTES), "bytes that may come in one run"),
        RuleField("requests", Number(0, 10_000), "requests in one run"),
        RuleField("deadline_seconds", Number(1, 3_600, SECONDS), "time for one request"),
    )
)
ERA: Final = RuleRecord(
    (
        *_LANE,
        RuleField("engines", RuleGroup(WordChoice(ENGINES)), "engines"),
        RuleField("network", WordChoice(NETWORKS), "widest network of any profile"),
        RuleField("gateway", GATEWAY, "what a run may ask through the gateway"),
        RuleField(
            "default", _limits(ERA_RANGES, REQUEST_LIMITS), "limits of an unspecific request"
        ),
        RuleField("max", _limits(ERA_RANGES, ALL_LIMITS), "highest limits"),
    )
)

RECORD: Final = RuleRecord(
    (
        RuleField(
            "may_read",
            RuleGroup(
                WordChoice(
                    ("analysis", "approval", "research-packet", "tool-request", "tool-result")
                )
            ),
            "artifacts TOOL-EXEC may read",
        ),
        RuleField(
            "may_draft", RuleGroup(WordChoice(("tool-result",))), "artifacts TOOL-EXEC may make"
        ),
        RuleField(
            "rule_of_two",
            WordChoice(("refuse", "allow-if-approved")),
            "external input, confidential data and network together",
        ),
        RuleField(
            "lanes",
            RuleRecord((RuleField("monty", MONTY, "lane"), RuleField("era", ERA, "lane"))),
            "lanes",
        ),
        RuleField(
            "functions",
            RuleTable(WordChoice(FUNCTIONS), FUNCTION),
            "external functions of the monty lane",
        ),
        RuleField(RING, RuleTable(NAME, PROFILE, most=64, least=1), "profiles"),
        RuleField(ARGUMENT_RULES, TABLE, "argument rules"),
        RuleField(
            "push",
            RuleRecord(
                (
                    RuleField(
                        "on_bad_bundle",
                        WordChoice(("quarantine", "keep-last")),
                        "executor that was sent a bad bundle",
                    ),
                    RuleField(
                        "running", WordChoice(("stop", "finish")), "runs under replaced rules"
                    ),
                )
            ),
            "policy push",
        ),
    )
)


def _check(rules: Rules, reader: RuleReader) -> None:
    for lane in block_of(rules, "lanes"):
        _check_lane(rules, lane, reader)
    for name in block_of(rules, RING):
        _check_examples(rules, name, reader)
    check_rules(rules, NAME_OF_SECTION, reader)


def _check_lane(rules: Rules, lane: str, reader: RuleReader) -> None:
    settings = block_of(rules, "lanes", lane)
    path = (NAME_OF_SECTION, "lanes", lane)
    offered = words_of(settings, "profiles")
    for name in sorted(offered):
        if name not in block_of(rules, RING):
            where = (*path, "profiles", name)
            raise reader.fail_at(PolicyReason.CONFLICT, where, f"no profile {name} exists")
        if lane == "monty":
            _check_monty_profile(rules, name, reader)
    if settings["default_profile"] not in offered:
        message = f"default_profile is not one of the profiles of {lane}"
        raise reader.fail_at(PolicyReason.CONFLICT, (*path, "default_profile"), message)
    _check_defaults(settings, path, reader)


def _check_defaults(settings: Rules, path: Path, reader: RuleReader) -> None:
    highest = block_of(settings, "max")
    for key, usual in block_of(settings, "default").items():
        most = highest[key]
        assert isinstance(usual, int)
        assert isinstance(most, int)
        if usual > most:
            raise reader.fail_at(
                PolicyReason.CONFLICT, (*path, "default", key), f"{key} above its max"
            )


def _check_monty_profile(rules: Rules, name: str, reader: RuleReader) -> None:
    """Refuse rules that the interpreter cannot enforce: it has no network and starts nothing."""
    profile = block_of(rules, RING, name)
    path = (NAME_OF_SECTION, RING, name)
    if profile["executor_network"] != "off":
        message = f"profile {name} is offered to monty, which has no network"
        raise reader.fail_at(PolicyReason.CONFLICT, (*path, "executor_network"), message)
    if profile["allowed_binaries"]:
        message = f"profile {name} is offered to monty, which starts no programs"
        raise reader.fail_at(PolicyReason.CONFLICT, (*path, "allowed_binaries"), message)
    known = words_of(block_of(rules, "lanes", "monty"), "imports")
    for module in sorted(words_of(profile, "allowed_imports") - known):
        where = (*path, "allowed_imports", module)
        raise reader.fail_at(PolicyReason.CONFLICT, where, f"monty may not import {module}")


def importable(profile: Rules) -> frozenset[str]:
    """Return the top-level modules user code may import; denied wins over allowed."""
    return words_of(profile, "allowed_imports") - words_of(profile, "denied_imports")


def _check_examples(rules: Rules, name: str, reader: RuleReader) -> None:
    path = (NAME_OF_SECTION, RING, name)
    allowed = importable(block_of(rules, RING, name))
    for key, expected in (("match", True), ("not_match", False)):
        for example in reader.examples[(*path, key)]:
            if (example.text.partition(".")[0] in allowed) != expected:
                verb = "does not allow" if expected else "allows"
                message = f"profile {name} {verb} its {key} example {quote(example.text)}"
                raise reader.fail(PolicyReason.EXAMPLE, example.line, message)


SECTION: Final = RuleSection(NAME_OF_SECTION, "tool-exec.policy.md", RECORD, _check)
