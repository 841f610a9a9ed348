"""Commands in the guest: checked by their words, then started as the program that policy names.

A program is started by the path in the profile, and only if that path is the file itself and its
bytes are those the image was built with.  PATH holds the programs of the profile and nothing else,
so a command that starts programs finds no others.

SECURITY
    Runs as root inside the guest, before a job.  The words were approved.  They are checked once
    more here, by the rules of the job, so that a refused command never has a process.  Between
    fork and exec the child gives up root and takes on the rules of the profile; if one of these
    steps fails, it ends without starting anything.
"""

import errno
import hashlib
import json
import mmap
import os
import resource
from collections.abc import Callable
from typing import Any

from threegate.gates.tool_exec.era.guest import kernel, view
from threegate.gates.tool_exec.era.guest.kernel import ExecTrace, refused_by
from threegate.policy.ring.commands import ArgumentRule, CommandRefusal, base, refusal, resolve

RECORDS = "/threegate/programs"
PATH = "/run/programs"
PIECE_BYTES = 1 << 20
REFUSED = 126  # the exit code of a shell for a file that it may not execute
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
    """Tell whether a path is a program, not a link, with the bytes it was built with."""
    if os.path.realpath(path) != path or not os.path.isfile(path):
        return False
    return path in digests and digest_of(path) == digests[path]


def links_to(binaries: list[str]) -> dict[str, str]:
    """Return the symbolic links of the directory in PATH: one for each program of the profile."""
    named = [path for path in binaries if resolve(binaries, base(path)) == path]
    return {f"{PATH}/{base(path)}": path for path in named}


def lay_path(binaries: list[str]) -> None:
    """Make the directory in PATH."""
    os.makedirs(PATH, mode=0o755, exist_ok=True)
    for link, path in links_to(binaries).items():
        os.symlink(path, link)


def environment() -> dict[str, str]:
    """Return the whole environment of a command."""
    return {"PATH": PATH}


def prove(ring: Message, digests: dict[str, str]) -> list[str]:
    """Try denied commands and compare the programs with their digests; return what held."""
    proved = []
    words = [pattern.split() for pattern in ring["patterns"]]
    # An unknown path, a name with a slash, and each denied pattern behind an allowed program.
    tried = [["/nowhere"], ["sh/x"], *([*ring["binaries"][:1], *line] for line in words)]
    if all(judge(ring, argv) is not None for argv in tried):
        proved.append("commands")
    return [*proved, *prove_programs(ring["binaries"], digests)]


def prove_programs(binaries: list[str], digests: dict[str, str]) -> list[str]:
    """Return the name of the proof if every program has the bytes that were built."""
    return ["programs"] if all(is_built(path, digests) for path in binaries) else []


def violation(found: CommandRefusal) -> Message:
    """Return a refusal as the gate hears of it."""
    item = "" if found.rule == "allowed_binaries" else f"{found.item}: "
    argument = f"{item}{found.argument}"[:200]
    return {"argument": argument.strip() or "?", "line": 0, "rule": found.rule}


def sentence(found: CommandRefusal, rules: dict[str, str]) -> str:
    """Return a refusal as the reader of the result sees it."""
    place = rules.get(f"{found.rule}/{found.item}", rules.get(found.rule, ""))
    what = f"{found.item}: {found.argument}" if found.item != found.argument else found.item
    return f"threegate: not started, refused by {found.rule} ({place}): {what}\n"


UNMAPPABLE = "/etc/passwd"  # on a mount with noexec
EXEC, SOCKET = 1, 2  # bits of the exit code of the process that tries both
NOT_STARTED = 127  # the exit code of a shell for a program that it cannot start


class Commands:
    """The programs of one profile; each command gets a view of its own."""

    def __init__(self, ring: Message, become: Callable[..., None], *, own_view: bool) -> None:
        self._ring, self._become, self._own_view = ring, become, own_view
        self.held: Message = {}  # no other process has a copy of the lists
        self._digests = read_digests()
        self._watch: ExecTrace | None = None
        binaries = ring["binaries"]
        if own_view:
            view.lay_fewer(binaries)
            self._watch = ExecTrace([*binaries, *links_to(binaries)])
        else:
            view.seal_in_place(binaries, ())
        lay_path(binaries)

    def prove(self) -> list[str]:
        """Try what no command may do; return what was refused."""
        tried = self._tried()
        proved = [name for name, bit in (("exec", EXEC), ("socket", SOCKET)) if tried & bit]
        return [*proved, *prove(self._ring, self._digests)]

    def start(self, job: Message) -> tuple[int, dict[int, str]]:
        """Start a command that was judged; return its process, and its streams by descriptor."""
        self.refused()  # drops the refusals of our own proofs
        out, write_out = os.pipe()
        err, write_err = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._exec(job, (write_out, write_err))
            except BaseException as exc:  # noqa: BLE001  # the child must never return to the agent's loop
                os.write(2, f"the program could not be started: {exc}\n".encode())
            os._exit(NOT_STARTED)
        os.close(write_out)
        os.close(write_err)
        return pid, {out: "stdout", err: "stderr"}

    def refused(self) -> list[Message]:
        """Return the programs that the kernel refused since the last call."""
        return refused_by(self._watch)

    def _exec(self, job: Message, streams: tuple[int, int]) -> None:
        binaries = job["ring"]["binaries"]
        resource.setrlimit(resource.RLIMIT_NPROC, (job["processes"], job["processes"]))
        if self._own_view:
            _confine(binaries)
        self._become(streams, tuple(binaries))
        path = program(job["ring"], job["argv"][0])
        os.execve(path, job["argv"], environment())

    def _tried(self) -> int:
        """Try, confined like a command, what no command may do; return what was refused."""
        pid = os.fork()
        if pid == 0:
            code, binaries = 0, self._ring["binaries"]
            try:
                nothing = os.open("/dev/null", os.O_WRONLY)
                if self._own_view:
                    _confine(binaries)
                self._become((nothing, nothing), tuple(binaries))
                # Only Landlock forbids the library; only the mount forbids mapping code.
                closed = [kernel.LIBRARY] if self._own_view else view.closed_in_place(binaries)
                unmapped = not self._own_view or _cannot_map(UNMAPPABLE)
                code = SOCKET if kernel.refuses_sockets() else 0
                code |= EXEC if unmapped and all(map(_cannot_execute, closed)) else 0
            finally:
                os._exit(code)
        return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


def _confine(binaries: list[str]) -> None:
    """Make a view in which these programs, and nothing else, can be executed."""
    kernel.own_mounts()
    view.lay_programs()
    view.seal(binaries, ())


def _cannot_execute(path: str) -> bool:
    try:
        os.execve(path, [path], {})
    except OSError as exc:
        return exc.errno == errno.EACCES


def _cannot_map(path: str) -> bool:
    with open(path, "rb") as file:
        try:
            mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
        except OSError as exc:
            return exc.errno == errno.EPERM
    return False
