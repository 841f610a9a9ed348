"""A review sheet as styled lines, for the terminal and the browser.

SECURITY
    Foreign text is spelled out.  It is behind a gutter, or last in its line with a gutter before
    each continuation.  However wide or long it is, it cannot look like one of our lines.
    Nothing here prints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from threegate.artifacts.ids import short
from threegate.host.output import counted
from threegate.host.review import parts
from threegate.host.review.characters import exposed, spelled, suspects
from threegate.host.review.parts import CodeToken, StyledLine, StyledRow, StyledSpan
from threegate.host.review.sheet import ReviewSheet
from threegate.policy.leaves import sized

MAX_SOURCES: Final = 40
_TEXT: Final = StyledSpan("    | ", "dim")
_AGAIN: Final = StyledSpan("    : ", "dim")
_OURS: Final = StyledSpan("  ")
_CODE_AGAIN: Final = StyledSpan("      : ", "dim")
_COLOURED: Final = frozenset({"keyword", "string", "number", "comment"})
_VERDICTS: Final = {"allow": "good", "ask": "good", "deny": "bad", "skip": "warn"}
_DIFF: Final = {"+": "added", "-": "removed", "@": "dim"}
_AGES: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def lines(sheet: ReviewSheet) -> Iterator[StyledLine]:
    """Yield the sheet, the decisive parts first; each line knows its part."""
    part = ""
    for line in _lines(sheet):
        part = line.section or part
        yield replace(line, section=part)


def _lines(sheet: ReviewSheet) -> Iterator[StyledLine]:
    yield from _head(sheet)
    yield from _prose("purpose", sheet.purpose)
    yield from _flags(sheet.flags)
    yield from _rule_of_two(sheet.rule_of_two)
    yield from _policy(sheet.verdicts)
    if sheet.tool is not None:
        yield from _tool(sheet.tool)
    if sheet.fetch is not None:
        yield from _fetch(sheet.fetch)
    yield from _sources(sheet.sources)
    yield from _characters(sheet)
    yield from _earlier(sheet.earlier)


def age(seconds: int) -> str:
    """Return a length of time in its largest unit."""
    for size, unit in _AGES:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "0 s"


def _title(words: str) -> Iterator[StyledLine]:
    yield StyledLine()
    yield StyledLine((StyledSpan(words, "title"),), section=words)


def _own(words: str, style: str = "") -> StyledLine:
    return StyledLine((StyledSpan(words, style),), _OURS, _AGAIN)


def _ending(words: str, foreign: str, style: str = "") -> StyledLine:
    """Return our words, then foreign text, on one line even if the text has line breaks."""
    return StyledLine((StyledSpan(words, style), StyledSpan(exposed(foreign))), _OURS, _AGAIN)


def _titled(words: str, title: str, style: str = "") -> StyledLine:
    """Return our words and a headline in quotes: where ours end can be seen."""
    return _ending(f"{words}  ", f'"{title}"', style) if title else _own(words, style)


def _prose(title: str, text: str) -> Iterator[StyledLine]:
    if text:
        yield from _title(title)
        for line in text.split("\n"):
            yield StyledLine(_spelled_out(line, code=False), _TEXT, _AGAIN)


def _spelled_out(line: str, *, code: bool, tokens: Sequence[CodeToken] = ()) -> StyledRow:
    """Return a foreign line, coloured, each suspect character spelled out."""
    found = suspects(line, code=code)
    styles = [""] * len(line)
    for token in tokens:
        if token.kind in _COLOURED:
            styles[token.start : token.end] = [token.kind] * (token.end - token.start)
    spans: list[tuple[str, list[str]]] = []
    for place, character in enumerate(line):
        style = "spelled" if place in found else styles[place]
        text = spelled(character) if place in found else character
        if spans and spans[-1][0] == style:
            spans[-1][1].append(text)
        else:
            spans.append((style, [text]))
    return tuple(StyledSpan("".join(texts), style) for style, texts in spans)


def _head(sheet: ReviewSheet) -> Iterator[StyledLine]:
    words = sheet.kind.replace("-", " ")
    yield StyledLine((StyledSpan(f"{words} {sheet.id}", "title"),), again=_AGAIN, section="request")
    request = sheet.request
    wait = ""
    if sheet.expires is not None:
        left = sheet.expires - sheet.now
        wait = f", expires in {age(left)}" if left > 0 else ", its time is over"
    yield _own(f"state      {sheet.state}, {age(sheet.age_seconds)} old{wait}")
    yield _own(f"made       {request.created} by {request.origin}")
    yield _own(f"lane       {_lane(sheet)}")
    labels = sheet.labels
    yield _own(f"labels     {labels.integrity}, {labels.confidentiality}")
    yield _own(f"bytes      {len(sheet.data)}, its id is their SHA-256")
    for one in sheet.standing:
        uses = counted(one.max_uses, "use")
        yield _own(f"approved   by {one.approver} until {one.not_after}, {uses}, {one.id}")
    if sheet.denial is not None:
        yield _own(f"denied     {sheet.denial.time}")
        yield from _prose("denied because", sheet.denial.reason)


def _lane(sheet: ReviewSheet) -> str:
    if sheet.tool is None:
        return "fetch"
    network = "no network" if sheet.tool.network == "none" else f"network {sheet.tool.network}"
    return f"{sheet.lane}, profile {sheet.tool.profile}, {network}"


def _flags(flags: Sequence[parts.Flag]) -> Iterator[StyledLine]:
    yield from _title(counted(len(flags), "flag") if flags else "no flags")
    for flag in flags:
        where = f"line {flag.line}" if flag.line is not None else ""
        yield _own(f"! {flag.name:<20} {where:<9} {flag.reason}", "warn")


def _rule_of_two(two: parts.RuleOfTwo) -> Iterator[StyledLine]:
    yield from _title("rule of two")
    held = {
        "external input": two.external,
        "confidential data": two.confidential,
        "network": two.network,
    }
    told = ", ".join(f"{name} {'yes' if holds else 'no'}" for name, holds in held.items())
    yield _own(f"{sum(held.values())} of 3: {told}")
    if two.joined and two.allowed:
        yield _own("all three together: an approval accepts this by name", "bad")
    elif two.joined:
        yield _own("all three together: policy refuses it, even if it is approved", "bad")


def _policy(verdicts: Sequence[parts.SheetVerdict]) -> Iterator[StyledLine]:
    yield from _title("policy")
    for one in verdicts:
        rule = f" ({one.rule})" if one.rule else ""
        yield _ending(f"{one.verdict}: {one.reason}{rule}; ", one.question, _VERDICTS[one.verdict])


def _gateway(way: parts.SheetGateway) -> Iterator[StyledLine]:
    """Show the traffic a run may have and its hosts, with emphasis."""
    yield from _title("network: this run may speak to other machines")
    for host in way.hosts:
        yield _own(f"! {host}", "bad")
    yield _own(f"! {way.up} may leave and {way.down} may come, by {', '.join(way.methods)}", "bad")
    if way.held:
        yield _own("the kernel holds it to the addresses that these names have when it starts")
    yield _own(f"what comes is never a packet; policy grants it in {way.place}")


def _ring(tool: parts.Tool) -> Iterator[StyledLine]:
    """Show what the code may import, start and reach: the rules of its profile, by line."""
    yield from _title(f"interpreter ring, profile {tool.profile}")
    if not tool.ring:
        yield _own("no executor enforces it", "bad")
    for rule in tool.ring:
        yield _own(f"{rule.field:<17} {', '.join(rule.items) or 'none'} ({rule.place})")


def _tool(tool: parts.Tool) -> Iterator[StyledLine]:
    if tool.escalation is not None:
        yield from _escalation(tool.escalation)
    if tool.code is not None:
        yield from _code(tool.code)
    if tool.argv:
        yield from _title("command")
        for number, argument in enumerate(tool.argv):
            yield from _numbered(number, _spelled_out(argument, code=True))
    if tool.gateway is not None:
        yield from _gateway(tool.gateway)
    yield from _ring(tool)
    yield from _inputs(tool.inputs)
    yield from _functions(tool.functions)
    yield from _limits(tool.limits)
    if tool.outputs:
        yield from _title("files it may leave")
        for name, size in tool.outputs:
            yield _own(f"{name}, at most {sized(size)}")
    yield from _prose("risks, by its author", tool.risks)


def _escalation(why: parts.SheetEscalation) -> Iterator[StyledLine]:
    yield from _title("why not monty")
    yield _own(why.reason)
    if why.line is not None:
        yield _ending(f"Monty refused line {why.line}: ", f"{why.construct}: {why.words}")


def _code(code: parts.Code) -> Iterator[StyledLine]:
    yield from _title(f"code, {counted(len(code.lines), 'line')}, {code.bytes} bytes")
    yield _own(f"sha256 {code.sha256}", "dim")
    by_line: dict[int, list[CodeToken]] = {}
    for token in code.tokens:
        by_line.setdefault(token.line, []).append(token)
    for number, line in enumerate(code.lines, 1):
        tokens = by_line.get(number, ())
        yield from _numbered(number, _spelled_out(line, code=True, tokens=tokens))
    if not code.text.endswith("\n"):
        yield _own("(no line break at the end)", "dim")


def _numbered(number: int, spans: StyledRow) -> Iterator[StyledLine]:
    marked = any(span.style == "spelled" for span in spans)
    head = StyledSpan(f"{number:>5} ! ", "warn") if marked else StyledSpan(f"{number:>5} | ", "dim")
    yield StyledLine(spans, head, _CODE_AGAIN)


def _inputs(inputs: Sequence[parts.SheetInput]) -> Iterator[StyledLine]:
    yield from _title("inputs")
    for one in inputs:
        what = f"{one.name}  {sized(one.bytes)}  {one.kind}  {short(one.artifact)}"
        problem = f"  ({one.problem})" if one.problem else ""
        origin = f"  {one.origin}" if one.origin else ""
        yield _titled(f"{what}{problem}{origin}", one.title, "bad" if problem else "")
    if not inputs:
        yield _own("none")


def _functions(functions: Sequence[parts.SheetFunction]) -> Iterator[StyledLine]:
    yield from _title("external functions")
    for one in functions:
        bounds = ", ".join(f"{key} {value}" for key, value in one.bounds)
        yield _own(f"{one.name}  {one.meaning}; {bounds or 'policy does not offer it'}")
    if not functions:
        yield _own("none")


def _limits(limits: Sequence[parts.Limit]) -> Iterator[StyledLine]:
    yield from _title("limits")
    yield _own(f"{'':<36} {'asked':>9} {'usual':>9} {'most':>9}", "dim")
    for one in limits:
        asked, usual, most = one.shown
        style = "bad" if one.asked > one.most else "warn" if one.raised else ""
        yield _own(f"{one.words:<36} {asked:>9} {usual:>9} {most:>9}", style)


def _fetch(fetch: parts.Fetch) -> Iterator[StyledLine]:
    yield from _title(f"would ask for {counted(len(fetch.references), 'reference')}, {fetch.want}")
    for number, one in enumerate(fetch.references, 1):
        yield from _numbered(number, _spelled_out(one.text, code=True))
        yield _own(f"    {one.bits} bits in all that could carry something out", "dim")
        for part in one.components:
            remark = f"  {part.remark}" if part.remark else ""
            words = f"    {part.where:<10} {part.bits:>5} bits{remark}  "
            style = "warn" if remark else ""
            yield StyledLine(
                (StyledSpan(words, style), *_spelled_out(part.decoded, code=True)), _OURS, _AGAIN
            )
        for asked in one.asks:
            yield _asked(asked)


def _asked(asked: parts.AskedUrl) -> StyledLine:
    """Return the exact URL that is requested, and its source."""
    if asked.verdict == "deny":
        words, style = f"    not asked: {asked.source}, {asked.reason}  ", "warn"
    else:
        only = f" if {asked.after} does not know it" if asked.after else ""
        words, style = f"    asks {asked.source}{only}  ", ""
    return StyledLine(
        (StyledSpan(words, style), *_spelled_out(asked.url, code=True)), _OURS, _AGAIN
    )


def _sources(sources: parts.SheetSources) -> Iterator[StyledLine]:
    hosts = ", ".join(sources.hosts[:10])
    yield from _title("goes back to")
    if not (sources.found or sources.missing):
        yield _own("nothing from outside")
        return
    if hosts:
        yield _own(f"hosts: {hosts}" + (" and more" if len(sources.hosts) > 10 else ""))
    for one in sources.found[:MAX_SOURCES]:
        told = "".join(f"  {words}" for words in (*one.marks, one.host) if words)
        yield _titled(f"{short(one.id)}{told}", one.title)
    left = len(sources.found) - MAX_SOURCES + sources.more
    if left > 0:
        yield _own(f"and {left} more")
    for missing in sources.missing[:MAX_SOURCES]:
        yield _own(f"{short(missing)}  is not here any more", "warn")


def _characters(sheet: ReviewSheet) -> Iterator[StyledLine]:
    yield from _title("characters spelled out")
    for one in sheet.characters:
        like = f", looks like {one.like!a}" if one.like.strip() else ""
        where = f"{one.where}, line {one.line}"
        yield _own(f"{one.count} x {one.point} {one.name} ({one.kind}{like}), {where}", "warn")
    if not sheet.characters:
        yield _own("none")


def _earlier(earlier: parts.Earlier | None) -> Iterator[StyledLine]:
    if earlier is None:
        return
    yield from _title("asked before" if earlier.same else "the last similar request")
    what = "the same" if earlier.same else f"{earlier.likeness} % of its words"
    outcome = f": {earlier.outcome}" if earlier.outcome else ""
    yield _own(f"{short(earlier.id)}  {what}, {earlier.created}, {earlier.state}{outcome}")
    if earlier.reason:
        yield _ending("denied because: ", earlier.reason)
    for change in earlier.changes:
        yield _own(f"~ {change}")
    for line in earlier.diff:
        style = _DIFF.get(line[:1], "")
        spans = _spelled_out(line, code=True)
        yield StyledLine(tuple(StyledSpan(s.text, s.style or style) for s in spans), _TEXT, _AGAIN)
    if earlier.longer:
        yield _own(f"{earlier.longer} lines of the difference are not shown")
