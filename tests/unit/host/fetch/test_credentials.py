"""The operator's keys for hosts: used only if nobody else can have read them."""

import os
from pathlib import Path

import pytest

from tests.support.policies import policy, remote_model
from tests.support.workspaces import settings_for
from threegate.base.errors import GateUnavailable, PolicyDenied, StorageFailed, UsageError
from threegate.host.fetch.credentials import (
    MAX_VALUE_BYTES,
    credential_for,
    list_credentials,
    model_credential,
    place_for,
    remove,
    store,
)
from threegate.host.settings import Settings

HOST = "api.openalex.org"
CANARY = "canary-6d1f0c"
POLICY = policy()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = settings_for(tmp_path)
    store(found, POLICY, HOST, CANARY.encode())
    return found


def file_of(settings: Settings) -> Path:
    return settings.config_home / "credentials" / HOST


def test_a_key_is_kept_for_its_user_alone(settings: Settings) -> None:
    assert credential_for(settings, POLICY, HOST) == CANARY
    assert file_of(settings).stat().st_mode & 0o7777 == 0o600
    assert file_of(settings).parent.stat().st_mode & 0o7777 == 0o700
    assert os.listdir(file_of(settings).parent) == [HOST]


def test_a_key_replaces_the_one_before(settings: Settings) -> None:
    (file_of(settings).parent / f".{HOST}.new").write_bytes(b"left by a crash")
    assert store(settings, POLICY, HOST, b"another one") == "query:api_key"
    assert credential_for(settings, POLICY, HOST) == "another one"


def test_a_wide_umask_opens_nothing(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store(settings_for(tmp_path), POLICY, HOST, b"some value")
    finally:
        os.umask(before)
    assert credential_for(settings_for(tmp_path), POLICY, HOST) == "some value"


def test_hosts_without_a_key_get_none(settings: Settings, tmp_path: Path) -> None:
    assert credential_for(settings, POLICY, "eutils.ncbi.nlm.nih.gov") is None, "none stored"
    assert credential_for(settings_for(tmp_path / "other"), POLICY, HOST) is None
    file_of(settings).with_name("api.crossref.org").write_text(CANARY)
    assert credential_for(settings, POLICY, "api.crossref.org") is None, "policy names none"
    assert credential_for(settings, POLICY, "example.org") is None


# claim TG-C-131
def test_a_key_goes_nowhere_once_policy_names_no_place(settings: Settings) -> None:
    rule = "content_types: [application/json]\n    credential: "
    without = policy(fetch=(f"{rule}query:api_key", f"{rule}none"))
    assert place_for(POLICY, HOST) == "query:api_key"
    assert credential_for(settings, POLICY, HOST) == CANARY
    assert place_for(without, HOST) is None
    assert credential_for(settings, without, HOST) is None


def others_may_read(file: Path) -> None:
    file.chmod(0o640)


def others_may_write(file: Path) -> None:
    file.chmod(0o602)


def others_may_enter(file: Path) -> None:
    file.parent.chmod(0o711)


def a_link(file: Path) -> None:
    target = file.parent.parent / "elsewhere"
    target.write_text(CANARY)
    target.chmod(0o600)
    file.unlink()
    file.symlink_to(target)


def a_linked_directory(file: Path) -> None:
    moved = file.parent.parent / "moved"
    file.parent.rename(moved)
    file.parent.symlink_to(moved)


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def two_lines(file: Path) -> None:
    file.write_bytes(b"one\r\nInjected: header")


def nothing_in_it(file: Path) -> None:
    file.write_bytes(b"")


def too_much_in_it(file: Path) -> None:
    file.write_bytes(b"a" * (MAX_VALUE_BYTES + 1))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (others_may_read, "can be read by others"),
        (others_may_write, "can be read by others"),
        (others_may_enter, "can be read by others"),
        (a_link, "is not a file"),
        (a_linked_directory, "is not a directory of this user"),
        (a_pipe, "is not a file"),
        (two_lines, "does not hold a key"),
        (nothing_in_it, "does not hold a key"),
        (too_much_in_it, "does not hold a key"),
    ],
)
# claim TG-C-131
def test_a_key_others_could_know_or_choose_is_not_used(
    settings: Settings, spoil: object, why: str
) -> None:
    assert credential_for(settings, POLICY, HOST) == CANARY, "control"
    assert callable(spoil)
    spoil(file_of(settings))
    with pytest.raises(GateUnavailable, match=why) as refused:
        credential_for(settings, POLICY, HOST)
    assert refused.value.code == "TG-CRD-005"
    assert CANARY not in f"{refused.value} {refused.value.hint}"


# claim TG-C-131
def test_a_key_of_another_user_is_not_used(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert credential_for(settings, POLICY, HOST) == CANARY, "control"
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(GateUnavailable, match="belongs to another user"):
        credential_for(settings, POLICY, HOST)


@pytest.mark.parametrize(
    "host", ["../key", "/etc/passwd", "localhost", "", "API.openalex.org", "a\nb.org"]
)
def test_what_is_no_host_names_no_file(settings: Settings, host: str) -> None:
    with pytest.raises(UsageError, match="is not a host") as refused:
        store(settings, POLICY, host, b"some value")
    assert refused.value.code == "TG-CRD-001"
    with pytest.raises(UsageError, match="is not a host"):
        remove(settings, host)


def test_a_host_that_takes_no_key_is_refused(settings: Settings) -> None:
    with pytest.raises(PolicyDenied, match="names no key") as refused:
        store(settings, POLICY, "api.crossref.org", b"some value")
    assert refused.value.code == "TG-CRD-002"
    assert not file_of(settings).with_name("api.crossref.org").exists()


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b" a long one", b"a long one ", b"one\nmore line", b"a long one\r"),
        *(b"\xffa long one", b"a long one\x00", b"a" * (MAX_VALUE_BYTES + 1)),
        b"a" * 7,  # it would stand in any answer by chance
    ],
)
def test_a_value_that_could_end_a_header_or_a_line_is_refused(
    settings: Settings, value: bytes
) -> None:
    store(settings, POLICY, HOST, b"a b~c d e")
    with pytest.raises(UsageError, match="this is not a key") as refused:
        store(settings, POLICY, HOST, value)
    assert refused.value.code == "TG-CRD-003"
    assert credential_for(settings, POLICY, HOST) == "a b~c d e"


def test_a_removed_key_is_gone(settings: Settings) -> None:
    remove(settings, HOST)
    assert credential_for(settings, POLICY, HOST) is None
    with pytest.raises(UsageError, match="no key is stored") as refused:
        remove(settings, HOST)
    assert refused.value.code == "TG-CRD-004"


def test_a_listing_shows_everything_but_the_key(settings: Settings) -> None:
    file_of(settings).with_name("api.crossref.org").write_text(CANARY)
    file_of(settings).with_name("api.semanticscholar.org").symlink_to("x")
    found = {line.host: line for line in list_credentials(settings, POLICY)}
    assert set(found) == {
        HOST,
        "api.crossref.org",
        "api.semanticscholar.org",
        "eutils.ncbi.nlm.nih.gov",
    }
    assert (found[HOST].place, found[HOST].problem) == ("query:api_key", "")
    assert found["eutils.ncbi.nlm.nih.gov"].stored is None
    assert "can be read by others" in found["api.crossref.org"].problem
    assert found["api.crossref.org"].place is None
    assert "is not a file" in found["api.semanticscholar.org"].problem
    assert CANARY not in repr(found)


def test_without_a_directory_there_is_nothing_to_list(tmp_path: Path) -> None:
    found = list_credentials(settings_for(tmp_path), POLICY)
    assert [line.stored for line in found] == [None] * 3


def test_a_disk_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    settings.config_home.parent.mkdir(parents=True, exist_ok=True)
    settings.config_home.write_text("a file where the directory should be")
    with pytest.raises(StorageFailed, match="cannot store the key"):
        store(settings, POLICY, HOST, b"some value")


# claim TG-C-203
def test_a_remote_model_has_a_key_and_fetch_never_gets_it(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    remote = remote_model("llm.example.org", remote_credential="bearer")
    assert store(settings, remote, "llm.example.org", b"canary-key-4711") == "bearer"
    assert model_credential(settings, remote, "llm.example.org") == "Bearer canary-key-4711"
    assert credential_for(settings, remote, "llm.example.org") is None, "not for packets"
    [line] = [one for one in list_credentials(settings, remote) if one.host == "llm.example.org"]
    assert (line.place, line.problem) == ("bearer", "")
    other = remote_model("llm.example.org", remote_credential="header:x-api-key")
    assert model_credential(settings, other, "llm.example.org") == "canary-key-4711"
    elsewhere = remote_model("other.example.org", remote_credential="bearer")
    assert model_credential(settings, elsewhere, "llm.example.org") is None, "another host's"
    assert model_credential(settings, elsewhere, "other.example.org") is None, "none is kept"
    assert model_credential(settings, policy(), "llm.example.org") is None
    same = "api.openalex.org"  # which takes a key of FETCH, in the URL
    assert store(settings, policy(), same, b"canary-key-4711") == "query:api_key"
    assert credential_for(settings, policy(), same) == "canary-key-4711", "control"
    both = remote_model(same, remote_credential="bearer")
    assert store(settings, both, same, b"canary-key-4712") == "bearer"
    assert credential_for(settings, both, same) is None, "the model's key goes into no URL"
    [line] = [one for one in list_credentials(settings, policy()) if one.host == "llm.example.org"]
    assert line.problem == "policy names no key for this host"
