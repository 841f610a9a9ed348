"""What is fuzzed: for each parser, what it may do with any bytes, and seeds that reach deep."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.support import keyvectors, vectors
from tests.support.policies import policy
from threegate import canonical
from threegate.artifacts import draft, registry
from threegate.artifacts.codec import decode
from threegate.artifacts.front_matter import FrontMatter
from threegate.audit.checkpoint import Checkpoint, emit_checkpoint, parse_checkpoint
from threegate.audit.entry import emit_line, parse_data, what_is_wrong
from threegate.errors import ArtifactRejected, HandoffTampered, PolicyInvalid, SignatureRefused
from threegate.handoff.lease import Lease, parse_lease
from threegate.keys import signers
from threegate.keys.public import parse_public_line
from threegate.keys.sshsig import parse_signature
from threegate.policy.bundle import Bundle, parse_bundle
from threegate.policy.compiler import default_files
from threegate.policy.sections import SECTIONS
from threegate.policy.source import read_source
from threegate.text import FORBIDDEN, quote, visible_lines
from threegate.untrusted import Untrusted

FRONT = FrontMatter(("a", "b", "c"))


@dataclass(frozen=True)
class Target:
    """A parser: `attempt` returns or raises one of `allowed`; anything else is a finding."""

    attempt: Callable[[bytes], None]
    allowed: tuple[type[Exception], ...]
    seeds: Callable[[], list[bytes]]

    def __call__(self, data: bytes) -> None:
        try:
            self.attempt(data)
        except self.allowed:
            return


class Finding(Exception):
    """A parser accepted something it must not, or spelled it in another way."""


def same(spelled: bytes, data: bytes) -> None:
    if spelled != data:
        raise Finding("accepted, but spelled in another way")


def _format(prefix: str) -> Target:
    form = registry.FORMATS[prefix]
    start = f'---\nformat: "{form.name}"\n'.encode("ascii")

    def attempt(data: bytes) -> None:
        same(form.emit(form.parse(Untrusted(data))), data)

    def seeds() -> list[bytes]:
        sides = vectors.load("accept") + vectors.load("reject")
        return [v.data for v in sides if v.data.startswith(start) and len(v.data) < 8192]

    return Target(attempt, (ArtifactRejected,), seeds)


def _any_artifact(data: bytes) -> None:
    artifact = registry.parse(Untrusted(data))
    same(registry.emit(artifact), data)
    registry.labels_of(artifact)
    artifact.parents()


def _front_matter(data: bytes) -> None:
    text = decode(Untrusted(data), 1 << 20)
    values, body = FRONT.read(text)
    front = "\n".join(
        f"{key}: {json.dumps(v, ensure_ascii=False)}"
        for key, v in zip(FRONT.keys, values, strict=True)
    )
    # One key a line, each with the value that a stranger reads there.
    same(f"---\n{front}\n---\n\n{body}".encode(), data)


def _draft(data: bytes) -> None:
    draft.is_draft(Untrusted(data))
    made = draft.complete_draft(Untrusted(data), created=vectors.CREATED, nonce=vectors.NONCE)
    if registry.parse(Untrusted(registry.emit(made))) != made or made.origin != "operator":
        raise Finding("a draft became something else")


def _canonical(data: bytes) -> None:
    same(canonical.encode(canonical.decode(data)), data)


def _signers(data: bytes) -> None:
    found = signers.parse_signers(data)
    again = signers.emit(found)
    if signers.parse_signers(again) != found:
        raise Finding("signers read back are others")


def _signature(data: bytes) -> None:
    parse_signature(Untrusted(data))


def _public_key(data: bytes) -> None:
    parse_public_line(Untrusted(data))


def _checkpoint(data: bytes) -> None:
    same(emit_checkpoint(parse_checkpoint(Untrusted(data))), data)


def _bundle(data: bytes) -> None:
    same(parse_bundle(data).bundle_bytes(), data)


def _audit_line(data: bytes) -> None:
    what_is_wrong(data, seq=0)
    texts = data.split(b"\n")
    for text, value in zip(texts, parse_data(texts), strict=False):
        same(canonical.encode(value), text)


def _policy_page(data: bytes) -> None:
    read_source("page.md", data)


def _policy(data: bytes) -> None:
    section = SECTIONS[data[0] % len(SECTIONS) if data else 0]
    section.read_block(read_source(section.file, data[1:]))


def _lease(data: bytes) -> None:
    parse_lease(data)


def _shown(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    # What is left may be unprintable (unassigned, private use), but it is nothing that acts.
    if FORBIDDEN.search(quote(text)) or "\n" in quote(text):
        raise Finding("a quoted text can drive a terminal")
    if FORBIDDEN.search(visible_lines(text)):
        raise Finding("a shown text can drive a terminal")


def _from_vectors(kind: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        found = [keyvectors.load(kind, side).values() for side in ("accept", "reject")]
        return [data for side in found for _, data in side]

    return seeds


def _policy_seeds() -> list[bytes]:
    whole = [default_files()[section.file] for section in SECTIONS]
    # Short pages, so that a page is read in a millisecond: the fence and what stands in it.
    pages = [b"# P\n\n" + page[page.index(b"```yaml") :] for page in whole]
    return [bytes([number]) + page for number, page in enumerate(pages)]


def _bundle_seeds() -> list[bytes]:
    compiled = policy()
    return [Bundle(compiled.sections, compiled.refs, 1, None).bundle_bytes()]


def _draft_seeds() -> list[bytes]:
    sides = vectors.load("accept") + vectors.load("reject")
    return [v.data for v in sides if v.is_draft and len(v.data) < 8192]


def _artifact_seeds() -> list[bytes]:
    return [v.data for v in vectors.load("accept") if not v.is_draft]


SIGNERS = keyvectors.load("signers", "accept")["002-one-key"][1]
LEASE = Lease("boot", 1, 2).to_bytes()
_LINE = emit_line("x", {"a": 1}, prev="0" * 64, seq=0, time=vectors.CREATED)

TARGETS: dict[str, Target] = {
    **{f"artifact-{prefix}": _format(prefix) for prefix in registry.FORMATS},
    "artifact-any": Target(_any_artifact, (ArtifactRejected,), _artifact_seeds),
    "front-matter": Target(
        _front_matter,
        (ArtifactRejected,),
        lambda: [b'---\na: [1, "x"]\nb: null\nc: {"k": 1}\n---\n\n'],
    ),
    "draft": Target(_draft, (ArtifactRejected,), _draft_seeds),
    "canonical": Target(_canonical, (ValueError,), lambda: [b'{"a":[1,-2,null,"\xc3\xa9"]}']),
    "ssh-signature": Target(_signature, (SignatureRefused,), _from_vectors("signature")),
    "ssh-public-key": Target(_public_key, (SignatureRefused,), lambda: [SIGNERS[-84:]]),
    "allowed-signers": Target(_signers, (PolicyInvalid,), _from_vectors("signers")),
    "policy-page": Target(_policy_page, (PolicyInvalid,), lambda: list(default_files().values())),
    "policy": Target(_policy, (PolicyInvalid,), _policy_seeds),
    "policy-bundle": Target(_bundle, (PolicyInvalid,), _bundle_seeds),
    "checkpoint": Target(
        _checkpoint,
        (ArtifactRejected,),
        lambda: [emit_checkpoint(Checkpoint("workspace", 7, b"\1" * 32))],
    ),
    "audit-line": Target(_audit_line, (), lambda: [_LINE, b'{"a":1}\n{"b":[true]}']),
    "lease": Target(_lease, (HandoffTampered,), lambda: [LEASE]),
    "shown-text": Target(_shown, (), lambda: ["\u202ea\x1b[2J\u200b\ud7ff".encode()]),
}


def _planted(data: bytes) -> None:
    if data[:3] == b"BUG":
        raise KeyError("planted")


# Proof that the fuzzer fuzzes: an error nobody handles, three bytes away from its seed.
PLANTED: dict[str, Target] = {"planted": Target(_planted, (ArtifactRejected,), lambda: [b"BOG"])}
