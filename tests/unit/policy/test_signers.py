"""`allowed_signers` in the bundle: the same list there and back, and which change is wider."""

import pytest

from tests.support.policies import GATES, policy_files, public_key, signers_file
from threegate.base.errors import PolicyInvalid
from threegate.keys.signers import AllowedSigner, Signers, parse_signers
from threegate.policy.bundle import Compiled, diff
from threegate.policy.compiler import compile_policy
from threegate.policy.nodes import frozen, plain
from threegate.policy.sections.signers import read_signers, signers_of

ONE = AllowedSigner("operator", public_key(1))
WINDOW = AllowedSigner(
    "second@lab",
    public_key(2),
    namespaces=("threegate-approval", "threegate-checkpoint"),
    valid_after=1_700_000_000,
    valid_before=1_800_000_000,
)


def with_signers(*signers: AllowedSigner) -> Compiled:
    files = {**policy_files(), "allowed_signers": signers_file(*signers)}
    return compile_policy(files, gates=GATES)


def test_value_is_plain_and_reads_back_as_the_same_signers() -> None:
    gone = Signers((ONE, WINDOW)).revoke(WINDOW.key.fingerprint, since=1_750_000_000)
    data = signers_file(*gone.entries)
    value = read_signers(data)
    assert signers_of(value) == parse_signers(data)
    first, second = plain(value)
    assert first == {
        "key": public_key(1).line,
        "namespaces": ["threegate-*"],
        "principal": "operator",
        "revoked": False,
        "valid_after": None,
        "valid_before": None,
    }
    assert (second["revoked"], second["valid_before"]) == (True, 1_749_999_999)


def test_broken_file_is_an_invalid_policy_with_file_and_line() -> None:
    data = signers_file() + b'* namespaces="threegate-*" ssh-ed25519 AAAA\n'
    with pytest.raises(PolicyInvalid, match=r"\Apolicy/allowed_signers:2: ") as caught:
        read_signers(data)
    assert caught.value.code == "TG-POL-015"


def test_empty_file_is_a_list_of_nobody_and_a_missing_one_is_an_error() -> None:
    files = policy_files()
    assert compile_policy({**files, "allowed_signers": b""}, gates=GATES).signers == Signers()
    del files["allowed_signers"]
    with pytest.raises(PolicyInvalid, match="policy/allowed_signers: missing"):
        compile_policy(files, gates=GATES)


def test_refs_name_the_line_of_each_key() -> None:
    compiled = with_signers(ONE, WINDOW)
    assert str(compiled.ref("signers", WINDOW.key.fingerprint)) == "policy/allowed_signers:2"


GOOD = plain(read_signers(signers_file(ONE, WINDOW)))


@pytest.mark.parametrize(
    "change",
    [
        {"principal": "*"},
        {"principal": 1},
        {"key": "ssh-rsa AAAA"},
        {"key": GOOD[0]["key"] + " comment"},
        {"key": None},
        {"namespaces": "threegate-*"},
        {"namespaces": ["git"]},
        {"namespaces": [1]},
        {"namespaces": []},
        {"valid_after": "2026"},
        {"valid_after": True},
        {"revoked": 1},  # equal to true for Python, another spelling in the bundle
        {"revoked": True},  # without the end of its window
        {"revoked": "no"},
        {"extra": 1},
    ],
)
def test_value_that_no_file_could_spell_is_refused(change: dict[str, object]) -> None:
    assert signers_of(frozen(GOOD)).entries == (ONE, WINDOW), "control"
    with pytest.raises(PolicyInvalid) as caught:
        signers_of(frozen([{**GOOD[0], **change}, GOOD[1]]))
    assert caught.value.code == "TG-POL-016"


@pytest.mark.parametrize("value", [None, {}, "operator", 3, [None], [GOOD[0], GOOD[0]], [[]]])
def test_value_of_another_shape_is_refused(value: object) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        signers_of(frozen(value))
    assert caught.value.code == "TG-POL-016"


def effects(old: AllowedSigner, new: AllowedSigner) -> set[tuple[str, str]]:
    forth = diff(with_signers(ONE, old), with_signers(ONE, new))
    return {(change.path.rpartition("/")[2], change.effect) for change in forth}


def test_added_signer_widens_and_removed_one_narrows() -> None:
    less, more = with_signers(ONE), with_signers(ONE, WINDOW)
    (added,) = diff(less, more)
    (removed,) = diff(more, less)
    assert (added.effect, removed.effect) == ("widens", "narrows")
    assert "second@lab may now sign" in added.sentence
    assert added.path == f"signers/{WINDOW.key.fingerprint}"


def test_longer_window_and_more_namespaces_widen() -> None:
    key = public_key(2)
    some = ("threegate-approval",)
    base = AllowedSigner("x", key, some, 1_700_000_000, 1_800_000_000)
    assert effects(base, AllowedSigner("x", key, some, None, 1_800_000_000)) == {
        ("valid_after", "widens")
    }
    assert effects(base, AllowedSigner("x", key, some, 1_700_000_001, 1_800_000_000)) == {
        ("valid_after", "narrows")
    }
    assert effects(base, AllowedSigner("x", key, some, 1_700_000_000, None)) == {
        ("valid_before", "widens")
    }
    assert effects(base, AllowedSigner("y", key, some, 1_700_000_000, 1_800_000_000)) == {
        ("principal", "changes")
    }
    everything = effects(
        base, AllowedSigner("x", key, valid_after=1_700_000_000, valid_before=None)
    )
    assert ("threegate-policy", "widens") in everything
    assert {effect for _, effect in everything} == {"widens"}


def test_revocation_narrows_and_undoing_it_widens() -> None:
    revoked = Signers((WINDOW,)).revoke(WINDOW.key.fingerprint, since=1_750_000_000).entries[0]
    assert {effect for _, effect in effects(WINDOW, revoked)} == {"narrows"}
    assert {effect for _, effect in effects(revoked, WINDOW)} == {"widens"}
