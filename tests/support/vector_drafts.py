"""What the vectors of operator's drafts hold; the first three digits are the code."""

from tests.support.samples import digest
from tests.support.vector_reject import swap

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
