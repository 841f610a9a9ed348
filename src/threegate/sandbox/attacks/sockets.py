"""Sockets that are no network: raw, netlink, vsock, Unix, and rings that need no socket call."""

from __future__ import annotations

import array
import ctypes
import os
import socket
import struct

from threegate.sandbox.attacks.base import (
    CLONE_NEWNET,
    DIALLING,
    HOST_NETWORK,
    UNIX,
    Blocked,
    Facts,
    attempt,
    call,
    collected,
    namespace_root,
)

SECONDS = 2.0
EVERY_FAMILY = 64


def _datagram(facts: Facts, address: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(SECONDS)
        sock.sendto(facts.token.encode(), address)
    return "sent"


def _created(family: int, kind: int, protocol: int = 0) -> str:
    socket.socket(family, kind, protocol).close()
    return "created"


@attempt("EACCES")
def raw_ip(facts: Facts) -> str:
    namespace_root(CLONE_NEWNET)
    return _created(socket.AF_INET, socket.SOCK_RAW, 1)


@attempt("EACCES")
def raw_ip_header(facts: Facts) -> str:
    namespace_root(CLONE_NEWNET)
    return _created(socket.AF_INET, socket.SOCK_RAW, 255)


@attempt("EACCES")
def raw_ipv6(facts: Facts) -> str:
    namespace_root(CLONE_NEWNET)
    return _created(socket.AF_INET6, socket.SOCK_RAW, 58)


@attempt("EACCES")
def ping_socket(facts: Facts) -> str:
    namespace_root(CLONE_NEWNET)
    try:
        with open("/proc/sys/net/ipv4/ping_group_range", "w", encoding="ascii") as file:
            file.write("0 0")
    except OSError:
        pass  # only the control can: it made a network of its own
    return _created(socket.AF_INET, socket.SOCK_DGRAM, 1)


@attempt("EACCES")
def udp_lite(facts: Facts) -> str:
    return _created(socket.AF_INET, socket.SOCK_DGRAM, 136)


@attempt("EACCES", control="the kernel is built without SCTP, or loads it for root only")
def sctp(facts: Facts) -> str:
    return _created(socket.AF_INET, socket.SOCK_STREAM, 132)


@attempt("EACCES")
def packet_raw(facts: Facts) -> str:
    namespace_root(CLONE_NEWNET)
    return _created(socket.AF_PACKET, socket.SOCK_RAW)


@attempt("EACCES")
def packet_datagram(facts: Facts) -> str:
    namespace_root(CLONE_NEWNET)
    return _created(socket.AF_PACKET, socket.SOCK_DGRAM)


@attempt("EACCES")
def netlink_routes(facts: Facts) -> str:
    return _created(socket.AF_NETLINK, socket.SOCK_RAW, 0)


@attempt("EACCES")
def netlink_socket_list(facts: Facts) -> str:
    return _created(socket.AF_NETLINK, socket.SOCK_RAW, 4)


@attempt("EACCES")
def netlink_kernel_events(facts: Facts) -> str:
    return _created(socket.AF_NETLINK, socket.SOCK_DGRAM, 15)


@attempt("EACCES")
def netlink_generic(facts: Facts) -> str:
    return _created(socket.AF_NETLINK, socket.SOCK_RAW, 16)


# A network namespace does not hold vsock: it reaches the hypervisor.  Created, never connected.
@attempt("EACCES", control="the machine is not a guest with vsock")
def vsock(facts: Facts) -> str:
    return _created(40, socket.SOCK_STREAM)


@attempt("EACCES", control="the kernel's crypto sockets are a module that is not loaded")
def kernel_crypto(facts: Facts) -> str:
    return _created(38, socket.SOCK_SEQPACKET)


@attempt("EACCES")
def every_other_family(facts: Facts) -> str:
    """Try each family number; outside only one, as others may make the kernel load modules."""
    allowed = {name: {2, 10} for name in DIALLING} | {name: {1} for name in UNIX}
    allowed["bridge"] = {2}
    reasons = set()
    for family in [16] if facts.control else range(EVERY_FAMILY):
        if family in allowed.get(facts.profile, set()):
            continue
        try:
            return _created(family, socket.SOCK_DGRAM)
        except OSError as exc:
            reasons.add(exc.errno)
    if reasons == {13}:
        raise PermissionError(13, "every one refused")
    raise Blocked(f"reasons {sorted(map(str, reasons))}")


@attempt("EACCES", control="no family but AF_UNIX makes pairs without a module")
def pair_of_another_family(facts: Facts) -> str:
    first, second = socket.socketpair(socket.AF_INET, socket.SOCK_STREAM)
    first.close()
    second.close()
    return "made"


@attempt("EACCES", but={UNIX: "ECONNREFUSED"})
def abstract_socket(facts: Facts) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect("\0" + facts.abstract)
        sock.sendall(facts.token.encode())
    return "connected"


@attempt("EACCES", but={UNIX: "ECONNREFUSED"})
def abstract_datagram(facts: Facts) -> str:
    return _datagram(facts, "\0" + facts.abstract + "-datagram")


# A socket from socketpair can be connected again: no call to socket() is needed.
@attempt("EACCES")
def path_datagram_by_a_pair(facts: Facts) -> str:
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with first, second:
        first.sendto(facts.token.encode(), facts.datagram_path)
    return "sent"


@attempt("EACCES")
def abstract_datagram_by_a_pair(facts: Facts) -> str:
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with first, second:
        first.sendto(facts.token.encode(), "\0" + facts.abstract + "-datagram")
    return "sent"


@attempt("EACCES", but={UNIX: "ENOENT"})
def path_socket_of_the_host(facts: Facts) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(facts.socket_path)
        sock.sendall(facts.token.encode())
    return "connected"


@attempt("EACCES", but={UNIX: "ENOENT"})
def path_datagram_of_the_host(facts: Facts) -> str:
    return _datagram(facts, facts.datagram_path)


@attempt("EACCES", but={UNIX: "ENOENT"})
def descriptor_from_the_host(facts: Facts) -> str:
    """Ask a process of the host to pass an open file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(SECONDS)
        sock.connect(facts.socket_path)
        _, ancillary, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(4))
        handles = array.array("i")
        handles.frombytes(ancillary[0][2][:4])
        return os.pread(handles[0], 64, 0).decode()


@attempt("only loopback", granted=HOST_NETWORK)
def interfaces_by_ioctl(facts: Facts) -> str:
    """Any socket answers SIOCGIFCONF for its network, a pair too."""
    first, second = socket.socketpair()
    with first, second:
        room = ctypes.create_string_buffer(4096)
        question = ctypes.create_string_buffer(struct.pack("iP", len(room), ctypes.addressof(room)))
        call("ioctl", first.fileno(), 0x8912, question)
        length = struct.unpack("iP", question.raw[:16])[0]
    names = {room.raw[at : at + 16].split(b"\0")[0].decode() for at in range(0, length, 40)}
    if names <= {"lo"}:
        raise Blocked("only loopback")
    return f"sees {sorted(names)}"


@attempt("EPERM")
def io_uring_ring(facts: Facts) -> str:
    fd = call("io_uring_setup", 4, ctypes.create_string_buffer(120))
    os.close(fd)
    return "a ring: sockets and files without the calls a filter sees"


def _ring(facts: Facts) -> int:
    return call("io_uring_setup", 4, ctypes.create_string_buffer(120)) if facts.control else 0


@attempt("EPERM")
def io_uring_entered(facts: Facts) -> str:
    return f"entered {call('io_uring_enter', _ring(facts), 0, 0, 0, 0, 0)}"


@attempt("EPERM")
def io_uring_changed(facts: Facts) -> str:
    probe = ctypes.create_string_buffer(16 + 8 * 8)
    return f"asked {call('io_uring_register', _ring(facts), 8, probe, 8)}"


ATTEMPTS = collected(globals())
