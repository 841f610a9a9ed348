"""Valid artifacts of every kind, written for these tests."""

from dataclasses import replace
from typing import Any

from threegate.artifacts.analysis import Analysis, Cite, Claim, ModelUsed
from threegate.artifacts.approval import Approval, PolicySection
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import (
    Excerpt,
    FieldSource,
    Gap,
    Hazard,
    Hop,
    Identifier,
    ResearchPacket,
)
from threegate.artifacts.tool_request import (
    Escalation,
    GatewayTerms,
    Input,
    MontyRefusal,
    OutputSpec,
    RunLimits,
    ToolRequest,
    refusal_record,
)
from threegate.artifacts.tool_result import (
    Capture,
    OutputFile,
    ProbedMechanism,
    Resources,
    ToolResult,
    Version,
    outcome_sha256,
)
from threegate.base.untrusted import Untrusted

NOW = "2026-11-15T12:00:00Z"
LATER = "2026-11-15T13:00:00Z"
NONCE = "00112233445566778899aabbccddeeff"
GATEWAY = GatewayTerms(("api.example.org",), 4096, 65536)
LIMITS = RunLimits(1000, 64 * 2**20, 65536, 200, 1, 1, 0)
ERA_LIMITS = RunLimits(60_000, 2**30, 2**20, 1000, 2, 64, 2**26)


def box(text: str) -> Untrusted[str]:
    return Untrusted(text)


def digest(text: str) -> str:
    return sha256_hex(text.encode("utf-8"))


def excerpts(*texts: str) -> dict[str, Any]:
    entries, offset = [], 0
    for text in texts:
        entries.append(Excerpt(box("abstract"), None, offset, len(text), digest(text)))
        offset += len(text)
    return {"excerpts": tuple(entries), "texts": tuple(box(text) for text in texts)}


def packet(*texts: str, **changes: Any) -> ResearchPacket:
    base = ResearchPacket(
        source="crossref",
        reference=box("doi:10.5555/12345678"),
        request=None,
        replaces=None,
        url="https://api.crossref.org/works/10.5555/12345678",
        hops=(Hop("https://doi.org/10.5555/12345678", 302),),
        retrieved=NOW,
        media_type="application/json",
        raw_sha256=digest("raw"),
        raw_bytes=3,
        trust_anchor="system",
        record_sha256=None,
        also=(),
        title=box("On the toughness of ice: a \u201cmeasurement\u201d"),
        authors=(box("Ada Example"), box("Bj\u00f6rn Muster")),
        container=box("Journal of Ice"),
        published="2024-03",
        licence=box("CC BY 4.0"),
        identifiers=(Identifier("doi", box("10.5555/12345678")),),
        metadata_from=(FieldSource("authors", "crossref"), FieldSource("title", "crossref")),
        retraction="none",
        notices=(),
        hazards=(Hazard("truncated", 1),),
        gaps=(Gap("unpaywall", box("10.5555/12345678"), "timed-out"),),
        excerpts=(),
        integrity="external",
        confidentiality="public",
        texts=(),
    )
    bodies = texts or (
        "Ice at -5 \u00b0C broke at 1.2 MPa.\n\n## not a heading",
        "    indented: yes",
    )
    return replace(base, **{**excerpts(*bodies), **changes})


def fetch_request(**changes: Any) -> FetchRequest:
    base = FetchRequest(
        created=NOW,
        nonce=NONCE,
        origin="operator",
        want="metadata",
        references=(box("doi:10.5555/12345678"),),
        integrity="operator",
        confidentiality="public",
        derived_from=(),
        purpose=box("Find the measured toughness."),
    )
    return replace(base, **changes)


CODE = "rows = [1.1, 1.2, 1.3]\nsum(rows) / len(rows)\n"


def tool_request(**changes: Any) -> ToolRequest:
    base = ToolRequest(
        created=NOW,
        nonce=NONCE,
        origin="operator",
        backend="monty",
        why_not_monty=None,
        profile="default",
        argv=(),
        code_sha256=digest(CODE),
        inputs=(Input("rows", "blob-" + digest("rows"), 4, None),),
        functions=("json_loads", "sha256_hex"),
        limits=LIMITS,
        outputs=(),
        network="none",
        integrity="operator",
        confidentiality="internal",
        derived_from=(),
        purpose=box("The mean of three measurements."),
        code=box(CODE),
        risks=box("None beyond wrong arithmetic."),
    )
    return replace(base, **changes)


def escalated(reason: str = "not-expressible", **changes: Any) -> ToolRequest:
    code = "class A(dict):\n    pass\n"
    construct, words = "class inheritance", "base classes are not supported"
    record = refusal_record(code_sha256=digest(code), construct=construct, line=1, reason=words)
    refusal = MontyRefusal(sha256_hex(record), box(construct), 1, box(words))
    base = tool_request(
        backend="era",
        why_not_monty=Escalation(reason, refusal if reason == "not-expressible" else None),
        code=box(code),
        code_sha256=digest(code),
        functions=(),
        limits=ERA_LIMITS,
        outputs=(OutputSpec("table.csv", 4096),) if reason == "files" else (),
    )
    if reason == "binary":
        argv = (box("/usr/bin/git"), box("log"), box("--format=%H | %s"))
        base = replace(base, argv=argv, code=box(""), code_sha256=digest(""))
    return replace(base, **changes)


def approval(**changes: Any) -> Approval:
    base = Approval(
        request="tr-" + digest("request"),
        backend="monty",
        limits=LIMITS,
        functions_sha256=digest("functions"),
        network="none",
        rule_of_two="not-triggered",
        policy=(PolicySection("signers", digest("s")), PolicySection("tool-exec", digest("t"))),
        approver="operator",
        nonce=NONCE,
        not_before=NOW,
        not_after=LATER,
        max_uses=1,
        statement=box("Run this code once, in Monty."),
    )
    return replace(base, **changes)


def capture(text: str) -> Capture:
    return Capture(len(text.encode("utf-8")), digest(text), truncated=False, escaped=False)


def tool_result(
    value: str = "1.2", stdout: str = "", stderr: str = "", **changes: Any
) -> ToolResult:
    base = ToolResult(
        request="tr-" + digest("request"),
        approval="ap-" + digest("approval"),
        backend="monty",
        isolation="monty-worker",
        exit="ok",
        exit_code=None,
        outcome_sha256="0" * 64,
        value=capture(value),
        stdout=capture(stdout),
        stderr=capture(stderr),
        files=(),
        started=NOW,
        resources=Resources(3, 2, 9_000_000),
        profile_sha256=digest("profile"),
        evidence=(ProbedMechanism("landlock", "in-force"), ProbedMechanism("seccomp", "in-force")),
        violations=(),
        carried=(),
        versions=(Version("pydantic-monty", "1.4.0"),),
        integrity="external",
        confidentiality="internal",
        value_text=box(value),
        stdout_text=box(stdout),
        stderr_text=box(stderr),
    )
    made = replace(base, **changes)
    return made if "outcome_sha256" in changes else with_outcome(made)


def with_outcome(result: ToolResult) -> ToolResult:
    """Return `result` with the digest of its outcome."""
    outcome = outcome_sha256(
        exit_state=result.exit,
        exit_code=result.exit_code,
        captures=(result.value, result.stdout, result.stderr),
        files=result.files,
    )
    return replace(result, outcome_sha256=outcome)


def output_file(name: str = "plot.png") -> OutputFile:
    return OutputFile(name, 4, digest(name))


def analysis(**changes: Any) -> Analysis:
    quote, source = "broke at 1.2 MPa", "rp-" + digest("packet")
    cite = Cite(source, 1, 10, len(quote), digest(quote))
    base = Analysis(
        created=NOW,
        nonce=NONCE,
        method="model",
        model=ModelUsed("qwen2.5-coder-1.5b", digest("model"), "embedded"),
        role="research-assistant",
        policy_sha256=digest("policy"),
        continues=None,
        selection=(source,),
        claims=(Claim("quote found", (cite,)), Claim("unchecked", ())),
        integrity="external",
        confidentiality="public",
        derived_from=(source,),
        question=box("How tough is ice?"),
        answer=box("About 1.2 MPa at -5 \u00b0C."),
        claim_texts=(box("Ice broke at 1.2 MPa."), box("Colder ice is tougher.")),
        quotes=(box(quote),),
        notes=(),
    )
    return replace(base, **changes)


def one_of_each() -> dict[str, Artifact]:
    return {
        "rp": packet(),
        "fr": fetch_request(),
        "tr": tool_request(),
        "ap": approval(),
        "res": tool_result(),
        "an": analysis(),
    }


def packet_of_size(number: int, size: int = 5000) -> ResearchPacket:
    """Return a packet of about `size` bytes, different for each `number`."""
    words = f"Sample {number} of sea ice, thickness {number % 97} cm, \u00fcber dem Wasser. "
    share = (size - 1900) // 4
    texts = [(words * (share // len(words) + 1))[:share].rstrip() for _ in range(4)]
    return packet(*texts, title=box(f"Sea ice sample {number}"))
