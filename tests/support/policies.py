"""Policies for tests: the shipped one with a signer, and variations of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from threegate.host.gate_profiles import profile_rules, program_gates
from threegate.keys.public import ED25519, PublicKey
from threegate.keys.signers import AllowedSigner, Signers, emit
from threegate.policy.bundle import Compiled, read_sections
from threegate.policy.compiler import compile_policy, default_files
from threegate.policy.nodes import Effect, plain
from threegate.policy.sections import SECTION_NAMES
from threegate.sandbox.profiles import Profile

GATES = program_gates()
# The effect of a change that is taken back.
OPPOSITE: dict[Effect, Effect] = {
    "widens": "narrows",
    "narrows": "widens",
    "changes": "changes",
}
VECTORS = Path(__file__).parents[1] / "unit" / "policy" / "vectors"


def public_key(seed: int = 1) -> PublicKey:
    private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    return PublicKey(ED25519, private.public_key().public_bytes_raw(), b"")


def signers_file(*signers: AllowedSigner) -> bytes:
    return emit(Signers(signers or (AllowedSigner("operator", public_key()),)))


def policy_files(**changes: tuple[str, str]) -> dict[str, bytes]:
    """Return the shipped files; `fetch=(old, new)` replaces text that must be there."""
    files = {**default_files(), "allowed_signers": signers_file()}
    for stem, (old, new) in changes.items():
        name = next(name for name in files if name.startswith(stem.replace("_", "-")))
        text = files[name].decode("utf-8")
        assert old in text, f"{old!r} does not stand in {name}"
        files[name] = text.replace(old, new, 1).encode("utf-8")
    return files


def policy(**changes: tuple[str, str]) -> Compiled:
    return compile_policy(policy_files(**changes), gates=GATES)


def signed_with(profile: Profile, base: Compiled | None = None) -> Compiled:
    """Return a policy that was signed with this profile in place of the program's own."""
    rules = {**GATES[profile.name], **profile_rules(profile)}
    return altered(
        base or policy(), lambda sections: sections["gates"].update({profile.name: rules})
    )


def plain_sections(compiled: Compiled) -> dict[str, Any]:
    """Return a private, changeable copy of the sections."""
    return {name: plain(compiled.sections[name]) for name in SECTION_NAMES}


def altered(compiled: Compiled, change: Callable[[dict[str, Any]], None]) -> Compiled:
    """Return the policy whose plain sections `change` has edited; typed and checked anew."""
    sections = plain_sections(compiled)
    change(sections)
    typed, lines = read_sections(sections)
    return Compiled(typed, {name: dict.fromkeys(rules, 1) for name, rules in lines.items()})


def remote_model(host: str = "llm.example.org", **rules: Any) -> Compiled:
    """Return the shipped policy with a model on another machine."""
    named = {"kind": "remote", "name": "big", "sha256": None, "remote_host": host}
    model = {**named, **rules}
    return altered(policy(), lambda sections: sections["core"]["model"].update(model))


def line_of(files: Mapping[str, bytes], name: str, text: str) -> int:
    """Return the number of the first line that starts with `text`."""
    lines = files[name].decode("utf-8").split("\n")
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


def vectors(verdict: str) -> dict[str, tuple[str, bytes]]:
    """Return name -> (expectation, bytes); an empty or missing directory is a failure."""
    found = {}
    for path in sorted((VECTORS / verdict).glob("*.txt")):
        head, _, body = path.read_bytes().partition(b"\n")
        key, _, expected = head.decode("ascii").partition(": ")
        assert key == "expect", path
        assert (expected == "ok") == (verdict == "accept"), path
        found[path.stem] = (expected, body)
    assert found, f"no vectors in {VECTORS / verdict}"
    return found
