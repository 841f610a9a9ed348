"""Results of runs that never were, put into a workspace: their texts are what a test is about."""

import secrets
from collections.abc import Sequence

from tests.support.samples import approval, tool_request, tool_result
from tests.support.workspaces import take_in
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.host.workspace.workspace import Workspace


def put_results(ws: Workspace, texts: Sequence[str]) -> list[str]:
    """Put a result here for each text, which is its output; return their ids."""
    (request,) = take_in(ws, tool_request(inputs=(), nonce=secrets.token_hex(16)))
    ap = registry.emit(approval(request=request))
    approval_id = "ap-" + sha256_hex(ap)
    puts = [Put(states.directory_of("ap", "spent"), f"{approval_id}.md", ap)]
    for number, text in enumerate(texts):
        made = tool_result(str(number), text, request=request, approval=approval_id)
        data = registry.emit(made)
        puts.append(Put("handoff/results/accepted", f"res-{sha256_hex(data)}.md", data))
    with ws.store.locked() as journal:
        journal.run("finish", puts)
    return [put.name.removesuffix(".md") for put in puts[1:]]
