"""Code of an attacker who looks for files and sockets of the host; the control runs it too.

It runs inside a gate's sandbox as its payload, so it imports no other part of the tests.
"""

import ctypes
import errno
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from threegate.sandbox.channel import read_message, write_message

Act = Callable[..., object]
Scene = dict[str, Any]
MAX_DESCRIPTOR = 1024


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(1)


def write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))


def squat(path: str) -> None:
    """Take the names that a later command writes to."""
    for suffix in (".new", "-journal"):
        os.close(os.open(path + suffix, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.unlink(path + suffix)


def claim(path: str) -> None:
    """Make a file, and the directories that lead to it, before its owner does."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


def replace(path: str) -> None:
    os.rename(path, path + ".away")
    os.rename(path + ".away", path)


def listed(path: str) -> list[str]:
    return os.listdir(path)


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(path)


def search(wanted: list[list[int]], tops: list[str]) -> None:
    """Find files by inode, whatever their name is here: in every directory and descriptor."""
    found: set[int] = set()
    for fd in range(MAX_DESCRIPTOR):
        _note(found, wanted, os.fstat, fd)
    for top in tops:
        for directory, _, names in os.walk(top):
            for name in ("", *names):
                _note(found, wanted, os.lstat, os.path.join(directory, name))
    if not found:
        raise FileNotFoundError(errno.ENOENT, "none of them is in view")
    if len(found) < len(wanted):
        raise ProcessLookupError(errno.ESRCH, "some of them are in view")


def _note(found: set[int], wanted: list[list[int]], look: Act, what: object) -> None:
    try:
        info: Any = look(what)
    except OSError:
        return
    if [info.st_dev, info.st_ino] in wanted:
        found.add(info.st_ino)


def acts(scene: Scene) -> list[tuple[str, Act, tuple[Any, ...]]]:
    """Return every attack as (name, function, arguments)."""
    if scene.get("early"):
        return [(f"claim {name}", claim, (path,)) for name, path in scene["files"].items()]
    made: list[tuple[str, Act, tuple[Any, ...]]] = [
        (f"{act.__name__} {name}", act, (path,))
        for name, path in scene["files"].items()
        for act in (read, write, squat, replace)
    ]
    made += [(f"list {name}", listed, (path,)) for name, path in scene["directories"].items()]
    made += [(f"connect {name}", connect, (path,)) for name, path in scene["sockets"].items()]
    made.append(("search for all", search, (scene["inodes"], scene["tops"])))
    # The control inside: a search finds what the sandbox does show.
    return [*made, ("search for own code", search, ([scene["own"]], scene["tops"]))]


def attempted(act: Act, arguments: tuple[Any, ...]) -> str:
    """Return `worked`, or the name of the error."""
    try:
        act(*arguments)
    except OSError as exc:
        return errno.errorcode.get(exc.errno or 0, str(exc.errno))
    return "worked"


def locked(act: Act, arguments: tuple[Any, ...], lock: str) -> str:
    """Make an attempt in a child under the filter of a Monty worker."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ctypes.CDLL(lock)  # its constructor is the worker's lock
            os.write(writer, attempted(act, arguments).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        told = answer.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return told or (signal.Signals(-code).name if code < 0 else f"exit {code}")


def looked(scene: Scene) -> dict[str, str]:
    """Make every attempt; return what came of each."""
    lock = scene.get("lock", "")
    return {
        name: locked(act, arguments, lock) if lock else attempted(act, arguments)
        for name, act, arguments in acts(scene)
    }


def main() -> None:
    """Be the payload of a gate."""
    scene = json.loads(read_message(0, 1024 * 1024) or b"")
    write_message(3, json.dumps(looked(scene)).encode())
