"""How a reader checks a report without believing it: commands, with the ids in them."""

from collections.abc import Iterator, Sequence
from typing import Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.handoff.store import Store
from threegate.host.report.facts import Check

IN_ONE_LINE: Final = 4  # ids of one command
_WHOLE: Final = "the log is whole, and every file is what it recorded"
_ENDS: Final = "the same code on the same input ends the same"
_SIGNED: Final = "approval, signature and signers, and how OpenSSH alone checks them"
_GRAPH: Final = "what it was made from, and what was made from it"
_AGAIN: Final = "this report again, byte for byte, as long as nothing it speaks of changes"


def checks_of(
    store: Store,
    analysis_id: str,
    analysis: Analysis,
    cited: Sequence[str],
    approvals: Sequence[str],
) -> tuple[Check, ...]:
    """Return the commands that check everything a report says."""
    return tuple(_checks(store, analysis_id, analysis, cited, approvals))


def _checks(
    store: Store,
    analysis_id: str,
    analysis: Analysis,
    cited: Sequence[str],
    approvals: Sequence[str],
) -> Iterator[Check]:
    yield Check("threegate audit verify", _WHOLE)
    yield Check(
        f"threegate analysis show {short(analysis_id)} --raw | sha256sum",
        f"the analysis is the one of this name: {analysis_id.partition('-')[2]}",
    )
    here = [one for one in cited if store.locate(one) is not None]
    packets = [one for one in here if prefix_of(one) == "rp"]
    made = [one for one in packets if _was_fetched(store, one)]
    for part in _parts(made):
        yield Check(f"threegate packet remake {part}", "the packets are what their raw bytes say")
    for one in packets:
        shows = "the excerpts; a quote stands at its offset, counted in characters from 0"
        yield Check(f"threegate packet show {short(one)}", shows)
    results = [one for one in analysis.derived_from if prefix_of(one) == "res"]
    for part in _parts([one for one in results if store.locate(one) is not None]):
        yield Check(f"threegate replay {part}", _ENDS)
    for one in approvals:
        if store.locate(one) is not None:
            yield Check(f"threegate review export {short(one)} DIRECTORY", _SIGNED)
    yield Check(f"threegate audit graph {short(analysis_id)}", _GRAPH)
    yield Check(f"threegate report {short(analysis_id)}", _AGAIN)


def checks_of_run(result_id: str, result: ToolResult) -> tuple[Check, ...]:
    """Return the commands that check a report on a result."""
    name = short(result_id)
    found = [Check("threegate audit verify", _WHOLE)]
    shows = f"the result is the one of this name: {result_id.partition('-')[2]}"
    found.append(Check(f"threegate result show {name} --raw | sha256sum", shows))
    if result.backend == "monty":
        found.append(Check(f"threegate replay {name}", _ENDS))
    if result.files:
        shows = "the files, which have the digests that stand here"
        found.append(Check(f"threegate result export {name} DIRECTORY", shows))
    found.append(Check(f"threegate review export {short(result.approval)} DIRECTORY", _SIGNED))
    found.append(Check(f"threegate audit graph {name}", _GRAPH))
    return (*found, Check(f"threegate report {name}", _AGAIN))


def _was_fetched(store: Store, packet_id: str) -> bool:
    packet = store.read(packet_id)
    return isinstance(packet, ResearchPacket) and packet.record_sha256 is not None


def _parts(ids: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(ids), IN_ONE_LINE):
        yield " ".join(short(one) for one in ids[start : start + IN_ONE_LINE])
