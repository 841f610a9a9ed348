"""ask with a model: the real command, CORE and its model server in their real boxes."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.core_doubles import (
    asked_of,
    asker,
    labels_of_model,
    replies,
    use_server,
    use_smallest,
)
from tests.support.holdings import paper, shelf
from tests.support.models import (
    Act,
    OwnServer,
    completion,
    drips,
    endless,
    http,
    own_server,
    says,
    silent,
)

QUESTION = "At which pressure did sea ice break?"
CLAIM = {"claims": [{"text": "Sea ice broke at 1.2 MPa.", "from": [1]}]}
NOTHING = {"compute": "", "fetch": []}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return asker(tmp_path, *shelf())


def test_a_question_is_answered_with_quotes_and_a_draft(tmp_path: Path) -> None:
    cited = paper(4, "The strength of lake ice is in doi:10.5555/tg.9.", title="On lake ice")
    cli = asker(tmp_path, *shelf(), cited)
    wish = {
        "compute": "the mean of the two strengths",
        "fetch": [{"reference": "doi:10.5555/tg.9", "why": "It is cited."}],
    }
    code = {"code": "result = (1.2 + 2.4) / 2\nresult"}
    with own_server() as server:
        server.complete = replies(CLAIM, wish, code)
        use_server(cli, server.port)
        done = cli("ask", QUESTION, "--json")
    found = done.json
    assert labels_of_model(found) == ["quote found"]
    assert found["claims"][0]["cites"][0]["quote"] == "Sea ice at -5 \u00b0C broke at 1.2 MPa."
    assert found["model"] == "own-model"
    kinds = sorted(draft["id"][:3] for draft in found["drafts"])
    assert kinds == ["fr-", "tr-"], found
    assert "asking the model for an answer" in done.err
    step, sentences = asked_of(server.asked[-3])
    assert "Answer in a few short sentences" in step
    assert sentences[1].startswith("Sea ice at -5")
    waiting = cli("request", "list", "--json").json["items"]
    assert {item["state"] for item in waiting} == {"draft"}
    assert cli("audit", "verify").code == 0


# claim TG-C-246
def test_that_a_model_runs_no_code_stands_in_the_log_with_its_proofs(cli: Cli) -> None:
    def logged() -> list[dict[str, object]]:
        entries = cli("audit", "show", "--json", "--limit", "1000").json["items"]
        return [one["data"] for one in entries if one["kind"] == "ring.no-op"]

    with own_server() as server:
        server.complete = replies(CLAIM, NOTHING)
        use_server(cli, server.port)
        before = logged()
        assert "bridge" not in [one["executor"] for one in before], "control: nobody asked yet"
        cli("ask", QUESTION)
    new = logged()[len(before) :]
    assert {"executor": "bridge", "proved": ["exec", "fork"]} in new
    assert {one["executor"] for one in new} <= {"bridge", "embedder"}


def test_a_model_that_claims_nothing_is_not_credited_with_sentences(cli: Cli) -> None:
    with own_server() as server:
        server.complete = replies({"claims": []}, NOTHING)
        use_server(cli, server.port)
        found = cli("ask", QUESTION, "--json").json
    assert set(found["labels"].values()) == {0}
    assert found["beside"] == len(found["claims"]) > 0
    assert labels_of_model(found) == []
    again = cli("analysis", "show", found["id"], "--json").json
    assert (again["labels"], again["beside"]) == (found["labels"], found["beside"])
    shown = cli("analysis", "show", found["id"]).out
    assert "\nThe model made no claim about the sources that were selected.\n" in shown
    assert "\nClaim 1" not in shown


def test_the_smallest_real_model_ends_in_an_analysis_or_says_why_not(cli: Cli) -> None:
    use_smallest(cli, deadline="5m", output_tokens="256", context_tokens="2048", claims="3")
    done = cli("ask", QUESTION, "--role", "policy-analyst", "--json", code=None)
    # It is far too small to be right; what it must not do is get past a check.
    assert done.code in (0, 69), done.err
    listed = cli("analysis", "list", "--json").json["items"]
    if done.code == 0:
        assert [done.json["id"]] == [item["id"] for item in listed]
        assert done.json["model"] == "smollm2-135m-instruct-q4_1"
    else:
        assert "[TG-COR-002]" in done.err
        assert listed == []
    assert cli("audit", "verify").code == 0


def test_a_model_that_is_not_here_is_not_replaced(cli: Cli) -> None:
    done = cli("ask", QUESTION, code=69)
    assert "is not on this machine [TG-MDL-021]" in done.err
    assert cli("ask", QUESTION, "--extractive").code == 0, "control"


def test_without_a_server_there_is_no_answer_and_nothing_is_stored(cli: Cli) -> None:
    with own_server() as server:
        port = server.port
        server.complete = replies(CLAIM, NOTHING)
        use_server(cli, port)
        assert cli("ask", QUESTION).code == 0, "control"
    before = cli("analysis", "list", "--json").json["total"]
    done = cli("ask", QUESTION, code=69)
    assert "[TG-MDL-010]" in done.err
    assert cli("analysis", "list", "--json").json["total"] == before


# CORE's clock and the bridge's run out together; either may say so.
TOO_LONG = (
    "(?:the model did not answer in time|no reply within the time for one request"
    "(?:: no whole answer within 12 seconds)?)"
)
NO_ANSWER, NO_REPLY = "[TG-COR-001]", "[TG-COR-002]"
HOSTILE: dict[str, tuple[Act, str, str]] = {
    "stuck": (silent, TOO_LONG, NO_ANSWER),
    "slow": (drips(b" ", 0.2), TOO_LONG, NO_ANSWER),
    "endless": (
        endless(b"x" * 65536),
        "said too much: the answer is larger than 4194304 bytes",
        NO_ANSWER,
    ),
    "not UTF-8": (
        says(http("200 OK", b'{"choices":[{"message":"\xff\xfe"}]}')),
        "is not a completion: not JSON",
        NO_ANSWER,
    ),
    "another model": (
        says(completion("{}", model="other")),
        "another model than the policy names",
        NO_ANSWER,
    ),
    "no HTTP": (
        says(b"SSH-2.0-OpenSSH_9.2\r\n"),
        "is not a completion: it hung up before its answer",
        NO_ANSWER,
    ),
    "hangs up": (says(b""), "is not a completion: it hung up before its answer", NO_ANSWER),
    "prose": (replies("I would rather talk about the weather."), "refused: not JSON", NO_REPLY),
    "cut off": (
        says(completion('{"claims":[{"text":"Sea', "length")),
        "refused: cut off before its end",
        NO_REPLY,
    ),
    "forged numbers": (
        replies({"claims": [{"text": "x", "from": [99999]}]}),
        "a claim cites what was not shown",
        NO_REPLY,
    ),
    "more keys": (
        replies({**CLAIM, "approve": "tr-1"}),
        "another form than was asked for",
        NO_REPLY,
    ),
}


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cli, OwnServer]]:
    """Return a user and their server, the same for every way to misbehave."""
    cli = asker(tmp_path_factory.mktemp("met"), *shelf())
    with own_server() as server:
        # Long enough for a question on a busy machine, short enough to wait for twice.
        use_server(cli, server.port, deadline="12s", retries="1")
        yield cli, server


def kept(cli: Cli) -> list[int]:
    return [cli(word, "list", "--json").json["total"] for word in ("analysis", "request")]


@pytest.mark.parametrize("kind", HOSTILE)
# claim TG-C-154
def test_a_server_that_misbehaves_ends_in_one_error_and_stores_nothing(
    met: tuple[Cli, OwnServer], kind: str
) -> None:
    cli, server = met
    server.complete, why, code = HOSTILE[kind]
    before = kept(cli)
    done = cli("ask", QUESTION, code=69)
    assert re.search(
        rf'error: CORE has no answer: "[^"]*{why}" {re.escape(code)}$', done.err, re.MULTILINE
    )
    assert "Traceback" not in done.err
    assert kept(cli) == before
    server.complete = replies(CLAIM, NOTHING)
    again = cli("ask", QUESTION, "--json").json
    assert labels_of_model(again) == ["quote found"], "the same question can be asked again"


def test_a_server_that_is_slow_and_in_time_is_heard(met: tuple[Cli, OwnServer]) -> None:
    cli, server = met
    left = [completion(json.dumps(one, separators=(",", ":"))) for one in (CLAIM, NOTHING)]

    def slowly(sock: socket.socket, server: OwnServer) -> None:
        data = left.pop(0)
        for start in range(0, len(data), 8):
            sock.sendall(data[start : start + 8])
            server.over.wait(0.001)

    server.complete = slowly
    assert cli("ask", QUESTION, "--json").json["labels"]["quote found"] == 1
    assert left == []


def test_from_a_question_to_a_computation_and_back(cli: Cli) -> None:
    wish = {"compute": "the beams of both days", "fetch": []}
    code = {"code": "result = 14 + 22\nresult"}
    back = {"claims": [{"text": "There were 36 beams.", "from": [1]}]}
    with own_server() as server:
        server.complete = replies(CLAIM, wish, code, back, NOTHING)
        use_server(cli, server.port)
        first = cli("ask", QUESTION, "--json").json
        (draft,) = first["drafts"]
        cli("run", draft["id"], code=75)  # control: nothing runs before somebody approved it
        cli("review", "approve", draft["id"], "--yes")
        ran = cli("run", draft["id"]).out
        done = cli("ask", "How many beams?", "--continue", first["id"], "--json")
    assert ran.startswith("ok "), ran
    found = done.json
    assert found["claims"][0]["label"] == "quote found"
    assert found["claims"][0]["cites"][0]["quote"] == "36"
    assert found["withheld"] == "no fetch request is drafted: this run could read a tool result"
    assert any(one.startswith("res-") for one in found["derived_from"])
    assert first["id"] in found["derived_from"]
    assert cli("audit", "verify").code == 0
