"""Policy in, text out: what each file says about a rule, an account or an address."""

import json
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
import yaml

from tests.support.policies import altered, policy
from threegate.base.errors import UsageError
from threegate.host.deploy import containers
from threegate.host.deploy.files import generate
from threegate.host.deploy.firewall import firewall
from threegate.host.deploy.place import (
    Place,
    addresses_of,
    default_uids,
    parse_place,
    uids_of,
)
from threegate.host.deploy.squid import squid_conf
from threegate.host.deploy.units import units
from threegate.policy.bundle import Compiled
from threegate.sandbox.machine import gate_uid
from threegate.sandbox.profiles import PROFILES

POLICY = policy()
SERVER = {"kind": "bridge", "endpoint": "127.0.0.1:8080", "sha256": None}


def changed(change: Any) -> Compiled:
    return altered(POLICY, lambda sections: change(sections["fetch"]))


def test_gates_have_the_uids_that_root_starts_them_with() -> None:
    assert {name: default_uids()[name] for name in PROFILES} == {
        name: gate_uid(name) for name in PROFILES
    }


def test_a_place_is_read_as_it_was_written() -> None:
    place = Place(uids_of(["proxy=990"]), addresses_of(["192.0.2.53", "2001:db8::53"]))
    assert parse_place(place.to_bytes()) == place
    assert json.loads(place.to_bytes())["uids"] == {"proxy": 990}, "only what was chosen"


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"format":"infra/2"}\n', Place().to_bytes()[:-9]]
)
def test_a_place_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError):
        parse_place(data)


@pytest.mark.parametrize(
    "word", ["nobody=1", "proxy=0", "proxy=", "proxy=-1", "proxy=x", "proxy", "proxy=4294967295"]
)
def test_an_account_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        uids_of([word])


def test_who_may_dial_shares_a_uid_with_nobody() -> None:
    assert uids_of(["proxy=990"])["proxy"] == 990, "control"
    with pytest.raises(UsageError, match="same uid 990"):
        uids_of(["proxy=990", "core=990"])
    assert uids_of(["fetch=991"])["fetch-retrieve"] == 991, "all boxes of a gate by its name"


def test_squid_names_every_host_and_no_other() -> None:
    text = squid_conf(POLICY, Place())
    named = [line.split(" ")[-1] for line in text.splitlines() if " dstdomain -n " in line]
    assert named == sorted(POLICY.words("fetch", "hosts"))


def test_a_policy_without_hosts_lists_nobody() -> None:
    text = squid_conf(changed(lambda fetch: fetch["hosts"].clear()), Place())
    assert "acl listed dstdomain -n nobody.invalid\n" in text
    assert "host_" not in text


def test_squid_believes_the_authorities_of_the_policy() -> None:
    assert "default-ca=off" not in squid_conf(POLICY, Place()), "control: the system's are"
    digest = "ab" * 32
    other = changed(lambda fetch: fetch.update(trust_anchors=[f"sha256:{digest}"]))
    text = squid_conf(other, Place())
    assert f"default-ca=off cafile=/etc/threegate/anchors/{digest}.pem\n" in text


def test_an_address_of_the_machine_is_named_when_it_is_known() -> None:
    assert "acl own" not in squid_conf(POLICY, Place())
    text = squid_conf(POLICY, replace(Place(), own=(ip_address("198.51.100.7"),)))
    assert "acl own dst 198.51.100.7\n" in text
    assert "http_access deny own because_address\nhttp_access allow listed\n" in text


def test_the_bridge_reaches_the_port_the_policy_names() -> None:
    assert "dport 8080" not in firewall(POLICY, Place(), strict=True)

    def with_server(sections: dict[str, Any]) -> None:
        sections["core"]["model"] |= SERVER

    uid = default_uids()["bridge"]
    text = firewall(altered(POLICY, with_server), Place(), strict=True)
    assert f'meta skuid {uid} oifname "lo" ip daddr 127.0.0.1 tcp dport 8080 accept\n' in text


def test_resolvers_are_asked_in_their_own_family() -> None:
    text = firewall(
        POLICY, Place(resolvers=addresses_of(["192.0.2.1", "2001:db8::1"])), strict=True
    )
    assert "ip daddr 192.0.2.1 meta l4proto { tcp, udp } th dport 53 accept" in text
    assert "ip6 daddr 2001:db8::1 meta l4proto { tcp, udp } th dport 53 accept" in text


def test_only_the_proxy_has_a_network() -> None:
    found = yaml.safe_load(containers.compose(Place()))["services"]
    assert {name: item["network_mode"] for name, item in found.items()} == {
        "proxy": "host",
        "fetch": "none",
        "core": "none",
        "tool": "none",
    }
    for name, item in found.items():
        assert item["read_only"] is True, name
        assert item["cap_drop"] == ["ALL"], name
        assert "no-new-privileges" in item["security_opt"], name
        assert "seccomp=./seccomp.json" in item["security_opt"], name
        sockets = [word for word in item["volumes"] if word.startswith("socket:")]
        assert bool(sockets) == (name in {"proxy", "fetch"}), name


def test_run_script_says_what_compose_says() -> None:
    script = containers.run_script(Place())
    found = yaml.safe_load(containers.compose(Place()))["services"]
    for name, item in found.items():
        case = script.partition(f"  {name})\n")[2].partition(";;")[0]
        for word in (
            f"--user {item['user']}",
            f"--network {item['network_mode']}",
            "--read-only",
            "--cap-drop ALL",
            f"--pids-limit {item['pids_limit']}",
            f"--memory {item['mem_limit']}",
            *(f'"{option.replace("=./", "=$here/")}"' for option in item["security_opt"]),
        ):
            assert word in case, f"{name}: {word}"
        assert case.count("--volume") == len(item["volumes"])


def test_gates_have_no_network_and_the_others_no_inside() -> None:
    found = units(Place())
    for name in ("threegate-fetch.service", "threegate-tool.service"):
        assert "PrivateNetwork=yes\n" in found[name]
    for name in ("threegate-proxy.service", "threegate-squid.service"):
        assert "PrivateNetwork" not in found[name]
        assert "IPAddressDeny=10.0.0.0/8\n" in found[name]
        assert "IPAddressAllow=127.0.0.53\n" in found[name]


def test_a_policy_that_is_a_bundle_comes_along() -> None:
    assert "bundle.json" not in generate(POLICY, Place())
    bundle = POLICY.bundle()
    assert generate(bundle, Place())["bundle.json"].encode("utf-8") == bundle.bundle_bytes()
