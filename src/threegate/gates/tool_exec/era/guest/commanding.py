"""Commands in the guest: judged by their words, then started as the program policy names.

A program is started by the path the profile gives, and only if that path is the file itself
and its bytes are those the image was built with.  What a command starts in turn is found through
a PATH that holds the programs of the profile and nothing else.

SECURITY
    Runs as root inside the guest, before a job.  The words were approved; they are judged once
    more here, by the rules the job came with, so that a refused command never has a process.
"""

import hashlib
import json
import os
from typing import Any

from threegate.policy.ring.commands import ArgumentRule, CommandRefusal, base, refusal, resolve

RECORDS = "/threegate/programs"
PATH = "/run/programs"
PIECE_BYTES = 1 << 20
REFUSED = 126  # as a shell says of what it may not start
Message = dict[str, Any]


def judge(ring: Message, argv: list[str]) -> CommandRefusal | None:
    """Return the rule that refuses a command, if one does."""
    rules = [
        ArgumentRule(name, tuple(programs), tuple(denied), tuple(required))
        for name, programs, denied, required in ring["arguments"]
    ]
    return refusal(argv, binaries=ring["binaries"], patterns=ring["patterns"], arguments=rules)


def program(ring: Message, word: str) -> str:
    """Return the path of the program that a word names; it was judged before."""
    found = resolve(ring["binaries"], word)
    assert found is not None
    return found


def read_digests() -> dict[str, str]:
    """Return the digest of every program of the image, as it was built."""
    found: dict[str, str] = {}
    for name in sorted(os.listdir(RECORDS)):
        with open(f"{RECORDS}/{name}", encoding="utf-8") as file:
            found |= json.load(file)
    return found


def digest_of(path: str) -> str:
    """Return the digest of a file."""
    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()


def is_built(path: str, digests: dict[str, str]) -> bool:
    """Tell whether a path is a program itself, no link to one, with the bytes it was built with."""
    if os.path.realpath(path) != path or not os.path.isfile(path):
        return False
    return path in digests and digest_of(path) == digests[path]


def links_to(binaries: list[str]) -> dict[str, str]:
    """Return what the one directory holds in which programs are looked for by name."""
    named = [path for path in binaries if resolve(binaries, base(path)) == path]
    return {f"{PATH}/{base(path)}": path for path in named}


def lay_path(binaries: list[str]) -> None:
    """Make that directory."""
    os.makedirs(PATH, mode=0o755, exist_ok=True)
    for link, path in links_to(binaries).items():
        os.symlink(path, link)


def environment() -> dict[str, str]:
    """Return all that a command finds in its environment."""
    return {"PATH": PATH}


def prove(ring: Message, digests: dict[str, str]) -> list[str]:
    """Return what was tried just now: denied commands, and the programs against their digests."""
    proved = []
    words = [pattern.split() for pattern in ring["patterns"]]
    tried = [["/nowhere"], ["sh/x"], *([*ring["binaries"][:1], *line] for line in words)]
    if all(judge(ring, argv) is not None for argv in tried):
        proved.append("commands")
    return [*proved, *prove_programs(ring["binaries"], digests)]


def prove_programs(binaries: list[str], digests: dict[str, str]) -> list[str]:
    """Return whether every program is the one that was built, as what was tried just now."""
    return ["programs"] if all(is_built(path, digests) for path in binaries) else []


def violation(found: CommandRefusal) -> Message:
    """Return a refusal as the gate hears of it."""
    item = "" if found.rule == "allowed_binaries" else f"{found.item}: "
    argument = f"{item}{found.argument}"[:200]
    return {"argument": argument.strip() or "?", "line": 0, "rule": found.rule}


def sentence(found: CommandRefusal, rules: dict[str, str]) -> str:
    """Return a refusal as whoever reads the result sees it."""
    place = rules.get(f"{found.rule}/{found.item}", rules.get(found.rule, ""))
    what = f"{found.item}: {found.argument}" if found.item != found.argument else found.item
    return f"threegate: not started, refused by {found.rule} ({place}): {what}\n"
