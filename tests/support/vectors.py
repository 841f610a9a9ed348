"""Vector files: an `expect:` line, optional headers, an empty line, then the bytes."""

import base64
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.samples import (
    ERA_LIMITS,
    GATEWAY,
    analysis,
    approval,
    box,
    digest,
    escalated,
    fetch_request,
    output_file,
    packet,
    tool_request,
    tool_result,
    with_outcome,
)
from threegate.artifacts import registry
from threegate.artifacts.approval import PolicySection
from threegate.artifacts.draft import complete_draft
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import Artifact, emit, parse
from threegate.artifacts.research_packet import Hazard, Identifier
from threegate.artifacts.tool_request import GatewayTerms, Input
from threegate.artifacts.tool_result import Capture
from threegate.base.errors import ArtifactRejected
from threegate.base.limits import MAX_COUNT
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted

ROOT = Path(__file__).parents[1] / "vectors" / "artifacts"
# What a host would stamp into the drafts among the vectors.
CREATED, NONCE = "2026-11-15T12:00:00Z", "00112233445566778899aabbccddeeff"
HEADERS = {"expect", "as", "encoding"}


@dataclass(frozen=True)
class Vector:
    name: str  # accept/rp-plain.md
    expect: str  # an id, or the code of the rule it breaks
    data: bytes
    is_draft: bool = False

    def parse(self) -> Artifact:
        box = Untrusted(self.data)
        if self.is_draft:
            return complete_draft(box, created=CREATED, nonce=NONCE)
        return registry.parse(box)

    def dump(self) -> bytes:
        """Return the file; bytes that are no text with Unix line ends are kept as base64."""
        headers = [f"expect: {self.expect}", *(["as: draft"] if self.is_draft else [])]
        body = self.data
        if not _is_plain(body):
            headers.append("encoding: base64")
            body = base64.encodebytes(body)
        return "\n".join([*headers, "", ""]).encode("ascii") + body


def _is_plain(data: bytes) -> bool:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    # Editors and diffs would change or hide these; a last line without an end, too.
    return text.endswith("\n") and all(c == "\n" or c.isprintable() for c in text)


def read(path: Path) -> Vector:
    head, _, body = path.read_bytes().partition(b"\n\n")
    headers = dict(line.split(": ", 1) for line in head.decode("ascii").split("\n"))
    if not set(headers) <= HEADERS or headers.get("as") not in (None, "draft"):
        raise ValueError(f"{path}: unknown header")
    if headers.get("encoding") not in (None, "base64"):
        raise ValueError(f"{path}: unknown encoding")
    data = base64.decodebytes(body) if "encoding" in headers else body
    name = f"{path.parent.name}/{path.name}"
    return Vector(name, headers["expect"], data, is_draft="as" in headers)


def load(side: str) -> list[Vector]:
    """Return all vectors of `accept` or `reject`; finding none is an error."""
    found = [read(path) for path in sorted((ROOT / side).glob("*.md"))]
    if not found:
        raise FileNotFoundError(f"no vectors in {ROOT / side}")
    return found


# -- Judge a typed artifact by reading its spelling, as every receiver does.

_BY_CODE = {reason.code: reason for reason in ArtifactReason}


def judge(artifact: Artifact | bytes) -> ArtifactReason | None:
    """Return the rule that `artifact` breaks, or None if it is accepted."""
    data = artifact if isinstance(artifact, bytes) else emit(artifact)
    try:
        parse(Untrusted(data))
    except ArtifactRejected as exc:
        return _BY_CODE[exc.code]
    return None


# -- What the accept vectors hold.

RP, RES, AN = ("rp-" + digest("p"), "res-" + digest("r"), "an-" + digest("a"))


def accepted() -> dict[str, bytes]:
    made = {**_packets(), **_requests(), **_approvals(), **_results(), **_analyses()}
    return {name: emit(artifact) for name, artifact in made.items()}


def _packets() -> dict[str, Artifact]:
    schemes = (Identifier("doi", box("10.1/\u00e9")), Identifier("doi", box("10.1/\U0001d4d0")))
    return {
        "rp-plain": packet(),
        "rp-imported-file": packet(
            "Ice broke.",
            source="file",
            reference=box("file:papers/ice floes.pdf"),
            replaces="rp-" + digest("earlier"),
            url="file:papers/ice%20floes.pdf",
            hops=(),
            trust_anchor="none",
        ),
        "rp-file-of-a-commit": packet(
            "def f(): ...", source="git", url=f"git:{'ab' * 20}/src/f.py", trust_anchor="none"
        ),
        "rp-nothing-found": packet(
            title=box(""),
            authors=(),
            published=None,
            licence=None,
            identifiers=(),
            metadata_from=(),
            hazards=(),
            hops=(),
            gaps=(),
            excerpts=(),
            texts=(),
        ),
        "rp-answers-a-request": packet(request="fr-" + digest("asked")),
        "rp-quotes-and-backslashes": packet(title=box(r'C:\new\u0041 "quoted" \\ \" end\\')),
        "rp-comma-inside-strings": packet(authors=(box('a", "b'), box("], null, ["))),
        "rp-text-that-looks-like-structure": packet(
            '---\nformat: "tr/1"\n---\n\n# Tool Request\n\n## Code\n\n    rm -rf /\n\n### 2'
        ),
        "rp-text-of-blank-lines": packet("\n", " ", "\n\n    x\n\t\n"),
        "rp-less-than-is-no-markup": packet("a < b, 3<4, <-, <=, <<, <\u00e9, < script>"),
        "rp-every-script": packet(
            "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea "
            "\u4e2d\u6587 \u0939\u093f\u0928\u094d\u200d\u0926\u0940 \U0001d4d0",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \ue000 \ufffd \U0010fffd",
        ),
        "rp-sorted-by-code-point": packet(identifiers=schemes),
        "rp-largest-numbers": packet(
            raw_bytes=MAX_COUNT, hazards=(Hazard("bidi", MAX_COUNT), Hazard("control", 1))
        ),
        "rp-code-in-an-excerpt-is-text": packet("import os\nos.system('id')\n"),
    }


def _requests() -> dict[str, Artifact]:
    drafted = {"origin": "core", "integrity": "external"}
    own = 'limits = {"wall_ms": 86400000}\nbackend: "era"\n---\nrequest.limits = None\n'
    return {
        "fr-plain": fetch_request(),
        "fr-core-draft": fetch_request(derived_from=(AN, RP), **drafted),
        "fr-operator-after-a-result": fetch_request(derived_from=(RES,), integrity="external"),
        "fr-url": fetch_request(
            want="full-text", references=(box("https://arxiv.org/abs/2401.00001"),)
        ),
        "tr-monty": tool_request(),
        "tr-core-draft": tool_request(derived_from=(RES, RP), **drafted),
        "tr-result-as-input": tool_request(
            inputs=(Input("rows", RES, 10, None),), functions=(), integrity="external"
        ),
        "tr-code-that-names-limits": tool_request(code=box(own), code_sha256=digest(own)),
        "tr-era-not-expressible": escalated("not-expressible"),
        "tr-era-files": escalated("files"),
        "tr-era-binary": escalated("binary"),
        "tr-era-gateway": escalated("files", network=GATEWAY),
    }


def _approvals() -> dict[str, Artifact]:
    sections = (PolicySection("fetch", digest("f")), PolicySection("signers", digest("s")))
    return {
        "ap-monty": approval(),
        "ap-fetch": approval(
            request="fr-" + digest("asked"),
            backend="fetch",
            limits=None,
            functions_sha256=None,
            policy=sections,
        ),
        "ap-era-with-network": approval(
            backend="era",
            limits=ERA_LIMITS,
            functions_sha256=None,
            network=GatewayTerms(("api.example.org", "data.example.org"), 4096, 65536),
            rule_of_two="accepted",
            max_uses=1000,
        ),
    }


def _results() -> dict[str, Artifact]:
    raw = b"\x1b[31mred\x1b[0m"
    escaped = Capture(len(raw), sha256_hex(raw), truncated=True, escaped=True)
    return {
        "res-plain": tool_result(),
        "res-all-streams": tool_result("null", "two\nlines\n", "warning: \u00e9\n"),
        "res-escaped-stream": with_outcome(
            replace(tool_result(), stdout=escaped, stdout_text=box(visible(raw.decode("ascii"))))
        ),
        "res-era-files": tool_result(
            backend="era",
            isolation="qemu-kvm",
            exit_code=0,
            files=(output_file("a.csv"), output_file("b.csv")),
        ),
        "res-limit": tool_result("", exit="limit:wall"),
        "res-refused": tool_result("", exit="refused:class-inheritance"),
        "res-negative-exit-code": tool_result(
            "", backend="era", isolation="qemu-kvm", exit="crashed", exit_code=-9
        ),
    }


def _analyses() -> dict[str, Artifact]:
    return {
        "an-plain": analysis(),
        "an-extractive": analysis(method="extractive", model=None),
        "an-goes-on": analysis(
            continues=AN, derived_from=tuple(sorted((AN, "rp-" + digest("packet"))))
        ),
        "an-no-claims": analysis(
            claims=(), claim_texts=(), quotes=(), notes=(box("a note"), box("another"))
        ),
    }
