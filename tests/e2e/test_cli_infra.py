"""infra: files as the policy in force says, and a word when they no longer are."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.support.cli import Cli, made


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def add_host(cli: Cli) -> None:
    """List one more host, and apply that."""
    assert cli.workspace is not None
    path = cli.workspace / "policy" / "fetch.policy.md"
    text = path.read_text("utf-8")
    path.write_text(text.replace("  doi.org:\n", "  dx.doi.org:\n", 1), "utf-8")
    cli("policy", "apply", "--yes")


def test_files_are_written_once_and_checked(cli: Cli) -> None:
    done = cli("infra", "write", "made")
    assert done.err == "threegate: 18 of 18 files written\n"
    conf = cli.base / "made" / "squid" / "squid.conf"
    assert "dstdomain -n doi.org\n" in conf.read_text("utf-8")
    assert stat.S_IMODE(conf.stat().st_mode) == 0o644
    assert os.access(cli.base / "made" / "containers" / "run.sh", os.X_OK)
    assert cli("infra", "check", "made").out == "18 files are what the policy in force says\n"
    assert cli("infra", "write", "made").err == "threegate: 0 of 18 files written\n"


def test_a_changed_file_and_a_changed_policy_are_named(cli: Cli) -> None:
    cli("infra", "write", "made")
    assert cli("infra", "check", "made").code == 0, "control"
    rules = cli.base / "made" / "firewall" / "strict.nft"
    rules.write_text(rules.read_text("utf-8").replace("dport 443", "dport 80"), "utf-8")
    done = cli("infra", "check", "made", code=69)
    assert "not what the policy in force says: firewall/strict.nft [TG-INF-001]" in done.err
    cli("infra", "write", "made")
    add_host(cli)
    done = cli("infra", "check", "made", code=69)
    assert "squid/squid.conf" in done.err
    written = cli("infra", "write", "made", "--json").json["written"]
    assert sorted(written) == ["bundle.json", "squid/squid.conf"]


def test_accounts_and_addresses_are_kept(cli: Cli) -> None:
    chosen = ("--uids", "proxy=990,owner=1000", "--resolver", "192.0.2.53")
    cli("infra", "write", "made", *chosen, "--own", "198.51.100.7")
    again = cli("infra", "write", "made", "--json").json
    assert again["written"] == []
    place = json.loads((cli.base / "made" / "place.json").read_bytes())
    assert place["uids"] == {"owner": 1000, "proxy": 990}
    conf = (cli.base / "made" / "squid" / "squid.conf").read_text("utf-8")
    assert "dns_nameservers 192.0.2.53\n" in conf
    assert "acl own dst 198.51.100.7\n" in conf


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("write", "made", "--uids", "nobody=1"), 2, "no account is called"),
        (("write", "made", "--uids", "proxy=core"), 2, "is not a uid for proxy"),
        (("write", "made", "--resolver", "localhost"), 2, "is not an address"),
        (("write", "key.pub/below"), 74, "cannot write into"),
        (("check", "nowhere"), 2, "no place.json in"),
        (("check",), 2, "DIR"),
    ],
)
def test_mistakes_end_in_one_sentence(
    cli: Cli, argv: tuple[str, ...], code: int, said: str
) -> None:
    (cli.base / "key.pub").write_text("a file, no directory", "utf-8")
    done = cli("infra", *argv, code=code)
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_place_that_was_edited_into_nonsense_is_refused(cli: Cli) -> None:
    cli("infra", "write", "made")
    (cli.base / "made" / "place.json").write_text("{}", "utf-8")
    for command in ("check", "write"):
        assert "place.json is not readable" in cli("infra", command, "made", code=2).err
