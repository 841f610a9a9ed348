"""Which key signs for this user: chosen, remembered, and right for each workspace."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workspaces import key_file, public_of, settings_for
from threegate.base.errors import GateUnavailable, UsageError
from threegate.host.keys.operator import (
    KEY_NAME,
    MAX_KEYS,
    Operator,
    choose_key,
    remember,
    signer_for,
)
from threegate.host.keys.signatures import SshTools
from threegate.host.settings import Settings
from threegate.keys.public import PublicKey


@pytest.fixture(scope="module")
def tools() -> Iterator[SshTools]:
    yield SshTools.find({})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_for(tmp_path)


def known(base: Path, name: str) -> Operator:
    return Operator(key_file(base, name), public_of(name))


def chosen(base: Path, tools: SshTools, *may: str, key: str | None = None) -> Path:
    allowed = {public_of(name) for name in may}

    def may_sign(public: PublicKey) -> bool:
        return public in allowed

    settings = settings_for(base)
    signer = signer_for(
        settings, tools, chosen=key, workspace=base / "ws", notify=print, may_sign=may_sign
    )
    return signer.key


def test_the_first_key_is_made_in_the_configuration_for_the_user_alone(
    settings: Settings, tools: SshTools, tmp_path: Path
) -> None:
    made = choose_key(settings, tools, chosen=None, workspace=tmp_path / "ws")
    assert made.made_now
    assert made.key == settings.config_home / KEY_NAME
    assert made.key.stat().st_mode & 0o777 == 0o600
    again = choose_key(settings, tools, chosen=None, workspace=tmp_path / "ws")
    assert (again.key, again.public, again.made_now) == (made.key, made.public, False)


# claim TG-C-417
def test_the_choice_of_a_key_is_explained(
    settings: Settings, tools: SshTools, tmp_path: Path
) -> None:
    """After `init --key FILE` a plain `init` takes the same key, and must say so."""

    def source(key: str | None) -> tuple[str, str]:
        found = choose_key(settings, tools, chosen=key, workspace=tmp_path / "ws")
        return found.key.name, found.source

    assert source(None) == (KEY_NAME, "made now")
    assert source(None) == (KEY_NAME, "found in your configuration directory")
    mine = known(tmp_path, "mine")
    assert source(str(mine.key)) == ("mine", "named with --key")
    remember(settings, mine)
    assert source(None) == ("mine", "the key you signed with last")
    assert source("new") == (f"{KEY_NAME}-2", "made now"), "control: another one can be had"


def test_a_new_key_is_never_written_over_another(
    settings: Settings, tools: SshTools, tmp_path: Path
) -> None:
    made = [choose_key(settings, tools, chosen="new", workspace=tmp_path / "ws") for _ in range(3)]
    assert [item.key.name for item in made] == [KEY_NAME, f"{KEY_NAME}-2", f"{KEY_NAME}-3"]
    assert len({item.public for item in made}) == 3


def test_the_last_used_key_that_may_sign_there_signs(tmp_path: Path, tools: SshTools) -> None:
    for name in ("first", "second", "third"):
        remember(settings_for(tmp_path), known(tmp_path, name))
    assert chosen(tmp_path, tools, "first", "second") == key_file(tmp_path, "second")
    assert chosen(tmp_path, tools, "first") == key_file(tmp_path, "first")
    assert chosen(tmp_path, tools, "first", "third") == key_file(tmp_path, "third")
    assert chosen(tmp_path, tools) == key_file(tmp_path, "third"), "whose refusal will say why"


def test_a_key_that_is_gone_does_not_hide_the_others(tmp_path: Path, tools: SshTools) -> None:
    for name in ("first", "second"):
        remember(settings_for(tmp_path), known(tmp_path, name))
    key_file(tmp_path, "second").unlink()
    assert chosen(tmp_path, tools, "first", "second") == key_file(tmp_path, "first")


def test_a_named_key_is_taken_as_it_is(tmp_path: Path, tools: SshTools) -> None:
    remember(settings_for(tmp_path), known(tmp_path, "first"))
    assert chosen(tmp_path, tools, "first", key="keys/other") == tmp_path / "keys/other"


def test_a_key_is_remembered_once_and_not_too_many_are(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    for number in (*range(MAX_KEYS + 3), 5):
        remember(settings, Operator(tmp_path / str(number), public_of()))
    record = json.loads((settings.config_home / "operator.json").read_bytes())
    assert record["key"] == str(tmp_path / "5")
    assert len(record["others"]) == MAX_KEYS - 1
    assert str(tmp_path / "5") not in record["others"]
    assert record["others"][0] == str(tmp_path / str(MAX_KEYS + 2))


def test_no_key_known_says_how_to_name_one(tmp_path: Path, tools: SshTools) -> None:
    with pytest.raises(GateUnavailable, match="no key of the operator is known") as caught:
        chosen(tmp_path, tools, "first")
    assert "--key" in caught.value.hint


def test_a_broken_record_is_named(tmp_path: Path, tools: SshTools) -> None:
    remember(settings_for(tmp_path), known(tmp_path, "first"))
    (settings_for(tmp_path).config_home / "operator.json").write_bytes(b'{"key":1}')
    with pytest.raises(GateUnavailable, match="not readable"):
        chosen(tmp_path, tools, "first")


def test_no_agent_is_said(tmp_path: Path, tools: SshTools) -> None:
    with pytest.raises(UsageError, match="no ed25519 key in an SSH agent"):
        chosen(tmp_path, tools, key="agent")
