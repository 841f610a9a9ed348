"""`threegate fetch` and everything around it: approval, the log, interrupts, other proxies.

The real command, boxes and proxy on the test internet; what it asked is what the far side saw.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.boxes import STARTERS
from tests.support.cli import PYTHON, Done, write
from tests.support.fetches import packet_ids, packets, requests
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origin import OTHER
from tests.support.origins import scholarly, works
from tests.support.origins.scholarly import PAGES, PAGES_RULE
from threegate.artifacts import registry
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import make_id
from threegate.base.untrusted import Untrusted

ARTICLE = f"doi:{works.ARTICLE.doi}"
RETRACTED = f"doi:{works.RETRACTED.doi}"
DRAFTED = f"https://{PAGES}/notes.txt?said=the-key-is-under-the-mat"
ASK = ("operator_requests: allow", "operator_requests: ask")
DENY = ("operator_requests: allow", "operator_requests: deny")
ALONE = ("--enrich", "none")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with place_at(scholarly.WORLD) as found:
        yield found


@pytest.fixture(scope="module")
def cli(place: Place) -> PlaceCli:
    return settle(place, place.directory / "home", PAGES_RULE)


@pytest.fixture(scope="module")
def fetched(cli: PlaceCli) -> Done:
    return cli("fetch", "--json", ARTICLE, RETRACTED)


def entries(cli: PlaceCli, *kinds: str) -> list[dict[str, Any]]:
    """Return what the log says in entries of some kinds, oldest first."""
    told = cli("audit", "show", "--json", "--limit", "5000").json["items"]
    return [entry["data"] for entry in told if entry["kind"] in kinds]


def drafted_by_core(cli: PlaceCli, reference: str, read: str) -> str:
    """Put a request into the workspace as CORE would have drafted it; return its id."""
    request = FetchRequest(
        created="2026-11-16T04:00:00Z",
        nonce="0123456789abcdef" * 2,
        origin="core",
        want="metadata",
        references=(Untrusted(reference),),
        integrity="external",
        confidentiality="public",
        derived_from=(read,),
        purpose=Untrusted("What the page I read told me to ask for."),
    )
    data = registry.emit(request)
    assert cli.place is not None
    file = write(cli.base / "draft.md", data)
    cli.place.own(file)
    cli("admit", file)
    return make_id("fr", data)


def test_one_document_tells_a_script_everything(fetched: Done, cli: PlaceCli) -> None:
    first, second = fetched.json["items"]
    assert (first["reference"], first["status"]) == (ARTICLE, "made")
    assert first["packet"] == packet_ids(cli)[ARTICLE]
    assert first["hosts"] == ["api.crossref.org", "api.openalex.org", "www.ebi.ac.uk"]
    assert (first["retraction"], second["retraction"]) == ("none", "retracted")
    assert [text.partition(":")[0] for text in second["cautions"]] == ["RETRACTED", "TEST SOURCE"]
    assert (first["gaps"], first["error"], fetched.json["requests"]) == ([], None, [])


# claim TG-C-73
def test_every_question_and_every_decision_is_in_the_chain(
    place: Place, fetched: Done, cli: PlaceCli
) -> None:
    assert fetched.code == 0
    asked = {entry["url"] for entry in entries(cli, "fetch.asked")}
    seen = {
        f"https://{event['host']}{event['line'].split(' ')[1]}"
        for event in place.seen()
        if event["event"] == "request"
    }
    assert seen, "control: the far side was asked"
    assert seen <= asked, "nothing arrived there that no entry announced"
    decisions = entries(cli, "proxy.decision")
    opened = [entry for entry in decisions if entry["verdict"] == "allow"]
    ended = [entry for entry in decisions if entry["verdict"] == "closed"]
    assert len(opened) == len(ended) >= 3
    assert all(entry["rule"].startswith("policy/fetch.policy.md:") for entry in opened)
    connected = [event["origin"] for event in place.seen() if event["event"] == "connect"]
    assert sorted(entry["address"] for entry in opened) == sorted(connected)
    assert cli("audit", "verify", "--json").json["ok"]


def test_the_log_leads_from_a_packet_to_its_urls(fetched: Done, cli: PlaceCli) -> None:
    packet = fetched.json["items"][0]["packet"]
    told = cli("audit", "show", "--json", packet).json["items"]
    urls = [url for entry in told for url in entry["data"].get("detail", {}).get("urls", ())]
    assert [url.split("/")[2] for url in urls] == fetched.json["items"][0]["hosts"]
    drawn = cli("audit", "graph", packet).out
    assert f"from {urls[0]}, and {urls[1]}, and {urls[2]}" in drawn


# claim TG-C-74
def test_a_url_that_core_drafted_is_asked_for_after_approval_only(
    place: Place, fetched: Done, cli: PlaceCli
) -> None:
    request = drafted_by_core(cli, DRAFTED, fetched.json["items"][0]["packet"])
    before = len(place.arrived())
    refused = cli("fetch", request, code=75)
    assert "TG-ASK-002" in refused.out
    assert place.arrived()[before:] == [], "nobody was asked, no name was looked up"
    cli("fetch", "--approved")
    assert place.arrived()[before:] == [], "it is not approved, so it is not among these"
    cli("review", "approve", request, "--yes")
    done = cli("fetch", "--json", "--approved").json
    assert [item["status"] for item in done["items"]] == ["made"]
    assert len(requests(place.arrived()[before:], PAGES, "under-the-mat")) == 1, (
        "control: now it was"
    )
    packet = packets(cli)[DRAFTED]
    assert packet.request == request
    assert cli("request", "list", "--json", "--state", "done").json["items"][0]["id"] == request
    cli("fetch", request, code=77)
    assert len(requests(place.arrived()[before:], PAGES, "under-the-mat")) == 1, "once"


def test_where_policy_asks_the_operators_own_wish_waits(place: Place) -> None:
    careful = settle(place, place.directory / "careful", ASK)
    before = len(place.arrived())
    waiting = careful("fetch", ARTICLE, RETRACTED, code=75)
    assert "threegate review" in waiting.err
    assert place.arrived()[before:] == []
    (request,) = careful("request", "list", "--json", "--state", "held").json["items"]
    searched = careful("fetch", "search", "ice", "--source", "crossref", code=77)
    assert "hint: a list cannot be held" in searched.out
    approved = careful("review", "approve", request["id"], "--yes")
    assert f"`threegate fetch {request['id'][:15]}`" in approved.err
    careful("fetch", *ALONE, request["id"])
    assert {packet.request for packet in packets(careful).values()} == {request["id"]}
    assert set(packets(careful)) == {ARTICLE, RETRACTED}


def test_where_policy_denies_nobody_is_asked(place: Place) -> None:
    closed = settle(place, place.directory / "closed", DENY)
    before = len(place.arrived())
    denied = closed("fetch", ARTICLE, code=77)
    assert "TG-FET-073" in denied.out
    assert "hint: `threegate policy explain URL`" in denied.out
    assert place.arrived()[before:] == []


def test_options_of_a_search_are_refused_elsewhere(cli: PlaceCli) -> None:
    for option in (("--source", "crossref"), ("--rows", "5"), ("--get", "1")):
        told = cli("fetch", "--dry-run", ARTICLE, *option, code=2)
        assert "--source, --rows and --get belong to a list" in told.err


def test_run_points_at_fetch(cli: PlaceCli, fetched: Done) -> None:
    request = drafted_by_core(cli, f"https://{PAGES}/a", fetched.json["items"][1]["packet"])
    told = cli("run", request, code=2)
    assert f"threegate fetch {request[:15]}" in told.out


def test_dry_run_tells_rates_budgets_and_refusals(
    place: Place, fetched: Done, cli: PlaceCli
) -> None:
    assert fetched.code == 0
    before = len(place.arrived())
    url = "https://publisher.example/paper"
    told = cli("fetch", "--dry-run", "--json", "--max-age", "0s", ARTICLE, url, code=77).json
    verdicts = {item["url"]: item["verdict"] for item in told["questions"]}
    assert verdicts[url] == "refused"
    assert sorted(verdicts.values()) == ["ask", "ask", "ask", "ask-if", "refused"]
    (crossref,) = [host for host in told["hosts"] if host["host"] == "api.crossref.org"]
    assert (crossref["rate_per_minute"], crossref["concurrency"]) == (240, 1)
    assert crossref["requests_left"] <= 240
    assert 0 < crossref["bytes_left"] < 512 * 2**20, "what was fetched before counts"
    assert place.arrived()[before:] == []


def test_a_key_is_shown_nowhere_and_reaches_its_host(place: Place) -> None:
    keyed = settle(place, place.directory / "keyed")
    canary = "canary-4711-key"
    keyed("credential", "set", "api.openalex.org", stdin=canary.encode())
    shown = keyed("fetch", "--dry-run", ARTICLE)
    told = keyed("fetch", ARTICLE)
    (asked,) = requests(place.seen(), "api.openalex.org", canary)
    assert asked["line"].count(canary) == 1, "control: the host got it"
    assert "api_key=REDACTED" in shown.out
    assert canary not in shown.out + shown.err + told.out + told.err
    assert keyed.workspace is not None
    holding = [
        path
        for path in keyed.workspace.rglob("*")
        if path.is_file() and canary.encode() in path.read_bytes()
    ]
    assert holding == []


def test_an_interrupt_stores_what_is_complete_and_the_same_command_goes_on(place: Place) -> None:
    slow = settle(place, place.directory / "slow", ("rate_per_minute: 240", "rate_per_minute: 30"))
    wanted = (ARTICLE, RETRACTED, f"doi:{works.GAPS.doi}", f"doi:{works.INJECTING.doi}")
    argv = ["timeout", "--signal=INT", "--kill-after=60", "4", *PYTHON, "fetch", *ALONE, *wanted]
    cut = place.run(argv, env=slow.env(), cwd=slow.base)
    assert cut.code in (124, 130), cut
    assert b"the same command again goes on from here" in cut.raw_err
    kept = set(packets(slow))
    assert kept, "what was complete is stored"
    assert kept < set(wanted), "control: it was cut before its end"
    assert slow("audit", "verify", "--json").json["ok"]
    again = slow("fetch", "--json", *ALONE, *wanted).json["items"]
    assert {item["reference"] for item in again if item["status"] == "already"} == kept
    assert set(packets(slow)) == set(wanted)


def test_a_list_from_a_file(cli: PlaceCli, fetched: Done) -> None:
    assert fetched.code == 0
    listed = f"@article{{a, doi = {{{works.ARTICLE.doi}}}}}\n@book{{b, title = {{No name}}}}\n"
    done = cli("fetch", "-f", "-", stdin=listed.encode(), code=65)
    assert f"already here {packet_ids(cli)[ARTICLE][:15]} {ARTICLE}" in done.out
    assert "line 2" in done.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "name what to fetch"),
        (("nonsense",), "neither doi:"),
        (("search", "ice"), "--source"),
        (("search", "ice", "--source", "nobody"), "a search asks one of"),
        (("--max-age", "long", ARTICLE), "is no age"),
        (("--enrich", "wikipedia", ARTICLE), "is not a source for --enrich"),
    ],
)
def test_a_slip_is_one_clear_error(cli: PlaceCli, argv: tuple[str, ...], said: str) -> None:
    slip = cli("fetch", *argv, code=2)
    assert said in slip.err
    assert slip.out == ""


def test_the_socket_lies_where_nobody_else_passes_and_is_gone_afterwards(
    place: Place, cli: PlaceCli
) -> None:
    runtime = place.directory / "runtime"
    runtime.mkdir(mode=0o700)
    place.own(runtime)
    script = (
        "import glob,json,os,stat,subprocess,sys,time\n"
        "there=os.environ['XDG_RUNTIME_DIR']+'/*'\n"
        "run=subprocess.Popen(sys.argv[1:],stdout=subprocess.DEVNULL)\n"
        "found=[]\n"
        "while run.poll() is None and not found:\n"
        "    found=glob.glob(there+'/*.sock'); time.sleep(0.01)\n"
        "modes=[stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) for path in found]\n"
        "print(json.dumps([modes,run.wait(),glob.glob(there)]))\n"
    )
    fetch = [*PYTHON, "fetch", "--max-age", "0s", *ALONE, ARTICLE]
    env = cli.env(XDG_RUNTIME_DIR=str(runtime))
    done = place.run([PYTHON[0], "-c", script, *fetch], env=env, cwd=cli.base)
    assert done.json == [[0o700], 0, []], done


def test_a_proxy_the_operator_runs_is_used_instead(place: Place) -> None:
    base = place.directory / "served"
    socket = base / "proxy.sock"
    served = settle(place, base, ("proxy: own", f"proxy: connect:{socket}"))
    before = len(place.arrived())
    refused = served("fetch", *ALONE, ARTICLE, code=69)
    assert "TG-FET-062" in refused.err, "without it nothing is asked"
    assert place.arrived()[before:] == []
    script = (
        "import json,subprocess,sys\n"
        "socket,threegate,fetch=json.loads(sys.argv[1])\n"
        "pipe=subprocess.PIPE\n"
        "proxy=subprocess.Popen([*threegate,'proxy','serve','--socket',socket],stdout=pipe)\n"
        "first=proxy.stdout.readline()\n"
        "run=subprocess.run([*threegate,*fetch],capture_output=True)\n"
        "proxy.terminate()\n"
        "told=[json.loads(line) for line in proxy.stdout.read().splitlines()]\n"
        "print(json.dumps([run.returncode,run.stderr.decode(),told]))\n"
    )
    told_it = json.dumps([str(socket), PYTHON, ["fetch", *ALONE, ARTICLE]])
    argv = [PYTHON[0], "-c", script, told_it]
    code, err, told = place.run(argv, env=served.env(), cwd=served.base).json
    assert (code, err) == (0, "")
    assert [line["verdict"] for line in told] == ["allow", "closed"]
    assert ARTICLE in packets(served)
    assert [entry["proxy"] for entry in entries(served, "fetch.rules")] == [f"connect:{socket}"]
    assert entries(served, "proxy.decision") == [], "that log is the other proxy's"


@pytest.mark.parametrize("who", STARTERS)
def test_whoever_starts_it_the_boxes_reach_the_proxy(who: str) -> None:
    with place_at(scholarly.WORLD, who=who) as there:
        user = settle(there, there.directory / "home")
        (item,) = user("fetch", "--json", *ALONE, ARTICLE).json["items"]
        assert item["status"] == "made"
        boxes = entries(user, "fetch.box")
        assert {box["profile"] for box in boxes} == {"proxy", "fetch-retrieve"}
        assert {box["own_uid"] for box in boxes} == {who == "root"}


def test_no_origin_outside_the_list_was_met(place: Place) -> None:
    assert OTHER not in {event.get("origin") for event in place.seen()}
