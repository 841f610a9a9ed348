"""Why the proxy refuses: one word per reason, for its log and for the client's answer."""

from enum import StrEnum


class TunnelReason(StrEnum):
    """What was wrong; a stable word each."""

    # the request
    REQUEST_LONG = "request-too-long"
    REQUEST_BROKEN = "request-malformed"
    NOT_CONNECT = "not-connect"
    OTHER_PORT = "port-not-443"
    HOST_DIFFERS = "host-header-differs"
    EARLY_BYTES = "bytes-before-answer"
    # the policy
    NOT_ALLOWED = "not-allowed"
    TOO_MANY = "too-many-tunnels"
    SPENT = "tunnels-spent"
    # the name and its addresses
    NO_NETWORK = "no-network"
    RESOLVER_SILENT = "resolver-silent"
    RESOLVER_FAILED = "resolver-failed"
    ANSWER_BROKEN = "answer-malformed"
    ANSWER_OTHER = "answer-to-other-question"
    NO_SUCH_NAME = "no-such-name"
    NO_ADDRESS = "no-address"
    ALIAS_CHAIN = "too-many-aliases"
    ADDRESS = "address-refused"
    UNREACHABLE = "unreachable"
    # the tunnel
    CLIENT_GONE = "client-gone"
    CLIENT_SLOW = "client-slow"
    UP_BYTES = "up-bytes"
    DOWN_BYTES = "down-bytes"
    LIFETIME = "lifetime"
    BROKEN = "connection-broken"
    NOT_TLS = "not-tls"
    NOT_HELLO = "not-a-client-hello"
    HELLO_LONG = "client-hello-too-long"
    HELLO_BROKEN = "client-hello-malformed"
    NAME_MISSING = "sni-missing"
    NAME_ENCRYPTED = "sni-encrypted"
    NAME_IS_ADDRESS = "sni-is-an-address"
    NAME_DIFFERS = "sni-differs"


class TunnelRefused(Exception):
    """Something is not as it must be; `detail` is our own text, without foreign bytes."""

    def __init__(self, reason: TunnelReason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason, self.detail = reason, detail
