"""Write the vector files of the artifact formats: `python -m tests.support.make_vectors`.

A vector that is there is never rewritten: other implementations hold copies of it.
"""

import sys
from collections.abc import Iterator
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
from tests.support.vector_reject import line, rejected, swap
from tests.support.vectors import AN, RES, ROOT, RP, Vector, accepted
from threegate.artifacts.analysis import Claim
from threegate.artifacts.approval import PolicySection
from threegate.artifacts.ids import make_id
from threegate.artifacts.registry import Artifact, emit, format_of
from threegate.artifacts.research_packet import Hazard, Identifier
from threegate.artifacts.tool_request import Escalation, Input, OutputSpec
from threegate.artifacts.tool_result import ProbedMechanism
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted

# -- What the reject vectors of the rules between fields hold; the first three digits are the
# code.


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
            evidence=(
                ProbedMechanism("seccomp", "in-force"),
                ProbedMechanism("seccomp", "not-applicable"),
            )
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
        "025-file-with-a-web-address": replace(plain, source="file", trust_anchor="none"),
        "025-file-with-a-trust-anchor": replace(plain, source="file", url="file:a/ice.pdf"),
        "025-page-with-the-location-of-a-file": replace(plain, url="file:a/ice.pdf"),
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


# -- What the vectors of operator's drafts hold; the first three digits are the code.

TR = b"""\
---
format: "tr/1"
---

## Purpose

A sum.

## Code

    1 + 1

## Risks

None.
"""
FR = b"""\
---
format: "fr/1"
references: ["doi:10.5555/12345678"]
---

## Purpose

To read it.
"""
SHUFFLED = b"""\
---
format: "tr/1"
---
## Risks
None.
## Code
```
1
```
## Purpose
A sum."""


def key(data: bytes, text: str) -> bytes:
    """Return a draft with one more line in its front matter."""
    return swap(data, '/1"\n', f'/1"\n{text}\n')


def code(text: str) -> bytes:
    return swap(TR, "    1 + 1\n", text)


def drafts_accepted() -> dict[str, bytes]:
    outputs = '[{"max_bytes": 10, "name": "b.csv"}, {"name":"a.csv", "max_bytes":1}]'
    files = key(key(TR, f"outputs: {outputs}"), 'why_not_monty: {"reason": "files"}')
    argv = 'argv: ["/usr/bin/git", "log"]\nwhy_not_monty: {"refusal": null, "reason": "binary"}'
    binary = swap(key(key(TR, 'backend: "era"'), argv), "## Code\n\n    1 + 1\n\n", "")
    paragraphs = "Two paragraphs,\nin plain text.\n\nThe second one: `x` <b> --- end.\n"
    rows = f'[{{"bytes": 4, "artifact": "rp-{digest("x")}", "name": "rows"}}]'
    return {
        "tr-least": TR,
        "tr-with-title": swap(TR, "\n## Purpose", "\n# Tool Request\n\n## Purpose"),
        "tr-fenced-code": code('```python\n## step one\nx = """\n---\n"""\n\n1 + 1\n```\n'),
        "tr-tilde-fence": code("~~~~\n```\n~~~\n~~~~\n"),
        "tr-indented-code-with-blank-line": code("    def f():\n\n        return 1\n    f()\n"),
        "tr-paragraphs": swap(TR, "A sum.\n", paragraphs),
        "tr-sections-in-any-order": SHUFFLED,
        "tr-monty-named": key(TR, 'backend: "monty"'),
        "tr-era-in-upper-case": key(files, 'backend: "ERA"'),
        "tr-era-binary": binary,
        "tr-some-limits": key(TR, 'limits: {"wall_ms": 30000}'),
        "tr-functions-in-any-order": key(TR, 'functions: ["sha256_hex","json_loads"]'),
        "tr-packet-as-input-is-external": key(TR, f"inputs: {rows}"),
        "tr-operator-named": key(TR, 'origin: "operator"'),
        "fr-least": FR,
        "fr-full-text": key(FR, 'confidentiality: "internal"\nwant:"full-text"'),
    }


def drafts_rejected() -> dict[str, bytes]:
    return {**_host_fields(), **_keys(), **_texts(), **_rules()}


def _host_fields() -> dict[str, bytes]:
    return {
        "029-draft-sets-created": key(TR, 'created: "2026-11-15T12:00:00Z"'),
        "029-draft-sets-nonce": key(TR, 'nonce: "00112233445566778899aabbccddeeff"'),
        "029-draft-sets-integrity": key(TR, 'integrity: "operator"'),
        "029-draft-sets-its-sources": key(FR, "derived_from: []"),
        "029-draft-sets-the-digest-of-its-code": key(TR, f'code_sha256: "{digest("1 + 1")}"'),
        "029-draft-speaks-for-core": key(TR, 'origin: "core"'),
    }


def _keys() -> dict[str, bytes]:
    nest = "[" * 50_000 + "]" * 50_000
    return {
        "003-draft-escaped-bidi": key(FR, r'want: "\u202e"'),
        "003-draft-escaped-nul": swap(FR, "doi:", r"\u0000"),
        "002-draft-lone-surrogate-escape": swap(FR, "doi:", r"\ud800"),
        "004-draft-without-front-matter": b"## Purpose\n\nA sum.\n",
        "004-draft-line-without-colon": key(TR, "backend"),
        "005-draft-backend-twice": key(TR, 'backend: "monty"\nbackend: "era"'),
        "005-draft-field-twice": key(TR, 'limits: {"cpus": 1, "cpus": 2}'),
        "006-draft-unknown-key": key(TR, 'priority: "high"'),
        "006-draft-unknown-limit": key(TR, 'limits: {"gpus": 1}'),
        "007-draft-without-references": swap(FR, 'references: ["doi:10.5555/12345678"]\n', ""),
        "009-draft-not-json": key(TR, "backend: monty"),
        "009-draft-nest": key(TR, f"argv: {nest}"),
        "010-draft-fraction": key(TR, 'limits: {"wall_ms": 1.5}'),
        "010-draft-nan": key(TR, 'limits: {"wall_ms": NaN}'),
        "010-draft-two-backends": key(TR, 'backend: ["monty", "era"]'),
        "010-draft-number-for-inputs": key(TR, "inputs: 5"),
        "012-draft-both-backends": key(TR, 'backend: "monty+era"'),
        "012-draft-mixed-case": key(TR, 'backend: "Era"'),
        "016-draft-of-a-packet": swap(TR, "tr/1", "rp/1"),
        "016-draft-format-not-first": swap(
            TR, 'format: "tr/1"', 'backend: "monty"\nformat: "tr/1"'
        ),
        "026-draft-function-twice": key(TR, 'functions: ["sha256_hex", "sha256_hex"]'),
    }


def _texts() -> dict[str, bytes]:
    return {
        "014-draft-without-risks": swap(TR, "## Risks\n\nNone.\n", ""),
        "014-draft-unknown-section": TR + b"\n## Then\n\nmore\n",
        "014-draft-section-twice": TR + b"\n## Risks\n\nmore\n",
        "014-draft-text-before-sections": swap(TR, "\n## Purpose", "\nhello\n\n## Purpose"),
        "014-draft-title-of-another-kind": swap(TR, "\n## Pur", "\n# Fetch Request\n\n## Pur"),
        "011-draft-empty-risks": swap(TR, "None.\n", "\n"),
        "015-draft-code-in-column-0": code("1 + 1\n"),
        "015-draft-fence-not-closed": code("```\n1 + 1\n"),
        "015-draft-text-after-the-fence": code("```\n1 + 1\n```\n2 + 2\n"),
        "015-draft-two-fences": code("```\n1 + 1\n```\n\n```\n2 + 2\n```\n"),
        "015-draft-fence-in-purpose": swap(TR, "A sum.\n", "```\n## Code\n```\n"),
        "015-draft-heading-in-purpose": swap(TR, "A sum.\n", "# Tool Request\n"),
    }


def _rules() -> dict[str, bytes]:
    binary = 'backend: "ERA"\nwhy_not_monty: {"reason": "binary"}\nargv: '
    bare = swap(TR, "## Code\n\n    1 + 1\n\n", "")
    return {
        "020-draft-era-without-a-reason": key(TR, 'backend: "era"'),
        "020-draft-without-code": bare,
        "020-draft-monty-with-network": key(
            TR, 'network: {"hosts": ["api.example.org"], "up_bytes": 1, "down_bytes": 1}'
        ),
        "021-draft-pipeline": key(bare, binary + '["ls", "|", "wc"]'),
        "022-draft-retrieval": key(bare, binary + '["curl", "example.org"]'),
        "023-draft-names-a-request": key(bare, binary + f'["cat", "tr-{digest("x")}"]'),
        "027-draft-without-refusal": key(
            TR, 'backend: "era"\nwhy_not_monty: {"reason": "not-expressible"}'
        ),
    }


def _accept() -> Iterator[Vector]:
    for name, data in accepted().items():
        expect = make_id(format_of(Untrusted(data)).prefix, data)
        yield Vector(f"accept/{name}.md", expect, data)
    for name, data in drafts_accepted().items():
        vector = Vector(f"accept/draft-{name}.md", "", data, is_draft=True)
        spelled = emit(vector.parse())
        expect = make_id(format_of(Untrusted(spelled)).prefix, spelled)
        yield Vector(vector.name, expect, data, is_draft=True)


def _reject() -> Iterator[Vector]:
    for is_draft, group in (
        (False, rejected()),
        (False, rules_rejected()),
        (True, drafts_rejected()),
    ):
        for name, data in group.items():
            number = name[:3]
            yield Vector(f"reject/{name}.md", f"TG-ART-{number}", data, is_draft=is_draft)


def _problem(vector: Vector) -> str | None:
    try:
        spelled = emit(vector.parse())
    except ArtifactRejected as exc:
        return None if exc.code == vector.expect else f"{exc.code} {exc.message}"
    if vector.name.startswith("reject/"):
        return "accepted"
    return None if vector.is_draft or spelled == vector.data else "another spelling"


def main() -> int:
    wrong = 0
    for vector in (*_accept(), *_reject()):
        problem = _problem(vector)
        if problem is not None:
            wrong += 1
            print(f"{vector.name}: expected {vector.expect}, got {problem}")
            continue
        path = ROOT / vector.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(vector.dump())
            print(f"{vector.name}: written")
        elif path.read_bytes() != vector.dump():
            wrong += 1
            print(f"{vector.name}: the file there is another one")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
