"""The first program inside the namespaces: lock, prove, then run the payload.

Order: import what the payload needs, move the frame channel aside, limits, close inherited
descriptors, Landlock, seccomp, proofs, evidence, payload.  Any failure ends the process with
exit code 69 before the payload has seen a byte.

SECURITY
    Everything after `lock` is confined; everything before it runs our own code only and
    reads nothing but the orders.
"""

from __future__ import annotations

import os
import resource
import sys

from threegate.sandbox.channel import READY
from threegate.sandbox.kernel import (
    LIMITS,
    PR_SET_DUMPABLE,
    PR_SET_MDWE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    abi,
    filter_program,
    pointer,
    prctl,
    restrict,
    syscall,
)
from threegate.sandbox.proofs import prove

TYPE_CHECKING = False  # importing collections would cost more than the rest of this module
if TYPE_CHECKING:
    from collections.abc import Callable

    Orders = dict[str, list[str]]

EX_UNAVAILABLE = 69
FRAME_FD = 3
_MODE_FILTER = 1
_ALL_THREADS = 1


def main(text: str) -> None:
    """Carry out the orders; never returns."""
    try:
        orders = read_orders(text)
        numbers = dict(_pairs(orders["number"]))
        payload = _find(orders)
        _move_channel()
        _lock(orders, numbers)
        for name in orders["proof"]:
            prove(name, numbers)
    except BaseException as exc:  # noqa: BLE001  # after any error, the payload must not start
        sys.stderr.write(f"threegate: lock failed: {_failed_step(exc)}\n")
        sys.stderr.flush()
        os._exit(EX_UNAVAILABLE)
    os.write(FRAME_FD, READY)  # the lock holds: from here on the host hears the payload
    payload()
    sys.stdout.flush()
    os._exit(0)


def _failed_step(exc: BaseException) -> str:
    """Name the step that failed: an errno alone helps nobody."""
    step = getattr(exc, "filename", None)  # where OSError keeps what it is about
    if isinstance(exc, OSError) and exc.errno and step:
        return f"{step}: {exc.strerror}"
    return f"{type(exc).__name__}: {exc}"


def read_orders(text: str) -> Orders:
    """Return the orders as lists of values; every key that matters must be there."""
    found: Orders = {"module": [], "keep": [], "port": [], "program": [], "narrow": []}
    for line in text.split("\n"):
        key, _, value = line.partition(" ")
        found.setdefault(key, []).append(value)
    return found


def _pairs(values: list[str]) -> list[tuple[str, int]]:
    return [(name, int(number)) for name, _, number in (value.partition(" ") for value in values)]


def _find(orders: Orders) -> Callable[[], None]:
    """Import everything the payload needs while files can still be mapped as code."""
    for name in orders["module"]:
        __import__(name)
    payload, program = orders["payload"][0], orders["program"]
    if payload == "exec":
        return lambda: _become(program, orders)
    module, _, function = payload.partition(":")
    found: Callable[[], None] = getattr(__import__(module, fromlist=[function]), function)
    return found


def _become(program: list[str], orders: Orders) -> None:
    for fd in (FRAME_FD, *map(int, orders["keep"])):  # it is the program that answers
        os.set_inheritable(fd, True)  # noqa: FBT003
    for narrow in orders["narrow"]:
        _install(bytes.fromhex(narrow), dict(_pairs(orders["number"])))
    os.execve(program[0], program, {})


def _move_channel() -> None:
    # Native libraries print to descriptor 1; frames must not share it.
    os.dup2(1, FRAME_FD, inheritable=False)
    os.dup2(2, 1)


def _lock(orders: Orders, numbers: dict[str, int]) -> None:
    keep = {0, 1, 2, FRAME_FD, *map(int, orders["keep"])}
    _step("prctl", lambda: (prctl(PR_SET_DUMPABLE, 0), prctl(PR_SET_PDEATHSIG, 9)))
    _step("close_range", lambda: _close_others(keep, numbers))
    if orders["mdwe"] == ["1"]:
        _step("memory-deny-write-execute", lambda: prctl(PR_SET_MDWE, 1))
    for name, value in _pairs(orders["limit"]):
        resource.setrlimit(LIMITS[name], (value, value))
    version = int(orders["landlock"][0])
    if abi() != version:
        raise OSError(0, f"Landlock ABI {abi()} inside, {version} outside")
    paths = [(path, rights) for rights, _, path in (p.partition(" ") for p in orders["path"])]
    ports = [int(port) for port in orders["port"]]
    _step("Landlock", lambda: restrict(paths, ports, version))
    _step("seccomp", lambda: _install(bytes.fromhex(orders["filter"][0]), numbers))


def _step(name: str, act: Callable[[], object]) -> None:
    try:
        act()
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, name) from exc


def _close_others(keep: set[int], numbers: dict[str, int]) -> None:
    low = 0
    for fd in sorted(keep):
        if fd > low:
            syscall(numbers["close_range"], low, fd - 1, 0)
        low = fd + 1
    syscall(numbers["close_range"], low, 2**32 - 1, 0)


def _install(program: bytes, numbers: dict[str, int]) -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    fprog, memory = filter_program(program)
    late = syscall(numbers["seccomp"], _MODE_FILTER, _ALL_THREADS, pointer(fprog))
    del memory
    if late:
        raise OSError(0, f"thread {late} could not be filtered")
