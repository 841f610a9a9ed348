"""Through the proxy's socket: tunnels with TLS in them, and gateways in the clear."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.support.internet import Authority, self_signed
from tests.support.retrieving import ASK, CROSSREF, RECORD, answer, bundle
from threegate.gates.fetch.retrieve.messages import Got
from threegate.gates.fetch.retrieve.retriever import Retriever
from threegate.gates.fetch.retrieve.rules import rules_of
from threegate.gates.http_library.client import Deadline, Failure, NotRetrieved, ResponseHead
from threegate.gates.http_library.tunnel import Connection, GatewayProxy, Tunnels, make_anchors

OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"
CONNECT = b"CONNECT api.crossref.org:443 HTTP/1.1\r\nHost: api.crossref.org:443\r\n\r\n"
OURS, OTHERS = Authority("ours"), Authority("others")
OUR_CA, OTHER_CA = (ca.certificate.public_bytes(Encoding.PEM) for ca in (OURS, OTHERS))
Act = Callable[[socket.socket, bytes], None]


@dataclass
class FakeProxy:
    """Does with each client what the next entry says; keeps what each client began with."""

    path: str
    acts: list[Act]
    heard: list[bytes] = field(default_factory=list)

    def serve(self, listening: socket.socket) -> None:
        for act in self.acts:
            client, _ = listening.accept()
            with client:
                client.settimeout(10)
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += client.recv(1)
                self.heard.append(head)
                try:
                    act(client, head)
                except OSError:  # a client that has seen enough
                    continue


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Callable[..., FakeProxy]]:
    threads: list[threading.Thread] = []

    def start(*acts: Act) -> FakeProxy:
        proxy = FakeProxy(str(tmp_path / "proxy.sock"), list(acts))
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(proxy.path)
        listening.listen(8)
        listening.settimeout(20)

        def run() -> None:
            with listening:
                proxy.serve(listening)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return proxy

    yield start
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "the proxy was not asked as often as it expected"


def says(data: bytes) -> Act:
    return lambda client, _: client.sendall(data)


def origin(tmp_path: Path, pem: bytes, said: bytes = answer()) -> Act:
    """Return a tunnel to a server with this key and certificate."""
    file = tmp_path / "origin.pem"
    file.write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    def act(client: socket.socket, _: bytes) -> None:
        client.sendall(OPENED)
        with context.wrap_socket(client, server_side=True) as tls:
            if tls.recv(4096):
                tls.sendall(said)
                tls.recv(1)

    return act


def tunnels(proxy: FakeProxy, *cas: bytes) -> Tunnels:
    return Tunnels(make_anchors({f"{n:064x}": data for n, data in enumerate(cas)}), proxy.path)


def opened(way: Tunnels | GatewayProxy, seconds: float = 10) -> Connection:
    return way.open(CROSSREF, Deadline(seconds))


def refused(way: Tunnels | GatewayProxy) -> tuple[Failure, str]:
    with pytest.raises(NotRetrieved) as caught:
        opened(way)
    return caught.value.failure, caught.value.message


def test_a_tunnel_is_asked_for_in_the_one_spelling(
    proxied: Callable[..., FakeProxy], tmp_path: Path
) -> None:
    proxy = proxied(origin(tmp_path, OURS.issue([CROSSREF])))
    connection = opened(tunnels(proxy, OUR_CA))
    connection.stream.close()
    assert proxy.heard == [CONNECT]
    assert (connection.host, connection.anchor) == (CROSSREF, "0" * 64)


def test_the_anchor_that_vouched_is_the_one_reported(
    proxied: Callable[..., FakeProxy], tmp_path: Path
) -> None:
    act = origin(tmp_path, OTHERS.issue([CROSSREF]))
    proxy = proxied(act, act)
    connection = opened(tunnels(proxy, OUR_CA, OTHER_CA))
    connection.stream.close()
    assert len(proxy.heard) == 2, "each anchor is tried by itself"
    assert connection.anchor == f"{1:064x}"


@pytest.mark.parametrize(
    ("pem", "message"),
    [
        (OTHERS.issue([CROSSREF]), "comes from an authority that policy does not list"),
        (self_signed([CROSSREF]), "is signed by itself"),
        (OURS.issue(["doi.org"]), "is for another name"),
        (OURS.issue([CROSSREF], days=-30), "has expired"),
    ],
)
def test_a_certificate_nobody_vouches_for_ends_the_question(
    proxied: Callable[..., FakeProxy], tmp_path: Path, pem: bytes, message: str
) -> None:
    why, told = refused(tunnels(proxied(origin(tmp_path, pem)), OUR_CA))
    assert (why, told) == (Failure.CERTIFICATE, f"the server's certificate {message}")


@pytest.mark.parametrize(
    ("said", "why", "message"),
    [
        (
            b"HTTP/1.1 403 Forbidden\r\nX-ThreeGate-Reason: address-refused\r\n\r\n",
            Failure.PROXY_DENIED,
            "the proxy refused: address-refused",
        ),
        (
            b"HTTP/1.1 502 Bad GatewayProxy\r\nX-ThreeGate-Reason: no-such-name\r\n\r\n",
            Failure.NO_NAME,
            "the proxy found no way: no-such-name",
        ),
        (
            b"HTTP/1.1 502 Bad GatewayProxy\r\nX-ThreeGate-Reason: no-network\r\n\r\n",
            Failure.NO_NETWORK,
            "the proxy found no way: no-network",
        ),
        (
            b"HTTP/1.1 502 Bad GatewayProxy\r\nX-ThreeGate-Reason: resolver-silent\r\n\r\n",
            Failure.UNREACHABLE,
            "the proxy found no way: resolver-silent",
        ),
        (
            b"HTTP/1.1 403 Forbidden\r\nX-ThreeGate-Reason: <b>!\r\n\r\n",
            Failure.PROXY_DENIED,
            "the proxy refused with status 403",
        ),
        (b"HTTP/1.1 407 Who are you\r\n\r\n", Failure.PROXY_DENIED, "with status 407"),
        (OPENED + b"early", Failure.PROXY, "the proxy speaks before it was asked"),
        (b"", Failure.PROXY, "the proxy hung up"),
        (b"SSH-2.0\r\n\r\n", Failure.ANSWER, "not HTTP as it should be"),
        (OPENED.replace(b"\r\n\r\n", b"\r\nA: " + b"b" * 9000), Failure.ANSWER, "longer"),
        (OPENED, Failure.UNREACHABLE, "the connection broke off in its greeting"),
        (OPENED.rstrip() + b"\r\n\r\n", Failure.UNREACHABLE, "broke off in its greeting"),
    ],
)
def test_a_proxy_that_says_no_is_understood(
    proxied: Callable[..., FakeProxy], said: bytes, why: Failure, message: str
) -> None:
    found, told = refused(tunnels(proxied(says(said)), OUR_CA))
    assert found is why
    assert message in told


def test_a_tunnel_that_is_not_free_yet_is_asked_for_again(
    proxied: Callable[..., FakeProxy], tmp_path: Path
) -> None:
    busy = says(b"HTTP/1.1 503 Busy\r\nX-ThreeGate-Reason: too-many-tunnels\r\n\r\n")
    proxy = proxied(busy, busy, origin(tmp_path, OURS.issue([CROSSREF])))
    with closing(opened(tunnels(proxy, OUR_CA)).stream):
        assert len(proxy.heard) == 3


def test_nobody_at_the_socket_is_a_clear_error(tmp_path: Path) -> None:
    way = Tunnels(make_anchors({"0": OUR_CA}), str(tmp_path / "none.sock"))
    assert refused(way)[0] is Failure.PROXY


def test_a_server_that_speaks_no_tls_gets_no_request(
    proxied: Callable[..., FakeProxy],
) -> None:
    got: list[bytes] = []

    def act(client: socket.socket, _: bytes) -> None:
        client.sendall(OPENED)
        got.append(client.recv(4096))
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        got.append(client.recv(4096))

    assert refused(tunnels(proxied(act), OUR_CA))[0] is Failure.CERTIFICATE
    assert b"GET" not in b"".join(got)


def test_a_connection_cut_without_a_word_is_no_end_of_a_body(
    proxied: Callable[..., FakeProxy], tmp_path: Path
) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + RECORD
    file = tmp_path / "cut.pem"
    file.write_bytes(OURS.issue([CROSSREF]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    def served(*, well: bool) -> Act:
        def act(client: socket.socket, _: bytes) -> None:
            client.sendall(OPENED)
            with context.wrap_socket(client, server_side=True) as tls:
                tls.recv(4096)
                tls.sendall(said)
                if well:
                    tls.unwrap().close()

        return act

    proxy = proxied(served(well=True), served(well=False))
    retriever = Retriever(rules_of(bundle()), tunnels(proxy, OUR_CA))
    assert isinstance(retriever.answer(ASK), Got), "control: an end that was told"
    cut = retriever.answer(ASK)
    assert not isinstance(cut, Got)
    assert cut.code == "TG-FET-016"
    retriever.close()


def gateway(proxy: FakeProxy, **names: bytes) -> GatewayProxy:
    return GatewayProxy(make_anchors(dict(names)), proxy.path)


def test_a_gateway_is_asked_for_the_whole_url(proxied: Callable[..., FakeProxy]) -> None:
    proxy = proxied(says(answer()))
    retriever = Retriever(rules_of(bundle()), gateway(proxy))
    found = retriever.answer(ASK)
    retriever.close()
    assert isinstance(found, Got)
    assert found.trust_anchor == "system"
    first = proxy.heard[0].split(b"\r\n")[:2]
    assert first == [f"GET {ASK.url} HTTP/1.1".encode(), b"Host: api.crossref.org"]


def test_a_gateway_never_makes_a_test_source_look_real(tmp_path: Path) -> None:
    anchors = make_anchors({"system": OUR_CA, "a" * 64: OTHER_CA})
    path = str(tmp_path / "gateway.sock")
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(path)
        listening.listen(1)
        connection = GatewayProxy(anchors, path).open(CROSSREF, Deadline(10))
        connection.stream.close()
    assert connection.anchor == "a" * 64


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("X-Squid-Error: ERR_ACCESS_DENIED 0", Failure.PROXY_DENIED),
        ("X-Squid-Error: ERR_DNS_FAIL 0", Failure.UNREACHABLE),
        ("X-Squid-Error: ERR_SECURE_CONNECT_FAIL 71", Failure.CERTIFICATE),
        ("X-Squid-Error: ERR_READ_TIMEOUT 110", Failure.DEADLINE),
        ("X-Squid-Error: ERR_TOO_BIG 0", Failure.TOO_LARGE),
        ("X-Squid-Error: ERR_UNHEARD_OF", Failure.UNREACHABLE),
        ("X-ThreeGate-Reason: not-allowed", Failure.PROXY_DENIED),
    ],
)
def test_a_refusal_of_the_gateway_is_not_taken_for_the_servers(header: str, why: Failure) -> None:
    way = GatewayProxy(make_anchors({}))
    way.check(ResponseHead(403, {"server": "x"}, None, False))  # control: this one is
    name, value = header.split(": ")
    with pytest.raises(NotRetrieved) as caught:
        way.check(ResponseHead(403, {name.lower(): value}, None, False))
    assert caught.value.failure is why
