"""init, keys, withdraw, forget, backup, restore, upgrade as one user would use them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.samples import packet
from tests.support.workspaces import files_below, key_file, key_of
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex

SECRET = b"Personal: Ada's heart rate was 61."


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def workspace(cli: Cli) -> Path:
    assert cli.workspace is not None
    return cli.workspace


def take_in(cli: Cli, text: str = SECRET.decode()) -> str:
    data = registry.emit(packet(text))
    cli("admit", "-", stdin=data)
    return f"rp-{sha256_hex(data)}"


def test_init_makes_a_key_outside_the_workspace(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    found = cli("init", "research", "--json").json
    key = Path(found["key"])
    assert (found["key_made"], found["key_strength"], found["signer"]) == (
        True,
        "plain-file",
        "operator",
    )
    assert key.parent == tmp_path / ".config/threegate"
    assert key.stat().st_mode & 0o777 == 0o600
    signers = (tmp_path / "research/policy/allowed_signers").read_text("ascii")
    assert signers.startswith('operator namespaces="threegate-*" ssh-ed25519 ')
    private = key.read_bytes()
    assert all(private not in data for data in files_below(tmp_path / "research").values())


def test_init_adopts_a_key_by_another_name(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    found = cli("init", "research", "--key", key_file(tmp_path), "--name", "ada@lab", "--json").json
    assert (found["key_made"], found["signer"]) == (False, "ada@lab")
    assert found["fingerprint"] == key_of().fingerprint
    line = (tmp_path / "research/policy/allowed_signers").read_text("ascii")
    assert line.startswith("ada@lab ")


@pytest.mark.parametrize("name", ["a b", "*", "ada,eve", "\x1b[2J"])
def test_init_refuses_a_name_that_is_a_pattern(tmp_path: Path, name: str) -> None:
    done = Cli(tmp_path)("init", "research", "--name", name, code=2)
    assert b"\x1b" not in done.raw_err
    assert not (tmp_path / "research/threegate.json").exists()


def test_init_refuses_a_key_inside_the_workspace_and_a_second_init(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    (tmp_path / "inside").mkdir()
    inside = key_file(tmp_path).rename(tmp_path / "inside/key")
    done = cli("init", "inside", "--key", inside, code=69)
    assert "[TG-KEY-010]" in done.err
    cli("init", "research")
    before = files_below(tmp_path / "research")
    assert "is a workspace already" in cli("init", "research", code=2).err
    assert files_below(tmp_path / "research") == before


def test_init_takes_a_key_from_an_agent(tmp_path: Path) -> None:
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.PIPE
    )
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        env = {"SSH_AUTH_SOCK": str(tmp_path / "agent")}
        add = ["ssh-add", "-q", str(key_file(tmp_path))]
        subprocess.run(add, env={**os.environ, **env}, check=True, capture_output=True)
        key_file(tmp_path).unlink()
        cli = Cli(tmp_path, environment=env)
        found = cli("init", "research", "--key", "agent", "--json").json
        assert (found["fingerprint"], found["key_strength"]) == (key_of().fingerprint, "agent")
        cli.workspace = tmp_path / "research"
        cli("audit", "checkpoint")
    finally:
        agent.terminate()
        agent.communicate()


def test_keys_are_added_rotated_and_revoked(cli: Cli) -> None:
    other = key_file(cli.base, "ada").with_suffix(".pub")
    cli("key", "add", other, "--yes", "--name", "ada", "--for", "threegate-checkpoint")
    cli("audit", "checkpoint", "--key", key_file(cli.base, "ada"))
    path = workspace(cli) / "policy/handoff.policy.md"
    path.write_text(path.read_text("utf-8").replace("7d", "6d"), "utf-8")
    done = cli("policy", "apply", "--yes", "--key", key_file(cli.base, "ada"), code=77)
    assert "[TG-KEY-004]" in done.err, "ada may sign checkpoints only"
    cli("policy", "apply", "--yes")
    cli("key", "revoke", key_of("ada").fingerprint, "--yes")
    done = cli("audit", "checkpoint", "--key", key_file(cli.base, "ada"), code=77)
    assert "[TG-KEY-006]" in done.err
    cli("key", "rotate", "--yes", "--new", key_file(cli.base, "next"))
    states = {
        line["fingerprint"]: line["state"] for line in cli("key", "list", "--json").json["keys"]
    }
    assert states[key_of("ada").fingerprint] == "revoked"
    assert states[key_of("next").fingerprint] == "current"
    cli("audit", "checkpoint")  # with the new key, which is remembered
    assert cli("audit", "verify", "--json").json["ok"], "what was signed before stays valid"
    assert cli("policy", "diff").out == "no difference\n"


def test_a_rotation_in_one_workspace_leaves_the_other_signable(tmp_path: Path) -> None:
    first, second = made(tmp_path, name="first"), made(tmp_path, name="second")
    first("key", "rotate", "--yes", "--new", "new")
    first("audit", "checkpoint")
    second("audit", "checkpoint")  # by the old key, which only this one still allows


@pytest.mark.parametrize("time", ["yesterday", "2026-11-15", "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_a_usage_error(cli: Cli, time: str) -> None:
    done = cli("key", "revoke", key_of().fingerprint, "--since", time, code=2)
    assert "is not a time like 2026-11-15T12:00:00Z" in done.err


def test_the_last_key_cannot_be_revoked(cli: Cli) -> None:
    done = cli("key", "revoke", key_of().fingerprint, code=77)
    assert "nobody could sign the next change" in done.err


def test_withdraw_quarantines_and_is_not_admitted_again(cli: Cli) -> None:
    artifact_id = take_in(cli)
    done = cli("withdraw", artifact_id[:20], "--yes", "--reason", "retracted", "--json").json
    assert done == {"withdrawn": [artifact_id], "same_work": []}
    assert cli("packet", "list", "--json").json["total"] == 0
    (item,) = cli("quarantine", "list", "--json").json["items"]
    assert (item["id"], item["reason"]) == (artifact_id, "retracted")
    said = cli("packet", "show", artifact_id[:15], code=2).err
    assert f"{artifact_id} was withdrawn here" in said
    assert f"`threegate quarantine show {artifact_id[:15]}`" in said
    cli("quarantine", "show", artifact_id[:15])
    done_again = cli("admit", "-", stdin=registry.emit(packet(SECRET.decode())), code=65)
    assert done_again.out.startswith("refused TG-HND-011 -")
    assert cli("withdraw", artifact_id, "--reason", "x").out == "nothing left to withdraw\n"


def test_forget_removes_the_bytes_everywhere_in_the_workspace(cli: Cli) -> None:
    artifact_id = take_in(cli)
    cli("packet", "search", "heart")  # so that the index has it too
    assert any(SECRET in data for data in files_below(workspace(cli)).values()), "control"
    assert "[TG-ASK-001]" in cli("forget", artifact_id, "--reason", "private", code=75).err
    done = cli("forget", artifact_id, "--reason", "private", "--yes", "--json").json
    assert done == {"forgotten": [artifact_id], "may_quote": [], "same_work": []}
    left = files_below(workspace(cli))
    assert not [name for name, data in left.items() if SECRET in data]
    assert not [name for name, data in left.items() if b"heart" in data]
    assert cli("packet", "search", "heart").out == "none\n"
    assert f"{artifact_id} was forgotten here" in cli("packet", "show", artifact_id, code=2).err
    assert cli("audit", "verify", "--json").json["ok"]


def test_forget_reaches_what_lies_in_quarantine(cli: Cli) -> None:
    refused = cli("admit", "-", "--json", stdin=SECRET, code=65).json["files"][0]
    for wrong, says in (("12", "less than 12 digits"), ("0" * 12, "no raw or quarantined bytes")):
        assert says in cli("forget", f"blob-{wrong}", "--reason", "x", "--yes", code=2).err
    done = cli("forget", f"blob-{refused['sha256'][:12]}", "--reason", "private", "--yes")
    assert done.out == f"forgotten blob-{refused['sha256']}\n"
    assert not [name for name, data in files_below(workspace(cli)).items() if SECRET in data]


def test_forget_on_a_terminal_asks(cli: Cli) -> None:
    artifact_id = take_in(cli)
    screen = cli.in_terminal("forget", artifact_id, "--reason", "x", typed=b"\n", code=77)
    assert b"for good? [y/N]" in screen
    assert cli("packet", "list", "--json").json["total"] == 1


def test_backup_and_restore_give_the_same_workspace(cli: Cli) -> None:
    artifact_id = take_in(cli)
    cli("audit", "export", "usb")
    found = cli("backup", "usb/backup", "--json").json
    assert Path(found["path"]) == cli.base / "usb/backup"
    checkpoint = next((cli.base / "usb").glob("checkpoint-*.txt"))
    restored = cli(
        "restore", "usb/backup", "again", "--checkpoint", checkpoint, "--json"
    ).json  # fmt: skip
    assert restored["signers"] == [f"{key_of().fingerprint} operator"]
    again = Cli(cli.base, cli.base / "again")
    assert again("packet", "show", "--raw", artifact_id).raw_out == cli(
        "packet", "show", "--raw", artifact_id
    ).raw_out  # fmt: skip
    assert again("audit", "verify", "--json").json["ok"]
    shown = cli("restore", "usb/backup", "third").out
    assert f"signer, current  {key_of().fingerprint} operator" in shown


def test_a_damaged_backup_restores_nothing(cli: Cli) -> None:
    take_in(cli)
    cli("backup", "backup")
    data = bytearray((cli.base / "backup").read_bytes())
    place = data.index(b"heart rate")
    data[place] ^= 1
    write(cli.base / "damaged", bytes(data))
    cli("restore", "damaged", "again", code=76)
    assert not (cli.base / "again").exists()
    assert "is already there" in cli("backup", "backup", code=2).err


def test_upgrade_of_the_present_version_does_nothing(cli: Cli) -> None:
    before = files_below(workspace(cli))
    assert cli("upgrade").out == "nothing to do: version 1\n"
    assert files_below(workspace(cli)) == before
