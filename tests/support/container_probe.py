"""What an owned process tries in a container; read as text, and run there by itself."""

import ctypes
import errno
import json
import os
import socket
from collections.abc import Callable

SECONDS = 3
inet = socket.AF_INET
KEYCTL, PTRACE = (250, 101) if os.uname().machine == "x86_64" else (219, 117)


def why(act: Callable[[], object]) -> str:
    try:
        return str(act())
    except OSError as exc:
        return errno.errorcode.get(exc.errno or 0, str(exc))


QUESTION = bytes.fromhex("000101000001000000000000") + b"\x03api\x08crossref\x03org\0\0\1\0\1"


def connect(address: tuple[str, int], kind: int = socket.SOCK_STREAM) -> str:
    with socket.socket(inet, kind) as sock:
        sock.settimeout(SECONDS)
        sock.connect(address)
        sock.send(QUESTION)
        return "open"


def resolve() -> str:
    try:
        return str(socket.getaddrinfo(b"api.crossref.org", 443))
    except socket.gaierror as exc:
        return f"gaierror {exc.errno}"


def write(path: str) -> str:
    with open(path, "w") as file:
        file.write("x")
    return "written"


def call(number: int, *arguments: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
    return "done"


def tunnel(host: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect("/run/threegate/proxy.sock")
        sock.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        return sock.recv(4096).split(b"\r\n")[0].decode()


with open("/proc/self/status") as file:
    status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
tried = {
    "direct": why(lambda: connect(("104.18.0.1", 443))),
    "datagram": why(lambda: connect(("104.18.0.1", 443), socket.SOCK_DGRAM)),
    "name server": why(lambda: connect(("45.1.1.1", 53), socket.SOCK_DGRAM)),
    "resolving": resolve(),
    "host's loopback": why(lambda: connect(("127.0.0.1", 9999))),
    "vsock": why(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "packet": why(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "raw": why(lambda: socket.socket(inet, socket.SOCK_RAW, 1)),
    "root file": why(lambda: write("/file")),
    "program": why(lambda: write("/opt/threegate/bin/threegate")),
    "library": why(lambda: write("/usr/file")),
    "sysctl": why(lambda: write("/proc/sys/net/ipv4/ip_forward")),
    "core pattern": why(lambda: write("/proc/sys/kernel/core_pattern")),
    "keyring": why(lambda: call(KEYCTL, 0, -3, 0)),
    "ptrace": why(lambda: call(PTRACE, 0, 0, 0, 0)),
    "workspace": why(lambda: write("/srv/threegate/file")),
    "socket": why(lambda: tunnel("api.crossref.org")),
    "socket, other name": why(lambda: tunnel("evil.example")),
}
print(
    json.dumps(
        {
            "tried": tried,
            "uid": os.getuid(),
            "interfaces": sorted(name for _, name in socket.if_nameindex()),
            "capabilities": status["CapEff"].strip() + status["CapBnd"].strip(),
            "no new privileges": status["NoNewPrivs"].strip(),
            "filter": status["Seccomp"].strip(),
        }
    )
)
