"""What the reject vectors of the common grammar hold; the first three digits are the code."""

from tests.support.samples import approval, digest, fetch_request, packet, tool_request
from threegate.artifacts.registry import emit

RP = emit(packet())
FR = emit(fetch_request())
TR = emit(tool_request())
AP = emit(approval())


def line(data: bytes, key: str, spelled: str | bytes) -> bytes:
    """Return `data` with another spelling of the value of `key`."""
    raw = spelled if isinstance(spelled, bytes) else spelled.encode("utf-8")
    head = f"\n{key}: ".encode("ascii")
    before, found, rest = data.partition(head)
    assert found, key
    return before + head + raw + rest[rest.index(b"\n") :]


def swap(data: bytes, old: str | bytes, new: str | bytes) -> bytes:
    """Return `data` with the first `old` replaced; it must be there."""
    olds, news = (x if isinstance(x, bytes) else x.encode("utf-8") for x in (old, new))
    assert olds in data, old
    return data.replace(olds, news, 1)


def rejected() -> dict[str, bytes]:
    groups = (_bytes(), _front_matter(), _keys(), _spelling(), _values(), _malformed(), _body())
    return {name: data for group in groups for name, data in group.items()}


def _bytes() -> dict[str, bytes]:
    excerpt = "Ice at -5"
    marks = {
        "nul": "\0",
        "escape": "\x1b[2J",
        "carriage-return": "\r",
        "next-line": "\x85",
        "delete": "\x7f",
        "soft-hyphen": "\xad",
        "zero-width-space": "\u200b",
        "line-separator": "\u2028",
        "paragraph-separator": "\u2029",
        "bidi-override": "\u202e",
        "bidi-isolate": "\u2066",
        "byte-order-mark-inside": "\ufeff",
        "tag-characters": "\U000e0041",
        "variation-selector-supplement": "\U000e0100",
        "hangul-filler": "\u3164",
        "noncharacter": "\uffff",
    }
    return {
        "001-approval-over-64-kib": swap(AP, "Run this", "Run this " + "x" * 66_000),
        "002-latin-1": RP.replace("\u00f6".encode(), b"\xf6"),
        "002-overlong-slash": swap(RP, excerpt, b"Ice \xc0\xaf"),
        "002-surrogate-in-utf-8": swap(RP, excerpt, b"Ice \xed\xa0\x80"),
        "002-truncated-sequence": RP[:-1] + b"\xe2\x82",
        "002-utf-16": RP.decode().encode("utf-16"),
        "003-byte-order-mark-first": b"\xef\xbb\xbf" + RP,
        "003-crlf": RP.replace(b"\n", b"\r\n"),
        "003-escaped-newline-in-title": line(RP, "title", r'"two\nlines"'),
        "003-escaped-nul-in-title": line(RP, "title", r'"a\u0000b"'),
        "003-escaped-tab-after-backslash": line(RP, "title", r'"a\\\tb"'),
        "003-bidi-in-title": line(RP, "title", '"a\u202eb"'),
        **{f"003-{name}": swap(RP, excerpt, f"Ice{mark}") for name, mark in marks.items()},
    }


def _front_matter() -> dict[str, bytes]:
    moved = swap(RP, 'format: "rp/1"\n', "")
    return {
        "004-only-the-first-line": b'---\nformat: "rp/1"\n',
        "004-no-closing-line": swap(RP, "\n---\n\n", "\n\n"),
        "004-no-empty-line-after-it": swap(RP, "\n---\n\n", "\n---\n"),
        "004-comment": swap(RP, "\nsource: ", "\n# a comment\nsource: "),
        "004-empty-line": swap(RP, "\nsource: ", "\n\nsource: "),
        "004-no-space-after-colon": swap(RP, "source: ", "source:"),
        "004-key-in-quotes": swap(RP, "\nsource: ", '\n"source": '),
        "004-key-with-a-space": swap(RP, "\nsource: ", "\nsource : "),
        "004-merge-key": swap(RP, "\nsource: ", "\n<<: null\nsource: "),
        "004-directive": swap(RP, "\nsource: ", "\n%YAML 1.2\nsource: "),
        "004-block-list": swap(RP, 'authors: ["Ada Example", ', 'authors:\n- "Ada Example"\nx: ['),
        "016-empty": b"",
        "016-one-newline": b"\n",
        "016-only-text": b"hello\n",
        "016-space-before": b" " + RP,
        "016-newline-before": b"\n" + RP,
        "016-format-not-first": swap(moved, "\nreference: ", '\nformat: "rp/1"\nreference: '),
        "016-single-quotes": swap(RP, 'format: "rp/1"', "format: 'rp/1'"),
        "016-no-quotes": swap(RP, 'format: "rp/1"', "format: rp/1"),
        "016-version-with-zero": swap(RP, '"rp/1"', '"rp/01"'),
        "016-version-zero": swap(RP, '"rp/1"', '"rp/0"'),
        "016-upper-case-kind": swap(RP, '"rp/1"', '"RP/1"'),
        "016-unknown-kind": swap(RP, '"rp/1"', '"zz/1"'),
        "016-four-dashes": b"-" + RP,
        "017-packet-version-2": swap(RP, '"rp/1"', '"rp/2"'),
        "017-tool-request-version-9999": swap(TR, '"tr/1"', '"tr/9999"'),
    }


def _keys() -> dict[str, bytes]:
    hop = '{"url": "https://doi.org/10.5555/12345678", "status": 302}'
    status_first = '{"status": 302, "url": "https://doi.org/10.5555/12345678"}'
    moved = swap(swap(RP, "raw_bytes: 3\n", ""), "\nraw_sha256", "\nraw_bytes: 3\nraw_sha256")
    return {
        "005-same-value-twice": swap(RP, "raw_bytes: 3\n", "raw_bytes: 3\nraw_bytes: 3\n"),
        "005-second-value-wins-elsewhere": swap(
            TR, 'network: "none"\n', 'network: "none"\nnetwork: "gateway"\n'
        ),
        "005-format-twice": swap(RP, "\nsource", '\nformat: "rp/1"\nsource'),
        "006-instructions": swap(RP, "\nurl: ", '\ninstructions: "run this"\nurl: '),
        "006-run-next": swap(TR, "\nargv: ", '\nrun_next: "tr-1"\nargv: '),
        "006-extra-at-the-end": swap(RP, '"public"\n---', '"public"\nx: 1\n---'),
        "006-in-an-object": swap(RP, '"status": 302}', '"status": 302, "note": 1}'),
        "006-upper-case": swap(RP, "\nurl: ", "\nURL: "),
        "007-no-url": swap(RP, 'url: "https://api.crossref.org/works/10.5555/12345678"\n', ""),
        "007-only-format": b'---\nformat: "rp/1"\n---\n\n# Research Packet\n',
        "007-backend-absent-in-stored-request": swap(TR, 'backend: "monty"\n', ""),
        "007-in-an-object": swap(RP, ', "status": 302}', "}"),
        "008-two-keys-change-places": moved,
        "008-in-an-object": swap(RP, hop, status_first),
    }


def _spelling() -> dict[str, bytes]:
    two_lines = 'container: "Journal of Ice"\npublished: "2024-03"\n'
    licence = 'licence: "CC BY 4.0"'
    across = swap(
        RP, two_lines + licence, 'container: ["Ada"\npublished: "B"]\nlicence: null, null'
    )
    string = 'reference: "doi:10.5555/12345678"\nrequest: null'
    spelled = {
        "second-value": '3, "x"',
        "trailing-space": "3 ",
        "two-spaces": " 3",
        "tab": "\t3",
        "comment-after-value": "3 # three",
        "empty-value": "",
        "leading-zero": "03",
        "plus-sign": "+3",
        "minus-zero": "-0",
        "hexadecimal": "0x3",
        "exponent": "3e0",
        "huge-exponent": "1e999",
        "nan": "NaN",
        "infinity": "Infinity",
        "minus-infinity": "-Infinity",
        "5000-digits": "9" * 5000,
        "nest-of-100000": "[" * 100_000,
        "anchor": "&a 3",
        "alias": "*a",
        "tag": "!!int 3",
        "python-tag": '!!python/object/apply:os.system ["id"]',
        "yaml-word": "yes",
        "flow-comment": "[3] # x",
    }
    titles = {
        "escaped-letter": r'"\u0041"',
        "escaped-slash": r'"\/"',
        "lone-surrogate-escape": r'"\ud800"',
        "surrogate-pair-escape": r'"\ud83d\ude00"',
        "upper-case-escape": r'"\u001B"',
        "single-quotes": "'ice'",
        "no-quotes": "ice",
        "block-scalar": "|",
        "string-not-closed": '"ice',
        "two-strings": '"ice" "water"',
        "bad-escape": r'"\x41"',
    }
    lists = {
        "no-space-after-comma": '["a","b"]',
        "trailing-comma": '["a", ]',
        "space-in-brackets": "[ ]",
        "list-not-closed": '["a"',
    }
    return {
        **{f"009-{name}": line(RP, "raw_bytes", value) for name, value in spelled.items()},
        **{f"009-{name}": line(RP, "title", value) for name, value in titles.items()},
        **{f"009-{name}": line(RP, "authors", value) for name, value in lists.items()},
        "009-list-across-lines": across,
        "009-string-across-lines": swap(RP, string, 'reference: "doi\nrequest: x", null'),
        "009-second-string": line(RP, "source", '"url", "x"'),
        "009-duplicate-key-in-an-object": swap(
            RP, '"status": 302}', '"status": 301, "status": 302}'
        ),
        "009-no-space-after-colon-in-an-object": swap(RP, '"status": 302', '"status":302'),
    }


def _values() -> dict[str, bytes]:
    excerpt = '"length": 17, "sha256"'
    return {
        "010-true-for-a-number": line(RP, "raw_bytes", "true"),
        "010-fraction": line(RP, "raw_bytes", "3.0"),
        "010-minus-zero-fraction": line(RP, "raw_bytes", "-0.0"),
        "010-string-for-a-number": line(RP, "raw_bytes", '"3"'),
        "010-null-for-a-string": line(RP, "source", "null"),
        "010-number-for-a-string": line(RP, "title", "3"),
        "010-null-for-a-list": line(RP, "authors", "null"),
        "010-string-for-a-list": line(RP, "authors", '"Ada"'),
        "010-object-for-a-list": line(RP, "hops", "{}"),
        "010-list-for-an-object": line(TR, "limits", "[]"),
        "010-two-backends": line(TR, "backend", '["monty", "era"]'),
        "010-one-for-true": swap(emit_result(), '"truncated": false', '"truncated": 0'),
        "010-nest-of-50": line(RP, "raw_bytes", "[" * 50 + "]" * 50),
        "011-minus-one": line(RP, "raw_bytes", "-1"),
        "011-over-2-to-the-53": line(RP, "raw_bytes", str(2**53)),
        "011-4000-digits": line(RP, "raw_bytes", "9" * 4000),
        "011-no-reference": line(FR, "references", "[]"),
        "011-257-references": line(FR, "references", '["a"' + ', "a"' * 256 + "]"),
        "011-empty-reference": line(FR, "references", '[""]'),
        "011-title-too-long": line(RP, "title", '"' + "x" * 1001 + '"'),
        "011-url-too-long": line(RP, "url", '"https://a.org/' + "x" * 2048 + '"'),
        "011-eleven-hops": line(RP, "hops", "[" + ", ".join(['{"url": 1}'] * 11) + "]"),
        "011-status-200-is-no-redirect": swap(RP, '"status": 302', '"status": 200'),
        "011-excerpt-of-length-0": swap(RP, excerpt, '"length": 0, "sha256"'),
        "011-purpose-empty": swap(FR, "\n\n    Find the measured toughness.\n", "\n"),
        "011-purpose-too-long": swap(FR, "    Find", "    " + "x" * 4000),
        "012-unknown-source": line(RP, "source", '"gopher"'),
        "012-packet-with-the-operators-integrity": line(RP, "integrity", '"operator"'),
        "012-unknown-confidentiality": line(RP, "confidentiality", '"secret"'),
        "012-upper-case-backend": line(TR, "backend", '"ERA"'),
        "012-both-backends": line(TR, "backend", '"monty,era"'),
        "012-unknown-function": line(TR, "functions", '["eval"]'),
        "012-unknown-network": line(TR, "network", '"internet"'),
        "012-origin-of-somebody-else": line(TR, "origin", '"fetch"'),
    }


def emit_result() -> bytes:
    from tests.support.samples import tool_result

    return emit(tool_result())


def _malformed() -> dict[str, bytes]:
    urls = {
        "http": "http://a.org/",
        "file": "file:///etc/passwd",
        "with-a-password": "https://u:p@a.org/",
        "with-a-port": "https://a.org:8443/",
        "upper-case-host": "https://A.org/",
        "backslash-host": "https://a.org\\\\@b.org/",
        "space": "https://a.org/a b",
        "no-host": "https:///a",
        "unicode-host": "https://\u00e4.org/",
    }
    times = {
        "30-february": "2026-02-30T00:00:00Z",
        "month-13": "2026-13-01T00:00:00Z",
        "hour-24": "2026-11-15T24:00:00Z",
        "leap-second": "2026-06-30T23:59:60Z",
        "offset": "2026-11-15T12:00:00+00:00",
        "fraction": "2026-11-15T12:00:00.5Z",
        "lower-case-z": "2026-11-15T12:00:00z",
        "arabic-digits": "\u0662\u0660\u0662\u0666-11-15T12:00:00Z",
    }
    ids = {
        "upper-case-digest": "fr-" + digest("x").upper(),
        "short-id": "fr-" + digest("x")[:12],
        "id-of-another-kind": "rp-" + digest("x"),
        "id-with-newline-sign": "fr-" + digest("x") + "$",
    }
    output = '[{"name": "%s", "max_bytes": 1}]'
    return {
        **{f"013-url-{name}": line(RP, "url", f'"{value}"') for name, value in urls.items()},
        **{f"013-{name}": line(RP, "retrieved", f'"{value}"') for name, value in times.items()},
        **{f"013-{name}": line(RP, "request", f'"{value}"') for name, value in ids.items()},
        "013-nonce-too-short": line(TR, "nonce", '"00"'),
        "013-output-in-a-folder": line(TR, "outputs", output % "../x"),
        "013-output-with-a-dot-first": line(TR, "outputs", output % ".bashrc"),
        "013-derived-from-a-request": line(TR, "derived_from", f'["tr-{digest("x")}"]'),
        "013-request-as-input": line(
            TR,
            "inputs",
            f'[{{"name": "a", "artifact": "tr-{digest("x")}", "bytes": 1, "file": null}}]',
        ),
        "013-approver-with-a-space": line(AP, "approver", '"op erator"'),
    }


def _body() -> dict[str, bytes]:
    two = emit(packet("one", "two"))
    head, *parts = TR.split(b"\n## ")
    purpose, code, risks = (b"\n## " + part for part in parts)
    return {
        "014-no-body": RP[: RP.index(b"# Research Packet")],
        "014-title-of-another-kind": swap(RP, "# Research Packet", "# Tool Request"),
        "014-no-section": RP[: RP.index(b"\n## Excerpts")],
        "014-unknown-section": RP + b"\n## Instructions\n\n    run this\n",
        "014-section-twice": FR + b"\n## Purpose\n\n    again\n",
        "014-sections-change-places": head + code + purpose + risks,
        "014-section-in-lower-case": swap(RP, "## Excerpts", "## excerpts"),
        "014-numbers-change-places": swap(two, "1\n\n    one\n\n### 2", "2\n\n    one\n\n### 1"),
        "014-number-with-zero": swap(RP, "### 1", "### 01"),
        "014-number-missing": swap(RP, "### 1\n", "###\n"),
        "014-text-before-the-first-number": swap(RP, "\n### 1", "\n    x\n\n### 1"),
        "014-text-before-the-first-section": swap(RP, "\n## Exc", "\n    x\n\n## Exc"),
        "014-empty-line-too-many": swap(RP, "# Research Packet\n\n", "# Research Packet\n\n\n"),
        "015-text-in-column-0": swap(FR, "    Find", "Find"),
        "015-three-spaces": swap(FR, "    Find", "   Find"),
        "015-tab": swap(FR, "    Find", "\tFind"),
        "015-empty-line-in-text": swap(FR, "    Find the", "    Find\n\n    the"),
        "015-no-newline-at-the-end": FR[:-1],
        "015-two-newlines-at-the-end": FR + b"\n",
        "015-bytes-after-the-end": FR + b"x",
        "015-fence": FR + b"```\nrm -rf /\n```\n",
        "014-second-document": FR + FR,
        "015-only-an-indent": swap(FR, "    Find the measured toughness.", "    "),
        "015-no-empty-line-after-heading": swap(FR, "## Purpose\n\n", "## Purpose\n"),
        "015-numbered-text-where-one-is-wanted": swap(FR, "## Purpose\n", "## Purpose\n\n### 1\n"),
        "015-html-comment": FR + b"<!-- hidden -->\n",
        "018-excerpt-changed": swap(RP, "1.2 MPa", "1.3 MPa"),
    }
