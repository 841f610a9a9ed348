"""Bounds of what the proxy reads from its client and from name servers."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

MAX_REQUEST_BYTES: Final = 2 * KIB  # a name has 253 characters, and stands there twice
MAX_HELLO_BYTES: Final = 16 * KIB  # with post-quantum keys and a session ticket about 2 KiB
MAX_RECORD_BYTES: Final = 2**14 + 2048  # RFC 5246; RFC 8446 allows less
MAX_EXTENSIONS: Final = 64

MAX_DNS_BYTES: Final = 65_535
MAX_DNS_RECORDS: Final = 64
MAX_DNS_NAME_BYTES: Final = 255
MAX_CNAMES: Final = 8
MAX_ADDRESSES: Final = 32
MAX_RESOLVERS: Final = 3
MAX_RESOLV_CONF_BYTES: Final = 64 * KIB

MAX_TUNNELS: Final = 64  # at a time, whatever the policy adds up to
MAX_CLIENTS: Final = 2 * MAX_TUNNELS  # those included that are refused; others wait in the queue
MAX_DIALLED: Final = 4  # addresses tried for one tunnel
MAX_UP_BYTES: Final = 1 * MIB  # what a request, a handshake and its keys need many times over
DOWNLOAD_TUNNELS: Final = 4  # one file at a time, over a redirect
MODEL_TUNNELS: Final = 2  # one request at a time; the last one may not be gone yet
RUN_TUNNELS: Final = 2  # a run asks one thing at a time as well
MODEL_DOWN_BYTES: Final = 8 * MIB  # an answer in JSON, which a bridge bounds further
HANDSHAKE_BYTES: Final = 16 * KIB  # what a tunnel costs before anything is asked in it
PIECE_BYTES: Final = 64 * KIB
RESOLVER_PORT: Final = 53
ORIGIN_PORT: Final = 443
RESOLVER_SECONDS: Final = 1.5  # for one question, all name servers together
NEXT_RESOLVER_SECONDS: Final = 0.3  # until the next name server is asked as well
CLIENT_SECONDS: Final = 10.0  # for a request, and again for a hello
DIAL_SECONDS: Final = 10.0
REFUSED_SECONDS: Final = 1.0  # for which whoever was refused keeps its place among the clients
