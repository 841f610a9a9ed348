"""Somebody without the operator's key wants something approved, or wants it unapproved.

Every attack starts from a case that works, and names the code it must end with.
"""

import base64
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.sshlab import (
    APPROVAL,
    GROUP_ORDER,
    NOW,
    PLAIN,
    Answer,
    Forge,
    Key,
    armored,
    dearmored,
    honest,
    private_file,
    put,
    s,
    soft_agent,
)
from threegate.base.errors import GateUnavailable, PolicyInvalid, SignatureRefused, UsageError
from threegate.base.untrusted import Untrusted
from threegate.host.keys.signatures import SshKeygenSigner, SshTools, make_key, public_key_of
from threegate.keys.public import parse_key_blob
from threegate.keys.signers import NAMESPACES, AllowedSigner, Signers, emit, parse_signers
from threegate.keys.sshsig import SignedBytes, verify

OPERATOR, ATTACKER = Key(b"\x01" * 32), Key(b"\x66" * 32)
TOKEN = Key(b"\x02" * 32, on_token=True)
MESSAGE = b"approve this"
SIGNERS = parse_signers(OPERATOR.signer_line() + TOKEN.signer_line("second"))
DAY = 86_400


def judge(
    signature: bytes,
    *,
    message: bytes = MESSAGE,
    namespace: str = APPROVAL,
    signers: Signers = SIGNERS,
    at: int = NOW,
    past: bool = True,
) -> SignedBytes:
    armored = Untrusted(signature)
    return verify(message, armored, namespace=namespace, signers=signers, at=at, past=past)


def refusal(attempt: Callable[[], object]) -> str:
    """Return the code an attempt is refused with."""
    with pytest.raises(SignatureRefused) as refused:
        attempt()
    return refused.value.code


# Forging ----------------------------------------------------------------------------------


# claim TG-C-50
def test_own_signature_of_the_attacker_does_not_count() -> None:
    assert judge(Forge(OPERATOR).armored()).principal == "operator", "control"
    assert refusal(partial(judge, Forge(ATTACKER).armored())) == "TG-KEY-003"


def test_operators_key_in_front_of_the_attackers_signature_does_not_hold() -> None:
    assert judge(Forge(OPERATOR).armored()).principal == "operator", "control"
    forged = Forge(ATTACKER, key_blob=OPERATOR.blob)
    assert refusal(partial(judge, forged.armored())) == "TG-KEY-002"


def test_approval_of_one_thing_does_not_approve_another() -> None:
    good = Forge(OPERATOR).armored()
    assert judge(good).principal == "operator", "control"
    for other in (b"approve that", b"", MESSAGE + b"\n", MESSAGE[:-1], MESSAGE.upper()):
        assert refusal(partial(judge, good, message=other)) == "TG-KEY-002"


# claim TG-C-50
def test_signature_for_one_purpose_cannot_be_replayed_for_another() -> None:
    for made in (*NAMESPACES, "git", "file"):
        signature = Forge(OPERATOR, namespace=made.encode()).armored()
        for used in NAMESPACES:
            if made == used:
                assert judge(signature, namespace=used).principal == "operator", "control"
            else:
                code = refusal(partial(judge, signature, namespace=used))
                assert code == "TG-KEY-004"
        relabelled = Forge(
            OPERATOR, namespace=made.encode(), claimed={"namespace": b"threegate-policy"}
        )
        if made != "threegate-policy":
            code = refusal(partial(judge, relabelled.armored(), namespace="threegate-policy"))
            assert code == "TG-KEY-002"


def test_key_that_belongs_to_everybody_cannot_become_a_signer() -> None:
    """Without the check this works: R = neutral element and S = 0 fit every message."""
    blob = s(PLAIN) + s((1).to_bytes(32, "little"))
    forged = Forge(OPERATOR, key_blob=blob, sig_raw=(1).to_bytes(32, "little") + bytes(32))
    assert refusal(partial(judge, forged.armored())) == "TG-KEY-007"
    good = OPERATOR.signer_line()
    assert parse_signers(good).entries, "control"
    encoded = good.split()[3]
    with pytest.raises(PolicyInvalid, match=r"^allowed_signers:1: .*small order"):
        parse_signers(good.replace(encoded, base64.b64encode(blob)))


# claim TG-C-50
def test_second_spelling_of_a_signature_is_refused() -> None:
    """A refused approval must not come back under another digest, nor a used one as unused."""
    forge = Forge(OPERATOR)
    assert judge(forge.armored()).principal == "operator", "control"
    raw = forge.raw()
    scalar = int.from_bytes(raw[32:], "little") + GROUP_ORDER
    forge.sig_raw = raw[:32] + scalar.to_bytes(32, "little")
    assert refusal(partial(judge, forge.armored())) == "TG-KEY-002"
    text = Forge(OPERATOR).armored()
    for other in (text + b"\n", text.replace(b"\n", b"\r\n"), b"\n" + text, text + text, text[:-1]):
        assert refusal(partial(judge, other)) == "TG-KEY-001"
    for hidden in ({"outer": b"note"}, {"key": b"note"}, {"inner": b"note"}):
        code = refusal(partial(judge, Forge(OPERATOR, tails=hidden).armored()))
        assert code == "TG-KEY-001"
    assert refusal(partial(judge, Forge(OPERATOR, reserved=b"note").armored())) == "TG-KEY-001"


# claim TG-C-50
def test_every_single_bit_of_a_signature_counts() -> None:
    blob = Forge(TOKEN).blob()
    assert judge(armored(blob)).touched is True, "control"
    codes = set()
    for bit in range(len(blob) * 8):
        changed = bytearray(blob)
        changed[bit // 8] ^= 1 << bit % 8
        codes.add(refusal(partial(judge, armored(bytes(changed)))))
    # 005 and 006 are about time, which is not in the signature; 008 needs a signed flag.
    assert codes == {f"TG-KEY-00{number}" for number in (1, 2, 3, 4, 7)}


def test_every_length_field_is_bounded_before_use() -> None:
    blob = Forge(OPERATOR).blob()
    assert judge(armored(blob)).principal == "operator", "control"
    lengths = [at for at in range(10, len(blob) - 3) if blob[at : at + 3] == bytes(3)]
    assert len(lengths) >= 8
    for at in lengths:
        for value in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x10\x00"):
            huge = blob[:at] + value + blob[at + 4 :]
            assert refusal(partial(judge, armored(huge))) == "TG-KEY-001"


# Tokens -----------------------------------------------------------------------------------


# claim TG-C-52
def test_token_signature_without_touch_is_refused_even_if_all_else_holds() -> None:
    """Malware on the operator's machine can ask a token to sign; it cannot touch it."""
    assert judge(Forge(TOKEN, flags=1).armored()).touched is True, "control"
    assert refusal(partial(judge, Forge(TOKEN, flags=0).armored())) == "TG-KEY-008"
    untouched = Forge(TOKEN, flags=0).raw()
    claimed = Forge(TOKEN, flags=1, sig_raw=untouched)
    assert refusal(partial(judge, claimed.armored())) == "TG-KEY-002"


def test_token_key_cannot_be_passed_off_as_a_file_key() -> None:
    same_point = Key(TOKEN.seed)
    both = parse_signers(TOKEN.signer_line() + same_point.signer_line("file"))
    assert judge(Forge(same_point).armored(), signers=both).touched is None, "control"
    assert judge(Forge(TOKEN).armored(), signers=both).touched is True, "control"
    crossed = Forge(same_point, sig_raw=Forge(TOKEN).raw())
    assert refusal(partial(judge, crossed.armored(), signers=both)) == "TG-KEY-002"
    assert refusal(partial(judge, Forge(same_point).armored())) == "TG-KEY-003"


# Time and revocation ----------------------------------------------------------------------


# claim TG-C-51
def test_stolen_key_is_worth_nothing_once_revoked_and_old_approvals_stay() -> None:
    signature = Forge(OPERATOR).armored()
    revoked = SIGNERS.revoke(OPERATOR.fingerprint, since=NOW)
    assert judge(signature, signers=revoked, at=NOW - DAY).principal == "operator", "control"
    for at in (NOW, NOW + DAY):
        assert refusal(partial(judge, signature, signers=revoked, at=at)) == "TG-KEY-006"
    # Nor for something new by a clock that shows a time before the revocation.
    new = partial(judge, signature, signers=revoked, at=NOW - DAY, past=False)
    assert refusal(new) == "TG-KEY-006"


# claim TG-C-51
def test_revoked_key_cannot_be_brought_back_by_a_second_line() -> None:
    revoked = emit(SIGNERS.revoke(OPERATOR.fingerprint, since=NOW))
    assert parse_signers(revoked).entries, "control"
    for principal in ("operator", "another"):
        with pytest.raises(PolicyInvalid, match=r"^allowed_signers:3: .*stands twice"):
            parse_signers(revoked + OPERATOR.signer_line(principal))


def test_name_cannot_smuggle_a_line_into_the_list() -> None:
    evil = f'x namespaces="threegate-*" {ATTACKER.public_line}\noperator'
    key = parse_key_blob(OPERATOR.blob)
    assert emit(Signers((AllowedSigner("operator", key),))).count(b"\n") == 1, "control"
    for principal in (evil, "operator\n", "*", "operator,*", "!operator"):
        with pytest.raises(UsageError, match="cannot name a signer"):
            AllowedSigner(principal, key)


# The signing side -------------------------------------------------------------------------


@pytest.fixture
def tools() -> SshTools:
    return SshTools.find({})


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


def through_agent(
    directory: Path, tools: SshTools, key: Key, answer: Answer = honest
) -> tuple[bytes, list[str]]:
    """Sign through an agent that behaves as told."""
    home = directory / f"{len(list(directory.iterdir()))}"
    home.mkdir()
    public = put(home / "key.pub", key.public_line.encode(), 0o644)
    told: list[str] = []
    with soft_agent(home / "agent", key, answer) as socket:
        known = replace(tools, environment={**tools.environment, "SSH_AUTH_SOCK": str(socket)})
        signer = SshKeygenSigner(public, directory / "workspace", known, told.append)
        return signer.sign(MESSAGE, APPROVAL), told


@pytest.mark.parametrize("key", [OPERATOR, TOKEN], ids=["file", "token"])
# claim TG-C-54
def test_confused_agent_leaves_no_bad_approval_behind(
    key: Key, tmp_path: Path, workspace: Path, tools: SshTools
) -> None:
    signature, told = through_agent(tmp_path, tools, key)
    assert judge(signature).fingerprint == key.fingerprint, "control: an honest agent works"
    assert bool(told) == key.on_token
    confusions: list[Answer] = [
        lambda k, _: honest(k, b"something else"),
        lambda k, data: honest(replace(k, seed=ATTACKER.seed), data),
        lambda k, data: honest(k, data)[:-1] + b"\xff",
        lambda k, data: honest(k, data) + b"\0",
    ]
    if key.on_token:
        confusions.append(lambda k, data: honest(k, data, flags=0))
    for confused in confusions:
        with pytest.raises(SignatureRefused, match="the new signature does not hold") as refused:
            through_agent(tmp_path, tools, key, confused)
        assert refused.value.code == "TG-KEY-016"
    assert workspace.is_dir()
    assert not list(workspace.iterdir())


def fake_keygen(directory: Path, signature: bytes) -> Path:
    put(directory / "out", signature)
    return put(directory / "ssh-keygen", b'#!/bin/sh\nexec cat "${0%/*}/out"\n', 0o700)


# claim TG-C-54
def test_replaced_ssh_keygen_cannot_hand_over_another_signature(
    tmp_path: Path, workspace: Path, tools: SshTools
) -> None:
    key = put(tmp_path / "key.pub", OPERATOR.public_line.encode(), 0o644)

    def sign(output: bytes) -> bytes:
        forged = replace(tools, keygen=fake_keygen(tmp_path, output))
        return SshKeygenSigner(key, workspace, forged).sign(MESSAGE, APPROVAL)

    good = Forge(OPERATOR).armored()
    assert sign(good) == good, "control: the stand-in is believed when it is right"
    for bad in (
        b"",
        b"\x1b[2J" * 10,
        good + b"x",
        Forge(OPERATOR, message=b"approve that").armored(),
        Forge(OPERATOR, namespace=b"threegate-policy").armored(),
        Forge(ATTACKER).armored(),
        armored(dearmored(good)[:-1]),
        b"A" * 1_000_000,
    ):
        with pytest.raises(SignatureRefused) as refused:
            sign(bad)
        assert refused.value.code == "TG-KEY-016"
        assert refused.value.message.isprintable()


# claim TG-C-415
def test_the_callers_path_chooses_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can set PATH would be shown every passphrase."""
    fake = put(tmp_path / "ssh-keygen", b"#!/bin/sh\ntouch owned\n", 0o700)
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path), ".", ":", ".:/nowhere", f"{tmp_path}:/usr/bin"):
        monkeypatch.setenv("PATH", path)
        found = SshTools.find({"PATH": path})
        assert found.keygen == Path("/usr/bin/ssh-keygen")
        assert str(tmp_path) not in found.environment["PATH"]
    monkeypatch.setattr("threegate.sandbox.programs.SEARCH", (str(tmp_path),))
    assert SshTools.find({}).keygen == fake, "control: it could be found, and could run"


# claim TG-C-415
def test_an_asker_that_another_account_can_change_is_told_no_passphrase(tmp_path: Path) -> None:
    asker = put(tmp_path / "askpass", b"#!/bin/sh\n", 0o700)
    given = {"SSH_ASKPASS": str(asker), "SSH_ASKPASS_REQUIRE": "force"}
    assert SshTools.find(given).environment["SSH_ASKPASS"] == str(asker), "control"
    asker.chmod(0o722)
    assert "SSH_ASKPASS" not in SshTools.find(given).environment
    assert "SSH_ASKPASS" not in SshTools.find({"SSH_ASKPASS": "askpass"}).environment


# claim TG-C-54
def test_key_in_the_workspace_is_refused_under_every_name(
    tmp_path: Path, workspace: Path, tools: SshTools
) -> None:
    inside = put(workspace / "key", private_file(OPERATOR))
    outside = put(tmp_path / "key", private_file(OPERATOR))
    (tmp_path / "to-inside").symlink_to(inside)
    (workspace / "to-outside").symlink_to(outside)
    (tmp_path / "alias").symlink_to(workspace)
    control = SshKeygenSigner(outside, workspace, tools).sign(MESSAGE, APPROVAL)
    assert judge(control).principal == "operator", "control"
    names = ["workspace/key", "to-inside", "workspace/to-outside", "alias/key"]
    names += ["workspace/../workspace/key", "alias/../workspace/key"]
    for name in names:
        for root in (workspace, tmp_path / "alias"):
            with pytest.raises(GateUnavailable, match="lies in the workspace") as refused:
                SshKeygenSigner(tmp_path / name, root, tools).sign(MESSAGE, APPROVAL)
            assert refused.value.code == "TG-KEY-010"


def test_key_outside_is_accepted_from_within_the_workspace(
    tmp_path: Path, workspace: Path, tools: SshTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "key", private_file(OPERATOR))
    put(workspace / "key", private_file(OPERATOR))
    (tmp_path / "workspace-2").mkdir()
    put(tmp_path / "workspace-2" / "key", private_file(OPERATOR))
    monkeypatch.chdir(workspace)
    for name in ("../key", "../workspace-2/key"):
        signature = SshKeygenSigner(Path(name), Path(), tools).sign(MESSAGE, APPROVAL)
        assert judge(signature).principal == "operator"
    with pytest.raises(GateUnavailable, match="lies in the workspace"):
        SshKeygenSigner(Path("key"), Path(), tools).sign(MESSAGE, APPROVAL)


def test_key_is_never_made_in_the_workspace(
    tmp_path: Path, workspace: Path, tools: SshTools
) -> None:
    (tmp_path / "alias").symlink_to(workspace)
    assert make_key(tmp_path / "key", "c", workspace=workspace, tools=tools).point, "control"
    for name in ("workspace/key", "workspace/a/b/key", "alias/key", "alias/new/key"):
        with pytest.raises(GateUnavailable) as refused:
            make_key(tmp_path / name, "c", workspace=workspace, tools=tools)
        assert refused.value.code == "TG-KEY-010"
    assert not list(workspace.iterdir())


def test_name_of_a_key_is_never_an_option(
    tmp_path: Path, workspace: Path, tools: SshTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("-Overify-time=0", "-U", "--", "$(touch owned)", "a;touch owned"):
        path = put(Path(name), private_file(OPERATOR))
        assert public_key_of(path, tools).blob == OPERATOR.blob
        signature = SshKeygenSigner(path, workspace, tools).sign(MESSAGE, APPROVAL)
        assert judge(signature).principal == "operator"
    assert not (tmp_path / "owned").exists()


# claim TG-C-53
def test_signature_made_here_is_accepted_by_ssh_keygen_with_our_list(
    tmp_path: Path, workspace: Path, tools: SshTools
) -> None:
    """The operator, or a court, needs none of our code to check an approval."""
    allowed = put(tmp_path / "allowed_signers", emit(SIGNERS))
    for key, principal in ((OPERATOR, "operator"), (TOKEN, "second")):
        signature, _ = through_agent(tmp_path, tools, key)
        sig = put(tmp_path / f"{principal}.sig", signature)
        argv = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", principal]
        argv += ["-n", APPROVAL, "-s", str(sig)]
        for message, code in ((MESSAGE, 0), (b"approve that", 255)):
            done = subprocess.run(argv, input=message, capture_output=True, timeout=30, check=False)
            assert done.returncode == code, done.stderr
    assert workspace.is_dir()
