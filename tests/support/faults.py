"""Machines that lack something: a process breaks its own kernel, then tries to start a gate.

Run as `faults:main` in a process of its own, by root or by an ordinary user; prints one
JSON object that says whether the gate started, and if not, what the operator is told.
"""

import errno
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.boxes import hostile_start, start_with
from threegate.base.errors import GateUnavailable, ThreeGateError
from threegate.host.proxy.supervisor import listening
from threegate.sandbox import kernel
from threegate.sandbox.attacks.runner import attack
from threegate.sandbox.box import Start
from threegate.sandbox.filters import ALLOW, CallRule, Test, assemble, error
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import CORE, FETCH_NORMALIZE
from threegate.sandbox.session import run_gate
from threegate.sandbox.syscalls import architecture

ECHO = "threegate.sandbox.channel:echo"
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
LIE = error(0)  # the call is not made, and the caller is told it worked
MISSING = error(errno.ENOSYS)
LEAKED_FD = 100
GROUP = 4242
PR_SET_MDWE, PR_GET_MDWE = 65, 66


def _filter(*rules: CallRule) -> None:
    """Break calls for this process and everything it starts."""
    arch = architecture()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    program, memory = kernel.filter_program(assemble(rules, arch))
    kernel.syscall(arch.numbers["seccomp"], 1, 0, kernel.pointer(program))
    del memory


def _call(name: str, action: int) -> Callable[[], None]:
    return lambda: _filter(CallRule(name, action))


def _no_mdwe() -> None:
    tests = tuple((Test(0, equal=o), error(errno.EINVAL)) for o in (PR_SET_MDWE, PR_GET_MDWE))
    _filter(CallRule("prctl", ALLOW, tests))


def _new_user(inner_uid: int, flags: int = 0) -> None:
    uid, gid = os.getuid(), os.getgid()
    kernel.syscall(architecture().numbers["unshare"], CLONE_NEWUSER | flags)
    for name, text in (
        ("setgroups", "deny"),
        ("gid_map", f"{inner_uid} {gid} 1"),
        ("uid_map", f"{inner_uid} {uid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _no_user_namespaces() -> None:
    _new_user(1000)
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
        file.write("0")


def _no_proc() -> None:
    _new_user(1000, CLONE_NEWNS)
    kernel.mount("none", "/proc", "tmpfs", 0)


def _leak() -> None:
    """Be a sloppy caller: pass a directory on to whatever is started."""
    fd = os.dup2(os.open("/", os.O_RDONLY | os.O_DIRECTORY), LEAKED_FD)
    popen = subprocess.Popen

    def sloppy(*arguments: Any, **options: Any) -> Any:
        options["pass_fds"] = (*options.get("pass_fds", ()), fd)
        return popen(*arguments, **options)

    subprocess.Popen = sloppy  # type: ignore[assignment,misc]


def _leak_and_pretend() -> None:
    _leak()
    _filter(CallRule("close_range", LIE))


def _root_of_nothing() -> None:
    _new_user(0)  # root by number, and no other uid to become


# name: (what breaks, whether the machine was looked at before it broke)
FAULTS: dict[str, tuple[Callable[[], None], bool]] = {
    "nothing": (lambda: None, False),
    "landlock missing": (_call("landlock_create_ruleset", MISSING), False),
    "landlock gone": (_call("landlock_create_ruleset", MISSING), True),
    "landlock rules refused": (_call("landlock_add_rule", MISSING), True),
    "landlock not applied": (_call("landlock_restrict_self", MISSING), True),
    "landlock pretended": (_call("landlock_restrict_self", LIE), True),
    "seccomp missing": (_call("seccomp", MISSING), True),
    "seccomp pretended": (_call("seccomp", LIE), True),
    "close_range missing": (_call("close_range", MISSING), True),
    "descriptor leaked": (_leak, False),
    "descriptor leaked, close_range pretended": (_leak_and_pretend, True),
    "limits pretended": (_call("prlimit64", LIE), True),
    "mdwe missing": (_no_mdwe, False),
    "mdwe gone": (_no_mdwe, True),
    "user namespaces off": (_no_user_namespaces, False),
    "no namespaces at all": (_call("unshare", error(errno.EPERM)), True),
    "proc missing": (_no_proc, False),
    "root without a uid": (_root_of_nothing, False),
}


def hold() -> None:
    """Start a gate that never answers; the test ends this process while it waits."""
    if os.geteuid() == 0:
        os.setgroups([0, GROUP])  # a login has groups; the gate must have none
    start = hostile_start("note_and_live", sys.argv[1])
    run_gate(find_machine(), start, b"", note=lambda _: print("alive", flush=True))


def main() -> None:
    fault, names = sys.argv[1], sys.argv[2].split(",") if len(sys.argv) > 2 else []
    print(json.dumps(_started(fault, [name for name in names if name])))


def _started(fault: str, names: list[str]) -> dict[str, Any]:
    breaking, late = FAULTS[fault]
    machine: Machine | None = None
    try:
        if late:
            machine = find_machine()
        breaking()
        machine = machine or find_machine()
        answer = run_gate(machine, Start(FETCH_NORMALIZE, ECHO, {}), b"hello")
    except ThreeGateError as exc:
        told = {"code": exc.code, "message": exc.message, "hint": exc.hint}
        return {"started": False, "exit": exc.exit_code, **told}
    with answer.message as message:
        said = message.read().decode("latin-1")
    results = attack(machine, [FETCH_NORMALIZE.name], names=names) if names else []
    return {
        "started": True,
        "said": said,
        "evidence": answer.evidence.plain(),
        "results": [item.plain() for item in results],
    }


# -- A gate that asks a socket while somebody exchanges the directory the socket is in.

ASK = """
import socket
def main():
    read_message(0, 10)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect("/run/model.sock")
        write_message(3, sock.recv(100))
"""
SWAP = '#!/bin/sh\nmv {place} {place}.away && mv {trap} {place} || exit 99\nexec {bwrap} "$@"\n'


def asked(when: str) -> dict[str, str]:
    """Return who answered a gate, or why it did not start.

    `when`: `never` exchanges nothing, `before` exchanges the directory before the gate starts,
    `during` when bubblewrap starts, after the host has looked.
    """
    machine = find_machine()
    with tempfile.TemporaryDirectory() as name, listening(None, purpose="scene") as found:
        scene = Path(name)
        place = Path(os.readlink(found.path.parent))
        trap = _trap(scene)
        _answering(os.dup(found.fd), b"the true one")
        if when == "before":
            place.rename(f"{place}.away")
            trap.rename(place)
        if when == "during":
            machine = _slow(machine, scene, place, trap)
        start = start_with(scene, ASK, CORE)
        (scene / "payload_under_test.py").chmod(0o644)
        scene.chmod(0o755)
        given = {**start.given, "model": str(found.path)}
        try:
            answer = run_gate(machine, replace(start, given=given), b"", deadline_seconds=30)
            with closing(answer.message):
                return {"answer": answer.message.read().decode()}
        except GateUnavailable as exc:
            return {"refused": exc.message}
        finally:
            if when != "never":
                place.rename(trap)
                Path(f"{place}.away").rename(place)


def _trap(scene: Path) -> Path:
    trap = scene / "trap"
    trap.mkdir()
    path = trap / "served.sock"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    path.chmod(0o666)
    sock.listen(8)
    _answering(sock.detach(), b"the false one")
    return trap


def _answering(fd: int, word: bytes) -> None:
    def serve(sock: socket.socket) -> None:
        while True:
            client, _ = sock.accept()
            client.sendall(word)
            client.close()

    sock = socket.socket(fileno=fd)
    threading.Thread(target=serve, args=(sock,), daemon=True).start()


def _slow(machine: Machine, scene: Path, place: Path, trap: Path) -> Machine:
    script = scene / "bwrap"
    words = {"place": place, "trap": trap, "bwrap": machine.bwrap}
    script.write_text(SWAP.format(**{key: shlex.quote(str(word)) for key, word in words.items()}))
    script.chmod(0o755)
    return replace(machine, bwrap=str(script))


def places() -> None:
    print(json.dumps(asked(sys.argv[1])))
