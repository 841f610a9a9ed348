"""Reaching the network: TCP and UDP, and every way around a rule about them."""

from __future__ import annotations

import ctypes
import os
import socket
import struct

from threegate.sandbox.attacks.base import (
    DIALLING,
    HOST_NETWORK,
    Facts,
    attempt,
    call,
    collected,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MSG_FASTOPEN = 0x20000000
TCP_FASTOPEN_CONNECT = 30
MPTCP = 262
SECONDS = 2.0

# What a gate with the host's network meets: a port Landlock does not list, a kind of socket
# the filter does not know.
_PORT = {HOST_NETWORK: "EACCES"}


def _stream(facts: Facts, family: int, address: tuple[str, int], protocol: int = 0) -> str:
    with socket.socket(family, socket.SOCK_STREAM, protocol) as sock:
        sock.settimeout(SECONDS)
        sock.connect(address)
        sock.sendall(facts.token.encode())
    return "connected and sent"


def _datagram(facts: Facts, family: int, address: Any) -> str:
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(SECONDS)
        sock.sendto(facts.token.encode(), address)
    return "sent"


@attempt("EACCES", but=_PORT)
def tcp_to_a_host_address(facts: Facts) -> str:
    return _stream(facts, socket.AF_INET, (facts.address4, facts.tcp_port))


@attempt("EACCES", but=_PORT)
def tcp_to_loopback(facts: Facts) -> str:
    return _stream(facts, socket.AF_INET, ("127.0.0.1", facts.tcp_port))


@attempt("EACCES", but=_PORT)
def tcp_over_ipv6(facts: Facts) -> str:
    return _stream(facts, socket.AF_INET6, (facts.address6, facts.tcp6_port))


@attempt("EACCES", but=_PORT)
def tcp_with_ipv4_mapped_address(facts: Facts) -> str:
    address = (f"::ffff:{facts.address4}", facts.tcp_port)
    return _stream(facts, socket.AF_INET6, address)


@attempt("EACCES", but=_PORT)
def tcp_without_blocking(facts: Facts) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(0)
        result = sock.connect_ex((facts.address4, facts.tcp_port))
        if result not in {0, 115}:
            raise OSError(result, os.strerror(result))
        return "connecting"


def _blocking() -> socket.socket:
    """Return a socket the kernel lets wait, and no longer than that."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(SECONDS), 0))
    return sock


# Landlock's connect right does not see this call: landlock-lsm/linux issue 41.
@attempt("EACCES", but={HOST_NETWORK: "EPERM"})
def tcp_fast_open_by_sendto(facts: Facts) -> str:
    with _blocking() as sock:
        sock.sendto(facts.token.encode(), MSG_FASTOPEN, (facts.address4, facts.tcp_port))
    return "sent in the first packet"


@attempt("EACCES", but={HOST_NETWORK: "EPERM"})
def tcp_fast_open_by_sendmsg(facts: Facts) -> str:
    with _blocking() as sock:
        address = (facts.address4, facts.tcp_port)
        sock.sendmsg([facts.token.encode()], [], MSG_FASTOPEN, address)
    return "sent in the first packet"


@attempt("EACCES", but={HOST_NETWORK: "EPERM"})
def tcp_fast_open_by_sendmmsg(facts: Facts) -> str:
    with _blocking() as sock:
        where = socket.inet_aton(facts.address4)
        name = ctypes.create_string_buffer(
            struct.pack("=H", 2) + struct.pack("!H4s8x", facts.tcp_port, where)
        )
        data = ctypes.create_string_buffer(facts.token.encode())
        vector = ctypes.create_string_buffer(
            struct.pack("PN", ctypes.addressof(data), len(facts.token))
        )
        header = struct.pack(
            "PIPNPNi4xI4x", ctypes.addressof(name), 16, ctypes.addressof(vector), 1, 0, 0, 0, 0
        )
        call("sendmmsg", sock.fileno(), ctypes.create_string_buffer(header), 1, MSG_FASTOPEN)
    return "sent in the first packet"


@attempt("EACCES", but=_PORT)
def tcp_fast_open_by_socket_option(facts: Facts) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        sock.connect((facts.address4, facts.tcp_port))
        sock.sendall(facts.token.encode())
    return "connected and sent"


@attempt("EACCES")
def mptcp(facts: Facts) -> str:
    return _stream(facts, socket.AF_INET, (facts.address4, facts.tcp_port), MPTCP)


@attempt("EACCES")
def mptcp_over_ipv6(facts: Facts) -> str:
    return _stream(facts, socket.AF_INET6, (facts.address6, facts.tcp6_port), MPTCP)


# The proxy asks its resolver over UDP; no mechanism here limits where a datagram goes.
@attempt("EACCES", granted=DIALLING)
def udp_to_a_host_address(facts: Facts) -> str:
    return _datagram(facts, socket.AF_INET, (facts.address4, facts.udp_port))


@attempt("EACCES", granted=DIALLING)
def udp_to_loopback(facts: Facts) -> str:
    return _datagram(facts, socket.AF_INET, ("127.0.0.1", facts.udp_port))


@attempt("EACCES", granted=DIALLING)
def udp_connected(facts: Facts) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((facts.address4, facts.udp_port))
        sock.send(facts.token.encode())
    return "sent"


@attempt("EACCES", granted=DIALLING)
def multicast_group(facts: Facts) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        membership = socket.inet_aton("239.255.71.3") + socket.inet_aton(facts.address4)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    return "joined"


@attempt("EACCES", but={DIALLING: "EPERM"})
def udp_bound_to_a_port(facts: Facts) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((facts.address4, 0))
        return f"bound to {sock.getsockname()[1]}"


@attempt("EACCES", but={HOST_NETWORK: "EPERM EACCES"})
def tcp_bound_and_listening(facts: Facts) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind((facts.address4, 0))
        sock.listen(1)
        return f"listening on {sock.getsockname()[1]}"


# listen() without bind() picks a port and never meets Landlock's bind right.
@attempt("EACCES", but={HOST_NETWORK: "EPERM"})
def tcp_listening_without_bind(facts: Facts) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.listen(1)
        return f"listening on {sock.getsockname()[1]}"


ATTEMPTS = collected(globals())
