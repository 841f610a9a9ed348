"""`threegate ask` with a model on another machine, unchanged, on the test internet.

Judged by what the far side wrote down, by the log, and by what lies in the workspace.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cli import write
from tests.support.core_doubles import use_model
from tests.support.holdings import paper, shelf
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origins.remote import ELSEWHERE, GOOD, HOST, MODELS, WORLD
from tests.support.workspaces import files_below
from threegate.artifacts import registry

QUESTION = "At which pressure did sea ice break?"
CANARY = "canary-7f21c09d3e55"
CONFIDENTIAL = paper(
    9, "Sea ice of the secret bay broke at 9.9 MPa.", confidentiality="confidential"
)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with place_at(WORLD) as found:
        yield found


@pytest.fixture(scope="module")
def cli(place: Place) -> PlaceCli:
    """Return a user with three papers, a policy that names the remote machine, and a key."""
    found = settle(place, place.directory / "asker")
    files = [
        write(found.base / "brought" / f"{number}.md", registry.emit(one))
        for number, one in enumerate(shelf())
    ]
    place.own(found.base)
    found("admit", *files)
    use(found, GOOD)
    found("credential", "set", HOST, stdin=CANARY.encode())
    return found


def use(cli: PlaceCli, name: str, *, deadline: str = "60s", **more: str) -> None:
    """Sign a policy that names one model of the remote machine."""
    rules = {"remote_host": HOST, "remote_credential": "bearer", "remote_requests": "64"}
    rules |= {"remote_confidentiality": "public", "remote_bytes": "4MiB"}
    named = {"kind": "remote", "name": name, "sha256": "none", **rules, **more}
    assert cli.workspace is not None
    file = cli.workspace / "policy/core.policy.md"
    file.write_text(_without_deadline(file.read_text("utf-8")), "utf-8")
    use_model(cli, deadline=deadline, **named)


def _without_deadline(text: str) -> str:
    for line in ("deadline_seconds: 60s", "deadline_seconds: 5s"):
        text = text.replace(line, "deadline_seconds: 15m")
    return text


def requests(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(e["host"], e["line"]) for e in events if e["event"] == "request"]


def logged(cli: PlaceCli, kind: str) -> list[dict[str, Any]]:
    entries = cli("audit", "show", "--json", "--limit", "1000").json["items"]
    return [entry for entry in entries if entry["kind"] == kind]


def seen_nowhere(cli: PlaceCli, *shown: bytes) -> None:
    """Assert that the key stands in no file of the workspace, and in nothing that was shown."""
    assert cli.workspace is not None
    key = cli.base / ".config/threegate/credentials" / HOST
    assert CANARY.encode() in key.read_bytes(), "control: it is kept, and found where it is"
    for text in (*shown, *files_below(cli.workspace).values()):
        assert CANARY.encode() not in text


# claim TG-C-201
def test_a_question_goes_to_the_named_host_and_the_host_stands_everywhere(
    place: Place, cli: PlaceCli
) -> None:
    use(cli, GOOD)
    before = len(place.arrived())
    asked = cli("ask", QUESTION)
    met = place.arrived()[before:]
    assert {e["name"] for e in met if e["event"] == "hello"} == {HOST}
    assert requests(met)[0] == (HOST, "GET /v1/models HTTP/1.1")
    posted = [line for _, line in requests(met)[1:]]
    assert set(posted) == {"POST /v1/chat/completions HTTP/1.1"}
    sent = [dict(e["headers"]) for e in met if e["event"] == "request"]
    assert {headers["authorization"] for headers in sent} == {f"Bearer {CANARY}"}, "control"
    assert f"! the question and the sources were sent to {HOST}" in asked.out
    assert f"sending the question and its sources to {HOST}" in asked.err
    [analysis] = [line.split()[1] for line in asked.out.splitlines() if line[:9] == "Analysis "]
    shown = cli("analysis", "show", analysis)
    assert f"sent to {HOST}" in shown.out
    report = cli("report", analysis, "--format", "md")
    assert f"SENT AWAY: the question and the sources went to {HOST}" in report.out
    assert cli.workspace is not None
    stored = cli.workspace / f"handoff/analyses/accepted/{analysis}.md"
    assert f'"server":"remote:{HOST}"' in stored.read_text("utf-8").replace(": ", ":")
    seen_nowhere(cli, asked.raw_out, asked.raw_err, shown.raw_out, report.raw_out)


# claim TG-C-201
def test_the_log_says_what_leaves_before_it_does(cli: PlaceCli) -> None:
    use(cli, GOOD)
    assert cli("ask", QUESTION, "--json").json["sent_to"] == HOST
    last = logged(cli, "ask.remote")[-1]
    assert (last["data"]["host"], last["data"]["model"]) == (HOST, GOOD)
    assert last["data"]["confidentiality"] == "public"
    assert all(one.startswith("rp-") for one in last["data"]["artifacts"])
    assert last["data"]["artifacts"]
    after = [e for e in logged(cli, "proxy.decision") if e["seq"] > last["seq"]]
    assert {e["data"]["host"] for e in after} == {HOST}
    assert {e["data"]["verdict"] for e in after} >= {"allow", "closed"}
    assert all("policy/core.policy.md:" in e["data"]["rule"] for e in after)
    assert cli("audit", "verify").code == 0
    shown = cli("model", "status", code=None).out
    assert f"answers (remote:{HOST})  not kept here" in shown


# claim TG-C-202
def test_what_is_too_confidential_is_refused_before_anything_leaves(
    place: Place, cli: PlaceCli
) -> None:
    use(cli, GOOD)
    file = write(cli.base / "brought/secret.md", registry.emit(CONFIDENTIAL))
    place.own(cli.base)
    cli("admit", file)
    secret = registry.id_of(CONFIDENTIAL)
    before, entries = len(place.arrived()), len(logged(cli, "ask.remote"))
    refused = cli("ask", QUESTION, "--packets", secret, code=77)
    assert "confidential material may not leave for llm.remote-models.org" in refused.err
    assert secret[:15] in refused.err
    assert "TG-MDL-025" in refused.err
    assert place.arrived()[before:] == [], "nothing left, not even a question for the name"
    assert len(logged(cli, "ask.remote")) == entries
    public = registry.id_of(shelf()[0])
    assert cli("ask", QUESTION, "--packets", public).code == 0, "control: what is public may"
    use(cli, GOOD, remote_confidentiality="confidential")
    assert cli("ask", QUESTION, "--packets", secret).code == 0, "control: by another policy it may"


FAILS = {
    "says-key": ("the remote machine repeats the key it was sent",),
    "spells-key": ("the remote machine repeats the key it was sent",),
    "refuses": ("status 401, it wants a key, or another one",),
    "renames": ("another model than the policy names",),
    "redirects": ("status 307",),
    "endless": ("said too much: the answer is larger than",),
    "lies": ("the answer ends after 2 bytes",),
    "compressed": ("the answer is compressed",),
    # Three clocks end at the same moment: of the box, of its front, and CORE's own.
    "silent": (
        *("no whole answer within 5 seconds", "no reply within the time for one request"),
        "did not answer in time",
    ),
}


@pytest.mark.parametrize("name", FAILS)
# claim TG-C-203
def test_a_remote_machine_that_does_everything_wrong_is_bounded_and_named(
    place: Place, cli: PlaceCli, name: str
) -> None:
    assert {*FAILS, GOOD} == {*MODELS}, "nothing left out"
    use(cli, name, deadline="5s" if name == "silent" else "60s")
    before = len(place.arrived())
    packet = registry.id_of(shelf()[0])
    failed = cli("ask", QUESTION, "--packets", packet, code=69)
    assert any(words in failed.err for words in FAILS[name])
    met = place.arrived()[before:]
    assert (HOST, "POST /v1/chat/completions HTTP/1.1") in requests(met), "control: it was asked"
    assert {e["name"] for e in met if e["event"] == "hello"} == {HOST}, "no other host was"
    assert ELSEWHERE not in {e["name"] for e in met if e["event"] == "dns"}
    seen_nowhere(cli, failed.raw_out, failed.raw_err)


# claim TG-C-141
def test_unreachable_absent_or_without_its_key_it_is_69_and_no_other_model(
    place: Place, cli: PlaceCli
) -> None:
    packets = ("--packets", registry.id_of(shelf()[0]))
    use(cli, "not-offered")
    assert "TG-MDL-014" in cli("ask", QUESTION, *packets, code=69).err
    use(cli, GOOD, remote_host="nobody.remote-models.org", remote_credential="none")
    unreachable = cli("ask", QUESTION, *packets, code=69).err
    assert "TG-MDL-010" in unreachable
    assert "no-such-name" in unreachable
    bad = f"bad.{HOST}"
    use(cli, GOOD, remote_host=bad, remote_credential="none")
    before = len(place.arrived())
    unverified = cli("ask", QUESTION, *packets, code=69).err
    assert "certificate comes from an authority that policy does not list" in unverified
    assert requests(place.arrived()[before:]) == [], "nothing was asked of it"
    use(cli, GOOD, remote_host=bad)
    no_key = cli("ask", QUESTION, *packets, code=69)
    assert "TG-MDL-024" in no_key.err
    assert f"threegate credential set {bad}" in no_key.err


# claim TG-C-204
def test_one_question_sends_no_more_requests_or_bytes_than_the_policy_says(
    place: Place, cli: PlaceCli
) -> None:
    packet = registry.id_of(shelf()[0])
    use(cli, GOOD, remote_requests="1")
    before = len(place.arrived())
    told = cli("ask", QUESTION, "--packets", packet)  # what was claimed before stands
    assert "its requests are used up" in told.err
    posts = [line for _, line in requests(place.arrived()[before:]) if line[:4] == "POST"]
    assert len(posts) == 1
    use(cli, GOOD, remote_bytes="1KiB")
    before = len(place.arrived())
    assert "its bytes are used up" in cli("ask", QUESTION, "--packets", packet, code=69).err
    posts = [line for _, line in requests(place.arrived()[before:]) if line[:4] == "POST"]
    assert posts == [], "what would be too much does not leave in part"
    use(cli, GOOD)
    assert cli("ask", QUESTION, "--packets", packet).code == 0, "control"
