"""`allowed_signers`: one spelling, windows, revocation."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import sshlab
from tests.support.sshlab import NOW, Key
from threegate.base.errors import PolicyInvalid, SignatureRefused, UsageError
from threegate.keys import public
from threegate.keys.public import parse_key_blob
from threegate.keys.signers import (
    ANY_NAMESPACE,
    EARLIEST,
    LATEST,
    NAMESPACES,
    AllowedSigner,
    Signers,
    emit,
    parse_signers,
)

ACCEPT, REJECT = sshlab.load("signers", "accept"), sshlab.load("signers", "reject")
KEY, OTHER = parse_key_blob(Key(b"\x01" * 32).blob), parse_key_blob(Key(b"\x02" * 32).blob)
DAY = 86_400


def code_of(signer: AllowedSigner, *, at: int, namespace: str = NAMESPACES[0]) -> str | None:
    try:
        signer.refuse(namespace=namespace, at=at, past=True)
    except SignatureRefused as exc:
        return exc.code
    return None


@pytest.mark.parametrize("name", ACCEPT)
def test_accept_vectors_round_trip(name: str) -> None:
    _, data = ACCEPT[name]
    assert emit(parse_signers(data)) == data


@pytest.mark.parametrize("name", REJECT)
def test_reject_vectors_name_file_and_line(name: str) -> None:
    expected, data = REJECT[name]
    with pytest.raises(PolicyInvalid) as refused:
        parse_signers(data)
    assert refused.value.code == "TG-POL-002"
    assert refused.value.message.startswith(expected)
    assert refused.value.message.isprintable()


def test_the_caller_names_the_file() -> None:
    with pytest.raises(PolicyInvalid, match=r"^policy/allowed_signers:1: "):
        parse_signers(b"\n", name="policy/allowed_signers")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_list_or_invalid(data: bytes) -> None:
    try:
        assert emit(parse_signers(data)) == data
    except PolicyInvalid as exc:
        assert exc.code == "TG-POL-002"


principals = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}", fullmatch=True)
namespaces = st.one_of(
    st.just(ANY_NAMESPACE),
    st.sets(st.sampled_from(NAMESPACES), min_size=1).map(
        lambda chosen: tuple(name for name in NAMESPACES if name in chosen)
    ),
)


@st.composite
def allowed(draw: st.DrawFn) -> AllowedSigner:
    key = Key(draw(st.binary(min_size=32, max_size=32)), draw(st.booleans()))
    window = sorted(draw(st.sets(st.integers(EARLIEST, LATEST), min_size=2, max_size=2)))
    after, before = draw(st.sampled_from([(None, None), (window[0], None), tuple(window)]))
    return AllowedSigner(
        draw(principals),
        parse_key_blob(key.blob),
        draw(namespaces),
        after,
        before,
        revoked=before is not None and draw(st.booleans()),
    )


@given(st.lists(allowed(), max_size=5, unique_by=lambda signer: signer.key))
def test_every_list_round_trips(entries: list[AllowedSigner]) -> None:
    signers = Signers(tuple(entries))
    assert parse_signers(emit(signers)) == signers


@given(allowed(), st.integers(EARLIEST, LATEST), st.integers(EARLIEST + 1, LATEST))
def test_revoking_only_ever_narrows(signer: AllowedSigner, since: int, at: int) -> None:
    before = Signers((signer,))
    after = before.revoke(signer.key.fingerprint, since=since)
    assert parse_signers(emit(after)) == after
    [revoked] = after.entries
    name = NAMESPACES[0] if signer.namespaces == ANY_NAMESPACE else signer.namespaces[0]
    if at >= since or code_of(signer, at=at, namespace=name):
        assert code_of(revoked, at=at, namespace=name)


def test_empty_list_accepts_nobody() -> None:
    assert parse_signers(b"").find(KEY) is None
    assert parse_signers(emit(Signers((AllowedSigner("operator", KEY),)))).find(KEY), "control"


def test_window_includes_both_ends() -> None:
    signer = AllowedSigner("operator", KEY, valid_after=NOW, valid_before=NOW + DAY)
    verdicts = [code_of(signer, at=at) for at in (NOW - 1, NOW, NOW + DAY, NOW + DAY + 1)]
    assert verdicts == ["TG-KEY-005", None, None, "TG-KEY-005"]


def test_revocation_is_judged_at_the_time_of_signing() -> None:
    signers = Signers((AllowedSigner("operator", KEY), AllowedSigner("second", OTHER)))
    [revoked, other] = signers.revoke(KEY.fingerprint, since=NOW).entries
    verdicts = [code_of(revoked, at=at) for at in (NOW - 1, NOW, NOW + 1)]
    assert verdicts == [None, "TG-KEY-006", "TG-KEY-006"]
    assert code_of(other, at=NOW + 1) is None
    with pytest.raises(SignatureRefused) as caught:
        revoked.refuse(namespace=NAMESPACES[0], at=NOW - 1)  # something new, by a clock set back
    assert caught.value.code == "TG-KEY-006"


def test_revoking_before_the_first_valid_day_leaves_no_valid_second() -> None:
    signer = AllowedSigner("operator", KEY, valid_after=NOW, valid_before=NOW + DAY)
    for since in (EARLIEST, NOW - DAY, NOW, NOW + 1):
        [revoked] = Signers((signer,)).revoke(KEY.fingerprint, since=since).entries
        assert {code_of(revoked, at=at) for at in (EARLIEST + 1, NOW - 1, NOW, NOW + 1)} == {
            "TG-KEY-006"
        }


def test_revocation_cannot_be_moved_later_or_undone() -> None:
    signers = Signers((AllowedSigner("operator", KEY),)).revoke(KEY.fingerprint, since=NOW)
    assert signers.revoke(KEY.fingerprint, since=NOW + DAY) == signers
    for end in (None, NOW + DAY):
        with pytest.raises(UsageError, match="only a new key can sign again"):
            signers.with_window(KEY.fingerprint, valid_after=None, valid_before=end)
    with pytest.raises(UsageError, match="stands twice"):
        signers.add(AllowedSigner("operator", KEY))
    earlier = signers.revoke(KEY.fingerprint, since=NOW - DAY)
    assert code_of(earlier.entries[0], at=NOW - DAY) == "TG-KEY-006"


def test_times_before_the_project_are_never_valid() -> None:
    signer = AllowedSigner("operator", KEY)
    assert code_of(signer, at=EARLIEST + 1) is None, "control"
    assert {code_of(signer, at=at) for at in (EARLIEST, 0, -1, -(10**12))} == {"TG-KEY-005"}


def test_rotation_is_a_window_for_the_old_key_and_a_new_line() -> None:
    signers = Signers((AllowedSigner("operator", KEY),))
    rotated = signers.with_window(KEY.fingerprint, valid_after=None, valid_before=NOW).add(
        AllowedSigner("operator", OTHER, valid_after=NOW)
    )
    [old, new] = rotated.entries
    assert [code_of(old, at=NOW), code_of(old, at=NOW + 1)] == [None, "TG-KEY-005"]
    assert [code_of(new, at=NOW - 1), code_of(new, at=NOW)] == ["TG-KEY-005", None]
    assert parse_signers(emit(rotated)) == rotated


def test_namespaces_match_exactly() -> None:
    everything = AllowedSigner("operator", KEY)
    narrow = replace(everything, namespaces=("threegate-approval", "threegate-policy"))
    asked = (*NAMESPACES, "threegate-", "threegate", "git", "Threegate-approval", "xthreegate-a")
    refused = [name for name in asked if code_of(narrow, at=NOW, namespace=name)]
    assert refused == list(asked[2:])
    refused = [name for name in asked if code_of(everything, at=NOW, namespace=name)]
    assert refused == list(asked[len(NAMESPACES) + 1 :])
    assert code_of(narrow, at=NOW, namespace="git") == "TG-KEY-004"


@pytest.mark.parametrize(
    "principal",
    ["", "a b", "a\nb", "x" * 129, "*", "a,b", "!a", '"a"', "#a", "a\x1b", "ä", "a\n", "-a"],
)
def test_principals_that_could_be_patterns_or_lines_are_refused(principal: str) -> None:
    control = AllowedSigner("e.mail+x@example.org", KEY)
    assert parse_signers(emit(Signers((control,)))).entries == (control,)
    with pytest.raises(UsageError, match="cannot name a signer"):
        AllowedSigner(principal, KEY)


def test_unknown_fingerprint_is_a_usage_error() -> None:
    signers = Signers((AllowedSigner("operator", KEY),))
    assert signers.by_fingerprint(KEY.fingerprint).principal == "operator"
    with pytest.raises(UsageError, match="no signer has the key"):
        signers.revoke(OTHER.fingerprint, since=NOW)


def test_size_is_bounded() -> None:
    keys = [parse_key_blob(Key(number.to_bytes(32, "big")).blob) for number in range(257)]
    full = Signers(tuple(AllowedSigner("x" * 128, key, NAMESPACES) for key in keys[:256]))
    assert parse_signers(emit(full)) == full, "control: a full list is accepted"
    with pytest.raises(UsageError, match="257 signers"):
        full.add(AllowedSigner("operator", keys[256]))
    with pytest.raises(PolicyInvalid, match=r"allowed_signers:257: more than 256 lines"):
        parse_signers(emit(full) + f"{AllowedSigner('a', keys[256]).line}\n".encode())
    with pytest.raises(PolicyInvalid, match=f"limit {public.MAX_SIGNERS_BYTES}"):
        parse_signers(b"\n" * (public.MAX_SIGNERS_BYTES + 1))
