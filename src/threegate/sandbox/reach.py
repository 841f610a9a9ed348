"""Holds one gate to a list of addresses, by the kernel's packet filter: what `nft` sets for a uid.

The gate has a uid of its own.  First it may ask for names and nothing else; once the addresses
are known, it may connect to port 443 of these and to nothing else, name servers included.  One
table of our own is replaced as a whole, so that there is no moment without rules.

SECURITY
    Root's hand on the packet filter.  Elements are addresses that were parsed, never text of
    anybody's.  If this module is wrong, an owned proxy of a run reaches other machines than
    those its hosts had when the run began.
"""

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final

from threegate.base.errors import GateUnavailable
from threegate.sandbox.machine import gate_uid
from threegate.sandbox.programs import PATH, find_program

Address = IPv4Address | IPv6Address

NO_FILTER: Final = "TG-BOX-060"
TABLE: Final = "threegate_runs"
LOCKS: Final = Path("/run")  # root's own: nobody else can hold a lock there
NFT_SECONDS: Final = 20
WAIT_SECONDS: Final = 600.0  # for another run: this one was claimed already
LOOK_SECONDS: Final = 0.1
_NAMES: Final = "    meta l4proto { tcp, udp } th dport 53 accept\n"


def rules(uid: int, addresses: Collection[Address], *, names: bool) -> str:
    """Return the table that holds `uid`, for `nft -f`."""
    sets = "".join(
        f"  set reach_v{version} {{ type ipv{version}_addr;{_elements(addresses, version)} }}\n"
        for version in (4, 6)
    )
    return f"""\
table inet {TABLE} {{}}
delete table inet {TABLE}
table inet {TABLE} {{
{sets}  counter passed {{}}
  counter refused {{}}
  chain run {{
{_NAMES if names else ""}    ip daddr @reach_v4 tcp dport 443 counter name passed accept
    ip6 daddr @reach_v6 tcp dport 443 counter name passed accept
    counter name refused reject with icmpx admin-prohibited
  }}
  chain output {{
    type filter hook output priority filter - 1; policy accept;
    meta skuid {uid} goto run
  }}
}}
"""


def _elements(addresses: Collection[Address], version: int) -> str:
    found = sorted(str(one) for one in addresses if one.version == version)
    return f" elements = {{ {', '.join(found)} }};" if found else ""


def missing() -> str | None:
    """Return why the kernel cannot hold a gate to addresses here, or nothing."""
    if os.geteuid() != 0:
        return "only root may set nftables"
    nft = find_program("nft")
    if nft is None:
        return "nftables is not installed (sudo apt install nftables)"
    if _run(nft, ("list", "tables")).returncode:
        return "the kernel does not let nftables be set"
    return None


@dataclass(frozen=True, slots=True)
class Counted:
    """What the kernel counted for the gate."""

    passed: int
    refused: int


@dataclass(slots=True)
class Reach:
    """The addresses that one gate may reach."""

    nft: Path
    uid: int
    addresses: tuple[Address, ...] = ()

    def hold(self, addresses: Collection[Address]) -> None:
        """Let it connect to these addresses only, from now on; raise `GateUnavailable`."""
        self.addresses = tuple(addresses)
        self._load(names=False)
        if self._reads_back() != {str(one) for one in addresses}:
            raise _unavailable("the kernel does not have the addresses it was given")

    def counted(self) -> Counted:
        """Return what was counted; raise `GateUnavailable` if the table is not there any more."""
        counters = {
            item["counter"]["name"]: item["counter"]["packets"]
            for item in self._listed()
            if "counter" in item
        }
        return Counted(counters["passed"], counters["refused"])

    def open_to_names(self) -> None:
        """Let it ask for names, and nothing else."""
        self._load(names=True)

    def remove(self) -> None:
        """Take the table away."""
        with suppress(GateUnavailable):  # one that stays refuses; the next run replaces it
            _run(self.nft, ("-f", "-"), f"table inet {TABLE} {{}}\ndelete table inet {TABLE}\n")

    def _load(self, *, names: bool) -> None:
        text = rules(self.uid, self.addresses, names=names)
        if _run(self.nft, ("-f", "-"), text).returncode:
            raise _unavailable("nft did not take the rules")

    def _reads_back(self) -> set[str]:
        return {
            str(element)
            for item in self._listed()
            if item.get("set", {}).get("name", "").startswith("reach_v")
            for element in item["set"].get("elem", [])
        }

    def _listed(self) -> list[dict[str, Any]]:
        found = _run(self.nft, ("-j", "list", "table", "inet", TABLE))
        if found.returncode:
            raise _unavailable(f"table {TABLE} is not there any more")
        listed: list[dict[str, Any]] = json.loads(found.stdout)["nftables"]
        return listed


@contextmanager
def reaching(profile: str) -> Iterator[Reach]:
    """Limit the gate of this profile within the context: to name servers, then to addresses.

    Waits for another run that has one.  Raises `GateUnavailable` where the kernel cannot.
    """
    why, nft = missing(), find_program("nft")
    if why is not None or nft is None:
        raise _unavailable(why or "nftables is gone")
    with _alone():
        reach = Reach(nft, gate_uid(profile))
        reach.open_to_names()
        try:
            yield reach
        finally:
            reach.remove()


@contextmanager
def _alone() -> Iterator[None]:
    """Exclude other runs in this network: a uid has one list of addresses per network.

    Tables belong to a network namespace, so a run in another one need not wait.
    """
    lock = LOCKS / f"threegate-runs-{os.stat('/proc/self/ns/net').st_ino}.lock"
    end = time.monotonic() + WAIT_SECONDS
    while (fd := _locked(lock)) is None:
        if time.monotonic() > end:
            raise _unavailable("another run has had this network for too long")
        time.sleep(LOOK_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # namespaces come and go
        os.close(fd)


def _locked(lock: Path) -> int | None:
    """Return a descriptor that holds the lock, or None while another run holds it."""
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The run before us may have removed the file after we opened it.
        if os.fstat(fd).st_nlink:
            return fd
    os.close(fd)
    return None


def _run(nft: Path, words: tuple[str, ...], text: str = "") -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(  # our own words, and addresses
            [nft, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=NFT_SECONDS,
            check=False,
            env={"PATH": PATH, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _unavailable("nft did not answer") from exc


def _unavailable(why: str) -> GateUnavailable:
    detail = f"the kernel cannot hold a run to its addresses: {why}"
    return GateUnavailable(detail, code=NO_FILTER)
