"""A client's way through the proxy: what passes, and where everything else ends."""

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Network, ip_address

import pytest

from tests.support.policies import line_of, policy_files
from tests.support.proxies import (
    NAME,
    PUBLIC,
    SECONDS,
    Lab,
    bundle,
    made_hello,
    name_extension,
    real_hello,
    request,
    without,
)
from threegate.base import canonical
from threegate.gates.fetch.proxy.rules import MAX_UP_BYTES
from threegate.sandbox.supervise import MAX_NOTE_BYTES

HELLO = real_hello(NAME)
SECRET = b"\x17\x03\x03\x00\x05hello"


def run(act: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(act(), SECONDS)

    asyncio.run(bounded())


def test_a_tunnel_to_an_allowed_name_carries_bytes_both_ways() -> None:
    async def act() -> None:
        lab = Lab()
        reader, writer = await lab.tunnel(HELLO)
        origin = lab.origins[0]
        writer.write(SECRET)
        assert await origin[0].readexactly(len(SECRET)) == SECRET
        origin[1].write(b"answer")
        origin[1].close()
        assert await reader.read() == b"answer"
        await lab.over()
        writer.close()
        assert (lab.asked, lab.dialled) == ([NAME], [PUBLIC])
        assert lab.verdicts == [("allow", "opened"), ("closed", "done")]
        files = policy_files()
        line = line_of(files, "fetch.policy.md", "api.crossref.org:")
        assert lab.lines[0] == {
            "address": PUBLIC,
            "addresses": [PUBLIC],
            "detail": "",
            "event": "tunnel",
            "host": NAME,
            "reason": "opened",
            "rule": f"policy/fetch.policy.md:{line}",
            "verdict": "allow",
        }
        assert lab.lines[1]["up"] == len(HELLO) + len(SECRET)
        assert lab.lines[1]["down"] == len(b"answer")

    run(act)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not-connect"),
        (request(port=80), "port-not-443"),
        (request() + HELLO, "bytes-before-answer"),
        (request("evil.example"), "not-allowed"),
        (request("127.0.0.1"), "not-allowed"),
        (request("localhost"), "not-allowed"),
        (request("api.crossref.org."), "not-allowed"),
        (b"CONNECT api", "client-gone"),
    ],
)
def test_refused_before_any_name_is_asked_for(sent: bytes, reason: str) -> None:
    async def act() -> None:
        lab = Lab()
        answer = await lab.say(sent)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert f"X-ThreeGate-Reason: {reason}\r\n".encode() in answer
        assert lab.verdicts == [("deny", reason)]
        assert (lab.asked, lab.dialled) == ([], [])

    run(act)


@pytest.mark.parametrize(
    "addresses",
    [
        ("127.0.0.1",),
        ("10.0.0.1",),
        ("169.254.169.254",),
        (PUBLIC, "192.168.1.1"),
        ("2606:4700::1", "::1"),
        ("::ffff:104.18.0.1",),
        ("9.9.9.9",),
        ("2a00:64::a00:1",),
    ],
)
def test_a_name_that_leads_inside_is_not_dialled(addresses: tuple[str, ...]) -> None:
    async def act() -> None:
        own, nat64 = (ip_address("9.9.9.9"),), frozenset({IPv6Network("2a00:64::/96")})
        lab = Lab({NAME: addresses}, own=own, nat64=nat64)
        answer = await lab.say(request())
        assert b"X-ThreeGate-Reason: address-refused\r\n" in answer
        assert lab.verdicts == [("deny", "address-refused")]
        assert lab.lines[0]["addresses"] == [str(ip_address(text)) for text in addresses]
        assert (lab.asked, lab.dialled) == ([NAME], [])

    run(act)


def test_only_judged_addresses_are_tried_one_after_the_other() -> None:
    async def act() -> None:
        lab = Lab({NAME: ("1.1.1.1", PUBLIC)}, dead=("1.1.1.1",))
        _, writer = await lab.tunnel(HELLO)
        writer.close()
        await lab.over()
        assert lab.dialled == ["1.1.1.1", PUBLIC]
        assert lab.asked == [NAME]
        assert lab.lines[0]["address"] == PUBLIC

    run(act)


@pytest.mark.parametrize(
    ("lab", "reason"),
    [
        (lambda: Lab({}), "no-such-name"),
        (lambda: Lab({NAME: ()}), "no-address"),
        (lambda: Lab(dead=(PUBLIC,)), "unreachable"),
    ],
)
def test_what_cannot_be_reached_is_told_apart(lab: Callable[[], Lab], reason: str) -> None:
    async def act() -> None:
        made = lab()
        answer = await made.say(request())
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert made.verdicts == [("deny", reason)]

    run(act)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "not-tls"),
        (real_hello("evil.example"), "sni-differs"),
        (real_hello(None), "sni-missing"),
        (made_hello(name_extension(b"8.8.8.8")), "sni-is-an-address"),
        (HELLO[:50], "client-gone"),
    ],
)
def test_nothing_but_a_hello_for_the_name_reaches_the_origin(first: bytes, reason: str) -> None:
    async def act() -> None:
        lab = Lab()
        answer = await lab.say(request(), first)
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
        assert lab.verdicts == [("deny", reason)]
        assert lab.dialled == [PUBLIC]
        assert await lab.origins[0][0].read() == b"", "the origin saw something"

    run(act)


def test_plain_bytes_behind_the_hello_are_cut_before_they_leave() -> None:
    async def act() -> None:
        lab = Lab()
        _, writer = await lab.tunnel(HELLO)
        writer.write(SECRET + b"GET / HTTP/1.1\r\n")
        await lab.over()
        writer.close()
        assert lab.verdicts[-1] == ("cut", "not-tls")
        assert await lab.origins[0][0].read() == b""

    run(act)


# claim TG-C-73
def test_a_tunnel_is_cut_at_its_bytes_in_both_directions() -> None:
    async def act() -> None:
        lab = Lab(rules=bundle(fetch=("response_bytes: 16MiB", "response_bytes: 64KiB")))
        reader, writer = await lab.tunnel(HELLO)
        lab.origins[0][1].write(bytes(8 * 1024 * 1024))
        received = await reader.read()
        await lab.over()
        writer.close()
        assert lab.verdicts[-1] == ("cut", "down-bytes")
        assert lab.lines[-1]["down"] == len(received) < 1024 * 1024

        lab = Lab()
        reader, writer = await lab.tunnel(HELLO)
        record = b"\x17\x03\x03\x40\x00" + bytes(2**14)
        writer.write(record * (MAX_UP_BYTES // len(record) + 2))
        asyncio.get_running_loop().create_task(lab.origins[0][0].read())
        await reader.read()
        await lab.over()
        writer.close()
        assert lab.verdicts[-1] == ("cut", "up-bytes")

    run(act)


# claim TG-C-73
def test_a_tunnel_ends_with_its_time() -> None:
    async def act() -> None:
        lab = Lab(rules=bundle(fetch=("\ndeadline_seconds: ", "\ndeadline_seconds: 1s #")))
        reader, writer = await lab.tunnel(HELLO)
        assert await reader.read() == b""
        await lab.over()
        writer.close()
        assert lab.verdicts[-1] == ("cut", "lifetime")

    run(act)


def test_a_rule_grants_no_more_tunnels_than_it_says() -> None:
    async def act() -> None:
        lab = Lab()
        _, writer = await lab.tunnel(HELLO)
        second, other = await lab.client()
        other.write(request())
        answer = await second.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert lab.verdicts[-1] == ("deny", "too-many-tunnels")
        writer.close()
        await lab.over()
        other.close()
        assert lab.verdicts[-1] == ("closed", "done")
        _, writer = await lab.tunnel(HELLO)  # the first one is over, so there is room
        writer.close()
        await lab.over()

    run(act)


def test_other_rules_hold_for_new_and_for_open_tunnels() -> None:
    async def act() -> None:
        lab = Lab()
        reader, writer = await lab.tunnel(HELLO)
        lab.proxy.reload(without("doi.org"), ())
        writer.write(SECRET)
        assert await lab.origins[0][0].readexactly(len(SECRET)) == SECRET, "control: still open"
        lab.proxy.reload(without(NAME), ())
        assert await reader.read() == b""
        await lab.over()
        writer.close()
        assert lab.verdicts[-1] == ("cut", "not-allowed")
        await lab.say(request())
        assert lab.verdicts[-1] == ("deny", "not-allowed")

    run(act)


# claim TG-C-73
def test_an_open_tunnel_is_held_to_the_bytes_of_other_rules() -> None:
    piece = bytes(256 * 1024)

    async def act() -> None:
        lab = Lab()
        reader, writer = await lab.tunnel(HELLO)
        lab.origins[0][1].write(piece)
        assert await reader.readexactly(len(piece)) == piece, "control: the first rules allow it"
        lab.proxy.reload(bundle(fetch=("response_bytes: 16MiB", "response_bytes: 64KiB")), ())
        lab.origins[0][1].write(b"more")
        assert await reader.read() == b""
        await lab.over()
        writer.close()
        assert lab.verdicts[-1] == ("cut", "down-bytes")
        assert lab.lines[-1]["down"] == len(piece)

    run(act)


# claim TG-C-73
def test_an_open_tunnel_is_held_to_the_time_of_other_rules() -> None:
    async def act() -> None:
        lab = Lab()  # whose rules grant more time than this test has
        reader, writer = await lab.tunnel(HELLO)
        lab.proxy.reload(without("doi.org"), ())
        writer.write(SECRET)
        assert await lab.origins[0][0].readexactly(len(SECRET)) == SECRET, "control: still open"
        assert bundle().integer("fetch", "deadline_seconds") > SECONDS, "control"
        lab.proxy.reload(bundle(fetch=("\ndeadline_seconds: ", "\ndeadline_seconds: 1s #")), ())
        assert await reader.read() == b""
        await lab.over()
        writer.close()
        assert lab.verdicts[-1] == ("cut", "lifetime")

    run(act)


def test_tunnels_of_before_count_under_other_rules() -> None:
    """Another line of the policy is the same rule: a reload grants no second share."""

    async def act() -> None:
        lab = Lab()
        _, writer = await lab.tunnel(HELLO)
        lab.proxy.reload(bundle(fetch=("hosts:\n", "# one line more\n# and another\nhosts:\n")), ())
        second, other = await lab.client()
        other.write(request())
        assert (await second.read()).startswith(b"HTTP/1.1 503 ")
        assert lab.verdicts[-1] == ("deny", "too-many-tunnels")
        writer.close()
        await lab.over()
        other.close()
        _, writer = await lab.tunnel(HELLO)  # control: now there is room
        writer.close()
        await lab.over()

    run(act)


def test_a_line_with_everything_in_it_fits_into_a_note() -> None:
    async def act() -> None:
        many = tuple(f"2606:4700:1111:2222:3333:4444:5555:{n:x}" for n in range(0x1000, 0x1040))
        lab = Lab({NAME: (*many, "::1")})
        await lab.say(request())
        assert len(canonical.encode(lab.lines[0])) < MAX_NOTE_BYTES - 253
        assert lab.lines[0]["detail"] == "::1 is loopback"

    run(act)
