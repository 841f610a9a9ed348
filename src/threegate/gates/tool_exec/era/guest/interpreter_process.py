"""The agent's side of `interpreter.py`, the process that Python code runs in.

SECURITY
    Reads lines from a process that will run, or runs, hostile code, and passes them on as its
    word.
"""

import json
import marshal
import os
import resource
from typing import Any

from threegate.gates.tool_exec.era.guest import commands, kernel, view
from threegate.gates.tool_exec.era.guest.kernel import ExecTrace, refused_by
from threegate.gates.tool_exec.era.guest.view import closure, top_of

PROGRAM = f"{os.path.dirname(os.path.abspath(__file__))}/interpreter.py"
PYTHON, ITS_LINK = "/usr/bin/python3.11", "/usr/bin/python3"
AGENT, CLIENT = os.path.dirname(PROGRAM), "threegate_gateway"
RECORDS = "/threegate/imports"
ORDERS_FD, REPORTS_FD = 3, 4
MAX_REPORT_BYTES = 1 << 20
MAX_SHOWN = 8
Message = dict[str, Any]


def read_records() -> dict[str, tuple[list[str], list[str]]]:
    """Return the imports of every module, as the image's layers record them."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name in sorted(os.listdir(RECORDS)):
        with open(f"{RECORDS}/{name}", encoding="utf-8") as file:
            found |= {module: (once, later) for module, (once, later) in json.load(file).items()}
    return found


class Interpreter:
    """A Python process that waits for its code, in a view of its own."""

    def __init__(self, ring: Message, become: Any, *, own_view: bool) -> None:
        self.ring, self._own_view = ring, own_view
        self.held: Message = {}  # the lists of its hook, as it last reported them
        self._digests = commands.read_digests()
        self._watch = ExecTrace(ring["binaries"]) if own_view else None
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self.reports, reports = os.pipe()
        orders, self._orders = os.pipe()
        self._held = b""
        self._hidden: list[str] = []
        self.pid = os.fork()
        if self.pid == 0:
            try:
                if own_view:
                    kernel.own_mounts()
                become((out, err, orders, reports), (*ring["binaries"], PYTHON))
                # -I and -S: no environment, no site, no path of the agent.
                os.execve(PYTHON, [PYTHON, "-I", "-S", "-B", PROGRAM], {})
            finally:
                os._exit(127)
        for fd in (out, err, orders, reports):
            os.close(fd)

    def load(self, imports: list[str], packages: str) -> list[str]:
        """Let it load modules, then hide all others; return the names it found."""
        client = CLIENT if self.ring["network"] != "off" else ""
        names = sorted({*imports, client} - {""})
        self._order({"client": AGENT if client else "", "imports": names, "packages": packages})
        found = self._heard("found")
        loaded = self._heard("loaded")
        allowed = self.ring["imports"]
        records = read_records()
        kept = closure(
            records,
            allowed=allowed,
            denied=self.ring["denied_imports"],
            loaded=loaded,
            complete=self._own_view,
        )
        paths = sorted(view.hidden(kept, allowed))
        self._seal(paths)
        self._hidden = paths[:: max(1, len(paths) // MAX_SHOWN)]
        tops = sorted({top_of(name) for name in (*kept, *loaded)})
        self._order({"closure": tops, "ring": self.ring})
        return found

    def _seal(self, paths: list[str]) -> None:
        if not self._own_view:
            view.seal_in_place(self.ring["binaries"], paths)
            return
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                kernel.enter_mounts(self.pid)
                view.seal(self.ring["binaries"], paths)
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            raise OSError("the view of the ring was not made")

    def prove(self) -> list[str]:
        """Let it try what it must not be able to do; return what was refused."""
        denied = self.ring["denied_imports"]
        self._order({"closed": self._closed(), "denied": denied, "hidden": self._hidden})
        proved = self._heard("proved")
        self.held = {name: self._heard(name) for name in ("imports", "denied_imports")}
        return [*proved, *commands.prove_programs(self.ring["binaries"], self._digests)]

    def _closed(self) -> list[str]:
        """Return files that it must not be able to execute: one for each rule that forbids it."""
        if not self._own_view:
            return view.closed_in_place(self.ring["binaries"])
        # Landlock allows Python and the mount forbids it; for the library it is the reverse.
        return [ITS_LINK, kernel.LIBRARY]

    def refused(self) -> list[Message]:
        """Return the programs that the kernel refused since the last call."""
        return refused_by(self._watch)

    def run(self, job: Message, code: bytes) -> dict[int, str]:
        """Give it its code; return its streams by descriptor."""
        processes = job["processes"]
        resource.prlimit(self.pid, resource.RLIMIT_NPROC, (processes, processes))
        rules = job["ring"]["rules"]
        self.refused()  # drops the refusals of our own proofs
        # A library may have printed while it was loaded: that is not output of the job.
        for fd in (self.out, self.err):
            forget(fd)
        self._order({"code": code, "recursion": job["recursion"], "rules": rules})
        os.close(self._orders)
        return {self.out: "stdout", self.err: "stderr", self.reports: "reports"}

    def _order(self, message: Message) -> None:
        data = marshal.dumps(message)
        left = memoryview(len(data).to_bytes(4, "big") + data)
        while left:
            left = left[os.write(self._orders, left) :]

    def _heard(self, word: str) -> list[str]:
        """Return the parts of the next line of this kind; others report our own proofs."""
        while True:
            line, newline, rest = self._held.partition(b"\n")
            if newline:
                self._held = rest
                first, *parts = line.decode("ascii", "replace").split("\x1f")
                if first == word:
                    return parts
                continue
            piece = os.read(self.reports, 65536)
            self._held += piece
            if not piece or len(self._held) > MAX_REPORT_BYTES:
                raise OSError("the interpreter did not answer")


def forget(fd: int) -> None:
    """Empty a pipe."""
    os.set_blocking(fd, False)
    try:
        while os.read(fd, 65536):
            pass
    except BlockingIOError:
        pass
    os.set_blocking(fd, True)


def violation(line: bytes) -> Message | None:
    """Return a line about a refusal in the form that the gate reads; None for any other."""
    parts = line.decode("ascii", "replace").split("\x1f")
    if len(parts) != 4 or parts[0] != "violation" or parts[1] not in RULES:
        return None
    argument = "".join(c for c in parts[2] if " " <= c <= "~")[:200]
    number = int(parts[3]) if parts[3].isdecimal() and len(parts[3]) < 7 else 0
    return {"argument": argument or "?", "line": number, "rule": parts[1]}


RULES = ("allowed_imports", "denied_imports", "allowed_binaries", "denied_patterns")
