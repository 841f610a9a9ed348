"""What the reject vectors of the rules between fields hold; the first three digits are the code."""

from dataclasses import replace
from typing import Any

from tests.support.samples import (
    GATEWAY,
    LIMITS,
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
)
from tests.support.vector_accept import AN, RES, RP
from tests.support.vector_reject import line, swap
from threegate.artifacts.analysis import Claim
from threegate.artifacts.approval import PolicySection
from threegate.artifacts.registry import Artifact, emit
from threegate.artifacts.research_packet import Hazard, Identifier
from threegate.artifacts.tool_request import Escalation, Input, OutputSpec
from threegate.artifacts.tool_result import Evidence


def rules_rejected() -> dict[str, bytes]:
    typed = {**_markup(), **_backend(), **_commands(), **_labels(), **_lists(), **_contradictions()}
    return {**{name: emit(artifact) for name, artifact in typed.items()}, **_digests()}


def _digests() -> dict[str, bytes]:
    result, spelled = tool_result("1", "out"), emit(tool_request())
    return {
        "018-code-changed": swap(spelled, "sum(rows)", "max(rows)"),
        "018-code-digest-changed": line(spelled, "code_sha256", f'"{digest("x")}"'),
        "018-stdout-changed": swap(emit(result), "    out\n", "    owt\n"),
        "018-exit-changed": swap(emit(result), 'exit: "ok"', 'exit: "error"'),
        "018-outcome-changed": emit(replace(result, outcome_sha256=digest("x"))),
        "018-quote-changed": swap(emit(analysis()), "    broke at 1.2", "    broke at 2.1"),
    }


def _markup() -> dict[str, Artifact]:
    texts = {
        "script": "<script>alert(1)</script>",
        "image": "<img src=x onerror=alert(1)>",
        "closing-tag": "a</p>",
        "comment": "<!-- hidden -->",
        "processing-instruction": "<?php system('id');",
        "not-closed": "a <b",
        "upper-case": "<IFRAME>",
        "autolink": "<javascript:alert(1)>",
    }
    made: dict[str, Artifact] = {f"019-{name}": packet(text) for name, text in texts.items()}
    return {**made, "019-in-the-title": packet(title=box("<svg onload=alert(1)>"))}


def _backend() -> dict[str, Artifact]:
    argv, none = (box("/usr/bin/git"),), {"code": box(""), "code_sha256": digest("")}
    no_refusal = Escalation("not-expressible", None)
    stated = escalated().why_not_monty
    assert stated is not None
    return {
        "020-era-without-a-reason": escalated("files", why_not_monty=None),
        "020-monty-with-a-reason": tool_request(why_not_monty=Escalation("files", None)),
        "020-code-and-argv": escalated("binary", code=box("x"), code_sha256=digest("x")),
        "020-neither-code-nor-argv": tool_request(**none),
        "020-monty-with-argv": tool_request(argv=argv, **none),
        "020-monty-with-outputs": tool_request(outputs=(OutputSpec("a", 1),)),
        "020-monty-with-network": tool_request(network=GATEWAY),
        "020-monty-with-two-processors": tool_request(limits=replace(LIMITS, cpus=2)),
        "020-monty-with-processes": tool_request(limits=replace(LIMITS, processes=2)),
        "020-monty-with-disk": tool_request(limits=replace(LIMITS, disk_bytes=1)),
        "020-era-with-functions": escalated("files", functions=("sha256_hex",)),
        "020-files-without-outputs": escalated("files", outputs=()),
        "020-binary-without-argv": escalated("files", why_not_monty=Escalation("binary", None)),
        "020-files-with-argv": escalated("files", argv=argv, **none),
        "020-monty-result-with-files": tool_result(files=(output_file(),)),
        "027-no-refusal": escalated(why_not_monty=no_refusal),
        "027-refusal-of-other-code": escalated(code=box("x = 1"), code_sha256=digest("x = 1")),
        "027-refusal-with-other-words": escalated(
            why_not_monty=replace(stated, refusal=replace(stated.refusal, line=2))  # type: ignore[type-var]
        ),
        "027-refusal-with-files": escalated(
            "files", why_not_monty=Escalation("files", stated.refusal)
        ),
    }


def _commands() -> dict[str, Artifact]:
    def command(*argv: str) -> Artifact:
        return escalated("binary", argv=tuple(box(item) for item in argv))

    request = "tr-" + digest("x")
    return {
        "021-command-line-in-one-string": command("ls -l"),
        "021-pipeline-in-one-string": command("ls|wc"),
        "021-pipeline-in-the-program": command("ls|wc", "-l"),
        "021-pipeline": command("ls", "|", "wc"),
        "021-pipeline-without-spaces": command("ls", "|wc"),
        "021-and-then": command("make", "&&", "make", "install"),
        "021-semicolon": command("ls", ";", "id"),
        "021-semicolon-at-a-word": command("ls", "-l;", "id"),
        "021-background": command("sleep", "9", "&"),
        "021-heredoc": command("cat", "<<EOF"),
        "021-here-string": command("cat", "<<<", "x"),
        "021-redirect": command("ls", ">out"),
        "021-redirect-of-a-number": command("ls", "2>&1"),
        "021-redirect-of-both": command("ls", "&>out"),
        "021-substitution": command("echo", "$(id)"),
        "021-backticks": command("echo", "`id`"),
        "021-process-substitution": command("diff", "<(ls)", "a"),
        "021-shell": command("sh", "-c", "id"),
        "021-shell-by-path": command("/bin/bash", "script"),
        "021-shell-with-a-version": command("ksh93", "x"),
        "021-env-starts-a-shell": command("/usr/bin/env", "bash", "script"),
        "021-env-splits-a-line": command("env", "-S", "bash -c id"),
        "021-xargs-starts-a-shell": command("xargs", "sh", "-c", "id"),
        "021-busybox": command("busybox", "sh"),
        "021-find-starts-a-shell": command("find", ".", "-exec", "sh", "-c", "id", "+"),
        "021-option-as-program": command("-c", "id"),
        "022-curl": command("curl", "example.org"),
        "022-wget-by-path": command("/usr/bin/wget", "example.org"),
        "022-url-argument": command("git", "clone", "https://example.org/x"),
        "022-url-in-an-option": command("git", "--upload=ftp://example.org"),
        "022-scp-like-place": command("git", "clone", "git@example.org:x.git"),
        "023-argument-names-a-request": command("cat", request),
        "023-argument-names-a-request-by-its-short-form": command("cat", request[:15]),
        "023-argument-names-an-approval": command("cat", "--file=ap-" + digest("x")),
        "023-threegate-itself": command("/usr/bin/threegate", "run"),
    }


def _labels() -> dict[str, Artifact]:
    core: dict[str, Any] = {"origin": "core"}
    return {
        "024-core-claims-the-operators-integrity": tool_request(**core),
        "024-core-fetch-claims-the-operators-integrity": fetch_request(**core),
        "024-derived-from-a-packet": tool_request(derived_from=(RP,)),
        "024-fetch-derived-from-an-analysis": fetch_request(derived_from=(AN,)),
        "024-packet-as-input": tool_request(inputs=(Input("rows", RP, 1, None),)),
        "028-result-feeds-fetch": fetch_request(
            origin="core", integrity="external", derived_from=(RES,)
        ),
    }


def _lists() -> dict[str, Artifact]:
    blob = "blob-" + digest("rows")
    twice = (Identifier("doi", box("10.1/a")),) * 2
    return {
        "026-functions-not-sorted": tool_request(functions=("sha256_hex", "json_loads")),
        "026-function-twice": tool_request(functions=("sha256_hex", "sha256_hex")),
        "026-identifier-twice": packet(identifiers=twice),
        "026-two-inputs-of-one-name": tool_request(
            inputs=(Input("a", blob, 1, None), Input("a", blob, 2, None))
        ),
        "026-two-outputs-of-one-name": escalated(
            "files", outputs=(OutputSpec("a", 1), OutputSpec("a", 2))
        ),
        "026-two-counts-of-one-hazard": packet(hazards=(Hazard("bidi", 1), Hazard("bidi", 2))),
        "026-evidence-for-and-against": tool_result(
            evidence=(Evidence("seccomp", "in-force"), Evidence("seccomp", "not-applicable"))
        ),
        "026-sources-not-sorted": fetch_request(derived_from=(RP, AN), integrity="external"),
        "026-reference-twice": fetch_request(references=(box("a"), box("a"))),
        "026-utf-16-order": packet(
            identifiers=(Identifier("doi", box("\U0001d4d0")), Identifier("doi", box("\uffe5")))
        ),
    }


def _contradictions() -> dict[str, Artifact]:
    plain, found = packet("one"), analysis()
    signers, fetch = PolicySection("signers", digest("s")), PolicySection("fetch", digest("f"))
    first = replace(plain.excerpts[0], length=4)
    return {
        "025-excerpt-without-text": replace(plain, texts=()),
        "025-text-without-excerpt": replace(plain, excerpts=()),
        "025-excerpt-of-another-length": replace(plain, excerpts=(first,)),
        "025-approval-ends-before-it-begins": approval(not_after=approval().not_before),
        "025-approval-of-a-fetch-for-monty": approval(request="fr-" + digest("x")),
        "025-approval-without-limits": approval(limits=None),
        "025-approval-under-the-wrong-policy": approval(policy=(fetch, signers)),
        "025-approval-without-functions": approval(functions_sha256=None),
        "025-approval-of-network-for-monty": approval(network=GATEWAY),
        "025-ok-with-exit-code-1": tool_result(backend="era", exit_code=1),
        "025-model-for-extractive": analysis(method="extractive"),
        "025-no-model": analysis(model=None),
        "025-claim-without-text": analysis(claim_texts=found.claim_texts[:1]),
        "025-selection-not-derived-from": analysis(selection=(AN,)),
        "025-quote-missing": analysis(quotes=()),
        "025-cites-what-was-not-readable": analysis(selection=(), derived_from=(AN,)),
        "025-label-without-quote": analysis(claims=(found.claims[0], Claim("number differs", ()))),
    }
