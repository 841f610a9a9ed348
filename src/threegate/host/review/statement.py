"""The sentences inside an approval: what the human was told it means, in plain words.

They are signed with it and read by whoever checks it later without this program, so they
hold no text by anybody else: names, numbers, digests and hosts of strict grammars only.
"""

from collections.abc import Iterator
from typing import Final

from threegate.audit.entry import time_of
from threegate.host.output import counted
from threegate.host.review import parts
from threegate.host.review.sheet import Sheet

MAX_NAMED: Final = 8


def statement(sheet: Sheet, *, uses: int, begin: int, end: int) -> str:
    """Return what an approval of `sheet` permits."""
    return "\n".join(_lines(sheet, uses, begin, end))


def _lines(sheet: Sheet, uses: int, begin: int, end: int) -> Iterator[str]:
    often = "once" if uses == 1 else f"{uses} times"
    when = f"from {time_of(begin)} to {time_of(end)}"
    if sheet.tool is not None:
        what = "command" if sheet.tool.argv else "code"
        yield f"Run the {what} of {sheet.id} {often}, {when}, in the lane {sheet.lane}."
        yield from _tool(sheet.tool)
    if sheet.fetch is not None:
        count = counted(len(sheet.fetch.references), "reference")
        yield f"Ask for the {count} of {sheet.id} {often}, {when}: {sheet.fetch.want}."
        yield f"Hosts that are asked: {_named(_hosts(sheet.fetch))}."
    labels = sheet.labels
    yield f"Integrity: {labels.integrity}. Confidentiality: {labels.confidentiality}."
    yield _rule_of_two(sheet.rule_of_two)
    yield "It covers these bytes under these rules; any change of either voids it."


def _hosts(fetch: parts.Fetch) -> list[str]:
    asked = (one for reference in fetch.references for one in reference.asks)
    return sorted({one.host for one in asked if one.verdict != "deny"})


def _tool(tool: parts.Tool) -> Iterator[str]:
    if tool.code is not None:
        yield f"The code has {tool.code.bytes} bytes and the SHA-256 {tool.code.sha256}."
    limits = ", ".join(f"{one.words} {one.shown[0]}" for one in tool.limits)
    yield f"At most: {limits}."
    inputs = [f"{one.name} ({one.bytes} bytes)" for one in tool.inputs]
    yield f"Inputs: {_named(inputs)}."
    yield f"External functions: {_named([one.name for one in tool.functions])}."
    yield f"Files it may leave: {_named([name for name, _ in tool.outputs])}."
    if tool.gateway is None:
        yield f"Network: {tool.network}."
    else:
        way = tool.gateway
        yield f"Network: through the gateway, to {_named(list(way.hosts))} and no other host."
        yield f"At most {way.up} leave and {way.down} come."


def _rule_of_two(two: parts.RuleOfTwo) -> str:
    if two.joined:
        return "Rule of Two: external input, confidential data and network together, accepted."
    return "Rule of Two: external input, confidential data and network do not come together."


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more if names else "none"
