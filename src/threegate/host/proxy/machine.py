"""Facts about this machine for proxies: addresses, certificates, the operator's own proxy.

SECURITY
    An address of this machine that is missing in the list can be reached through the proxy if a
    name leads there; the proxy checks a second time after it has connected.  Anchors are files that
    the operator put into the workspace; the policy in force lists them by digest, so a changed file
    is not used.
"""

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, HandoffTampered, PolicyDenied, StorageFailed
from threegate.base.limits import MAX_ANCHOR_BYTES
from threegate.base.text import visible
from threegate.handoff.disk import read_file
from threegate.policy.bundle import Bundle

RESOLV_CONF: Final = "/etc/resolv.conf"
ANCHORS: Final = "policy/anchors"
MAX_ANCHOR_FILES: Final = 64
# Files of the system's certificate authorities, most common first.
CERTIFICATES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
NO_CERTIFICATES: Final = "TG-FET-060"
NO_ANCHOR: Final = "TG-FET-061"
NO_PROXY_SOCKET: Final = "TG-FET-062"
NO_RESOLVER: Final = "TG-FET-063"

Address = IPv4Address | IPv6Address


def own_addresses(proc: Path = Path("/proc")) -> tuple[Address, ...]:
    """Return every address of this machine, as the kernel lists them."""
    net = proc / "self/net"
    found = {*_own_ipv4(_read(net / "fib_trie")), *_own_ipv6(_read(net / "if_inet6"))}
    return tuple(sorted(found, key=lambda address: (address.version, address.packed)))


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except FileNotFoundError:  # a kernel without that protocol has no such address
        return ""


def _own_ipv4(text: str) -> Iterator[Address]:
    """Yield the local addresses of the routing table: a leaf precedes the line that marks it."""
    leaf = ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            leaf = words[1]
        elif words[1:] == ["host", "LOCAL"] and words[0] == "/32":
            yield ip_address(leaf)


def _own_ipv6(text: str) -> Iterator[Address]:
    for line in text.splitlines():
        yield IPv6Address(bytes.fromhex(line.split()[0]))


def resolver() -> str:
    """Return the file that names the name servers, or raise `GateUnavailable`."""
    if not os.path.isfile(RESOLV_CONF):
        hint = f"name a name server there: `nameserver ADDRESS` in {RESOLV_CONF}"
        raise GateUnavailable(f"there is no {RESOLV_CONF}", code=NO_RESOLVER, hint=hint)
    return RESOLV_CONF


def certificates() -> str:
    """Return the system's file of certificate authorities, or raise `GateUnavailable`."""
    for path in CERTIFICATES:
        if os.path.isfile(path):
            return path
    hint = "install it: sudo apt install ca-certificates"
    raise GateUnavailable("the system has no CA bundle", code=NO_CERTIFICATES, hint=hint)


def anchors(root: Path, bundle: Bundle) -> tuple[bytes, ...]:
    """Return the CA files that the policy lists by digest; raise `PolicyDenied` without one."""
    wanted = [word for word in bundle.words("fetch", "trust_anchors") if word != "system"]
    if not wanted:
        return ()
    found = {f"sha256:{sha256(data).hexdigest()}": data for data in _anchor_files(root / ANCHORS)}
    for word in wanted:
        if word not in found:
            hint = f"put the file with that digest into {ANCHORS}/ of the workspace, as *.pem"
            detail = f"the certificate authority {word[:19]}... that the policy lists is not here"
            raise PolicyDenied(detail, code=NO_ANCHOR, hint=hint)
    return tuple(found[word] for word in wanted)


def _anchor_files(directory: Path) -> Iterator[bytes]:
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        names = sorted(name for name in os.listdir(fd) if name.endswith(".pem"))
        for name in names[:MAX_ANCHOR_FILES]:
            try:
                yield read_file(fd, name, max_bytes=MAX_ANCHOR_BYTES, mode=None)
            except (OSError, HandoffTampered, StorageFailed) as exc:
                detail = f"{ANCHORS}/{visible(name)} is not a plain file of this user"
                raise PolicyDenied(detail, code=NO_ANCHOR) from exc
    finally:
        os.close(fd)


def other_proxy(bundle: Bundle) -> Path | None:
    """Return the socket of the operator's own proxy, None if the host starts one."""
    word = bundle.text("fetch", "proxy") if bundle.has("fetch", "proxy") else "own"
    if word == "own":
        return None
    path = Path(word.partition(":")[2])
    try:
        there = stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        there = False
    if not there:
        hint = "start that proxy, or say `proxy: own` in fetch.policy.md and `policy apply`"
        detail = f"there is no socket of a proxy at {visible(str(path))}"
        raise GateUnavailable(detail, code=NO_PROXY_SOCKET, hint=hint)
    return path
