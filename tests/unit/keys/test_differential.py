"""Our verifier against `ssh-keygen -Y verify`, over the same bytes.

Rule: what we accept, ssh-keygen accepts.  What we refuse and it accepts must fall into a
class that the docstring of `threegate.keys.sshsig` names; `STRICTER` maps our reason to it.
"""

import base64
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.sshlab import (
    FOOT,
    GROUP_ORDER,
    HEAD,
    NOW,
    PLAIN,
    SK,
    Forge,
    Key,
    SshKeygen,
    armored,
    s,
    spell,
)
from threegate.base.errors import PolicyInvalid, SignatureRefused
from threegate.base.untrusted import Untrusted
from threegate.keys import sshsig
from threegate.keys.public import parse_key_blob
from threegate.keys.signers import (
    EARLIEST,
    NAMESPACES,
    AllowedSigner,
    Signers,
    emit,
    parse_signers,
)
from threegate.keys.sshsig import verify

STRICTER = {
    "armor": r"not an armored|armor is not laid out|is not base64",
    "version": r"version 1",
    "reserved": r"field of \d+ bytes, limit 0",
    "scalar": r"canonical form \[TG-KEY-002\]",
    "point": r"small order|canonical form \[TG-KEY-007\]",
    "length": r"bytes, limit 4096",
    "key type": r"may not sign \[TG-KEY-007\]",
    "application": r"not made for ssh|field of \d+ bytes, limit 128",
    "touch": r"nobody touched",
    "name": r"different types|signature over hash",
    "namespace": r"printable ASCII|field of \d+ bytes, limit 64",
    "signers": r"^allowed_signers:\d+: ",
}


@dataclass(frozen=True)
class Case:
    message: bytes
    signature: bytes
    signers: bytes
    namespace: str = "threegate-approval"
    at: int = NOW
    our_signers: bytes | None = None  # for keys our list cannot hold


def ours(case: Case) -> tuple[str | None, str]:
    """Return who signed, or None and the reason."""
    try:
        signed = verify(
            case.message,
            Untrusted(case.signature),
            namespace=case.namespace,
            signers=parse_signers(case.our_signers or case.signers),
            at=case.at,
            past=True,  # as ssh-keygen judges
        )
    except (SignatureRefused, PolicyInvalid) as exc:
        return None, f"{exc.message} [{exc.code}]"
    return signed.principal, ""


def stricter_class(reason: str) -> str:
    if re.search(STRICTER["signers"], reason):  # our list cannot hold what ssh-keygen's can
        return "signers"
    named = [name for name, pattern in STRICTER.items() if re.search(pattern, reason)]
    assert len(named) == 1, f"stricter than ssh-keygen without a class: {reason!r} {named}"
    return named[0]


def compare(oracle: SshKeygen, cases: Iterable[Case]) -> Counter[str]:
    """Count agreements and the classes in which we are stricter; fail on anything else."""

    def one(case: Case) -> str:
        principal, reason = ours(case)
        theirs = oracle.verify(
            case.message,
            case.signature,
            signers=case.signers,
            namespace=case.namespace,
            principal=principal or "operator",
            at=case.at,
        )
        if principal is not None:
            assert theirs, f"accepted here, refused by ssh-keygen: {case}"
            return "both accept"
        return f"stricter: {stricter_class(reason)}" if theirs else "both refuse"

    with ThreadPoolExecutor(2) as pool:
        return Counter(pool.map(one, cases))


@pytest.fixture
def oracle(tmp_path: Path) -> SshKeygen:
    return SshKeygen(tmp_path)


def some_key(rng: random.Random) -> Key:
    on_token = rng.random() < 0.5
    application = rng.choice([b"ssh:", b"ssh:threegate", b"ssh:" + b"x" * 100])
    return Key(rng.randbytes(32), on_token, application if on_token else b"")


def some_forge(rng: random.Random) -> Forge:
    letters = "abcdefghijklmnopqrstuvwxyz-0123456789"
    tail = "".join(rng.choices(letters, k=rng.randrange(1, 20)))
    return Forge(
        some_key(rng),
        message=rng.randbytes(rng.choice([0, 1, 63, 64, 65, 1000, 100_000])),
        namespace=rng.choice([*NAMESPACES, f"threegate-{tail}"]).encode(),
        hash_name=rng.choice([b"sha256", b"sha512"]),
        flags=rng.choice([0x01, 0x05, 0x41, 0xFF]),
        counter=rng.choice([0, 1, 2**31, 2**32 - 1, rng.getrandbits(32)]),
    )


def case_of(forge: Forge, signature: bytes | None = None) -> Case:
    return Case(
        forge.message,
        forge.armored() if signature is None else signature,
        forge.key.signer_line(),
        forge.namespace.decode(),
    )


def test_generated_signatures_are_accepted_by_both(oracle: SshKeygen) -> None:
    rng = random.Random(1)
    forges = [some_forge(rng) for _ in range(300)]
    assert compare(oracle, map(case_of, forges)) == {"both accept": 300}


def test_generated_mismatches_are_refused_by_both(oracle: SshKeygen) -> None:
    rng = random.Random(2)
    cases = []
    for _ in range(75):
        forge, other = some_forge(rng), some_forge(rng)
        good = case_of(forge)
        cases += [
            Case(forge.message + b"\n", good.signature, good.signers, good.namespace),
            Case(forge.message, good.signature, other.key.signer_line(), good.namespace),
            Case(forge.message, good.signature, good.signers, "threegate-none"),
            Case(forge.message, good.signature, good.signers, "git"),
        ]
    assert compare(oracle, cases) == {"both refuse": 300}


# Mutations of signatures ------------------------------------------------------------------


def flip_bit(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def drop(rng: random.Random, data: bytes) -> bytes:
    at, size = rng.randrange(len(data)), rng.choice([1, 1, 4, 32])
    return data[:at] + data[at + size :]


def insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice([1, 1, 4, 64])) + data[at:]


def repeat(rng: random.Random, data: bytes) -> bytes:
    at, size = rng.randrange(len(data)), rng.randrange(1, 40)
    return data[: at + size] + data[at:]


def change_length(rng: random.Random, data: bytes) -> bytes:
    at = rng.choice([i for i in range(len(data) - 4) if data[i : i + 3] == b"\0\0\0"])
    length = int.from_bytes(data[at : at + 4], "big") + rng.choice([-1, 1, 4, 2**31])
    return data[:at] + (length % 2**32).to_bytes(4, "big") + data[at + 4 :]


def white_space(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([b" ", b"\n", b"\r", b"\t", b"\r\n", b"\0"]) + data[at:]


Mutation = Callable[[random.Random, bytes], bytes]
IN_BLOB: list[Mutation] = [flip_bit, flip_bit, drop, insert, repeat, change_length]
IN_ARMOR: list[Mutation] = [flip_bit, drop, insert, repeat, white_space, white_space]


def change_parts(rng: random.Random, forge: Forge) -> Case:
    """Sign again after changing parts: damage that arithmetic alone does not catch."""
    forge.version = rng.choice([0, 1, 1, 1, 1, 1, 2, 2**32 - 1])
    forge.reserved = rng.choice([b"", b"", b"", b"", b"x", b"\0" * 4])
    forge.flags = rng.choice([forge.flags, rng.getrandbits(8)])
    if rng.random() < 0.2:
        forge = unreduced(forge)
    elif rng.random() < 0.2:
        forge.sig_raw = rng.choice([drop, insert, flip_bit])(rng, forge.raw())
    if rng.random() < 0.1:
        forge.sig_type = rng.choice([PLAIN, SK, b"", forge.key.type_name + b"\0"])
    if rng.random() < 0.1:
        forge.tails = {rng.choice(["outer", "inner", "key"]): rng.randbytes(rng.randrange(1, 9))}
    if rng.random() < 0.1:
        name, real = rng.choice([("hash", forge.hash_name), ("namespace", forge.namespace)])
        forge.claimed = {name: rng.choice([b"sha256", b"sha512", b"", real + b"\0"])}
    return case_of(forge)


def mutated_signatures(seed: int, count: int) -> Iterable[Case]:
    rng = random.Random(seed)
    for number in range(count):
        forge = some_forge(rng)
        if number % 4 == 0:
            yield case_of(forge, rng.choice(IN_ARMOR)(rng, forge.armored()))
        elif number % 4 == 1:
            yield change_parts(rng, forge)
        else:
            yield case_of(forge, armored(rng.choice(IN_BLOB)(rng, forge.blob())))


def check_mutated_signatures(oracle: SshKeygen, seed: int, count: int) -> None:
    found = compare(oracle, mutated_signatures(seed, count))
    print(seed, dict(found))
    assert found.total() == count
    assert found["both accept"] > count // 50, "control: some changes are harmless"
    assert found["both refuse"] > count // 2


# claim TG-C-53
def test_mutated_signatures_get_the_same_verdict(oracle: SshKeygen) -> None:
    check_mutated_signatures(oracle, seed=3, count=2_400)


@pytest.mark.slow
def test_many_mutated_signatures_get_the_same_verdict(oracle: SshKeygen) -> None:
    check_mutated_signatures(oracle, seed=random.SystemRandom().getrandbits(32), count=30_000)


# What we refuse on purpose ----------------------------------------------------------------

PLAIN_KEY, TOKEN = Key(b"\x01" * 32), Key(b"\x02" * 32, on_token=True)


def unreduced(forge: Forge) -> Forge:
    raw = forge.raw()
    scalar = int.from_bytes(raw[32:], "little") + GROUP_ORDER
    forge.sig_raw = raw[:32] + scalar.to_bytes(32, "little")
    return forge


def small_order() -> Case:
    """Key and signature made without any secret: y = 1 is the neutral element, R = y, S = 0."""
    blob = s(PLAIN) + s((1).to_bytes(32, "little"))
    forge = Forge(PLAIN_KEY, key_blob=blob, sig_raw=(1).to_bytes(32, "little") + bytes(32))
    line = f'operator namespaces="threegate-*" ssh-ed25519 {base64.b64encode(blob).decode()}\n'
    return Case(forge.message, forge.armored(), line.encode(), our_signers=PLAIN_KEY.signer_line())


def strict_cases() -> dict[str, list[Case]]:
    text = Forge(PLAIN_KEY).armored()
    body = text.removeprefix(HEAD).removesuffix(FOOT)
    site = Key(b"\x03" * 32, on_token=True, application=b"example.com")
    long = Key(b"\x03" * 32, on_token=True, application=b"ssh:" + b"x" * 200)
    listed = TOKEN.signer_line()
    odd, wide = b"threegate-\xc3\xa4", b"threegate-" + b"x" * 60
    ended = Forge(PLAIN_KEY, claimed={"namespace": b"threegate-approval\0"})
    return {
        "armor": [
            case_of(Forge(PLAIN_KEY), text + b"behind"),
            case_of(Forge(PLAIN_KEY), text[:-1]),
            case_of(Forge(PLAIN_KEY), HEAD + body.replace(b"\n", b"") + b"\n" + FOOT),
            case_of(Forge(PLAIN_KEY), HEAD + b" " + body + FOOT),
            case_of(Forge(PLAIN_KEY), text.replace(b"\n", b"\r\n")),
        ],
        "version": [case_of(Forge(PLAIN_KEY, version=0))],
        "reserved": [case_of(Forge(key, reserved=b"x")) for key in (PLAIN_KEY, TOKEN)],
        "scalar": [case_of(unreduced(Forge(key))) for key in (PLAIN_KEY, TOKEN)],
        "point": [small_order()],
        "length": [case_of(Forge(PLAIN_KEY), HEAD + b"\n" * 5000 + body + FOOT)],
        "application": [replace(case_of(Forge(key)), our_signers=listed) for key in (site, long)],
        "touch": [case_of(Forge(TOKEN, flags=flags)) for flags in (0, 4, 0xFE)],
        "name": [
            case_of(Forge(PLAIN_KEY, sig_type=PLAIN + b"\0")),
            case_of(Forge(TOKEN, sig_type=SK + b"\0")),
            case_of(Forge(PLAIN_KEY, claimed={"hash": b"sha512\0"})),
        ],
        "namespace": [case_of(Forge(PLAIN_KEY, namespace=name)) for name in (odd, wide)]
        + [case_of(ended)],
    }


@pytest.mark.parametrize("name", sorted(strict_cases()))
def test_stricter_classes_are_refused_for_their_own_reason(name: str, oracle: SshKeygen) -> None:
    for control in (PLAIN_KEY, TOKEN):
        assert compare(oracle, [case_of(Forge(control))]) == {"both accept": 1}, "control"
    for case in strict_cases()[name]:
        principal, reason = ours(case)
        assert principal is None
        assert stricter_class(reason) == name
    # ssh-keygen may take some or, in a newer version, none: the comparison allows both.
    compare(oracle, strict_cases()[name])


def test_every_stricter_class_is_documented_and_exercised() -> None:
    documented = re.findall(r"^    ([a-z ]+?)  +\S", sshsig.__doc__ or "", re.MULTILINE)
    exercised = {*strict_cases(), "key type", "signers"}
    assert set(documented) | {"signers"} == set(STRICTER) == exercised


def test_nul_behind_a_key_type_is_refused_by_us_alone(oracle: SshKeygen) -> None:
    # OpenSSH takes one NUL at the end of any name, so key and signature get a second spelling.
    key_blob = s(PLAIN + b"\0") + s(PLAIN_KEY.point)
    case = case_of(Forge(PLAIN_KEY, key_blob=key_blob))
    assert compare(oracle, [case_of(Forge(PLAIN_KEY))]) == {"both accept": 1}, "control"
    assert ours(case)[0] is None
    assert set(compare(oracle, [case])) <= {"stricter: key type", "both refuse"}


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_other_key_types_are_refused_by_us_alone(
    kind: str, tmp_path: Path, oracle: SshKeygen
) -> None:
    case = case_signed_by_ssh_keygen(tmp_path, kind)
    assert compare(oracle, [case]) == {"stricter: key type": 1}


def test_a_key_made_by_ssh_keygen_is_accepted_by_both(tmp_path: Path, oracle: SshKeygen) -> None:
    case = case_signed_by_ssh_keygen(tmp_path, "ed25519")
    assert compare(oracle, [replace(case, our_signers=None)]) == {"both accept": 1}


def case_signed_by_ssh_keygen(directory: Path, kind: str) -> Case:
    path = directory / f"id_{kind}"
    make = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(make, check=True, timeout=60)
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(path), "-n", "threegate-approval"]
    done = subprocess.run(sign, input=b"m", capture_output=True, check=True, timeout=60)
    public = path.with_suffix(".pub").read_text().strip()
    line = f'operator namespaces="threegate-*" {public}\n'.encode()
    return Case(b"m", done.stdout, line, our_signers=PLAIN_KEY.signer_line())


# Signer lists -----------------------------------------------------------------------------

WORDS = [
    b"*", b"?", b"!", b",", b'"', b"#", b" ", b"\t", b"\n", b"\r", b"=", b"revoked", b"git",
    b"namespaces=", b"cert-authority,", b'valid-before="20200101Z"', b"operator", b"threegate-*",
]  # fmt: skip


def splice(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(WORDS) + data[at:]


def swap_words(rng: random.Random, data: bytes) -> bytes:
    words = data.removesuffix(b"\n").split(b" ")
    rng.shuffle(words)
    return b" ".join(words) + b"\n"


IN_SIGNERS: list[Mutation] = [flip_bit, drop, insert, repeat, splice, splice, splice, swap_words]


def some_options(rng: random.Random) -> str:
    options = ""
    if rng.random() < 0.5:
        options += f',valid-after="{spell(NOW - rng.randrange(1, 10**6))}"'
    if rng.random() < 0.5:
        options += f',valid-before="{spell(NOW + rng.randrange(1, 10**6))}"'
    return options


def test_mutated_signer_lists_get_the_same_verdict(oracle: SshKeygen) -> None:
    rng = random.Random(4)
    cases = []
    for _ in range(800):
        forge = Forge(some_key(rng))
        lines = forge.key.signer_line(options=some_options(rng))
        if rng.random() < 0.5:
            lines += some_key(rng).signer_line("second@example.org")
        cases.append(replace(case_of(forge), signers=rng.choice(IN_SIGNERS)(rng, lines)))
    found = compare(oracle, cases)
    print(dict(found))
    assert set(found) <= {"both accept", "both refuse", "stricter: signers"}
    assert found["both accept"] > 5, "control: some mutations leave the file a valid one"


def test_validity_windows_get_the_same_verdict(oracle: SshKeygen) -> None:
    rng = random.Random(5)
    cases = []
    for _ in range(100):
        key = some_key(rng)
        begin, end = NOW - rng.randrange(10**8), NOW + rng.randrange(1, 10**8)
        options = f',valid-after="{spell(begin)}",valid-before="{spell(end)}"'
        if rng.random() < 0.3:
            options = f',valid-before="{spell(end)}"'
        line = key.signer_line(options=options)
        at = rng.choice([begin - 1, begin, begin + 1, NOW, end - 1, end, end + 1])
        cases.append(replace(case_of(Forge(key)), signers=line, at=max(at, EARLIEST + 1)))
    found = compare(oracle, cases)
    assert set(found) == {"both accept", "both refuse"}
    assert min(found.values()) >= 10, "control: both verdicts were seen"


def test_revocation_and_namespace_lists_get_the_same_verdict(oracle: SshKeygen) -> None:
    cases = []
    for number, names in enumerate([NAMESPACES, NAMESPACES[:1], NAMESPACES[1:3], ("threegate-*",)]):
        key = Key(bytes([number]) * 32)
        signers = Signers((AllowedSigner("operator", parse_key_blob(key.blob), names),))
        revoked = signers.revoke(key.fingerprint, since=NOW)
        cases += [
            replace(case_of(Forge(key, namespace=name.encode())), signers=emit(listed), at=at)
            for name in (*NAMESPACES, "threegate-other", "git", "threegate")
            for listed, at in ((signers, NOW), (revoked, NOW - 1), (revoked, NOW))
        ]
    # 6 + 1 + 2 + 7 namespaces hold, each now and, once revoked, only before.
    assert compare(oracle, cases) == {"both accept": 32, "both refuse": 76}
