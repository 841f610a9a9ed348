"""A run from targets to packets, with both sides played: order, resuming, refusing, stopping."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.support.fetches import ARTICLE, MISSING, RETRACTED, Bench, got
from tests.support.proxies import without
from tests.support.workspaces import Clock, make_workspace
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.references import Question
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import (
    ArtifactRejected,
    AuditUnavailable,
    GateUnavailable,
    PolicyDenied,
    ThreeGateError,
)
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.host.fetch.items import FetchReport
from threegate.host.fetch.network import ProxyDecided, ProxyGone
from threegate.host.fetch.normalize_pool import Answered, Stopped
from threegate.host.fetch.run import MOST_DOCUMENTS, MOST_ITEMS
from threegate.host.fetch.schedule import FetchTask
from threegate.host.workspace.backup import silent
from threegate.host.workspace.derived import CHANGED, REBUILT
from threegate.host.workspace.fetched import FILE
from threegate.host.workspace.places import list_quarantined
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import open_workspace

URL = "https://arxiv.org/pdf/2610.99901"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(tmp_path: Path, clock: Clock) -> Bench:
    return Bench(make_workspace(tmp_path, clock=clock))


def assert_verified(bench: Bench, clock: Clock) -> None:
    report = verify_workspace(bench.ws.root, given=(), clock=clock, progress=silent)
    assert report.findings == []


def kinds(bench: Bench) -> list[str]:
    return [entry.kind for entry in bench.ws.store.journal.log.entries()]


def test_a_wish_becomes_a_packet_with_its_raw_bytes(bench: Bench, clock: Clock) -> None:
    (report,) = bench.fetch(ARTICLE)
    assert (report.status, report.hosts) == ("made", ("api.crossref.org",))
    store = bench.ws.store
    packet = store.read(report.packet_id or "")
    assert isinstance(packet, ResearchPacket)
    assert store.has_blob(packet.raw_sha256)
    assert packet.record_sha256 is not None
    assert store.has_blob(packet.record_sha256)
    assert_verified(bench, clock)
    assert bench.origins.closed


# claim TG-C-124
def test_no_question_leaves_before_its_entry_is_durable(bench: Bench) -> None:
    announced: list[list[str]] = []

    def look(task: FetchTask) -> None:
        # What another process would find in the file now.
        lines = (bench.ws.root / "audit/segment-00000000.jsonl").read_text("utf-8").splitlines()
        announced.append([line for line in lines if task.ask.url in line])

    bench.origins.before = look
    bench.fetch(ARTICLE, RETRACTED)
    assert len(announced) == 2, "control: both were asked"
    assert all(lines and '"kind":"fetch.asked"' in lines[0] for lines in announced)


# claim TG-C-124
def test_however_many_questions_leave_together_all_are_durable(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, written = bench.ws.store.journal.log, list[tuple[int, bool]]()
    real = log.append

    def append(events: Any, *, durable: bool = True) -> Any:
        written.append((sum(kind == "fetch.asked" for kind, _ in events), durable))
        return real(events, durable=durable)

    monkeypatch.setattr(log, "append", append)
    bench.fetch(*(f"doi:10.5555/none.{number}" for number in range(MOST_ITEMS)))
    asked = [(count, durable) for count, durable in written if count]
    assert sum(count for count, _ in asked) == 2 * MOST_ITEMS == len(bench.origins.asked)
    assert all(durable for _, durable in asked)


# claim TG-C-124
def test_without_a_log_nothing_is_asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    log = bench.ws.store.journal.log
    (first,) = bench.fetch(ARTICLE)
    assert first.status == "made", "control: with a log it is asked for"
    asked = len(bench.origins.asked)

    def refuse(*_: object, **__: object) -> None:
        raise AuditUnavailable("the audit log cannot be written; nothing was done")

    monkeypatch.setattr(log, "append", refuse)
    with pytest.raises(AuditUnavailable):
        bench.fetch(RETRACTED)
    assert len(bench.origins.asked) == asked


def test_where_nothing_can_leave_nothing_is_announced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise GateUnavailable("there is no way out")

    monkeypatch.setattr(bench.origins, "open", refuse)
    with pytest.raises(GateUnavailable):
        bench.fetch(ARTICLE)
    assert bench.origins.asked == []
    assert "fetch.asked" not in kinds(bench)


def test_what_is_here_is_not_asked_for(bench: Bench, clock: Clock) -> None:
    (first,) = bench.fetch(ARTICLE)
    (second,) = bench.fetch(ARTICLE)
    assert (second.status, second.packet_id) == ("already", first.packet_id)
    assert len(bench.origins.asked) == 1
    assert bench.origins.opened == 1, "nothing was even opened"
    clock.now += 86_401
    (third,) = bench.fetch(ARTICLE)
    assert len(bench.origins.asked) == 2, "control: older than a day"
    assert bench.origins.asked[1].ask.etag == '"v1"'
    assert (third.status, third.packet_id) == ("already", first.packet_id), "nothing changed"
    (fourth,) = bench.fetch(ARTICLE)
    assert len(bench.origins.asked) == 2, "it was looked at just now"
    assert fourth.packet_id == first.packet_id


def test_an_age_beyond_all_times_means_any(bench: Bench, clock: Clock) -> None:
    bench.fetch(ARTICLE)
    clock.now += 30 * 86_400
    bench.max_age_seconds = 10**15
    (again,) = bench.fetch(ARTICLE)
    assert again.status == "already"


def test_what_a_source_does_not_know_after_all_is_failed(bench: Bench) -> None:
    unknown = ArtifactRejected("no source knows it", code="TG-NRM-003")
    bench.desk.tamper = lambda answer: Answered(answer.item, None, unknown)
    (report,) = bench.fetch(ARTICLE)
    assert report.error is not None
    assert (report.status, report.error.exit_code) == ("failed", 69)
    assert list_quarantined(bench.ws.store) == [], "nothing is wrong with what it said"


# claim TG-C-125
def test_a_reader_cannot_make_its_document_disappear(bench: Bench) -> None:
    """An owned box that says "nobody knows it" would leave no trace of what owned it."""
    bench.origins.answers[URL] = lambda _: got(URL, b"{}")
    question = Question("url", "document", URL, "*/*")
    target = replace(bench.target(ARTICLE), questions=(question,))
    unknown = ArtifactRejected("no source knows it", code="TG-NRM-003")
    bench.desk.tamper = lambda answer: Answered(answer.item, None, unknown)
    (report,) = bench.run().fetch([target])
    assert (report.status, report.error) == ("refused", unknown)
    kept = {item.sha256 for item in list_quarantined(bench.ws.store)}
    assert sha256_hex(b"{}") in kept, "the bytes are kept with the reason"


def test_what_is_known_survives_without_its_file(bench: Bench) -> None:
    bench.fetch(ARTICLE)
    for path in bench.ws.root.glob(f"{FILE}*"):
        path.unlink()
    (again,) = bench.fetch(ARTICLE)
    assert again.status == "already", "the log says which packet answered which questions"
    assert len(bench.origins.asked) == 1


def test_another_level_is_another_wish(bench: Bench) -> None:
    bench.fetch(ARTICLE)
    target = replace(bench.target(ARTICLE), confidentiality="confidential")
    (report,) = bench.run().fetch([target])
    assert report.status == "made"
    assert report.packet is not None
    assert report.packet.confidentiality == "confidential"


def test_what_nobody_knows_is_failed_and_tried_again(bench: Bench) -> None:
    first, second = bench.fetch(MISSING, ARTICLE)
    assert {first.status, second.status} == {"failed", "made"}
    (failed,) = [item for item in (first, second) if item.status == "failed"]
    assert failed.error is not None
    assert failed.error.code == "TG-FET-018"
    assert failed.hosts == ("api.crossref.org", "api.datacite.org"), "the second one after a 404"
    asked = len(bench.origins.asked)
    bench.fetch(MISSING)
    assert len(bench.origins.asked) == asked + 2
    assert list_quarantined(bench.ws.store) == []


def test_a_host_without_a_rule_is_refused_before_anything(bench: Bench) -> None:
    (report,) = bench.fetch("https://publisher.example/paper")
    assert (report.status, report.error and report.error.exit_code) == ("refused", 77)
    assert (bench.origins.asked, bench.origins.opened) == ([], 0)


def _changed(answer: Answered, **changes: Any) -> Answered:
    assert answer.packet is not None
    packet = registry.parse(answer.packet)
    assert isinstance(packet, ResearchPacket)
    return replace(answer, packet=Untrusted(registry.emit(replace(packet, **changes))))


# claim TG-C-125
def test_a_packet_that_lies_goes_to_quarantine_with_everything(bench: Bench, clock: Clock) -> None:
    bench.desk.tamper = lambda answer: _changed(answer, confidentiality="internal")
    (report,) = bench.fetch(ARTICLE)
    assert report.status == "refused"
    assert report.error is not None
    assert (report.error.code, report.error.exit_code) == ("TG-FET-071", 65)
    refused = list_quarantined(bench.ws.store)
    assert len(refused) == 3, "the packet, the record and the raw bytes"
    assert {item.code for item in refused} == {"TG-FET-071"}
    assert report.kept in {item.sha256 for item in refused}
    assert list(bench.ws.store.ids("rp")) == []
    assert_verified(bench, clock)
    bench.desk.tamper = lambda answer: answer
    (again,) = bench.fetch(ARTICLE)
    assert again.status == "made", "control: the same bytes, told as they are"


def test_a_reader_that_dies_is_a_refusal_and_the_others_go_on(bench: Bench) -> None:
    died = ArtifactRejected("the normalizer gave no packet", code="TG-FET-072")
    bench.desk.tamper = lambda answer: answer if answer.item else Answered(answer.item, None, died)
    reports = {item.number: item for item in bench.fetch(ARTICLE, RETRACTED)}
    assert (reports[0].status, reports[1].status) == ("refused", "made")
    assert len(list_quarantined(bench.ws.store)) == 2, "the record and the raw bytes"


def test_an_interrupt_keeps_what_is_complete(bench: Bench, clock: Clock) -> None:
    stopped: list[bool] = []
    bench.origins.before = lambda _: stopped.append(True)
    reports = bench.fetch(ARTICLE, MISSING, stop=lambda: bool(stopped))
    assert {item.target.reference for item in reports if item.status == "made"} == {ARTICLE}
    assert bench.origins.stopped
    assert MISSING not in {item.target.reference for item in reports}, "datacite was never asked"
    assert_verified(bench, clock)
    assert {item.status for item in bench.fetch(ARTICLE, MISSING)} == {"already", "failed"}


def test_an_interrupt_is_heard_through_any_number_of_decisions(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owned box makes the proxy decide as often as it likes; the run still looks up."""
    heard: list[ProxyDecided] = []
    asked: list[FetchTask] = []

    class Endless(SimpleQueue[Any]):
        def get(self, *_: Any, **__: Any) -> ProxyDecided:
            heard.append(ProxyDecided({"verdict": "deny"}))
            assert len(heard) < 10_000, "nobody looked up"
            return heard[-1]

        def get_nowait(self) -> ProxyDecided:
            return self.get()

    monkeypatch.setattr("threegate.host.fetch.run.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(bench.origins, "submit", asked.append)
    monkeypatch.setattr(bench, "told", Endless())
    assert bench.fetch(ARTICLE, stop=lambda: bool(asked)) == []
    assert "proxy.decision" in kinds(bench), "control: they were heard"


def test_an_interrupt_does_not_wait_for_a_host_that_never_answers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threegate.host.fetch.run.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(bench.origins, "submit", bench.origins.asked.append)
    assert bench.fetch(ARTICLE, stop=lambda: bool(bench.origins.asked)) == []
    assert bench.origins.stopped
    assert bench.origins.closed


def test_the_end_of_the_proxy_ends_the_run_and_loses_nothing(bench: Bench, clock: Clock) -> None:
    bench.origins.dies_at = 1
    reports = []
    with pytest.raises(ThreeGateError) as caught:
        for report in bench.run().fetch([bench.target(ARTICLE), bench.target(RETRACTED)]):
            reports.append(report)  # noqa: PERF402  # what came before the error counts
    assert caught.value.code == "TG-FET-064"
    assert [item.status for item in reports] == ["made"]
    assert_verified(bench, clock)
    bench.origins.dies_at = None
    assert {item.status for item in bench.fetch(ARTICLE, RETRACTED)} == {"made", "already"}


def test_a_credential_goes_with_the_question_and_into_no_entry(bench: Bench) -> None:
    bench.keys["api.crossref.org"] = "canary-0815"
    bench.fetch(ARTICLE)
    assert bench.origins.asked[0].ask.credential == "canary-0815", "control: it was sent"
    told = [str(entry.data) for entry in bench.ws.store.journal.log.entries()]
    assert any("'credential': True" in line for line in told)
    assert not any("canary" in line for line in told)


def test_what_was_forgotten_is_not_brought_back(bench: Bench) -> None:
    (first,) = bench.fetch(ARTICLE)
    assert first.packet is not None
    with bench.ws.store.locked() as journal:
        stone = f"blob-{first.packet.raw_sha256}.json"
        journal.run("forget", [Put(states.TOMBSTONES, stone, b"{}")])
    bench.max_age_seconds = 0
    (again,) = bench.fetch(ARTICLE)
    assert again.status == "refused"
    assert list_quarantined(bench.ws.store) == [], "keeping it there would undo the forgetting"


def test_the_log_tells_what_came_of_each_question(bench: Bench) -> None:
    bench.fetch(ARTICLE, MISSING)
    found = kinds(bench)
    assert found.count("fetch.asked") == found.count("fetch.answered") == 3
    assert found.count("fetch.failed") == 1
    assert found.count("fetch.rules") == 1


def test_two_runs_in_one_workspace_do_not_stand_in_each_others_way(bench: Bench) -> None:
    slow = bench.run().fetch([bench.target(ARTICLE), bench.target(RETRACTED)])
    assert next(slow).status == "made"
    other = Bench(open_workspace(bench.ws.root, clock=bench.ws.clock, seals=bench.ws.seals))
    assert [item.status for item in other.fetch(MISSING)] == ["failed"]
    assert [item.status for item in other.fetch(ARTICLE)] == ["already"]
    assert [item.status for item in slow] == ["made"]
    other.ws.close()


def test_a_policy_applied_before_the_first_question_is_noticed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.run() is not None, "control: under the policy in force"
    monkeypatch.setattr(bench, "ws", replace(bench.ws, bundle=without("api.crossref.org")))
    with pytest.raises(PolicyDenied, match="changed the policy meanwhile"):
        bench.run()


def test_few_documents_are_held_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    target = replace(bench.target(ARTICLE), questions=(Question("url", "document", URL, "*/*"),))
    waiting: list[FetchTask] = []
    monkeypatch.setattr(bench.origins, "submit", waiting.append)
    monkeypatch.setattr("threegate.host.fetch.run.PATIENCE_SECONDS", 0.0)
    assert list(bench.run().fetch([target] * 20, stop=lambda: bool(waiting))) == []
    assert len(waiting) == MOST_DOCUMENTS
    waiting.clear()
    many = [bench.target(f"doi:10.5555/none.{number}") for number in range(20)]
    assert list(bench.run().fetch(many, stop=lambda: bool(waiting))) == []
    assert len(waiting) == 20, "control: records are small"


def test_an_answer_that_was_redirected_is_recorded_hop_by_hop(bench: Bench) -> None:
    url = bench.target(ARTICLE).questions[0].url
    there = "https://api.crossref.org/v1/works/elsewhere"
    plain = bench.origins.answers[url]

    def redirected(task: FetchTask) -> Any:
        answer = plain(task)
        assert answer is not None
        return got(there, getattr(answer, "body", b""), hops=((url, 301),))

    bench.origins.answers[url] = redirected
    (report,) = bench.fetch(ARTICLE)
    assert report.packet is not None
    assert report.packet.url == there
    assert [(hop.url, hop.status) for hop in report.packet.hops] == [(url, 301)]


def test_without_anybody_to_make_packets_the_run_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = GateUnavailable("no box can be had")
    monkeypatch.setattr("threegate.host.fetch.run.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(bench.desk, "submit", lambda _: bench.told.put(Stopped(error)))
    with pytest.raises(GateUnavailable):
        bench.fetch(ARTICLE, RETRACTED)
    monkeypatch.undo()
    assert [item.status for item in bench.fetch(ARTICLE)] == ["made"], "control"


def test_a_proxy_that_is_not_heard_to_its_end_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last decisions are in no log: the run must not look like any other."""
    assert [item.status for item in bench.fetch(ARTICLE)] == ["made"], "control"
    error = ThreeGateError("the proxy ended", code="TG-FET-064")
    monkeypatch.setattr(bench.origins, "close", lambda: bench.told.put(ProxyGone(error)))
    reports: list[FetchReport] = []
    with pytest.raises(ThreeGateError) as told:
        reports.extend(bench.run().fetch([bench.target(RETRACTED)]))
    assert told.value is error
    assert [item.status for item in reports] == ["made"], "what was made before is kept"


def test_bytes_that_went_while_they_were_asked_for_are_a_failure(
    bench: Bench, clock: Clock
) -> None:
    (first,) = bench.fetch(ARTICLE)
    assert first.packet is not None
    clock.now += 90_000
    blob = bench.ws.root / states.BLOBS / first.packet.raw_sha256
    bench.origins.before = lambda _: blob.unlink()
    (again,) = bench.fetch(ARTICLE)
    assert again.error is not None
    assert (again.status, again.error.code) == ("failed", "TG-FET-077")


def test_a_validator_of_another_host_is_not_sent_to_the_first(bench: Bench, clock: Clock) -> None:
    url = bench.target(ARTICLE).questions[0].url
    plain = bench.origins.answers[url]
    there = "https://api.datacite.org/elsewhere"

    def redirected(task: FetchTask) -> Any:
        return got(there, getattr(plain(task), "body", b""), hops=((url, 301),))

    bench.origins.answers[url] = redirected
    bench.fetch(ARTICLE)
    clock.now += 90_000
    bench.fetch(ARTICLE)
    assert [task.ask.etag for task in bench.origins.asked] == [None, None]


def test_an_answer_that_no_record_can_name_is_a_failure(bench: Bench) -> None:
    url = bench.target(ARTICLE).questions[0].url
    start = "https://api.crossref.org/?"
    there = start + "x" * (2048 - len(start) - len("&mailto=a")) + "&mailto=a"
    bench.origins.answers[url] = lambda _: got(there, b"{}", hops=((url, 301),))
    first, second = bench.fetch(ARTICLE, RETRACTED)
    assert {first.status, second.status} == {"failed", "made"}, "and the others go on"


EDITS = {
    "nothing": "UPDATE kept SET number = number",
    "another URL": "UPDATE kept SET record = (SELECT record FROM kept WHERE url = :other)",
    "no such answer": "UPDATE kept SET number = 7",
    "a file elsewhere": "UPDATE kept SET record = '../../policy/fetch.policy.md'",
    "no record": "UPDATE kept SET record = NULL, number = 'x'",
    "the bytes of an answer": "UPDATE kept SET record = :raw",
    "another level": "UPDATE kept SET level = 'confidential'",
}


@pytest.mark.parametrize("edit", EDITS)
# claim TG-C-125
def test_whoever_edits_what_is_known_lends_no_bytes_to_another_url(
    bench: Bench, clock: Clock, edit: str
) -> None:
    (article,) = bench.fetch(ARTICLE)
    bench.fetch(RETRACTED)
    assert article.packet is not None
    values = {
        "url": bench.target(ARTICLE).questions[0].shown,
        "other": bench.target(RETRACTED).questions[0].shown,
        "raw": article.packet.raw_sha256,
    }
    with sqlite3.connect(bench.ws.root / FILE) as db:
        db.execute(f"{EDITS[edit]} WHERE url = :url", values)
    db.close()
    clock.now += 90_000
    level = "confidential" if edit == "another level" else "public"
    (again,) = bench.run().fetch([replace(bench.target(ARTICLE), confidentiality=level)])
    etag = '"v1"' if edit == "nothing" else None
    assert bench.origins.asked[-1].ask.etag == etag, "control: what nobody edited is used"
    assert again.packet is not None
    assert again.packet.raw_sha256 == article.packet.raw_sha256


def test_a_packet_of_another_reference_is_not_taken_for_this_one(bench: Bench) -> None:
    (article,) = bench.fetch(ARTICLE)
    (retracted,) = bench.fetch(RETRACTED)
    with sqlite3.connect(bench.ws.root / FILE) as db:
        ids = (retracted.packet_id, article.packet_id)
        db.execute("UPDATE packets SET packet = ? WHERE packet = ?", ids)
    db.close()
    (again,) = bench.fetch(ARTICLE)
    assert again.packet_id == article.packet_id
    assert len(bench.origins.asked) == 2, "the file was rebuilt from the log"
    entries = bench.ws.store.journal.log.entries(0)
    noted = [entry.data for entry in entries if entry.kind == REBUILT]
    assert noted == [{"file": FILE, "why": CHANGED}]
