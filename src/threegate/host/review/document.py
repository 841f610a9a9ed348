"""A review sheet as one plain value for scripts: the exact texts, nothing spelled out."""

from dataclasses import asdict
from typing import Any

from threegate.host.review import parts
from threegate.host.review.sheet import Sheet


def document(sheet: Sheet) -> dict[str, Any]:
    """Return the sheet as JSON values; the keys do not change without a line in the changelog."""
    left = None if sheet.expires is None else sheet.expires - sheet.now
    return {
        "id": sheet.id,
        "kind": sheet.kind,
        "state": sheet.state,
        "created": sheet.request.created,
        "age_seconds": sheet.age_seconds,
        "expires_in_seconds": left,
        "origin": sheet.request.origin,
        "lane": sheet.lane,
        "integrity": sheet.labels.integrity,
        "confidentiality": sheet.labels.confidentiality,
        "bytes": len(sheet.data),
        "policy": sheet.policy,
        "purpose": sheet.purpose,
        "tool": None if sheet.tool is None else _tool(sheet.tool),
        "fetch": None if sheet.fetch is None else asdict(sheet.fetch),
        "sources": {**asdict(sheet.sources), "hosts": list(sheet.sources.hosts)},
        "characters": [asdict(one) for one in sheet.characters],
        "rule_of_two": {**asdict(sheet.rule_of_two), "joined": sheet.rule_of_two.joined},
        "decisions": [asdict(one) for one in sheet.verdicts],
        "flags": [asdict(one) for one in sheet.flags],
        "earlier": None if sheet.earlier is None else asdict(sheet.earlier),
        "approvals": [asdict(one) for one in sheet.standing],
        "denial": None if sheet.denial is None else asdict(sheet.denial),
    }


def _tool(tool: parts.Tool) -> dict[str, Any]:
    found = {key: value for key, value in asdict(tool).items() if key != "code"}
    code = tool.code
    if code is None:
        return {**found, "code": None}
    shown = {"text": code.text, "sha256": code.sha256, "bytes": code.bytes}
    return {**found, "code": {**shown, "lines": len(code.lines)}}
