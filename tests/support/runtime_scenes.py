"""A gate that asks a socket while somebody exchanges the directory the socket is in."""

import json
import os
import shlex
import socket
import sys
import tempfile
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tests.support.payloads import start_with
from threegate.base.errors import GateUnavailable
from threegate.host.proxy.supervisor import listening
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import CORE
from threegate.sandbox.session import run_gate

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


def main() -> None:
    print(json.dumps(asked(sys.argv[1])))
