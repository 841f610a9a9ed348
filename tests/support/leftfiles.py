"""A workspace in which a run left files, and an answer was made from its result."""

from collections.abc import Mapping

from tests.support import samples
from tests.support.approved import approve_for, request_for
from tests.support.samples import box, digest
from tests.support.workspaces import keep_blob, take_in
from threegate.artifacts.analysis import Cite, Claim
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_result import OutputFile
from threegate.host.workspace.workspace import Workspace


def answer_on(ws: Workspace, files: Mapping[str, bytes]) -> tuple[str, str]:
    """Store a result with these files and an analysis of it; return the ids of both."""
    for data in {sha256_hex(data): data for data in files.values()}.values():
        if not ws.store.has_blob(sha256_hex(data)):
            keep_blob(ws, data)
    request = request_for(ws, "1.2 + 1.2")
    (request_id,) = take_in(ws, request)
    approval = approve_for(ws, request)
    left = tuple(
        OutputFile(name, len(files[name]), sha256_hex(files[name])) for name in sorted(files)
    )
    result = samples.tool_result(
        "2.4", request=request_id, approval=approval, backend="era", exit_code=0, files=left
    )
    (result_id,) = take_in(ws, result)
    analysis = samples.analysis(
        selection=(result_id,),
        derived_from=(result_id,),
        confidentiality="internal",
        claims=(Claim("quote found", (Cite(result_id, 1, 0, 3, digest("2.4")),)),),
        claim_texts=(box("It is 2.4."),),
        quotes=(box("2.4"),),
    )
    return take_in(ws, analysis)[0], result_id
