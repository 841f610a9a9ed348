"""One purpose per proxy: its hosts, its bounds, and what all its tunnels may come to."""

import asyncio

import pytest

from tests.support.policies import policy, remote_model
from tests.support.proxies import PUBLIC, SECONDS, Lab, real_hello, request
from threegate.gates.fetch.proxy.rules import (
    HANDSHAKE_BYTES,
    MAX_UP_BYTES,
    NameDenied,
    TunnelBounds,
    judge_name,
)
from threegate.policy.purposes import MODEL, PACKETS, downloads

LLM = "llm.example.org"
MIB = 2**20


def test_each_purpose_has_bounds_of_its_own() -> None:
    found = remote_model(LLM, remote_requests=3, remote_bytes=2 * MIB).bundle()
    packets = judge_name(found, "api.crossref.org", PACKETS)
    models = judge_name(found, "huggingface.co", downloads("models"))
    remote = judge_name(found, LLM, MODEL)
    assert isinstance(packets, TunnelBounds)
    assert isinstance(models, TunnelBounds)
    assert isinstance(remote, TunnelBounds)
    assert (packets.up_bytes, packets.in_all, packets.up_in_all) == (MAX_UP_BYTES, None, None)
    assert models.down_bytes > 8 * 2**30
    assert models.seconds == 6 * 3600
    assert remote.in_all == 4, "one to see which models there are"
    assert 2 * MIB < remote.up_bytes < 3 * MIB
    assert remote.up_in_all == remote.up_bytes + 4 * HANDSHAKE_BYTES
    assert remote.seconds == found.integer("core", "answer", "deadline_seconds")


@pytest.mark.parametrize("purpose", [PACKETS, MODEL, downloads("models"), downloads("images")])
def test_a_name_of_no_rule_is_denied_for_every_purpose(purpose: str) -> None:
    assert isinstance(
        judge_name(remote_model(LLM).bundle(), "evil.example.org", purpose), NameDenied
    )


# claim TG-C-200
def test_a_change_of_policy_takes_the_models_host_away_from_an_open_tunnel() -> None:
    async def scene() -> None:
        lab = Lab({LLM: (PUBLIC,)}, rules=remote_model(LLM).bundle(), purpose=MODEL)
        client = await lab.client()
        client[1].write(request(LLM))
        answer = await asyncio.wait_for(client[0].readuntil(b"\r\n\r\n"), SECONDS)
        assert b" 200 " in answer, "control"
        hello = real_hello(LLM)
        client[1].write(hello)
        await asyncio.wait_for(lab.origins[-1][0].readexactly(len(hello)), SECONDS)
        lab.proxy.reload(policy().bundle(), ())
        assert await asyncio.wait_for(client[0].read(), SECONDS) == b""
        await lab.over()
        assert lab.verdicts[-1] == ("cut", "not-allowed")
        client[1].close()

    asyncio.run(scene())


# claim TG-C-204
def test_tunnels_of_a_model_are_counted_over_its_whole_life() -> None:
    async def scene() -> None:
        rules = remote_model(LLM, remote_requests=1).bundle()
        lab = Lab({LLM: (PUBLIC,)}, rules=rules, purpose=MODEL)
        for _ in range(2):
            assert (await lab.say(request(LLM))).startswith(b"HTTP/1.1 200 ")
        assert b"X-ThreeGate-Reason: tunnels-spent" in await lab.say(request(LLM))

    asyncio.run(scene())
