"""Every file of other people's tests of this kind, each with its own oracle.

The URL gate accepts one spelling, so most inputs are refused; what it accepts must be read
the same way by whoever wrote the file.
"""

import json
import re
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ada_url
import pytest
import yaml

from threegate.gates.fetch.addresses import refusal
from threegate.gates.fetch.retrieve.hops import check_url, follow
from threegate.policy.hosts import SHARED_SUFFIXES, check_pattern, parse_url

HANDLED = {
    "antissrf_recommended_ranges.json",
    "smokescreen_ip_cases.json",
    "ssrf_filter_rfc6052_cases.json",
    "payloadsallthethings/redirect_Open-Redirect-payloads.txt",
    "payloadsallthethings/redirect_README.md",
    "payloadsallthethings/redirect_open_redirect_wordlist.txt",
    "payloadsallthethings/redirect_openredirects.txt",
    "payloadsallthethings/ssrf_README.md",
    "payloadsallthethings/ssrf_SSRF-Advanced-Exploitation.md",
    "payloadsallthethings/ssrf_SSRF-Cloud-Instances.md",
    "psl/public_suffix_list.dat",
    "psl/test_psl.txt",
    "psl/tests.txt",
    "smokescreen_acl/broken_config.yaml",
    "smokescreen_acl/contains_invalid_glob.yaml",
    "smokescreen_acl/contains_invalid_glob_default.yaml",
    "smokescreen_acl/contains_middle_glob.yaml",
    "smokescreen_acl/mitm_config.yaml",
    "smokescreen_acl/no_default.yaml",
    "smokescreen_acl/sample_config.yaml",
    "smokescreen_acl/sample_config_with_global.yaml",
    "smokescreen_acl/sample_default_bypass_config.yaml",
    "smokescreen_acl/unknown_action.yaml",
    "wpt/IdnaTestV2-removed.json",
    "wpt/IdnaTestV2.json",
    "wpt/percent-encoding.json",
    "wpt/setters_tests.json",
    "wpt/toascii.json",
    "wpt/urltestdata-javascript-only.json",
    "wpt/urltestdata.json",
}
# Public servers that the payload lists use as the attacker's own place.
ATTACKERS_OWN = {"1.1.1.1", "1.2.3.4", "2.2.2.2", "3.3.3.3", "216.58.214.206"}
# Where anybody may publish although the Public Suffix List does not say so.
HOSTING = {"glitch.me", "googleusercontent.com", "sharepoint.com", "surge.sh", "wordpress.com"}
BAD_PATTERNS = {"*bob.example.com", "bob.ex*ample.com", "example2.com$"}


@pytest.fixture(scope="module")
def ssrf(corpus: Path) -> Path:
    return corpus / "ssrf"


def accepted(url: str) -> bool:
    try:
        parse_url(url)
    except ValueError:
        return False
    return True


def pattern_stands(pattern: str) -> bool:
    try:
        check_pattern(pattern)
    except ValueError:
        return False
    return True


def cases(path: Path) -> list[dict[str, Any]]:
    found = [case for case in json.loads(path.read_text("utf-8")) if isinstance(case, dict)]
    assert found
    return found


def test_no_file_is_left_out(ssrf: Path) -> None:
    found = {str(path.relative_to(ssrf)) for path in ssrf.rglob("*") if path.is_file()}
    assert found == HANDLED


def test_every_recommended_range_is_refused_from_end_to_end(ssrf: Path) -> None:
    ranges = json.loads((ssrf / "antissrf_recommended_ranges.json").read_text())["recommendedV1"]
    assert len(ranges) > 30
    for text in ranges:
        network = ip_network(text)
        for address in (network[0], network[-1], network[network.num_addresses // 2]):
            assert refusal(address.packed, ()) is not None, address


def test_smokescreen_agrees_about_addresses(ssrf: Path) -> None:
    table = json.loads((ssrf / "smokescreen_ip_cases.json").read_text())
    assert table["deny"]
    assert table["allow"]
    assert [case for case in table["deny"] if refusal(case["ip"], ()) is None] == []
    # Its own note: that one is space nobody was given, and a strict gate may refuse it.
    assert [ip for ip in table["allow"] if refusal(ip, ()) is not None] == ["64:ff9c::1"]


def test_ipv4_in_nat64_is_refused_at_every_length(ssrf: Path) -> None:
    table = cases(ssrf / "ssrf_filter_rfc6052_cases.json")
    assert [case["ip"] for case in table if refusal(case["ip"], ()) is None] == []


@pytest.mark.parametrize("name", ["urltestdata.json", "urltestdata-javascript-only.json"])
def test_urls_are_read_as_the_web_platform_reads_them(ssrf: Path, name: str) -> None:
    table = cases(ssrf / "wpt" / name)
    spelled = [(case[key], case) for case in table for key in ("input", "href") if key in case]
    taken = [(text, case) for text, case in spelled if accepted(text)]
    for text, case in taken:
        assert not case.get("failure"), text
        url = parse_url(text)
        assert (case["protocol"], case["hostname"], case["port"]) == ("https:", url.host, "")
        assert (case["username"], case["password"], case["hash"]) == ("", "", "")
        assert case["pathname"] == url.path
        assert case["search"] == (f"?{url.query}" if url.query else "")
    assert len(spelled) > len(taken)
    if name == "urltestdata.json":
        assert taken, "control: some are ordinary URLs"


def spellings(ssrf: Path) -> list[str]:
    """Return every URL, name and payload of all files, as a URL somebody might ask for."""
    found: list[str] = []
    for path in sorted((ssrf / "wpt").glob("*.json")):
        value = json.loads(path.read_text("utf-8"))
        groups = value.values() if isinstance(value, dict) else [value]
        for case in (case for group in groups for case in group if isinstance(case, dict)):
            said = (case.get(key) for key in ("input", "href", "base"))
            found += [text for text in said if isinstance(text, str)]
    for path in sorted((ssrf / "payloadsallthethings").iterdir()):
        found += path.read_text("utf-8").split()
    names = [f"https://{text}/" for text in found if "/" not in text]
    return [*found, *names]


# claim TG-C-111
def test_the_gate_of_three_parsers_agrees_with_browsers(ssrf: Path) -> None:
    taken = 0
    for text in spellings(ssrf):
        try:
            address = check_url(text)
        except ValueError:
            continue
        taken += 1
        read = ada_url.URL(text)  # accepted by them as well
        assert (read.protocol, read.hostname, read.port) == ("https:", address.host, ""), text
        assert ada_url.URL(address.text).href == read.href, text
        assert urlsplit(text).hostname == address.host, text
    assert taken > 100, "control: ordinary URLs are among them"


def test_a_redirect_to_any_payload_leads_to_a_host_both_parsers_see(ssrf: Path) -> None:
    base = check_url("https://api.crossref.org/works/1?q=2")
    refused, hosts = 0, set()
    for text in spellings(ssrf):
        try:
            address = follow(base, text)
        except ValueError:
            refused += 1
            continue
        seen = ada_url.URL(text.partition("#")[0], base.text)
        assert (seen.protocol, seen.hostname, seen.port) == ("https:", address.host, ""), text
        assert parse_url(address.text).host == address.host
        hosts.add(address.host)
    assert "api.crossref.org" in hosts, "control: relative ones are followed"
    assert refused > 1000


def test_urls_made_by_setters_are_read_alike(ssrf: Path) -> None:
    table = json.loads((ssrf / "wpt" / "setters_tests.json").read_text("utf-8"))
    rows = [case for key, group in table.items() if key != "comment" for case in group]
    assert rows
    for case in rows:
        expected = case["expected"]
        for text in (case["href"], expected.get("href", "")):
            if accepted(text):
                assert parse_url(text).host == urlsplit(text).hostname
        if accepted(expected.get("href", "")) and "hostname" in expected:
            assert parse_url(expected["href"]).host == expected["hostname"]


@pytest.mark.parametrize("name", ["IdnaTestV2.json", "IdnaTestV2-removed.json", "toascii.json"])
def test_only_names_already_in_their_ascii_form_are_accepted(ssrf: Path, name: str) -> None:
    table = cases(ssrf / "wpt" / name)
    taken = [case for case in table if accepted(f"https://{case['input']}/")]
    assert [case for case in taken if case["output"] != case["input"]] == []
    assert taken or name == "IdnaTestV2-removed.json", "control: some are ordinary names"


def test_characters_that_need_encoding_are_refused_as_they_are(ssrf: Path) -> None:
    for case in cases(ssrf / "wpt" / "percent-encoding.json"):
        assert not accepted(f"https://example.org/?q={case['input']}"), case


@pytest.mark.parametrize(
    "name",
    [
        "redirect_Open-Redirect-payloads.txt",
        "redirect_open_redirect_wordlist.txt",
        "redirect_openredirects.txt",
    ],
)
def test_redirect_payloads_lead_nowhere_but_where_they_say(ssrf: Path, name: str) -> None:
    lines = (ssrf / "payloadsallthethings" / name).read_text("utf-8").splitlines()
    assert lines
    for line in filter(accepted, lines):
        assert re.match(r"https://[a-z0-9.-]+(?:[/?]|\Z)", line), line
        assert parse_url(line).host == urlsplit(line).hostname


@pytest.mark.parametrize(
    "name",
    [
        "redirect_README.md",
        "ssrf_README.md",
        "ssrf_SSRF-Advanced-Exploitation.md",
        "ssrf_SSRF-Cloud-Instances.md",
    ],
)
def test_urls_and_addresses_of_the_attack_manuals(ssrf: Path, name: str) -> None:
    text = (ssrf / "payloadsallthethings" / name).read_text("utf-8")
    urls = re.findall(r"[a-z][a-z0-9+.-]*:/?/?[^\s`\")>]+", text)
    assert urls
    for url in filter(accepted, urls):
        host = parse_url(url).host
        assert host == urlsplit(url).hostname
        assert not re.fullmatch(r"[0-9a-fx.:]+", host), url
    for found in addresses_in(text):
        public = found in ATTACKERS_OWN
        assert (refusal(found, ()) is None) == public, found


def addresses_in(text: str) -> set[str]:
    spelled = re.findall(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])", text)
    spelled += re.findall(r"\[([0-9a-fA-F:.]+:[0-9a-fA-F:.]+)\]", text)
    return {item for item in spelled if is_address(item)}


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def test_no_pattern_covers_a_whole_top_level_domain(ssrf: Path) -> None:
    lines = (ssrf / "psl" / "public_suffix_list.dat").read_text("utf-8").splitlines()
    rules = {line.split()[0] for line in lines if line.strip() and not line.startswith("//")}
    top = {rule for rule in rules if "." not in rule and rule.isascii()}
    assert len(top) > 1000
    assert [rule for rule in sorted(top) if pattern_stands(f"*.{rule}")] == []
    assert [rule for rule in sorted(rules) if rule.startswith("!") and pattern_stands(rule)] == []
    # What our short list refuses, theirs knows too, so that it costs nobody a name of their own.
    below = {parent for rule in rules for parent in parents(rule)}
    assert SHARED_SUFFIXES - below == HOSTING


def parents(name: str) -> list[str]:
    labels = name.split(".")
    return [".".join(labels[at:]) for at in range(len(labels))]


@pytest.mark.parametrize("name", ["test_psl.txt", "tests.txt"])
def test_names_that_belong_to_somebody_may_stand_in_a_pattern(ssrf: Path, name: str) -> None:
    text = (ssrf / "psl" / name).read_text("utf-8")
    form = r"^checkPublicSuffix\('(\S+)', '?([^')]+)'?\);" if "_" in name else r"^(\S+) (\S+)$"
    rows = [row for row in re.findall(form, text, re.MULTILINE) if not row[0].startswith("//")]
    assert len(rows) > 50
    for asked, owned in rows:
        if owned != "null" and owned.isascii() and asked == owned:
            assert pattern_stands(owned), owned
        if owned == "null" and "." not in asked:
            assert not pattern_stands(f"*.{asked}"), asked
        if not asked.isascii() or asked != asked.lower() or asked.startswith("."):
            assert not pattern_stands(asked), asked


def test_domains_of_other_peoples_allowlists(ssrf: Path) -> None:
    seen: set[str] = set()
    for path in sorted((ssrf / "smokescreen_acl").glob("*.yaml")):
        config = yaml.safe_load(path.read_text("utf-8"))
        for domain in domains_in(config):
            seen.add(domain)
            assert pattern_stands(domain) == (domain not in BAD_PATTERNS), (path.name, domain)
    assert seen > BAD_PATTERNS


def domains_in(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in domains_in(item)]
    if not isinstance(value, dict):
        return []
    lists = ("allowed_domains", "global_allow_list", "global_deny_list")
    here = [name for key in lists for name in value.get(key) or ()]
    return here + [found for item in value.values() for found in domains_in(item)]
